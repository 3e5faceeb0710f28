/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * How KV transfers and the collectives of inference share a compute NIC, averaged over time.
 *
 * Collectives come in bursts of tens to hundreds of microseconds, thousands a second; KV transfers
 * last for milliseconds to seconds. While a burst lasts KV gets the share w of the link that the
 * arbiter gives it (if it wants that much), and the collective takes 1 / (1 - w) of the time it
 * takes alone. Arbiters are work-conserving, so over a whole period KV gets what the collectives
 * leave, C - rho, whatever w is, but never less than w C. All GPUs of a group meet in every
 * collective, so the slowest link sets its time:
 *
 *     stretch = max over links of 1 / (1 - min(w, u))
 *
 * with u what KV transfers use of the link now. Its mean over the time for which a stage or an
 * epoch lasts is what the collectives of that time meet. w by mode:
 *     spec      the floor that the paper's tables leave VL2 beside one busy lane, 1/960
 *     low_only  the share of the Low table alone, 1/4
 *     none      a queue pair is like another: n q / (n q + p), n transfers of q pairs each on
 *               the link against p pairs of inference
 * Where the ways differ, what crosses the GPU's PCIe link past the NIC first takes its share, then
 * loopback its share of the rest, then what passes the port its share of what is left. Copies by
 * cudaMemcpyAsync, and storage reads straight into a GPU, meet the NIC at the GPU's PCIe port,
 * which knows no classes: w = 1/2. A port that did would give them what spec gives KV.
 */
#ifndef DUALPATH_SIM_ISOLATION_H
#define DUALPATH_SIM_ISOLATION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "model/qos.h"
#include "sim/network.h"

struct sim_isolation_config {
    enum vlarb_mode port, egress, local; /* NIC port, switch egress, loopback */
    double kv_queue_pairs;               /* q; > 0 */
    bool pcie_classes;                   /* a GPU's PCIe port knows classes */
    bool reads_on_pcie;                  /* there are storage reads straight into GPUs */
};

struct isolation {
    struct sim_isolation_config config;
    double fixed_frac[2]; /* w of spec and of low_only */
    bool local_on_pcie;   /* local copies are cudaMemcpyAsync */
};

/* The paper's tables: KV on VL2, one inference lane busy. 0, or the error of the arbiter. */
int isolation_init(struct isolation *i, const struct sim_isolation_config *config,
                   bool local_on_pcie, struct err *err);

/* The share w of n transfers in a mode against so many queue pairs of inference. */
double isolation_share(const struct isolation *i, enum vlarb_mode mode, uint32_t n_transfers,
                       double queue_pairs);

/* Every way to a link is arbitrated as specified: a collective is stretched by no more than its
 * floor. */
bool isolation_is_spec(const struct isolation *i);

/* The part of a link that KV transfers now take from a burst. */
double isolation_taken(const struct isolation *i, const struct net_resource *link,
                       enum vlarb_mode port_mode, double link_Bps, double queue_pairs);

#endif
