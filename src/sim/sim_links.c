/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Collectives on the compute NICs of the simulated data path: sim/isolation.h's equations. */
#include <math.h>

#include "sim/sim_dp.h"

/* Changes of a NIC's load below this part of its capacity wait for the next one: a decode loop's
 * load creeps, and every change re-solves the rates of all flows it touches. */
#define LOAD_STEP_FRAC 0.01

/* In the mode spec at most this, and so little that no NIC needs to be looked at. */
static double expected(void *self, const struct sim_gpus *gpus)
{
    const struct sim_dp *sd = self;
    return isolation_is_spec(&sd->isolation)
               ? 1 / (1 - isolation_share(&sd->isolation, VLARB_SPEC, 1, gpus->queue_pairs))
               : 1;
}

static double stretch_now(const struct sim_dp *sd, uint32_t first, const struct sim_met *m)
{
    const struct sim_isolation_config *c = &sd->isolation.config;
    double link_Bps = sd->config.cnic_Bps, most = 0;
    for (uint32_t i = first; i < first + m->n; i++) {
        const struct sim_cnic *n = &sd->cnics[i];
        double tx = isolation_taken(&sd->isolation, &n->tx, c->port, link_Bps, m->queue_pairs);
        double rx = isolation_taken(&sd->isolation, &n->rx, c->egress, link_Bps, m->queue_pairs);
        most = fmax(most, fmax(tx, rx));
    }
    return 1 / (1 - most);
}

/* Until now the stretch has been what it was found to be. */
static void integrate(const struct sim_dp *sd, struct sim_met *m)
{
    uint64_t now = loop_now_ns(sd->loop);
    m->integral_ns += m->stretch * (double)(now - m->since_ns);
    m->since_ns = now;
}

static void mark_dirty(struct sim_dp *sd, struct sim_met *m)
{
    if (!m->dirty) {
        integrate(sd, m);
        m->dirty = true;
        list_add_tail(&sd->dirty, &m->node);
    }
}

static struct sim_dp *owner_of(struct net *n)
{
    return container_of(n, struct sim_dp, net);
}

static void stream_changed(struct net *net, const struct net_stream *s)
{
    struct sim_dp *sd = owner_of(net);
    const char *from = (const char *)sd->cnics;
    size_t size = (size_t)sd->config.n_nodes * sd->config.gpus_per_node * sizeof(*sd->cnics);
    for (unsigned i = 0; i < s->n_path; i++) {
        const char *at = (const char *)s->path[i];
        if (at < from || at >= from + size) {
            continue; /* DRAM */
        }
        const struct sim_cnic *c = &sd->cnics[(size_t)(at - from) / sizeof(*sd->cnics)];
        if (c->group_first != UINT32_MAX) {
            mark_dirty(sd, &sd->met[c->group_first]);
        }
    }
}

static void solved(struct net *net)
{
    struct sim_dp *sd = owner_of(net);
    while (!list_empty(&sd->dirty)) {
        struct sim_met *m = container_of(list_first(&sd->dirty), struct sim_met, node);
        list_remove(&m->node);
        m->dirty = false;
        m->stretch = stretch_now(sd, (uint32_t)(m - sd->met), m);
    }
}

/* The mean from now on is that of a group with these queue pairs. */
static void restart_met(struct sim_dp *sd, const struct sim_gpus *gpus)
{
    struct sim_met *m = &sd->met[gpus->first];
    for (uint32_t i = gpus->first; m->n == 0 && i < gpus->first + gpus->n; i++) {
        sd->cnics[i].group_first = gpus->first;
    }
    m->n = gpus->n;
    m->queue_pairs = gpus->queue_pairs;
    m->integral_ns = 0;
    m->from_ns = m->since_ns = loop_now_ns(sd->loop);
    if (!m->dirty) {
        m->stretch = stretch_now(sd, gpus->first, m);
    }
}

static double met(void *self, const struct sim_gpus *gpus)
{
    struct sim_dp *sd = self;
    if (isolation_is_spec(&sd->isolation)) {
        return expected(sd, gpus);
    }
    struct sim_met *m = &sd->met[gpus->first];
    integrate(sd, m);
    double span_ns = (double)(m->since_ns - m->from_ns);
    return span_ns > 0 ? m->integral_ns / span_ns : 1;
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
    if (!isolation_is_spec(&sd->isolation) && each_Bps > 0) {
        restart_met(sd, gpus);
    }
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
    *links = (struct sim_links){.self = sd, .expected = expected, .met = met, .load = load};
    list_init(&sd->dirty);
    for (uint32_t i = 0; i < sd->config.n_nodes * sd->config.gpus_per_node; i++) {
        sd->cnics[i].group_first = UINT32_MAX;
    }
    if (!isolation_is_spec(&sd->isolation)) {
        sd->net.changed = stream_changed;
        sd->net.solved = solved;
    }
}
