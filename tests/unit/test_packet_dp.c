/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The data path in packets against the fluid one: random small networks, collectives,
 * cancelling. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "check_suite.h"
#include "packet_replay.h"
#include "sim/virtual_driver.h"

#define CNIC_Bps 48.5e9

/* DeepSeek-V3.2: 64 tokens of 788 B in a layer. */
#define LAYER_BLOCK_BYTES 50432u

#define N_NETWORKS 40

static bool print;

/* Networks of packets, and the errors that the fluid model may have against them. */
static const struct variant {
    const char *name;
    bool mixed; /* pieces of 20 to 80 KB in one network, so packets of unequal size */
    bool packet_turns, lane_buffers;
    uint32_t window;
    double worst;     /* 0: only printed */
    double request_s; /* a work request: limits copies to 50,432 B each */
} variants[] = {
    {"queue pairs", false, false, false, 4, 0.02, 0},
    {"queue pairs, unequal pieces", true, false, false, 4, 0.02, 0},
    {"2 us a work request", false, false, false, 4, 0.02, 2e-6},
    {"turns of a packet, unequal pieces", true, true, false, 4, 0, 0},
    {"window 2", false, false, false, 2, 0, 0},
    {"window 8", false, false, false, 8, 0, 0},
    {"window 16", false, false, false, 16, 0, 0},
    {"lane buffers", false, false, true, 4, 0, 0},
};
#define N_VARIANTS (int)(sizeof(variants) / sizeof(variants[0]))

static const struct storage_config idle_storage = {
    .line_Bps = 50e9, .efficiency_max = 1, .in_service = {1, 1}};

static void ignore_op(struct dp_op *op)
{
    (void)op;
}

static struct dp_place random_place(struct rng *rng, enum dp_tier tier, uint32_t nodes, uint32_t g)
{
    return (struct dp_place){.node = (uint32_t)rng_below(rng, nodes),
                             .gpu = (uint16_t)rng_below(rng, g),
                             .tier = (uint16_t)tier};
}

/* Copies of the kinds that the engines make: into a GPU or out of one, within a node or between. */
static struct dp_op random_copy(struct rng *rng, uint32_t nodes, uint32_t g, double mean_bytes,
                                bool mixed)
{
    uint64_t segment = mixed ? 20000 + rng_below(rng, 60000) : LAYER_BLOCK_BYTES;
    bool in = rng_below(rng, 2) == 0;
    struct dp_place gpu = random_place(rng, DP_HBM, nodes, g);
    struct dp_place dram = random_place(rng, DP_DRAM, nodes, g);
    if (rng_below(rng, 3) == 0) {
        dram.node = gpu.node;
        dram.gpu = gpu.gpu;
    }
    uint32_t layers = 30, segments = 1 + (uint32_t)(mean_bytes / 30 / 50000 * 2 * rng_uniform(rng));
    return (struct dp_op){.kind = DP_COPY,
                          .traffic_class = in ? DP_CLASS_LOAD : DP_CLASS_STORE,
                          .src = in ? dram : gpu,
                          .dst = in ? gpu : dram,
                          .part_bytes = segment * segments,
                          .parts_total = layers,
                          .parts_ready = layers,
                          .segments = segments,
                          .segment_bytes = segment,
                          .segment_stride_bytes = segment,
                          .part_stride_bytes = segment * segments,
                          .done = ignore_op};
}

static int by_time(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void random_network(struct replay *r, uint64_t seed, double mean_bytes, uint32_t n,
                           bool mixed)
{
    struct rng *rng = rng_new(seed, "test_packet_dp");
    uint64_t at_ns[64];
    uint32_t nodes = 2 + (uint32_t)rng_below(rng, 3), g = 1 + (uint32_t)rng_below(rng, 3);
    ck_assert_uint_le(n, 64);
    r->config = (struct sim_dp_config){.n_nodes = nodes,
                                       .gpus_per_node = g,
                                       .cnic_Bps = CNIC_Bps,
                                       .dram_Bps = 40e9 + 100e9 * rng_uniform(rng),
                                       .submit = {.threads = 1},
                                       .storage = idle_storage};
    for (uint32_t i = 0; i < n; i++) {
        at_ns[i] = 1 + (uint64_t)(rng_uniform(rng) * mean_bytes / CNIC_Bps * 1e9 * 3);
    }
    qsort(at_ns, n, sizeof(at_ns[0]), by_time);
    for (uint32_t i = 0; i < n; i++) {
        struct dp_op op = random_copy(rng, nodes, g, mean_bytes, mixed);
        replay_submit(r, at_ns[i], &op);
    }
    rng_free(rng);
}

START_TEST(random_networks)
{
    const struct variant *v = &variants[_i];
    double sum = 0, worst = 0;
    for (uint64_t seed = 1; seed <= N_NETWORKS && (print || v->worst > 0); seed++) {
        struct replay r = {
            .packet_turns = v->packet_turns, .lane_buffers = v->lane_buffers, .window = v->window};
        random_network(&r, seed, 8e6, 12, v->mixed);
        r.config.submit.request_s = r.config.submit.local_request_s = v->request_s;
        replay_run(&r);
        struct replay_errors e = replay_errors(&r, DP_N_CLASSES);
        sum += e.mean_abs;
        worst = fabs(e.worst) > fabs(worst) ? e.worst : worst;
        replay_done(&r);
    }
    if (print) {
        printf("| %s | %.2f %% | %+.1f %% |\n", v->name, 100 * sum / N_NETWORKS, 100 * worst);
    }
    ck_assert_double_le(fabs(worst), v->worst > 0 ? v->worst : INFINITY);
}
END_TEST

/* Collectives beside a transfer, mode by mode. */

struct timed_stop {
    struct loop_timer timer;
    struct loop *loop;
};

static void stop(struct loop_timer *t)
{
    loop_stop(container_of(t, struct timed_stop, timer)->loop);
}

/* Two nodes of a GPU each, all to all at a fifth of the links for 20 ms; n transfers beside. */
static struct packet_burst_group bursts_beside(enum vlarb_mode mode, uint32_t n_transfers)
{
    struct virtual_driver driver;
    struct loop loop;
    struct sim_dp sd;
    struct packet_dp pd;
    struct packet_bursts bursts;
    struct dp_op ops[4];
    struct err err = ERR_INIT;
    struct sim_dp_config config = {.n_nodes = 2,
                                   .gpus_per_node = 1,
                                   .cnic_Bps = CNIC_Bps,
                                   .dram_Bps = 500e9,
                                   .submit = {.threads = 1},
                                   .storage = idle_storage};
    struct packet_dp_config packets = packet_dp_paper_config(mode, mode);
    virtual_driver_init(&driver, NULL, NULL, NULL);
    ck_assert_int_eq(loop_init(&loop, &driver.driver, 0), 0);
    ck_assert_int_eq(sim_dp_init(&sd, &loop, &config), 0);
    ck_assert_int_eq(packet_dp_init(&pd, &sd, &packets, &err), 0);
    packet_bursts_init(&bursts, &pd, PACKET_BURSTS_PERIOD_NS);
    packet_bursts_load(&bursts, 0, 2, 1, 1, 0.2 * CNIC_Bps);
    for (uint32_t i = 0; i < n_transfers; i++) {
        ops[i] = (struct dp_op){.kind = DP_COPY,
                                .traffic_class = DP_CLASS_STORE,
                                .src = {.tier = DP_HBM},
                                .dst = {.node = 1, .tier = DP_DRAM},
                                .part_bytes = (uint64_t)1 << 31,
                                .parts_total = 1,
                                .parts_ready = 1,
                                .segments = 1,
                                .segment_bytes = (uint64_t)1 << 31,
                                .done = ignore_op};
        ck_assert_int_eq(dp_submit(&sd.dp, &ops[i]), 0);
    }
    struct timed_stop end = {.loop = &loop};
    loop_timer_init(&end.timer, stop);
    loop_arm(&loop, &end.timer, 20000000);
    ck_assert_int_eq(loop_run(&loop), 0);
    struct packet_burst_group g = *packet_bursts_group(&bursts, 0);
    packet_bursts_done(&bursts);
    packet_dp_done(&pd);
    sim_dp_done(&sd);
    loop_done(&loop);
    return g;
}

/* 26 bursts of a fifth of their period; the time is the NIC's own and a packet's. */
START_TEST(bursts_on_idle_links)
{
    struct packet_burst_group g = bursts_beside(VLARB_SPEC, 0);
    ck_assert_uint_eq(g.n_bursts, 26);
    ck_assert_double_eq_tol((double)g.moved_bytes, 26 * 0.2 * CNIC_Bps * 750e-6, 26);
    ck_assert_double_eq_tol(g.taken_ns / g.alone_ns, 1, 1e-4);
}
END_TEST

/* A collective takes 1 / (1 - w) of its time beside KV whose share of a link is w: by the tables
 * 1/960 and 1/4, without them a queue pair's among n + 1. */
START_TEST(bursts_beside_transfers)
{
    static const struct {
        enum vlarb_mode mode;
        uint32_t n;
        double w;
    } rows[] = {{VLARB_SPEC, 2, 1. / 960},
                {VLARB_LOW_ONLY, 2, 0.25},
                {VLARB_NONE, 1, 0.5},
                {VLARB_NONE, 3, 0.75}};
    struct packet_burst_group g = bursts_beside(rows[_i].mode, rows[_i].n);
    double stretch = g.taken_ns / g.alone_ns;
    if (print) {
        printf("mode %d, %u transfers: stretch %.4f, 1 / (1 - w) %.4f\n", rows[_i].mode, rows[_i].n,
               stretch, 1 / (1 - rows[_i].w));
    }
    ck_assert_double_eq_tol(stretch * (1 - rows[_i].w), 1, 0.01);
}
END_TEST

int main(int argc, char **argv)
{
    print = argc > 1 && strcmp(argv[1], "print") == 0;
    Suite *s = suite_create("packet_dp");
    TCase *t = tcase_create("packet_dp");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, random_networks, 0, N_VARIANTS);
    tcase_add_test(t, bursts_on_idle_links);
    tcase_add_loop_test(t, bursts_beside_transfers, 0, 4);
    suite_add_tcase(s, t);
    return run_suite(s);
}
