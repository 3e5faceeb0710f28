/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/packet_dp.h"

#include <errno.h>
#include <stdlib.h>

#define PAPER_KV_LANE        2
#define PAPER_INFERENCE_LANE 1

struct packet_copy {
    struct packet_dp *pd;
    struct dp_op *op;
    uint32_t index; /* in the pool */
    struct net_resource *path[MAXMIN_MAX_LINKS];
    unsigned n_path;
    struct packet_flow flow;
    struct packet_station cap; /* first on the way of a copy whose rate is limited, and its own */
};

_Static_assert(MAXMIN_MAX_LINKS + 1 <= PACKET_MAX_HOPS, "a path and a cap are too long");

/* The backend's second private word; the first one is sim_dp's. */
static struct packet_copy *copy_of(struct packet_dp *pd, const struct dp_op *op)
{
    return pool_at(&pd->flows, (uint32_t)op->private_words[1]);
}

static void copy_reached(struct packet_flow *f)
{
    struct packet_copy *c = container_of(f, struct packet_copy, flow);
    struct dp_op *op = c->op;
    dp_backend_progress(&c->pd->sd->dp, op, (uint32_t)(f->arrived_bytes / op->part_bytes));
    f->mark_bytes = (uint64_t)op->notify_at * op->part_bytes;
}

static void copy_ended(struct packet_flow *f)
{
    struct packet_copy *c = container_of(f, struct packet_copy, flow);
    struct packet_dp *pd = c->pd;
    struct dp_op *op = c->op;
    for (unsigned i = 0; i < c->n_path; i++) {
        c->path[i]->bytes_out += f->total_bytes;
    }
    pool_put(&pd->flows, c->index);
    sim_dp_copied(pd->sd, op);
}

static struct packet_copy *new_copy(struct packet_dp *pd, struct dp_op *op, uint32_t parts)
{
    uint32_t index;
    struct packet_copy *c = pool_get(&pd->flows, &index);
    uint64_t total = dp_op_bytes(op);
    op->private_words[1] = index;
    c->pd = pd;
    c->op = op;
    c->index = index;
    c->flow = (struct packet_flow){
        .lane = pd->config.kv_lane,
        .local = op->src.node == op->dst.node && op->src.gpu == op->dst.gpu,
        .total_bytes = total,
        .ready_bytes = parts * op->part_bytes,
        .mark_bytes = op->progress ? op->notify_at * op->part_bytes : total,
        .part_bytes = op->part_bytes,
        .segment_bytes = op->segment_bytes,
        .queue_pairs = pd->config.kv_queue_pairs,
        .reached = copy_reached,
        .ended = copy_ended,
    };
    return c;
}

static void copy_open(void *self, struct dp_op *op, uint32_t parts, double cap_Bps,
                      struct net_resource *const *path, unsigned n_path)
{
    struct packet_dp *pd = self;
    struct packet_copy *c = new_copy(pd, op, parts);
    struct packet_station *stations[PACKET_MAX_HOPS];
    unsigned n = 0;
    if (cap_Bps < MAXMIN_NO_CAP) {
        packet_station_init(&pd->net, &c->cap, cap_Bps, 0, NULL, NULL);
        stations[n++] = &c->cap;
    }
    c->n_path = n_path;
    for (unsigned i = 0; i < n_path; i++) {
        c->path[i] = path[i];
        path[i]->bytes_in += c->flow.total_bytes;
        stations[n++] = path[i]->packets;
    }
    packet_flow_open(&pd->net, &c->flow, stations, n);
}

static void copy_feed(void *self, struct dp_op *op, uint32_t parts)
{
    packet_flow_ready(&copy_of(self, op)->flow, parts * op->part_bytes);
}

static void copy_abort(void *self, struct dp_op *op)
{
    struct packet_dp *pd = self;
    struct packet_copy *c = copy_of(pd, op);
    packet_flow_abort(&c->flow);
    loop_disarm(pd->sd->loop, &c->cap.timer); /* zero, not armed, without a cap */
    for (unsigned i = 0; i < c->n_path; i++) {
        c->path[i]->bytes_in -= c->flow.total_bytes;
    }
    pool_put(&pd->flows, c->index);
}

static void dram_left(void *self, struct net_resource *dram, double left_Bps)
{
    (void)self;
    packet_station_set_rate(dram->packets, left_Bps);
}

struct packet_dp_config packet_dp_paper_config(enum vlarb_mode port, enum vlarb_mode egress)
{
    struct vlarb_config tables = {
        .high = {.n = 4, .entry = {{0, 192}, {1, 192}, {2, 0}, {3, 192}}},
        .low = {.n = 4, .entry = {{0, 192}, {1, 192}, {2, 64}, {3, 192}}},
        .high_limit = 240,
        .n_vls = 4,
    };
    struct packet_dp_config c = {.port = tables,
                                 .egress = tables,
                                 .kv_lane = PAPER_KV_LANE,
                                 .inference_lane = PAPER_INFERENCE_LANE,
                                 .kv_queue_pairs = 1};
    c.port.mode = port;
    c.egress.mode = egress;
    return c;
}

static int link_station(struct packet_dp *pd, struct packet_station *s, struct net_resource *r,
                        uint32_t overhead_bytes, const struct vlarb_config *arbiter,
                        struct err *err)
{
    double wire = (double)(PACKET_PAYLOAD_BYTES + overhead_bytes) / PACKET_PAYLOAD_BYTES;
    int rc = packet_station_init(&pd->net, s, r->maxmin.capacity_Bps * wire, overhead_bytes,
                                 arbiter, err);
    s->moved_bytes = &r->moved_bytes;
    r->packets = s;
    return rc;
}

static int init_stations(struct packet_dp *pd, struct err *err)
{
    struct sim_dp *sd = pd->sd;
    const struct packet_dp_config *c = &pd->config;
    uint32_t n_cnics = sd->config.n_nodes * sd->config.gpus_per_node;
    int rc = 0;
    for (uint32_t i = 0; i < sd->config.n_nodes && rc == 0; i++) {
        rc = link_station(pd, &pd->drams[i], &sd->nodes[i].dram, 0, NULL, err);
    }
    for (uint32_t i = 0; i < n_cnics && rc == 0; i++) {
        rc = link_station(pd, &pd->ports[i], &sd->cnics[i].tx, IB_PACKET_OVERHEAD_BYTES, &c->port,
                          err);
        pd->ports[i].lane_buffers =
            pd->lane_buffers ? &pd->lane_buffers[(size_t)i * VLARB_LANES] : NULL;
        rc = rc ? rc
                : link_station(pd, &pd->egresses[i], &sd->cnics[i].rx, IB_PACKET_OVERHEAD_BYTES,
                               &c->egress, err);
    }
    return rc;
}

int packet_dp_init(struct packet_dp *pd, struct sim_dp *sd, const struct packet_dp_config *config,
                   struct err *err)
{
    uint32_t n_cnics = sd->config.n_nodes * sd->config.gpus_per_node;
    *pd = (struct packet_dp){.sd = sd, .config = *config};
    pd->copies = (struct sim_copies){.self = pd,
                                     .open = copy_open,
                                     .feed = copy_feed,
                                     .abort = copy_abort,
                                     .dram_left = dram_left};
    packet_net_init(&pd->net, sd->loop);
    pool_init(&pd->flows, sizeof(struct packet_copy));
    pd->drams = calloc(sd->config.n_nodes, sizeof(*pd->drams));
    pd->ports = calloc(n_cnics, sizeof(*pd->ports));
    pd->egresses = calloc(n_cnics, sizeof(*pd->egresses));
    if (config->lane_buffers) {
        pd->lane_buffers = calloc((size_t)n_cnics * VLARB_LANES, sizeof(*pd->lane_buffers));
    }
    if (!pd->drams || !pd->ports || !pd->egresses || (config->lane_buffers && !pd->lane_buffers)) {
        return err_nomem(err);
    }
    sd->copies = &pd->copies;
    return init_stations(pd, err);
}

void packet_dp_done(struct packet_dp *pd)
{
    free(pd->drams);
    free(pd->ports);
    free(pd->egresses);
    free(pd->lane_buffers);
    pool_done(&pd->flows);
}
