/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Settings of a port that shares a link among classes of traffic: InfiniBand virtual lanes
 * (IBA 7.6.9, "QoS Management in OpenSM") and RoCE traffic classes (IEEE 802.1Qaz ETS). Plain data:
 * read by input/qos_config, acted on by sim/vlarb and sim/ets.
 */
#ifndef DUALPATH_MODEL_QOS_H
#define DUALPATH_MODEL_QOS_H

#include <stdbool.h>
#include <stdint.h>

#define VLARB_LANES     16 /* VL0..VL14 carry data, VL15 management */
#define VLARB_MGMT_LANE 15
#define VLARB_TABLE_MAX 64 /* entries of an arbitration table (IBA 14.2.5.9) */

#define VLARB_WEIGHT_UNIT_BYTES     64
#define VLARB_HIGH_LIMIT_UNIT_BYTES 4096
#define VLARB_HIGH_LIMIT_NONE       255 /* the High table is never made to wait */

/*
 * What a full InfiniBand packet adds to its payload: LRH 8, BTH 12, ICRC 4, VCRC 2 bytes. The first
 * packet of an RDMA write carries 16 more (RETH), which is left out: messages are many packets
 * long.
 */
#define IB_PACKET_OVERHEAD_BYTES 26
/*
 * The same for RoCE v2 over IPv4, as time on the wire: preamble 8, Ethernet 14, IPv4 20, UDP 8, BTH
 * 12, ICRC 4, FCS 4, inter-frame gap 12.
 */
#define ROCE_PACKET_OVERHEAD_BYTES 82

struct vlarb_entry {
    uint8_t vl;     /* 0..14 */
    uint8_t weight; /* of 64 B; 0 = the entry is skipped */
};

struct vlarb_table {
    unsigned n; /* 0..VLARB_TABLE_MAX */
    struct vlarb_entry entry[VLARB_TABLE_MAX];
};

enum vlarb_mode {
    VLARB_SPEC,     /* both tables and the limit, as specified */
    VLARB_LOW_ONLY, /* only the Low table acts (firmware whose VL_HIGH_LIMIT is ineffective) */
    VLARB_NONE,     /* no arbitration: round robin over the queue pairs, one packet each */
};

/* How a packet is charged to weights and to the limit. */
enum vlarb_count {
    VLARB_COUNT_BYTES, /* its bytes on the wire */
    VLARB_COUNT_UNITS, /* rounded up to whole 64 B units */
};

struct vlarb_config {
    enum vlarb_mode mode;
    enum vlarb_count count;
    struct vlarb_table high, low;
    unsigned high_limit; /* 0..255, of 4096 B; 0 = one packet, 255 = unlimited */
    unsigned n_vls;      /* data lanes the port operates, 1..15: VL0..VL(n_vls-1); 0 = all 15 */
    /* Mode none: queue pairs that share a lane, 0 is taken as 1. */
    uint8_t queue_pairs[VLARB_LANES];
};

#define ETS_CLASSES 8

enum ets_kind {
    ETS_UNSET,    /* the class is not configured */
    ETS_STRICT,   /* before every class of a lower number and before all weighted ones */
    ETS_WEIGHTED, /* shares what the strict classes leave, by percentage */
};

struct ets_config {
    enum ets_kind kind[ETS_CLASSES];
    uint8_t percent[ETS_CLASSES]; /* of weighted classes, 1..100, adding up to 100 */
};

#endif
