/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Fits of measurements made up from known constants, by formulas written here again. */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check_suite.h"
#include "plan/probe_fit.h"

#define BLOCK  65536u
#define LAYERS 4u
#define HEADS  2u
#define DIM    32u

/* What the made-up machine takes. */
#define PAIR_NS        150.0
#define TOKEN_NS       5000.0
#define DECODE_PAIR_NS 170.0
#define FORWARD_NS     90000.0
#define STEP_NS        40000.0
#define STORAGE_BPS    2e9
#define HALF_BYTES     50000.0
#define LATENCY_NS     80000.0
#define SIGMA          0.5

static struct probe_points points;
static struct model_card card;

static struct probe_stat exactly(double x)
{
    return (struct probe_stat){x, x, x};
}

static void add(struct probe_point p)
{
    points.points = realloc(points.points, (points.n + 1) * sizeof(p));
    ck_assert_ptr_nonnull(points.points);
    points.points[points.n++] = p;
}

static void add_compute(double slowdown)
{
    static const double forwards[][2] = {{0, 32}, {0, 256}, {128, 64}, {512, 64}, {512, 192}};
    static const double decodes[][2] = {{1, 128}, {1, 1024}, {4, 512}, {8, 512}};
    for (unsigned i = 0; i < sizeof(forwards) / sizeof(forwards[0]); i++) {
        double cached = forwards[i][0], n = forwards[i][1];
        double pairs = n * cached + n * (n + 1) / 2;
        double ns = PAIR_NS * pairs + TOKEN_NS * n + FORWARD_NS;
        add((struct probe_point){.what = PROBE_FORWARD,
                                 .nodes = 1,
                                 .cached_tok = cached,
                                 .new_tok = n,
                                 .cpu_ns = exactly(ns),
                                 .time_ns = exactly(ns * slowdown)});
    }
    for (unsigned i = 0; i < sizeof(decodes) / sizeof(decodes[0]); i++) {
        double batch = decodes[i][0], context = decodes[i][1];
        double ns = DECODE_PAIR_NS * batch * context + TOKEN_NS * batch + STEP_NS;
        add((struct probe_point){.what = PROBE_DECODE,
                                 .nodes = 1,
                                 .cached_tok = context,
                                 .batch = batch,
                                 .cpu_ns = exactly(ns),
                                 .time_ns = exactly(ns * slowdown)});
    }
}

static void add_storage(void)
{
    static const uint64_t sizes[] = {4096, BLOCK, 1 << 20};
    for (unsigned i = 0; i < 3; i++) {
        double s = (double)sizes[i];
        double Bps = STORAGE_BPS * s / (s + HALF_BYTES);
        struct probe_point p = {.what = PROBE_STORAGE_READ,
                                .size_bytes = sizes[i],
                                .nodes = 1,
                                .depth = 16,
                                .Bps = exactly(Bps),
                                .time_ns = exactly(16 * s / Bps * 1e9)};
        add(p);
        p.depth = 4; /* nearly as good */
        p.Bps = exactly(0.95 * Bps);
        add(p);
        p.depth = 1;
        p.Bps = exactly(0.3 * Bps);
        p.time_sigma = SIGMA;
        p.time_ns =
            exactly((s + HALF_BYTES) / STORAGE_BPS * 1e9 + LATENCY_NS * exp(SIGMA * SIGMA / 2));
        add(p);
        p.what = PROBE_STORAGE_WRITE;
        add(p);
    }
    /* Four nodes at once get 3 GB/s of line rate between them. */
    double efficiency = BLOCK / (BLOCK + HALF_BYTES);
    add((struct probe_point){.what = PROBE_STORAGE_READ,
                             .size_bytes = BLOCK,
                             .nodes = 4,
                             .depth = 16,
                             .Bps = exactly(3e9 * efficiency / 4),
                             .time_ns = exactly(1)});
}

static void add_copies(void)
{
    add((struct probe_point){
        .what = PROBE_COPY_MEM, .size_bytes = 1 << 20, .depth = 8, .Bps = exactly(9e9)});
    add((struct probe_point){.what = PROBE_COPY_TCP,
                             .size_bytes = 4096,
                             .depth = 1,
                             .Bps = exactly(1e8),
                             .time_ns = exactly(30000 + 4096 / 4.0)});
    add((struct probe_point){
        .what = PROBE_COPY_TCP, .size_bytes = 1 << 20, .depth = 8, .Bps = exactly(4e9)});
    add((struct probe_point){.what = PROBE_MESSAGE, .depth = 1, .time_ns = exactly(25000)});
}

static void setup(void)
{
    points = (struct probe_points){0};
    card = (struct model_card){.attention = ATTENTION_GQA,
                               .n_layers = LAYERS,
                               .n_dense_layers = LAYERS,
                               .hidden = 64,
                               .n_heads = HEADS,
                               .n_kv_heads = 1,
                               .head_dim = DIM,
                               .dense_width = 128,
                               .vocab = 100,
                               .kv_bytes_per_tok_layer = 128,
                               .total_params = 1e6,
                               .active_params = 1e6,
                               .weight_bytes_per_param = 2};
}

static void teardown(void)
{
    free(points.points);
}

static void close_to(double got, double expected)
{
    ck_assert_msg(fabs(got - expected) <= 1e-3 * fabs(expected), "%.9g, expected %.9g", got,
                  expected);
}

static double forward_ns(const struct timing_model *tm, double cached, double n)
{
    return timing_attention_ns(tm, cached, n) + timing_linear_ns(tm, n) +
           timing_forward_fixed_ns(tm);
}

START_TEST(test_recovers)
{
    const double slowdown = _i ? 3 : 1;
    struct probe_fit f;
    struct err e = ERR_INIT;
    add_compute(slowdown);
    add_storage();
    add_copies();
    ck_assert_msg(probe_fit(&points, &card, BLOCK, PROBE_COPY_TCP, &f, &e) == 0, "%s", e.text);
    close_to(f.slowdown, slowdown);
    close_to(f.forward_fixed_s, FORWARD_NS * 1e-9 * slowdown);
    close_to(f.decode_fixed_s, STEP_NS * 1e-9 * slowdown);
    ck_assert_double_lt(f.forward_error.max_frac, 1e-3);
    ck_assert_double_lt(f.decode_error.max_frac, 1e-3);
    /* Points that were not measured. */
    struct timing_model tm = probe_fit_timing(&f, &card);
    close_to(forward_ns(&tm, 300, 100),
             slowdown * (PAIR_NS * (300 * 100 + 100 * 101 / 2.0) + TOKEN_NS * 100 + FORWARD_NS));
    close_to(timing_decode_gpu_ns(&tm, 3, 3 * 200) + timing_decode_group_ns(&tm, 3, 1),
             slowdown * (DECODE_PAIR_NS * 3 * 200 + TOKEN_NS * 3 + STEP_NS));
}
END_TEST

START_TEST(test_storage_and_copies)
{
    struct probe_fit f;
    struct err e = ERR_INIT;
    add_compute(1);
    add_storage();
    add_copies();
    ck_assert_int_eq(probe_fit(&points, &card, BLOCK, PROBE_COPY_TCP, &f, &e), 0);
    close_to(f.snic_Bps, STORAGE_BPS);
    close_to(f.half_size_bytes, HALF_BYTES);
    close_to(f.storage_latency_median_s, LATENCY_NS * 1e-9);
    close_to(f.storage_latency_sigma, SIGMA);
    close_to(f.storage_cluster_Bps, 3e9);
    ck_assert_uint_eq(f.reads_in_service, 4); /* the smallest depth within 90 % of the best */
    ck_assert_uint_eq(f.writes_in_service, 1);
    close_to(f.cnic_Bps, 4e9);
    close_to(f.transfer_latency_s, 30e-6);
    close_to(f.dram_Bps, 18e9);
    close_to(f.message_latency_s, 25e-6);
}
END_TEST

START_TEST(test_no_negative_constant)
{
    /* Without cost per token and per forward, noise would push one below 0. */
    struct probe_fit f;
    struct err e = ERR_INIT;
    add_compute(1);
    add_storage();
    add_copies();
    for (uint32_t i = 0; i < points.n; i++) {
        struct probe_point *p = &points.points[i];
        if (p->what == PROBE_FORWARD) {
            double pairs = p->new_tok * p->cached_tok + p->new_tok * (p->new_tok + 1) / 2;
            p->cpu_ns = p->time_ns = exactly(PAIR_NS * pairs * (p->new_tok > 100 ? 1.03 : 0.97));
        }
    }
    ck_assert_int_eq(probe_fit(&points, &card, BLOCK, PROBE_COPY_TCP, &f, &e), 0);
    ck_assert_double_ge(f.forward_fixed_s, 0);
    ck_assert_double_ge(f.decode_fixed_s, 0);
    ck_assert_double_gt(f.attention_flops, 0);
    ck_assert_double_gt(f.linear_flops, 0);
}
END_TEST

static void fails(enum probe_what transport, int code, const char *text)
{
    struct probe_fit f;
    struct err e = ERR_INIT;
    ck_assert_int_eq(probe_fit(&points, &card, BLOCK, transport, &f, &e), code);
    ck_assert_msg(strstr(e.text, text), "%s", e.text);
}

START_TEST(test_what_is_missing)
{
    add_storage();
    add_copies();
    fails(PROBE_COPY_TCP, -EINVAL, "no forward");
    add_compute(1);
    fails(PROBE_COPY_VERBS, -EINVAL, "no copy verbs");
    card.n_dense_layers = 0;
    card.n_experts = 8;
    fails(PROBE_COPY_TCP, -EINVAL, "experts");
}
END_TEST

START_TEST(test_profile)
{
    struct probe_fit f;
    struct err e = ERR_INIT;
    add_compute(1);
    add_storage();
    add_copies();
    ck_assert_int_eq(probe_fit(&points, &card, BLOCK, PROBE_COPY_TCP, &f, &e), 0);
    json_t *p = probe_fit_profile(&f, "a test");
    ck_assert_str_eq(json_string_value(json_object_get(p, "schema")), "dualpath/profile/1");
    json_t *cluster = json_object_get(json_object_get(p, "scenario"), "cluster");
    close_to(json_number_value(json_object_get(cluster, "cnic_Bps")), 4e9);
    const json_t *storage = json_object_get(cluster, "storage");
    close_to(json_number_value(json_object_get(storage, "half_size_bytes")), HALF_BYTES);
    /* Over a scenario with another storage nothing of that one's limits is left. */
    static const char *const limits[] = {"stream_Bps", "stream_ios", "read_queues"};
    static const double none[] = {0, 0, 1};
    for (int i = 0; i < 3; i++) {
        const json_t *limit = json_object_get(storage, limits[i]);
        ck_assert(json_is_number(limit));
        ck_assert_double_eq(json_number_value(limit), none[i]);
    }
    json_decref(p);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("probe_fit");
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, test_recovers, 0, 2);
    tcase_add_test(t, test_storage_and_copies);
    tcase_add_test(t, test_no_negative_constant);
    tcase_add_test(t, test_what_is_missing);
    tcase_add_test(t, test_profile);
    suite_add_tcase(s, t);
    return run_suite(s);
}
