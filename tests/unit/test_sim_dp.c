/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The data path in virtual time, op by op, against times worked out by hand: storage (efficiency by
 * I/O size, writes, limit of the cluster, latency), submission costs, and what collectives leave.
 */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check_suite.h"
#include "input/cards.h"
#include "sim/sim_dp.h"
#include "sim/virtual_driver.h"
#include "sim_dp_test.h"

/* Storage */

START_TEST(efficiency_by_io_size)
{
    struct sim_dp_config c = base_config();
    c.storage.efficiency_max = 0.9;
    c.storage.half_size_bytes = 1e6;
    struct dp_op small, large;
    start(&c);
    storage_op(&small, DP_STORAGE_READ, 0, 1000000, 400);
    storage_op(&large, DP_STORAGE_READ, 1, 16000000, 25);
    finish();
    assert_took(&small, 0.4 / (40 * 0.45));            /* half of 0.9 at the half size */
    assert_took(&large, 0.4 / (40 * 0.9 * 16 / 17.0)); /* 16 times the half size */
}
END_TEST

/*
 * The shipped 3fs profile at the Full Blocks of the two DeepSeek models and of Qwen. Runs of the
 * paper come to about 33 GB/s at the first two, idle times included, and to 45 at the third; 3FS
 * reports a peak of 36 to 42 GiB/s per client.
 */
START_TEST(shipped_profiles_at_full_blocks)
{
    static const struct {
        const char *profile;
        double io_bytes, line_Bps, low_Bps, high_Bps;
    } rows[] = {
        {"3fs", 21720 * 64, 50e9, 29.7e9, 45.1e9},  {"3fs", 48068 * 64, 50e9, 33e9, 45.1e9},
        {"3fs", 262144 * 64, 50e9, 38.6e9, 45.1e9}, {"local-nvme", 128 * 1024, 56e9, 49e9, 56e9},
        {"remote-dram", 3e6, 50e9, 25e9, 45e9},     {"parallel-fs", 3e6, 50e9, 10e9, 40e9},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct storage_profile p;
        struct err err = {0};
        ck_assert_msg(!storage_read(rows[i].profile, &p, &err), "%s", err.text);
        struct storage_config config = {.efficiency_max = p.efficiency_max,
                                        .half_size_bytes = p.half_size_bytes};
        double Bps = rows[i].line_Bps * storage_server_efficiency(&config, rows[i].io_bytes);
        ck_assert_msg(Bps >= rows[i].low_Bps && Bps <= rows[i].high_Bps, "%s: %.3g B/s at %.3g B",
                      rows[i].profile, Bps, rows[i].io_bytes);
    }
}
END_TEST

START_TEST(reads_and_writes_share_the_link)
{
    struct sim_dp_config c = base_config();
    struct dp_op read, write, longer;
    start(&c);
    storage_op(&read, DP_STORAGE_READ, 0, 1000000, 400);
    storage_op(&write, DP_STORAGE_WRITE, 0, 1000000, 400);
    storage_op(&longer, DP_STORAGE_WRITE, 0, 1000000, 800);
    finish();
    assert_took(&read, 3 * 0.4 / 40); /* three at a third of the line each... */
    assert_took(&write, 3 * 0.4 / 40);
    assert_took(&longer, 1.6 / 40); /* ...then it is alone */
}
END_TEST

START_TEST(beyond_those_in_service_reads_queue)
{
    struct sim_dp_config c = base_config();
    c.storage.in_service[0] = 1;
    struct dp_op op[3];
    start(&c);
    for (unsigned i = 0; i < 3; i++) {
        storage_op(&op[i], DP_STORAGE_READ, 0, 1000000, 400);
    }
    finish();
    for (unsigned i = 0; i < 3; i++) {
        assert_took(&op[i], (i + 1) * 0.01);
    }
}
END_TEST

static uint64_t answer_in_3_ms(void *self, uint32_t decode_engine)
{
    ck_assert_ptr_null(self);
    ck_assert_uint_eq(decode_engine, 0);
    return 3000000;
}

static void cancelled(struct dp_op *op)
{
    ck_assert_int_eq(op->status, -ECANCELED);
}

static struct dp_op *victim;

static void cancel_victim(struct loop_timer *t)
{
    (void)t;
    dp_cancel(&sd.dp, victim);
}

/* The second read is cancelled while it waits for its answer: no byte of it moves, and the third
 * asks at once. */
START_TEST(a_read_is_cancelled_while_it_asks)
{
    struct sim_dp_config c = base_config();
    c.storage.in_service[0] = 1;
    c.answers.ns = answer_in_3_ms;
    struct dp_op op[3];
    struct loop_timer timer;
    start(&c);
    for (unsigned i = 0; i < 3; i++) {
        storage_op(&op[i], DP_STORAGE_READ, 0, 1000000, 400);
    }
    victim = &op[1];
    victim->done = cancelled;
    loop_timer_init(&timer, cancel_victim);
    loop_arm(&loop, &timer, 14000000);
    finish();
    assert_took(&op[0], 0.013);
    assert_took(&op[1], 0.014);
    assert_took(&op[2], 0.014 + 0.013);
    ck_assert_uint_eq(op[2].answer_ns, 3000000);
    ck_assert_uint_eq(op[1].parts_done, 0);
}
END_TEST

START_TEST(limit_of_the_storage_cluster)
{
    struct sim_dp_config c = base_config();
    c.cluster_Bps = 50 * GB;
    struct dp_op one, two;
    start(&c);
    storage_op(&one, DP_STORAGE_READ, 0, 1000000, 500);  /* 0.5 GB at 25 GB/s: 20 ms */
    storage_op(&two, DP_STORAGE_READ, 1, 1000000, 1000); /* then 0.5 GB at the line's 40 GB/s */
    finish();
    assert_took(&one, 0.02);
    assert_took(&two, 0.02 + 0.5 / 40);
}
END_TEST

/* I/O of 1 MB reaches 18 GB/s of the line, of 9 MB 32.4: the limit is on what is delivered. */
static struct sim_dp_config slow_for_small_io(double cluster_Bps)
{
    struct sim_dp_config c = base_config();
    c.storage.efficiency_max = 0.9;
    c.storage.half_size_bytes = 1e6;
    c.cluster_Bps = cluster_Bps;
    return c;
}

START_TEST(limit_of_the_storage_cluster_is_on_delivered_bytes)
{
    struct sim_dp_config c = slow_for_small_io(20 * GB);
    struct dp_op one, two;
    start(&c);
    storage_op(&one, DP_STORAGE_READ, 0, 1000000, 100); /* 0.1 GB each at 10 GB/s */
    storage_op(&two, DP_STORAGE_READ, 1, 1000000, 190); /* the last 0.09 GB at the NIC's 18 */
    finish();
    assert_took(&one, 0.01);
    assert_took(&two, 0.01 + 0.09 / 18);

    c = slow_for_small_io(36 * GB); /* as much as both ask for: no limit */
    start(&c);
    storage_op(&one, DP_STORAGE_READ, 0, 1000000, 180);
    storage_op(&two, DP_STORAGE_READ, 1, 1000000, 180);
    finish();
    assert_took(&one, 0.01);
    assert_took(&two, 0.01);
}
END_TEST

START_TEST(limit_of_the_storage_cluster_is_shared_max_min_fairly)
{
    struct sim_dp_config c = slow_for_small_io(40 * GB);
    struct dp_op small, large;
    start(&c);
    storage_op(&small, DP_STORAGE_READ, 0, 1000000, 180); /* 0.18 GB at its own 18 GB/s: 10 ms */
    storage_op(&large, DP_STORAGE_READ, 1, 9000000, 42);  /* 22 GB/s, then 32.4 */
    finish();
    assert_took(&small, 0.01);
    assert_took(&large, 0.01 + (0.378 - 0.22) / 32.4);

    c = slow_for_small_io(40 * GB);
    c.storage.in_service[0] = 1;
    struct dp_op next;
    start(&c);
    storage_op(&small, DP_STORAGE_READ, 0, 1000000, 180);
    storage_op(&next, DP_STORAGE_READ, 0, 9000000, 20); /* from then on 20 GB/s each */
    storage_op(&large, DP_STORAGE_READ, 1, 9000000, 36);
    finish();
    assert_took(&small, 0.01);
    assert_took(&large, 0.01 + (0.324 - 0.22) / 20);
    assert_took(&next, 0.01 + 0.104 / 20 + (0.18 - 0.104) / 32.4);
}
END_TEST

START_TEST(latency_is_lognormal)
{
    enum { N = 4000 };
    struct sim_dp_config c = base_config();
    c.storage.latency_median_s = 0.7e-3;
    c.storage.latency_sigma = 0.5;
    c.storage.in_service[0] = N;
    static struct dp_op op[N];
    start(&c);
    for (unsigned i = 0; i < N; i++) {
        storage_op(&op[i], DP_STORAGE_READ, 0, 1000, 1);
    }
    finish();
    double sum = 0, sum2 = 0;
    for (unsigned i = 0; i < N; i++) {
        double x = log(took_s(&op[i]) - N * 1000 / (40 * GB));
        sum += x;
        sum2 += x * x;
    }
    double mean = sum / N, sigma = sqrt(sum2 / N - mean * mean);
    ck_assert_double_eq_tol(mean, log(0.7e-3), 5 * 0.5 / sqrt(N));
    ck_assert_double_eq_tol(sigma, 0.5, 5 * 0.5 / sqrt(2.0 * N));
}
END_TEST

START_TEST(storage_dma_comes_out_of_dram)
{
    struct sim_dp_config c = base_config();
    c.dram_Bps = 60 * GB;
    struct dp_op read, copy;
    start(&c);
    storage_op(&read, DP_STORAGE_READ, 0, 1000000, 400); /* 40 GB/s for 10 ms */
    submit(&copy, DP_COPY, place(0, 0, DP_DRAM), place(0, 0, DP_HBM), 700000000, 1, 1);
    finish();
    assert_took(&read, 0.01);
    assert_took(&copy, 0.01 + 0.5 / 50); /* 20 GB/s, then the NIC's 50 */
}
END_TEST

/* Into HBM: the same time, and nothing of DRAM; beside a read into DRAM, that one's share again. */
START_TEST(storage_into_hbm_goes_past_dram)
{
    struct sim_dp_config c = base_config();
    c.dram_Bps = 60 * GB;
    struct dp_op read, other, copy;
    start(&c);
    submit(&read, DP_STORAGE_READ, place(0, 0, DP_HBM), place(0, 0, DP_HBM), 1000000, 400, 1);
    submit(&copy, DP_COPY, place(0, 0, DP_DRAM), place(0, 0, DP_HBM), 700000000, 1, 1);
    finish();
    assert_took(&read, 0.01);
    assert_took(&copy, 0.7 / 50);
    start(&c);
    submit(&read, DP_STORAGE_READ, place(0, 0, DP_HBM), place(0, 0, DP_HBM), 1000000, 200, 1);
    storage_op(&other, DP_STORAGE_READ, 0, 1000000, 100);
    submit(&copy, DP_COPY, place(0, 0, DP_DRAM), place(0, 0, DP_HBM), 700000000, 1, 1);
    finish();
    assert_took(&other, 0.005); /* two at 20 GB/s each, then one at 40 */
    assert_took(&read, 0.0075);
    assert_took(&copy, 0.005 + 0.6 / 50); /* 20 GB/s of DRAM while the other one is read */
}
END_TEST

/* Submission: a V3.2 request of 32.7K tokens in blocks of 64, 511 x 61 layer blocks of 42 KB. */

#define BLOCKS      511u
#define LAYERS      61u
#define BLOCK_BYTES (64u * 656u)

static double submission_s(const struct sim_submit_config *submit_config, bool local)
{
    struct sim_dp_config c = base_config();
    c.submit = *submit_config;
    struct dp_op op;
    start(&c);
    submit(&op, DP_COPY, place(0, 0, DP_DRAM), place(local ? 0 : 1, 0, DP_HBM),
           (uint64_t)BLOCKS * BLOCK_BYTES, LAYERS, BLOCKS);
    finish();
    return took_s(&op);
}

START_TEST(submission_costs)
{
    double requests = BLOCKS * LAYERS, wire_s = requests * BLOCK_BYTES / (50 * GB);
    struct sim_submit_config rdma = {.request_s = 1e-6, .local_request_s = 1e-6, .threads = 1};
    struct sim_submit_config batched = {
        .request_s = 60.6e-9, .local_request_s = 60.6e-9, .threads = 1};
    struct sim_submit_config cuda = {
        .request_s = 60.6e-9, .local_request_s = 6e-6, .threads = 1, .local_past_nic = true};
    /* 31.2 ms of submission behind 26.2 ms of bytes; batched they hide; 187 ms by copies. */
    ck_assert_double_eq_tol(submission_s(&rdma, true), requests * 1e-6, 1e-6);
    ck_assert_double_eq_tol(submission_s(&rdma, true), 31e-3, 0.5e-3);
    ck_assert_double_eq_tol(submission_s(&batched, true), wire_s, 1e-6);
    ck_assert_double_eq_tol(submission_s(&cuda, true), 187e-3, 0.5e-3);
    ck_assert_double_eq_tol(submission_s(&cuda, false), wire_s, 1e-6); /* not for remote ones */
    rdma.threads = 2;
    ck_assert_double_eq_tol(submission_s(&rdma, true), wire_s, 1e-6);
}
END_TEST

/* Four GPUs of an engine with the same KV: in four times, out once; each GPU submits its own. */
START_TEST(copies_into_hbm)
{
    struct sim_dp_config c = base_config();
    c.hbm_copies = 4;
    struct dp_op op;
    start(&c);
    submit(&op, DP_COPY, place(0, 0, DP_DRAM), place(1, 0, DP_HBM), 1000000, 10, 100);
    finish();
    assert_took(&op, 4 * 10e6 / (50 * GB));
    start(&c);
    submit(&op, DP_COPY, place(1, 0, DP_HBM), place(0, 0, DP_DRAM), 1000000, 10, 100);
    finish();
    assert_took(&op, 10e6 / (50 * GB));
    c.submit.request_s = c.submit.local_request_s = 1e-6;
    start(&c);
    submit(&op, DP_COPY, place(0, 0, DP_DRAM), place(1, 0, DP_HBM), 1000000, 10, 100);
    finish();
    assert_took(&op, 1e-3); /* 1000 requests by each of four threads: slower than the bytes */
}
END_TEST

START_TEST(requests_of_one_thread_wait_for_each_other)
{
    struct sim_dp_config c = base_config();
    c.submit.request_s = c.submit.local_request_s = 1e-6;
    struct dp_op first, second, other;
    start(&c);
    submit(&first, DP_COPY, place(0, 0, DP_DRAM), place(1, 0, DP_HBM), 1000000, 10, 100);
    submit(&second, DP_COPY, place(0, 0, DP_DRAM), place(1, 1, DP_HBM), 1000000, 10, 100);
    submit(&other, DP_COPY, place(0, 1, DP_DRAM), place(1, 1, DP_HBM), 1000000, 10, 100);
    finish();
    assert_took(&first, 1e-3); /* 1000 requests of 1 us; 10 kB each, so 10 GB/s */
    assert_took(&second, 2e-3);
    assert_took(&other, 1e-3); /* another GPU, another thread */
}
END_TEST

START_TEST(parts_fed_later_are_submitted_later)
{
    struct sim_dp_config c = base_config();
    c.submit.request_s = c.submit.local_request_s = 1e-6;
    struct dp_op busy, fed;
    start(&c);
    submit(&busy, DP_COPY, place(0, 0, DP_DRAM), place(1, 0, DP_HBM), 1000000, 10, 100);
    fed = (struct dp_op){.kind = DP_COPY,
                         .src = place(0, 0, DP_HBM),
                         .dst = place(1, 1, DP_DRAM),
                         .part_bytes = 1000000,
                         .parts_total = 2,
                         .parts_ready = 1,
                         .segments = 100,
                         .segment_bytes = 10000,
                         .segment_stride_bytes = 10000,
                         .part_stride_bytes = 1000000,
                         .done = ignore};
    ck_assert_int_eq(dp_submit(&sd.dp, &fed), 0);
    dp_feed(&sd.dp, &fed, 2);
    finish();
    assert_took(&busy, 1e-3);
    assert_took(&fed, 1.2e-3); /* its 200 requests after the other's 1000 */
}
END_TEST

/* Collectives */

START_TEST(kv_gets_what_collectives_leave)
{
    static const enum vlarb_mode modes[] = {VLARB_SPEC, VLARB_LOW_ONLY, VLARB_NONE};
    for (size_t i = 0; i < 3; i++) {
        struct sim_dp_config c = base_config();
        c.isolation.port = c.isolation.egress = c.isolation.local = modes[i];
        struct sim_gpus gpus = {.first = 2, .n = 2, .queue_pairs = 12};
        struct dp_op op, elsewhere;
        start(&c);
        sd.links.load(&sd, &gpus, 10 * GB);
        submit(&op, DP_COPY, place(0, 0, DP_DRAM), place(1, 0, DP_HBM), 400000000, 1, 1);
        submit(&elsewhere, DP_COPY, place(0, 1, DP_DRAM), place(0, 1, DP_HBM), 400000000, 1, 1);
        finish();
        assert_took(&op, 0.4 / 40);
        assert_took(&elsewhere, 0.4 / 50);
    }
}
END_TEST

START_TEST(a_full_link_leaves_kv_its_share)
{
    static const struct {
        enum vlarb_mode mode;
        double share;
    } rows[] = {{VLARB_SPEC, 1.0 / 960}, {VLARB_LOW_ONLY, 0.25}, {VLARB_NONE, 4.0 / (4 + 12)}};
    for (size_t i = 0; i < 3; i++) {
        struct sim_dp_config c = base_config();
        c.isolation.port = c.isolation.egress = rows[i].mode;
        struct sim_gpus gpus = {.first = 2, .n = 2, .queue_pairs = 12};
        struct dp_op op;
        start(&c);
        sd.links.load(&sd, &gpus, 60 * GB);
        submit(&op, DP_COPY, place(0, 0, DP_DRAM), place(1, 0, DP_HBM), 4000000, 1, 1);
        finish();
        assert_took(&op, 0.004 / (50 * rows[i].share));
    }
}
END_TEST

/* The stretch of collectives on node 1 while n copies of the given sort go to its first GPU. */
static double stretch_with(const struct sim_isolation_config *isolation, unsigned n, bool local)
{
    struct sim_dp_config c = base_config();
    c.isolation = *isolation;
    struct dp_op op[8];
    struct loop_timer timer = {0};
    start(&c);
    loop_timer_init(&timer, look);
    for (unsigned i = 0; i < n; i++) {
        submit(&op[i], DP_COPY, place(local ? 1 : 0, 0, DP_DRAM), place(1, 0, DP_HBM), 400000000, 1,
               1);
    }
    loop_arm(&loop, &timer, 1000000);
    begin_collectives(2);
    finish();
    return stretch_seen;
}

/*
 * A local and a remote copy of 25 GB/s each into one GPU, 4 queue pairs each, beside 12 of
 * inference. In one mode they are one class: 8 of 20 pairs, or a quarter. In two modes the local
 * copy has its 4 of 20 pairs first and the remote one a quarter of the rest: 0.2 + 0.2.
 */
START_TEST(local_and_remote_copies_share_one_link)
{
    static const struct {
        enum vlarb_mode port, local;
        double want;
    } rows[] = {{VLARB_NONE, VLARB_NONE, 20.0 / 12},
                {VLARB_LOW_ONLY, VLARB_LOW_ONLY, 4.0 / 3},
                {VLARB_LOW_ONLY, VLARB_NONE, 1 / 0.6}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct sim_dp_config c = base_config();
        c.isolation.port = c.isolation.egress = rows[i].port;
        c.isolation.local = rows[i].local;
        struct dp_op remote, local;
        struct loop_timer timer = {0};
        start(&c);
        loop_timer_init(&timer, look);
        loop_arm(&loop, &timer, 1000000);
        submit(&remote, DP_COPY, place(0, 0, DP_DRAM), place(1, 0, DP_HBM), 100000000, 1, 1);
        submit(&local, DP_COPY, place(1, 0, DP_DRAM), place(1, 0, DP_HBM), 100000000, 1, 1);
        begin_collectives(2);
        finish();
        ck_assert_double_eq_tol(stretch_seen, rows[i].want, 1e-6);
    }
}
END_TEST

/*
 * Without classes, 4 queue pairs of a transfer against 12: 16 / 12 with one transfer, 20 / 12 with
 * two. From 0 to 1 ms two share a link, from 1 to 2 ms there is one, to 4 ms none: (5/3 + 4/3 + 2)
 * / 4 on average. A transfer that begins after the question, or elsewhere, is not met.
 */
START_TEST(collectives_meet_kv_on_average)
{
    struct sim_dp_config c = base_config();
    c.isolation.port = c.isolation.egress = c.isolation.local = VLARB_NONE;
    struct dp_op one, two, elsewhere;
    struct loop_timer timer = {0};
    start(&c);
    loop_timer_init(&timer, look);
    loop_arm(&loop, &timer, 4000000);
    submit(&one, DP_COPY, place(0, 0, DP_DRAM), place(1, 0, DP_HBM), 25000000, 1, 1);
    submit(&two, DP_COPY, place(0, 0, DP_DRAM), place(1, 0, DP_HBM), 75000000, 1, 1);
    submit(&elsewhere, DP_COPY, place(0, 1, DP_DRAM), place(0, 1, DP_HBM), 200000000, 1, 1);
    begin_collectives(2);
    finish();
    assert_took(&one, 0.001);
    assert_took(&two, 0.002);
    ck_assert_double_eq_tol(stretch_seen, (5.0 / 3 + 4.0 / 3 + 2) / 4, 1e-6);
}
END_TEST

START_TEST(kv_stretches_collectives)
{
    struct sim_isolation_config spec = {
        .port = VLARB_SPEC, .egress = VLARB_SPEC, .local = VLARB_SPEC, .kv_queue_pairs = 4};
    struct sim_isolation_config low = {.port = VLARB_LOW_ONLY,
                                       .egress = VLARB_LOW_ONLY,
                                       .local = VLARB_LOW_ONLY,
                                       .kv_queue_pairs = 4};
    struct sim_isolation_config none = {
        .port = VLARB_NONE, .egress = VLARB_NONE, .local = VLARB_NONE, .kv_queue_pairs = 4};
    struct sim_isolation_config nic_only = {
        .port = VLARB_SPEC, .egress = VLARB_NONE, .local = VLARB_SPEC, .kv_queue_pairs = 4};
    ck_assert_double_eq_tol(stretch_with(&spec, 1, false), 960.0 / 959, 1e-9);
    ck_assert_double_eq_tol(stretch_with(&low, 0, false), 1, 1e-12);
    ck_assert_double_eq_tol(stretch_with(&low, 1, false), 4.0 / 3, 1e-9);
    ck_assert_double_eq_tol(stretch_with(&none, 1, false), 16.0 / 12, 1e-9);
    ck_assert_double_eq_tol(stretch_with(&none, 3, false), 24.0 / 12, 1e-9);
    /* Only the switch's egress towards the node is not isolated: remote copies stretch, local ones
     * hardly do. */
    ck_assert_double_eq_tol(stretch_with(&nic_only, 3, false), 24.0 / 12, 1e-9);
    ck_assert_double_eq_tol(stretch_with(&nic_only, 3, true), 960.0 / 959, 1e-9);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sim_dp");
    TCase *t = tcase_create("sim_dp");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, efficiency_by_io_size);
    tcase_add_test(t, shipped_profiles_at_full_blocks);
    tcase_add_test(t, reads_and_writes_share_the_link);
    tcase_add_test(t, beyond_those_in_service_reads_queue);
    tcase_add_test(t, a_read_is_cancelled_while_it_asks);
    tcase_add_test(t, limit_of_the_storage_cluster);
    tcase_add_test(t, limit_of_the_storage_cluster_is_on_delivered_bytes);
    tcase_add_test(t, limit_of_the_storage_cluster_is_shared_max_min_fairly);
    tcase_add_test(t, latency_is_lognormal);
    tcase_add_test(t, storage_dma_comes_out_of_dram);
    tcase_add_test(t, storage_into_hbm_goes_past_dram);
    tcase_add_test(t, submission_costs);
    tcase_add_test(t, copies_into_hbm);
    tcase_add_test(t, requests_of_one_thread_wait_for_each_other);
    tcase_add_test(t, parts_fed_later_are_submitted_later);
    tcase_add_test(t, kv_gets_what_collectives_leave);
    tcase_add_test(t, a_full_link_leaves_kv_its_share);
    tcase_add_test(t, kv_stretches_collectives);
    tcase_add_test(t, collectives_meet_kv_on_average);
    tcase_add_test(t, local_and_remote_copies_share_one_link);
    suite_add_tcase(s, t);
    return run_suite(s);
}
