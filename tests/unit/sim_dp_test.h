/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One simulated data path and its loop, for tests op by op. */
#ifndef DUALPATH_TESTS_SIM_DP_TEST_H
#define DUALPATH_TESTS_SIM_DP_TEST_H

#include <check.h>

#include "sim/sim_dp.h"
#include "sim/virtual_driver.h"

#define GB 1e9

static struct virtual_driver driver;
static struct loop loop;
static struct sim_dp sd;

/* Two nodes of two GPUs; NICs of 50 GB/s, DRAM that never binds; storage of 40 GB/s, no latency. */
static inline struct sim_dp_config base_config(void)
{
    return (struct sim_dp_config){
        .n_nodes = 2,
        .gpus_per_node = 2,
        .cnic_Bps = 50 * GB,
        .dram_Bps = 1000 * GB,
        .storage = {.line_Bps = 40 * GB, .efficiency_max = 1, .in_service = {4, 4}},
        .submit = {.threads = 1},
        .isolation = {.kv_queue_pairs = 4},
        .seed = 1,
    };
}

static inline void start(const struct sim_dp_config *config)
{
    virtual_driver_init(&driver, NULL, NULL, NULL);
    ck_assert_int_eq(loop_init(&loop, &driver.driver, 0), 0);
    ck_assert_int_eq(sim_dp_init(&sd, &loop, config), 0);
}

static inline void finish(void)
{
    char what[160];
    loop_run(&loop);
    ck_assert_uint_eq(sd.dp.n_in_flight, 0);
    ck_assert_int_eq(sim_dp_check_conserved(&sd, what, sizeof(what)), 0);
    sim_dp_done(&sd);
    loop_done(&loop);
}

static inline void ignore(struct dp_op *op)
{
    ck_assert_int_eq(op->status, 0);
}

static inline struct dp_place place(uint32_t node, uint16_t gpu, enum dp_tier tier)
{
    return (struct dp_place){.node = node, .gpu = gpu, .tier = (uint16_t)tier};
}

static inline void submit(struct dp_op *op, enum dp_kind kind, struct dp_place src,
                          struct dp_place dst, uint64_t part_bytes, uint32_t parts,
                          uint32_t segments)
{
    *op = (struct dp_op){.kind = kind,
                         .src = src,
                         .dst = dst,
                         .part_bytes = part_bytes,
                         .parts_total = parts,
                         .parts_ready = parts,
                         .segments = segments,
                         .segment_bytes = part_bytes / segments,
                         .segment_stride_bytes = part_bytes / segments,
                         .part_stride_bytes = part_bytes,
                         .done = ignore};
    ck_assert_int_eq(dp_submit(&sd.dp, op), 0);
}

static inline void storage_op(struct dp_op *op, enum dp_kind kind, uint32_t node, uint64_t io_bytes,
                              uint32_t n)
{
    submit(op, kind, place(node, 0, DP_DRAM), place(node, 0, DP_DRAM), io_bytes, n, 1);
}

static inline double took_s(const struct dp_op *op)
{
    return (double)(op->done_ns - op->submit_ns) * 1e-9;
}

#define assert_took(op, want_s) ck_assert_double_eq_tol(took_s(op), want_s, 1e-6 * (want_s) + 3e-9)

static double stretch_seen;
static struct sim_gpus stretch_gpus;

static inline void look(struct loop_timer *t)
{
    (void)t;
    stretch_seen = sd.links.met(&sd, &stretch_gpus);
}

/* A load that leaves KV the whole link, from now on. */
static inline void begin_collectives(uint32_t first)
{
    stretch_gpus = (struct sim_gpus){.first = first, .n = 2, .queue_pairs = 12};
    sd.links.load(&sd, &stretch_gpus, 1);
}

#endif
