/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Copies against size, pieces and ops in flight, by each transport. */
#include <errno.h>
#include <stdlib.h>

#include "hw/memory.h"
#include "hw/probe_internal.h"
#include "hw/transport_mem.h"
#include "hw/transport_tcp.h"

#define MEM_THREADS 2u /* copy threads of a node, as in a run */

static void fill(void *self, uint32_t i, uint64_t seq, uint32_t slot, struct dp_op *op)
{
    (void)i;
    (void)seq;
    const struct probe_copies *c = self;
    uint64_t piece = c->size_bytes / c->segments;
    *op = (struct dp_op){.kind = DP_COPY,
                         .traffic_class = DP_CLASS_LOAD,
                         .src = c->src,
                         .dst = c->dst,
                         .part_bytes = c->size_bytes,
                         .parts_total = 1,
                         .parts_ready = 1,
                         .segments = c->segments,
                         .segment_bytes = piece,
                         .segment_stride_bytes = 2 * piece,
                         .part_stride_bytes = PROBE_COPY_STRIDE};
    op->src.offset_bytes = op->dst.offset_bytes = slot * PROBE_COPY_STRIDE;
}

static int measure(struct probe_copies *c, const struct probe_config *config, uint32_t depth,
                   struct probe_points *ps, struct err *e)
{
    struct probe_point p = {.what = c->what, .size_bytes = c->size_bytes, .segments = c->segments};
    struct probe_bench b = {
        .ground = c->ground, .dps = &c->dp, .n_dps = 1, .depth = depth, .fill = fill, .self = c};
    int rc = probe_bench_run(&b, config, &p, e);
    return rc ? rc : probe_points_add(ps, &p, e);
}

/* Latency: one op at a time. Bandwidth: several. Batching: an op in 16 pieces. */
int probe_copies_measure(struct probe_copies *c, const struct probe_config *config,
                         struct probe_points *ps, struct err *e)
{
    static const struct {
        uint64_t size_bytes;
        uint32_t segments, depth;
    } cases[] = {
        {4096, 1, 1},
        {4096, 1, PROBE_COPY_DEPTH},
        {65536, 1, 1},
        {65536, 16, 1},
        {65536, 1, PROBE_COPY_DEPTH},
        {65536, 16, PROBE_COPY_DEPTH},
        {PROBE_COPY_BYTES, 1, 1},
        {PROBE_COPY_BYTES, 1, PROBE_COPY_DEPTH},
    };
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < sizeof(cases) / sizeof(cases[0]); i++) {
        c->size_bytes = cases[i].size_bytes;
        c->segments = cases[i].segments;
        rc = measure(c, config, cases[i].depth, ps, e);
    }
    return rc;
}

int probe_copy_mem(const struct probe_config *c, struct probe_points *ps, struct err *e)
{
    struct probe_ground g;
    struct node_memory memory;
    struct node_memory *nodes[1] = {&memory};
    const struct memory_map map = {nodes, 1};
    struct transport_mem t;
    struct hw_dp dp;
    int rc = probe_ground_init(&g, MEM_THREADS, e);
    if (rc == 0 && (rc = node_memory_init(&memory, 0, PROBE_COPY_HEAP_BYTES, 1,
                                          PROBE_COPY_HEAP_BYTES, e)) == 0) {
        rc = transport_mem_init(&t, &g.loop, &g.pool, &map, PROBE_COPY_DEPTH, e);
        if (rc == 0) {
            hw_dp_init(&dp, &g.loop, &t.mover, NULL);
            struct probe_copies copies = {
                .what = PROBE_COPY_MEM, .ground = &g, .dp = &dp, .dst = {.tier = DP_HBM}};
            rc = probe_copies_measure(&copies, c, ps, e);
            transport_mem_done(&t);
        }
        node_memory_done(&memory);
    }
    probe_ground_done(&g);
    return rc;
}

/* Two nodes: this thread's, and the peer's. */
struct tcp_end {
    struct node_memory memory;
    struct node_memory *nodes[2];
    struct memory_map map;
    struct transport_tcp transport;
    bool has_memory, has_transport;
};

static int open_end(struct tcp_end *t, uint32_t node, struct probe_ground *g, struct err *e)
{
    int rc = node_memory_init(&t->memory, node, PROBE_COPY_HEAP_BYTES, 1, 4096, e);
    if (rc) {
        return rc;
    }
    t->has_memory = true;
    t->nodes[node] = &t->memory;
    t->map = (struct memory_map){t->nodes, 2};
    const struct tcp_options o = {
        .node = node, .listen_host = "127.0.0.1", .depth = PROBE_COPY_DEPTH};
    rc = transport_tcp_init(&t->transport, &g->loop, &g->driver, &g->pool, &t->map, &o, e);
    t->has_transport = rc == 0;
    return rc;
}

static void close_end(struct tcp_end *t)
{
    if (t->has_transport) {
        transport_tcp_done(&t->transport);
    }
    if (t->has_memory) {
        node_memory_done(&t->memory);
    }
}

static int introduce(struct tcp_end *a, struct tcp_end *b, struct err *e)
{
    int rc =
        transport_tcp_add_peer(&a->transport, 1, "127.0.0.1", transport_tcp_port(&b->transport), e);
    return rc ? rc
              : transport_tcp_add_peer(&b->transport, 0, "127.0.0.1",
                                       transport_tcp_port(&a->transport), e);
}

int probe_copy_tcp(const struct probe_config *c, struct probe_points *ps, struct err *e)
{
    struct probe_ground g;
    struct probe_peer peer;
    struct tcp_end here = {0}, there = {0};
    struct hw_dp dp;
    int rc = probe_ground_init(&g, MEM_THREADS, e);
    int peer_rc = probe_peer_init(&peer, MEM_THREADS, e);
    rc = rc ? rc : peer_rc;
    rc = rc ? rc : open_end(&here, 0, &g, e);
    rc = rc ? rc : open_end(&there, 1, &peer.ground, e);
    rc = rc ? rc : introduce(&here, &there, e);
    rc = rc ? rc : probe_peer_start(&peer, e);
    if (rc == 0) {
        hw_dp_init(&dp, &g.loop, &here.transport.mover, NULL);
        struct probe_copies copies = {
            .what = PROBE_COPY_TCP, .ground = &g, .dp = &dp, .dst = {.node = 1}};
        rc = probe_copies_measure(&copies, c, ps, e);
    }
    probe_peer_stop(&peer);
    close_end(&here);
    close_end(&there);
    probe_peer_done(&peer);
    probe_ground_done(&g);
    return rc;
}
