/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The cache in DRAM, op by op: where blocks are found, what that takes, who is evicted; against
 * times and orders worked out by hand. */
#include <check.h>
#include <errno.h>
#include <stdio.h>

#include "check_suite.h"
#include "sim/dram_tier.h"
#include "sim/virtual_driver.h"

#define GB    1e9
#define BLOCK 1000000u /* bytes */

static struct virtual_driver driver;
static struct loop loop;
static struct sim_dp sd;
static struct dram_tier tier;
static struct dp_op op;
static int ended;

/* Three nodes of two GPUs; NICs of 50 GB/s, DRAM of 440 (400 while the storage NIC is busy),
 * storage of 40 GB/s, no latencies. */
static void start(uint32_t blocks_per_node, bool free_transfers)
{
    const struct sim_dp_config config = {
        .n_nodes = 3,
        .gpus_per_node = 2,
        .cnic_Bps = 50 * GB,
        .dram_Bps = 440 * GB,
        .storage = {.line_Bps = 40 * GB, .efficiency_max = 1, .in_service = {4, 4}},
        .submit = {.threads = 1},
        .isolation = {.kv_queue_pairs = 4},
        .free_transfers = free_transfers,
        .seed = 1,
    };
    const struct dram_tier_config cache = {.node_bytes = blocks_per_node * BLOCK + BLOCK / 2,
                                           .block_bytes = BLOCK};
    virtual_driver_init(&driver, NULL, NULL, NULL);
    ck_assert_int_eq(loop_init(&loop, &driver.driver, 0), 0);
    ck_assert_int_eq(sim_dp_init(&sd, &loop, &config), 0);
    ck_assert_int_eq(dram_tier_init(&tier, &sd, &cache), 0);
}

static void finish(void)
{
    char what[160];
    ck_assert_uint_eq(sd.dp.n_in_flight, 0);
    for (uint32_t n = 0; n < 3; n++) {
        ck_assert_uint_eq(sd.nodes[n].n_jobs, 0);
    }
    ck_assert_int_eq(sim_dp_check_conserved(&sd, what, sizeof(what)), 0);
    ck_assert_msg(dram_tier_check(&tier, what, sizeof(what)) == 0, "%s", what);
    dram_tier_done(&tier);
    sim_dp_done(&sd);
    loop_done(&loop);
}

static void done(struct dp_op *o)
{
    ended = o->status ? o->status : 1;
}

static void submit(enum dp_kind kind, uint32_t node, uint64_t chain, uint32_t first, uint32_t n)
{
    struct dp_place buffer = {.node = node, .tier = DP_DRAM};
    ended = 0;
    op = (struct dp_op){.kind = kind,
                        .src = buffer,
                        .dst = buffer,
                        .chain = {.chain_id = chain, .first_block = first},
                        .part_bytes = BLOCK,
                        .parts_total = n,
                        .parts_ready = n,
                        .segments = 1,
                        .segment_bytes = BLOCK,
                        .segment_stride_bytes = BLOCK,
                        .part_stride_bytes = BLOCK,
                        .done = done};
    ck_assert_int_eq(dp_submit(&sd.dp, &op), 0);
    ck_assert_int_eq(ended, 0);
}

/* Runs the op to its end; it must take so many seconds. */
static void takes(enum dp_kind kind, uint32_t node, uint64_t chain, uint32_t first, uint32_t n,
                  double seconds)
{
    submit(kind, node, chain, first, n);
    loop_run(&loop);
    ck_assert_int_eq(ended, 1);
    ck_assert_double_eq_tol((double)(op.done_ns - op.submit_ns) * 1e-9, seconds, 5e-9);
}

static void check_read(double local, double remote, double storage)
{
    ck_assert_double_eq((double)tier.read_bytes[DRAM_TIER_LOCAL], local * BLOCK);
    ck_assert_double_eq((double)tier.read_bytes[DRAM_TIER_REMOTE], remote * BLOCK);
    ck_assert_double_eq((double)tier.read_bytes[DRAM_TIER_STORAGE], storage * BLOCK);
}

START_TEST(test_times)
{
    const double dram = 440 * GB, cnic = 50 * GB, snic = 40 * GB, b = BLOCK;
    start(100, false);
    /* The write through the NIC is slower than the copy into the pool beside it. */
    takes(DP_STORAGE_WRITE, 0, 7, 0, 10, 10 * b / snic);
    ck_assert_uint_eq(tier.used_blocks[0], 10);
    /* At the node itself: read and written in its DRAM. */
    takes(DP_STORAGE_READ, 0, 7, 0, 10, 2 * 10 * b / dram);
    check_read(10, 0, 0);
    /* From another: its NIC. */
    takes(DP_STORAGE_READ, 1, 7, 0, 10, 10 * b / cnic);
    check_read(10, 10, 0);
    ck_assert_uint_eq(tier.used_blocks[0], 10); /* each block lies in one place */
    /* Not found: storage, then the copy into the pool; found from then on. */
    takes(DP_STORAGE_READ, 1, 8, 0, 4, 4 * b / snic + 2 * 4 * b / dram);
    check_read(10, 10, 4);
    takes(DP_STORAGE_READ, 1, 8, 0, 4, 2 * 4 * b / dram);
    check_read(14, 10, 4);
    /* Two from storage, four local, none else: side by side, and then the two into the pool. */
    takes(DP_STORAGE_READ, 1, 8, 0, 6, 2 * b / snic + 2 * 2 * b / dram);
    check_read(18, 10, 6);
    ck_assert_uint_eq(sd.nodes[0].snic.bytes_out[0], 0);
    ck_assert_uint_eq(sd.nodes[1].snic.bytes_out[0], 6 * BLOCK);
    ck_assert_uint_eq(sd.nodes[0].snic.bytes_out[1], 10 * BLOCK);
    ck_assert_uint_eq(sd.cnics[0].tx.bytes_out, 10 * BLOCK);
    ck_assert_uint_eq(sd.cnics[2].rx.bytes_out, 10 * BLOCK);
    finish();
}
END_TEST

START_TEST(test_eviction)
{
    start(2, false);                                            /* six blocks in all */
    takes(DP_STORAGE_WRITE, 0, 1, 0, 6, 6 * BLOCK / (40 * GB)); /* two stay, four go elsewhere */
    for (uint32_t n = 0; n < 3; n++) {
        ck_assert_uint_eq(tier.used_blocks[n], 2);
    }
    ck_assert_uint_eq(tier.evicted_blocks, 0);
    submit(DP_STORAGE_READ, 2, 1, 0, 2); /* the oldest two are used again */
    loop_run(&loop);
    submit(DP_STORAGE_WRITE, 2, 2, 0, 3);
    loop_run(&loop);
    ck_assert_uint_eq(tier.evicted_blocks, 3);
    static const bool stays[6] = {true, true, false, false, false, true};
    for (uint32_t i = 0; i < 6; i++) {
        ck_assert_int_eq(block_lru_find(&tier.blocks, (struct block_key){1, i}, NULL), stays[i]);
    }
    ck_assert_uint_eq(tier.peak_blocks, 6);
    finish();
}
END_TEST

/* A pool that holds less than a read: what comes in pushes out what came in before. */
START_TEST(test_smaller_than_a_read)
{
    start(1, false);
    submit(DP_STORAGE_READ, 0, 1, 0, 10);
    loop_run(&loop);
    for (uint32_t i = 0; i < 10; i++) {
        ck_assert_int_eq(block_lru_find(&tier.blocks, (struct block_key){1, i}, NULL), i >= 7);
    }
    submit(DP_STORAGE_READ, 0, 1, 0, 10);
    loop_run(&loop);
    check_read(1, 2, 17);
    finish();
}
END_TEST

START_TEST(test_less_than_a_block)
{
    start(0, false);
    takes(DP_STORAGE_WRITE, 0, 1, 0, 2, 2 * BLOCK / (40 * GB));
    takes(DP_STORAGE_READ, 0, 1, 0, 2, 2 * BLOCK / (40 * GB));
    check_read(0, 0, 2);
    ck_assert_uint_eq(tier.added_blocks, 0);
    finish();
}
END_TEST

START_TEST(test_free_transfers)
{
    start(1, true);
    takes(DP_STORAGE_READ, 0, 1, 0, 2, 0);
    takes(DP_STORAGE_READ, 0, 1, 0, 2, 0);
    check_read(1, 1, 2);
    finish();
}
END_TEST

static void stop_after(double seconds, void (*then)(struct loop_timer *t))
{
    static struct loop_timer timer;
    loop_timer_init(&timer, then);
    loop_arm(&loop, &timer, loop_now_ns(&loop) + (uint64_t)(seconds * 1e9));
    loop_run(&loop);
}

static void cancel(struct loop_timer *t)
{
    (void)t;
    dp_cancel(&sd.dp, &op);
}

/* In every phase: while reading from both, and while copying into the pool. */
START_TEST(test_cancel)
{
    start(100, false);
    takes(DP_STORAGE_WRITE, 0, 1, 0, 10, 10 * BLOCK / (40 * GB));
    submit(DP_STORAGE_READ, 1, 1, 0, 20); /* 0.25 ms from storage, then 0.05 ms into the pool */
    stop_after(0.1e-3, cancel);
    ck_assert_int_eq(ended, -ECANCELED);
    submit(DP_STORAGE_READ, 1, 1, 0, 20);
    stop_after(0.27e-3, cancel);
    ck_assert_int_eq(ended, -ECANCELED);
    takes(DP_STORAGE_READ, 1, 1, 0, 20, 10 * BLOCK / (50 * GB));
    ck_assert_uint_eq(sd.nodes[1].snic.bytes_out[0], 10 * BLOCK);
    finish();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("dram_tier");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, test_times);
    tcase_add_test(tc, test_eviction);
    tcase_add_test(tc, test_smaller_than_a_read);
    tcase_add_test(tc, test_less_than_a_block);
    tcase_add_test(tc, test_free_transfers);
    tcase_add_test(tc, test_cancel);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
