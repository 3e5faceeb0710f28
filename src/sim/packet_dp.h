/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The data path in packets (`fidelity: packet`): sim/sim_dp.h with its copies on sim/packet_net.h
 * instead of sim/network.h. Every resource of a copy's path becomes a station of the same rate:
 *
 *   CNIC TX   port of the NIC, arbitrated; of a loopback, its PCIe reads
 *   CNIC RX   egress of the switch to the NIC, arbitrated; of a loopback, its PCIe writes
 *   DRAM      one turn for reads and writes; what the storage NIC takes is off its rate
 *
 * cnic_Bps is the goodput of full packets, so a packet of b payload bytes takes
 *     (b + IB_PACKET_OVERHEAD_BYTES) / (cnic_Bps (4096 + IB_PACKET_OVERHEAD_BYTES) / 4096).
 * A copy is kv_queue_pairs queue pairs where queue pairs are all that counts (a link in mode none),
 * else one; a piece (dp_op.segment_bytes) is one work request, its last packet as
 * short as it comes. Storage is sim_dp's own. Inference traffic: sim/packet_bursts.h.
 */
#ifndef DUALPATH_SIM_PACKET_DP_H
#define DUALPATH_SIM_PACKET_DP_H

#include "base/pool.h"
#include "model/qos.h"
#include "sim/packet_net.h"
#include "sim/sim_dp.h"

struct packet_dp_config {
    struct vlarb_config port, egress; /* tables of the NIC's port and of the switch's egress */
    uint8_t kv_lane, inference_lane;
    double kv_queue_pairs; /* of a copy, > 0 */
    bool lane_buffers; /* the switch buffers by input port and lane, see README.md; else by queue
                          pair */
};

struct packet_dp {
    struct sim_dp *sd;
    struct packet_dp_config config;
    struct sim_copies copies;
    struct packet_net net;
    struct packet_station *drams;            /* by node */
    struct packet_station *ports;            /* CNIC TX, as sim_dp.cnics */
    struct packet_lane_buffer *lane_buffers; /* by port and lane, or NULL */
    struct packet_station *egresses;         /* CNIC RX */
    struct pool flows;
};

/* The paper's tables and lanes (arXiv 2602.21548, traffic management) in a mode. */
struct packet_dp_config packet_dp_paper_config(enum vlarb_mode port, enum vlarb_mode egress);

/* Takes over the copies of sd, which must be initialised, idle, and outlive it. 0, -ENOMEM, or
 * -EINVAL with err. After an error, too, packet_dp_done() is due. */
int packet_dp_init(struct packet_dp *pd, struct sim_dp *sd, const struct packet_dp_config *config,
                   struct err *err);
void packet_dp_done(struct packet_dp *pd);

#endif
