/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The arbiter of an InfiniBand port, packet by packet: which virtual lane sends next. A pure state
 * machine: no time, no queues, no allocation; copying the struct copies the arbiter.
 *
 * Rules (IBA 7.6.9 as documented by "QoS Management in OpenSM"; README.md lists other readings):
 *  - VL15 goes first, always; it is in no table and not subject to credits.
 *  - Two tables, High and Low, of (VL, weight). Each keeps an index; the entry under it sends while
 *    its weight lasts, i.e. a packet may start while any of the weight is left, and is then sent
 *    whole. An entry is left when its weight is used up or its lane has nothing sendable; the rest
 *    of its weight is lost. Entries of weight 0, and of lanes out of use, are skipped.
 *  - A counter starts at the Limit of High Priority and falls with what the High table sends. At
 *    <= 0 one packet of the Low table is sent and the counter reloads; otherwise High goes first
 *    and Low only when High has nothing sendable (no packet, or too few credits).
 *  - Limit 0 stands for one packet (the counter reloads to a single byte), 255 for no limit.
 * Where the text is silent:
 *  - Counter used up and nothing sendable in Low: High sends on and the counter stays used up, so
 *    that the next Low packet goes at once.
 *  - The limit is what High may send "without an opportunity to send a low-priority packet"
 *    (OpenSM): the counter reloads after every Low packet, also one sent because High was idle. So
 *    a busy High table sends a limit's worth between any two Low packets.
 *  - A packet is charged by its bytes on the wire (VLARB_COUNT_BYTES), or rounded up to 64 B units.
 *  - A table in which nothing is sendable keeps its index and what is left of the entry.
 */
#ifndef DUALPATH_SIM_VLARB_H
#define DUALPATH_SIM_VLARB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "model/qos.h"

#define VLARB_CREDITS_UNLIMITED UINT32_MAX

enum vlarb_source {
    VLARB_FROM_MGMT,
    VLARB_FROM_HIGH,
    VLARB_FROM_LOW, /* the only table in the modes low_only and none */
};

/* Where a table stands. */
struct vlarb_cursor {
    unsigned index;
    int64_t left; /* of the entry's weight, in what packets are charged in; <= 0 = used up */
};

struct vlarb {
    struct vlarb_config config;
    /* The tables that act: without entries of weight 0 and of lanes out of use. */
    struct vlarb_table high, low;
    struct vlarb_cursor high_at, low_at;
    int64_t high_left;             /* bytes before Low must get a turn */
    uint32_t credits[VLARB_LANES]; /* free 64 B blocks there, or VLARB_CREDITS_UNLIMITED */
    enum vlarb_source from;        /* which table the last vlarb_next() took its lane from */
};

/* 0, or -EINVAL with err naming the field: lane, limit or number of entries out of range. */
int vlarb_init(struct vlarb *a, const struct vlarb_config *config, struct err *err);

/*
 * Chooses the lane that sends next and accounts for its packet. head_bytes[vl] is the size on the
 * wire of the packet at the head of the lane, 0 when it has none. Returns the lane, or -1 when
 * nothing is sendable (the state is then unchanged).
 */
int vlarb_next(struct vlarb *a, const uint32_t head_bytes[VLARB_LANES]);

/* The receiver's free space for a lane, in 64 B blocks (IBA 7.9). Lanes start unlimited. */
void vlarb_set_credits(struct vlarb *a, unsigned vl, uint32_t blocks);
/* Space the receiver freed; no effect on an unlimited lane. */
void vlarb_add_credits(struct vlarb *a, unsigned vl, uint32_t blocks);

#endif
