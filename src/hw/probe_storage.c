/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Storage against I/O size and queue depth: one node alone, and all nodes at once at the depth of a
 * run. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hw/memory.h"
#include "hw/probe_internal.h"
#include "hw/storage_format.h"
#include "hw/storage_uring.h"
#include "hw/transport_mem.h"

/* File of a node at one I/O size; small enough for any disk, large enough to spread over it. */
#define FILE_BYTES ((uint64_t)16 << 20)

struct store {
    struct node_memory memory;
    struct node_memory *nodes[1];
    struct memory_map map;
    struct transport_mem transport; /* a data path has one; nothing goes over it */
    struct storage_uring uring;
    struct hw_dp dp;
    bool has_memory, has_transport, has_uring;
};

struct stores {
    const struct probe_config *config;
    struct probe_ground ground;
    struct store *stores; /* [n] */
    struct hw_dp **dps;
    uint32_t n;
    uint64_t block_bytes, slot_bytes;
    enum dp_kind kind;
};

static uint32_t n_blocks(const struct stores *s)
{
    uint64_t n = FILE_BYTES / s->slot_bytes;
    uint32_t in_flight = s->config->storage_depth * s->n; /* no two ops on one block */
    return n > in_flight ? (uint32_t)n : in_flight;
}

/* Ids of chains that no run has: the high half says probe. */
static uint64_t chain_of(uint32_t node)
{
    return (uint64_t)0x70726f6265 << 16 | node;
}

static void remove_files(const struct stores *s)
{
    int dir = open(s->config->storage_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (uint32_t i = 0; dir >= 0 && i < s->n; i++) {
        char name[STORAGE_NAME_BYTES];
        storage_file_name(chain_of(i), name);
        unlinkat(dir, name, 0);
    }
    if (dir >= 0) {
        close(dir);
    }
}

static int open_store(struct stores *s, uint32_t i, struct err *e)
{
    struct store *st = &s->stores[i];
    const struct probe_config *c = s->config;
    int rc = node_memory_init(&st->memory, 0, c->storage_depth * s->slot_bytes, 1, 4096, e);
    if (rc) {
        return rc;
    }
    st->has_memory = true;
    st->nodes[0] = &st->memory;
    st->map = (struct memory_map){.nodes = st->nodes, .n_nodes = 1};
    rc = transport_mem_init(&st->transport, &s->ground.loop, &s->ground.pool, &st->map, 1, e);
    if (rc) {
        return rc;
    }
    st->has_transport = true;
    const struct storage_options o = {.directory = c->storage_dir,
                                      .block_bytes = s->block_bytes,
                                      .queue_depth = c->storage_depth,
                                      .max_ops = 4 * c->storage_depth};
    rc = storage_uring_init(&st->uring, &s->ground.loop, &s->ground.driver, &s->ground.pool,
                            &st->map, &o, e);
    if (rc == 0) {
        st->has_uring = true;
        hw_dp_init(&st->dp, &s->ground.loop, &st->transport.mover, &st->uring.mover);
        s->dps[i] = &st->dp;
    }
    return rc;
}

static void close_stores(struct stores *s)
{
    for (uint32_t i = 0; s->stores && i < s->n; i++) {
        if (s->stores[i].has_uring) {
            storage_uring_done(&s->stores[i].uring);
        }
        if (s->stores[i].has_transport) {
            transport_mem_done(&s->stores[i].transport);
        }
        if (s->stores[i].has_memory) {
            node_memory_done(&s->stores[i].memory);
        }
    }
    remove_files(s);
    free(s->stores);
    free(s->dps);
    probe_ground_done(&s->ground);
}

/* Two threads per node copy and verify, as in a run. */
static int open_stores(struct stores *s, struct err *e)
{
    int rc = probe_ground_init(&s->ground, 2 * s->n, e);
    s->stores = calloc(s->n, sizeof(*s->stores));
    s->dps = calloc(s->n, sizeof(struct hw_dp *));
    if (rc || !s->stores || !s->dps) {
        return rc ? rc : err_nomem(e);
    }
    for (uint32_t i = 0; i < s->n && rc == 0; i++) {
        rc = open_store(s, i, e);
    }
    return rc;
}

static void fill(void *self, uint32_t i, uint64_t seq, uint32_t slot, struct dp_op *op)
{
    const struct stores *s = self;
    struct dp_place at = {.tier = DP_DRAM, .offset_bytes = slot * s->slot_bytes};
    uint32_t n = n_blocks(s);
    /* Writes in order, over and over; reads jump about, by a prime that divides no n. */
    uint64_t block = s->kind == DP_STORAGE_WRITE ? seq % n : seq * 104729 % n;
    *op = (struct dp_op){.kind = s->kind,
                         .traffic_class =
                             s->kind == DP_STORAGE_WRITE ? DP_CLASS_PERSIST : DP_CLASS_READ,
                         .src = at,
                         .dst = at,
                         .chain = {.chain_id = chain_of(i), .first_block = (uint32_t)block},
                         .part_bytes = s->block_bytes,
                         .parts_total = 1,
                         .parts_ready = 1,
                         .segments = 1,
                         .segment_bytes = s->block_bytes,
                         .segment_stride_bytes = s->block_bytes,
                         .part_stride_bytes = s->block_bytes};
}

static int measure(struct stores *s, enum dp_kind kind, uint32_t depth, struct probe_point *ret,
                   struct err *e)
{
    struct probe_bench b = {.ground = &s->ground,
                            .dps = s->dps,
                            .n_dps = s->n,
                            .depth = depth,
                            .fill = fill,
                            .self = s};
    s->kind = kind;
    *ret = (struct probe_point){.what = kind == DP_STORAGE_READ ? PROBE_STORAGE_READ
                                                                : PROBE_STORAGE_WRITE,
                                .size_bytes = s->block_bytes,
                                .segments = 1};
    return probe_bench_run(&b, s->config, ret, e);
}

struct writer {
    struct dp_op op;
    struct loop *loop;
};

static void written(struct dp_op *op)
{
    loop_stop(container_of(op, struct writer, op)->loop);
}

/* Every block of every file, so that there is something to read. */
static int write_all(struct stores *s, struct err *e)
{
    s->kind = DP_STORAGE_WRITE;
    uint32_t n = n_blocks(s);
    for (uint32_t k = 0; k < n * s->n; k++) {
        struct writer w = {.loop = &s->ground.loop};
        uint32_t i = k / n;
        fill(s, i, k % n, 0, &w.op);
        w.op.done = written;
        int rc = probe_go_on(s->config);
        rc = rc ? rc : dp_submit(&s->dps[i]->dp, &w.op);
        rc = rc ? rc : loop_run(&s->ground.loop);
        rc = rc ? rc : w.op.status;
        if (rc) {
            return err_set(e, rc, "%s: %s", s->config->storage_dir,
                           s->dps[i]->faults.n ? s->dps[i]->faults.last.text : strerror(-rc));
        }
    }
    return 0;
}

static int measure_depths(struct stores *s, struct probe_points *ps, struct err *e)
{
    const struct probe_config *c = s->config;
    const uint32_t depths[] = {1, 4, c->storage_depth};
    int rc = write_all(s, e);
    for (unsigned d = s->n > 1 ? 2 : 0; rc == 0 && d < 3; d++) {
        for (unsigned k = 0; rc == 0 && k < 2; k++) {
            struct probe_point p;
            rc = measure(s, k ? DP_STORAGE_WRITE : DP_STORAGE_READ, depths[d], &p, e);
            rc = rc ? rc : probe_points_add(ps, &p, e);
        }
    }
    return rc;
}

static int measure_size(const struct probe_config *c, uint64_t block_bytes, uint32_t nodes,
                        struct probe_points *ps, struct err *e)
{
    struct stores s = {.config = c,
                       .n = nodes,
                       .block_bytes = block_bytes,
                       .slot_bytes = storage_slot_bytes(block_bytes)};
    int rc = open_stores(&s, e);
    rc = rc ? rc : measure_depths(&s, ps, e);
    close_stores(&s);
    return rc;
}

int probe_storage(const struct probe_config *c, struct probe_points *ps, struct err *e)
{
    uint64_t run = kv_full_block_bytes(&c->kv);
    const uint64_t sizes[] = {4096, run / 4096 > 4 ? run / 4 : 16384, run, 4 * run, 1 << 20};
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        rc = measure_size(c, sizes[i], 1, ps, e);
    }
    return rc ? rc : measure_size(c, run, c->prefill_nodes + c->decode_nodes, ps, e);
}
