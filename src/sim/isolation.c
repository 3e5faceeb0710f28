/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/isolation.h"

#include <math.h>

#include "sim/vlarb_share.h"

#define KV_LANE        2u
#define INFERENCE_LANE 1u
#define PACKET_BYTES   (4096u + IB_PACKET_OVERHEAD_BYTES)

/* PCIe round robin between the copy engine and the NIC. */
#define PCIE_SHARE 0.5

/* A burst never stops altogether. */
#define MOST_TAKEN 0.99

/* qos_high_limit=240, qos_vlarb_high=0:192,1:192,2:0,3:192, qos_vlarb_low=0:192,1:192,2:64,3:192
 * (arXiv 2602.21548, traffic management). */
static const struct vlarb_config paper_tables = {
    .high = {.n = 4, .entry = {{0, 192}, {1, 192}, {2, 0}, {3, 192}}},
    .low = {.n = 4, .entry = {{0, 192}, {1, 192}, {2, 64}, {3, 192}}},
    .high_limit = 240,
    .n_vls = 4,
};

int isolation_init(struct isolation *i, const struct sim_isolation_config *config,
                   bool local_on_pcie, struct err *err)
{
    *i = (struct isolation){.config = *config, .local_on_pcie = local_on_pcie};
    static const enum vlarb_mode modes[2] = {VLARB_SPEC, VLARB_LOW_ONLY};
    for (unsigned m = 0; m < 2; m++) {
        struct vlarb_config tables = paper_tables;
        tables.mode = modes[m];
        int rc = vlarb_floor_frac(&tables, KV_LANE, 1u << KV_LANE | 1u << INFERENCE_LANE,
                                  PACKET_BYTES, &i->fixed_frac[modes[m]], err);
        if (rc) {
            return rc;
        }
    }
    return 0;
}

double isolation_share(const struct isolation *i, enum vlarb_mode mode, uint32_t n_transfers,
                       double queue_pairs)
{
    if (mode != VLARB_NONE) {
        return i->fixed_frac[mode];
    }
    double pairs = n_transfers * i->config.kv_queue_pairs;
    return n_transfers ? pairs / (pairs + queue_pairs) : 0;
}

double isolation_taken(const struct isolation *i, const struct net_resource *link,
                       enum vlarb_mode port_mode, double link_Bps, double queue_pairs)
{
    double used_Bps[2] = {0, 0}; /* by the port, local */
    uint32_t n[2] = {0, 0};
    list_for_each (pos, &link->maxmin.links) {
        const struct maxmin_flow *f = container_of(pos, struct maxmin_link, node)->flow;
        const struct net_stream *s = f->owner;
        used_Bps[s->local] += f->rate_Bps;
        n[s->local]++;
    }
    double port_frac = used_Bps[0] / link_Bps, local_frac = used_Bps[1] / link_Bps;
    if (i->config.local == port_mode && !i->local_on_pcie) {
        double one = isolation_share(i, port_mode, n[0] + n[1], queue_pairs);
        return fmin(fmin(one, port_frac + local_frac), MOST_TAKEN);
    }
    double others = queue_pairs + n[0] * i->config.kv_queue_pairs;
    double w_local =
        i->local_on_pcie ? PCIE_SHARE : isolation_share(i, i->config.local, n[1], others);
    double local = fmin(w_local, local_frac);
    double port = (1 - local) * isolation_share(i, port_mode, n[0], queue_pairs);
    return fmin(local + fmin(port, port_frac), MOST_TAKEN);
}
