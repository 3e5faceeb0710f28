/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Collectives on the compute NICs of the simulated data path: sim/isolation.h's equations. */
#include <math.h>

#include "sim/sim_dp.h"

/* Changes of a NIC's load below this part of its capacity wait for the next one: a decode loop's
 * load creeps, and every change re-solves the rates of all flows it touches. */
#define LOAD_STEP_FRAC 0.01

static double stretch(void *self, const struct sim_gpus *gpus)
{
    const struct sim_dp *sd = self;
    const struct sim_isolation_config *c = &sd->isolation.config;
    double link_Bps = sd->config.cnic_Bps, most = 0;
    if (isolation_is_spec(&sd->isolation)) {
        /* At most this, and so little that no NIC needs to be looked at. */
        most = isolation_share(&sd->isolation, VLARB_SPEC, 1, gpus->queue_pairs);
        return 1 / (1 - most);
    }
    for (uint32_t i = gpus->first; i < gpus->first + gpus->n; i++) {
        const struct sim_cnic *n = &sd->cnics[i];
        double tx = isolation_taken(&sd->isolation, &n->tx, c->port, link_Bps, gpus->queue_pairs);
        double rx = isolation_taken(&sd->isolation, &n->rx, c->egress, link_Bps, gpus->queue_pairs);
        most = fmax(most, fmax(tx, rx));
    }
    return 1 / (1 - most);
}

/* What collectives leave of a link to KV. */
static void set_left(struct sim_dp *sd, struct net_resource *link, enum vlarb_mode mode,
                     double each_Bps, double queue_pairs)
{
    double floor = isolation_share(&sd->isolation, mode, 1, queue_pairs);
    net_set_capacity(&sd->net, link,
                     sd->config.cnic_Bps * fmax(1 - each_Bps / sd->config.cnic_Bps, floor));
}

static void load(void *self, const struct sim_gpus *gpus, double each_Bps)
{
    struct sim_dp *sd = self;
    uint64_t now = loop_now_ns(sd->loop);
    for (uint32_t i = gpus->first; i < gpus->first + gpus->n; i++) {
        struct sim_cnic *n = &sd->cnics[i];
        double change = fabs(each_Bps - n->inference_Bps);
        if (change == 0 || (each_Bps > 0 && change < LOAD_STEP_FRAC * sd->config.cnic_Bps)) {
            continue;
        }
        n->inference_bytes += n->inference_Bps * 1e-9 * (double)(now - n->inference_at_ns);
        n->inference_at_ns = now;
        n->inference_Bps = each_Bps;
        set_left(sd, &n->tx, sd->isolation.config.port, each_Bps, gpus->queue_pairs);
        set_left(sd, &n->rx, sd->isolation.config.egress, each_Bps, gpus->queue_pairs);
    }
}

double sim_dp_inference_bytes(const struct sim_dp *sd, const struct sim_cnic *cnic)
{
    return cnic->inference_bytes +
           cnic->inference_Bps * 1e-9 * (double)(loop_now_ns(sd->loop) - cnic->inference_at_ns);
}

void sim_links_init(struct sim_links *links, struct sim_dp *sd)
{
    *links = (struct sim_links){.self = sd, .stretch = stretch, .load = load};
}
