/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/isolation.h"

#include <math.h>

#include "sim/vlarb_share.h"

#define KV_LANE        2u
#define INFERENCE_LANE 1u
#define PACKET_BYTES   (4096u + IB_PACKET_OVERHEAD_BYTES)

/* PCIe round robin between the NIC and the copy engine or another device. */
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

/* By what way a stream reaches the link. */
enum way { WAY_PORT, WAY_LOOPBACK, WAY_PCIE, N_WAYS };

static enum way way_of(const struct isolation *i, const struct net_stream *s)
{
    if (s->past_nic || (s->local && i->local_on_pcie)) {
        return WAY_PCIE;
    }
    return s->local ? WAY_LOOPBACK : WAY_PORT;
}

bool isolation_is_spec(const struct isolation *i)
{
    const struct sim_isolation_config *c = &i->config;
    bool pcie = (i->local_on_pcie || c->reads_on_pcie) && !c->pcie_classes;
    return c->port == VLARB_SPEC && c->egress == VLARB_SPEC && c->local == VLARB_SPEC && !pcie;
}

double isolation_taken(const struct isolation *i, const struct net_resource *link,
                       enum vlarb_mode port_mode, double link_Bps, double queue_pairs)
{
    double used_Bps[N_WAYS] = {0};
    uint32_t n[N_WAYS] = {0};
    list_for_each (pos, &link->maxmin.links) {
        const struct maxmin_flow *f = container_of(pos, struct maxmin_link, node)->flow;
        enum way way = way_of(i, f->owner);
        used_Bps[way] += f->rate_Bps;
        n[way]++;
    }
    if (i->config.local == port_mode) { /* loopback is arbitrated with the rest */
        used_Bps[WAY_PORT] += used_Bps[WAY_LOOPBACK];
        n[WAY_PORT] += n[WAY_LOOPBACK];
        used_Bps[WAY_LOOPBACK] = 0;
        n[WAY_LOOPBACK] = 0;
    }
    double w_pcie = i->config.pcie_classes ? i->fixed_frac[VLARB_SPEC] : PCIE_SHARE;
    double others = queue_pairs + n[WAY_PORT] * i->config.kv_queue_pairs;
    double w_loopback = isolation_share(i, i->config.local, n[WAY_LOOPBACK], others);
    double w_port = isolation_share(i, port_mode, n[WAY_PORT], queue_pairs);
    double taken = fmin(w_pcie, used_Bps[WAY_PCIE] / link_Bps);
    taken += fmin((1 - taken) * w_loopback, used_Bps[WAY_LOOPBACK] / link_Bps);
    taken += fmin((1 - taken) * w_port, used_Bps[WAY_PORT] / link_Bps);
    return fmin(taken, MOST_TAKEN);
}
