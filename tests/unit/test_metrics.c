/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Metrics of made-up runs whose figures are worked out by hand: balance, JCT, SLO. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "check_suite.h"
#include "report/metrics.h"
#include "sim/virtual_driver.h"

#define WINDOW_NS (3 * NS_PER_S)

/* One prefill node, two decode nodes; loads that repeat every two windows. */
struct run {
    struct virtual_driver driver;
    struct loop loop;
    struct metrics metrics;
    struct loop_timer arrival, end;
    uint64_t arrival_ns, end_ns;
    uint32_t turns_left, gen_tok;
};

/* Bytes per second in the first and in the second window of each pair. */
static const double snic_Bps[3][2] = {{10e6, 10e6}, {20e6, 0}, {60e6, 50e6}};
/* Share of the time in forwards with attention, and their max/avg. */
static const double forward_frac[2] = {0.6, 0.2}, forward_max_avg[2] = {1.5, 3.5};

static double integral(const double rates[2], uint64_t t_ns)
{
    double pair_s = 2 * WINDOW_NS * 1e-9, t_s = (double)t_ns * 1e-9, in_s = fmod(t_s, pair_s);
    double whole = floor(t_s / pair_s) * (rates[0] + rates[1]) * pair_s / 2;
    return whole + rates[0] * fmin(in_s, pair_s / 2) + rates[1] * fmax(in_s - pair_s / 2, 0);
}

static void probe(void *self, struct metrics_sample *s)
{
    const struct run *r = self;
    uint64_t t_ns = loop_now_ns(&r->loop) - r->metrics.origin_ns;
    for (unsigned n = 0; n < 3; n++) {
        s->snic_bytes[n] = round(integral(snic_Bps[n], t_ns));
    }
    const double weighted[2] = {forward_frac[0] * forward_max_avg[0],
                                forward_frac[1] * forward_max_avg[1]};
    s->forward_s = integral(forward_frac, t_ns);
    s->forward_max_avg_s = integral(weighted, t_ns);
}

/* Turns come at arrival_ns and end one by one, evenly, until end_ns. */
static void arrive(struct loop_timer *t)
{
    struct run *r = container_of(t, struct run, arrival);
    for (uint32_t i = 0; i < r->turns_left; i++) {
        metrics_turn_arrived(&r->metrics);
    }
}

static void end_turn(struct loop_timer *t)
{
    struct run *r = container_of(t, struct run, end);
    uint64_t now = loop_now_ns(&r->loop), step = NS_PER_MS;
    struct metrics_turn m = {.prompt_tok = 10,
                             .gen_tok = r->gen_tok,
                             .arrival_ns = r->arrival_ns,
                             .since_ns = r->arrival_ns,
                             .first_ns = now - step * (r->gen_tok - 1),
                             .second_ns = now - step * (r->gen_tok - 2),
                             .last_ns = now};
    metrics_turn_over(&r->metrics, &m);
    if (--r->turns_left == 0) {
        metrics_agent_over(&r->metrics, r->arrival_ns, now, 10 + r->gen_tok);
        loop_stop(&r->loop);
    } else {
        loop_arm(&r->loop, t, now + (r->end_ns - now) / r->turns_left);
    }
}

static struct result run(double arrival_s, double end_s, uint32_t turns, uint32_t gen_tok,
                         FILE *series)
{
    struct run r = {.arrival_ns = units_s_to_ns(arrival_s),
                    .end_ns = units_s_to_ns(end_s),
                    .turns_left = turns,
                    .gen_tok = gen_tok};
    const struct metrics_probe p = {.self = &r, .read = probe};
    const struct metrics_config config = {
        .n_prefill_nodes = 1, .n_nodes = 3, .balance_window_ns = WINDOW_NS};
    struct result ret = {0};
    virtual_driver_init(&r.driver, NULL, NULL, NULL);
    ck_assert_int_eq(loop_init(&r.loop, &r.driver.driver, 0), 0);
    ck_assert_int_eq(metrics_init(&r.metrics, &r.loop, &p, &config), 0);
    loop_timer_init(&r.arrival, arrive);
    loop_timer_init(&r.end, end_turn);
    loop_arm(&r.loop, &r.arrival, r.arrival_ns);
    loop_arm(&r.loop, &r.end, r.arrival_ns + (r.end_ns - r.arrival_ns) / turns);
    ck_assert_int_eq(loop_run(&r.loop), 0);
    metrics_finish(&r.metrics, 0, &ret);
    if (series) {
        ck_assert_int_eq(metrics_write_series(&r.metrics, series), 0);
    }
    metrics_done(&r.metrics);
    loop_done(&r.loop);
    return ret;
}

/*
 * SNICs of all nodes: 60 over a mean of 30, then 50 over 20: 2 and 2.5. Those of the prefill node:
 * 1. Decode nodes: 60 over 40, 50 over 25: 1.5 and 2. Attention: 1.5 three times as long as 3.5: 2.
 * Whatever the length of the run, and so the interval of the samples: 40 ms at 60 s, 20.48 s at
 * 30,000.
 */
START_TEST(balance_by_hand)
{
    static const double ends_s[] = {60, 600, 6000, 30000};
    for (size_t i = 0; i < sizeof(ends_s) / sizeof(ends_s[0]); i++) {
        struct result r = run(0, ends_s[i], 1000, 3, NULL);
        /* The steady part may hold one window of a kind more than of the other; its ends are off by
         * up to an interval each, at most 1/1024 of the run. */
        double windows = 0.7 * ends_s[i] / 3, odd = 0.25 / (windows - 1 - windows / 350);
        ck_assert_double_eq_tol(r.snic_max_avg, 2.25, odd + 1e-9);
        ck_assert_double_eq_tol(r.pe_snic_max_avg, 1, 1e-9);
        ck_assert_double_eq_tol(r.de_snic_max_avg, 1.75, odd + 1e-9);
        ck_assert_double_eq_tol(r.attention_max_avg, 2, 2 * odd + 1e-9);
    }
}
END_TEST

/* From 1 s to 8 s of 10 the only windows that end are those at 3 and at 6 s: one of each kind. */
START_TEST(windows_are_whole)
{
    struct result r = run(0, 10, 10, 3, NULL);
    ck_assert_double_eq_tol(r.steady_start_s, 1, 0.011);
    ck_assert_double_eq_tol(r.steady_end_s, 8, 0.011);
    ck_assert_double_eq_tol(r.snic_max_avg, 2.25, 1e-9);
    ck_assert_double_eq_tol(r.de_snic_max_avg, 1.75, 1e-9);
}
END_TEST

/* 2 s: no window ends. The steady part is the window, at the loads of the first one. */
START_TEST(a_short_run_is_one_window)
{
    struct result r = run(0, 2, 10, 3, NULL);
    ck_assert_double_eq_tol(r.snic_max_avg, 2, 1e-9);
    ck_assert_double_eq_tol(r.de_snic_max_avg, 1.5, 1e-9);
    ck_assert_double_eq_tol(r.attention_max_avg, 1.5, 1e-9);
}
END_TEST

/* Rows of 10 ms: nothing until the first window is over, then its figure until the next one is. */
START_TEST(series_show_the_last_window)
{
    char *text = NULL, *row;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(f);
    run(0, 10, 10, 3, f);
    fclose(f);
    row = strchr(text, '\n') + 1;
    unsigned seen = 0;
    for (double t, snic; *row; row = strchr(row, '\n') + 1) {
        ck_assert_int_eq(sscanf(row, "%lf,%*f,%*f,%*f,%*f,%*f,%lf", &t, &snic), 2);
        double want = t < 3 - 1e-9 ? 0 : t < 6 - 1e-9 || t > 9 - 1e-9 ? 2 : 2.5;
        ck_assert_msg(fabs(snic - want) < 1e-5, "at %g s: %g, expected %g", t, snic, want);
        seen++;
    }
    ck_assert_uint_ge(seen, 999);
    free(text);
}
END_TEST

/* A replayed trace may begin late: 100 s of nothing are not part of the job. */
START_TEST(jct_counts_from_the_first_arrival)
{
    struct result r = run(100, 160, 60, 3, NULL);
    ck_assert_double_eq_tol(r.jct_s, 60, 1e-6);
    ck_assert_double_eq_tol(r.prompt_tok_per_s, 10, 1e-5); /* 60 requests of 10 tokens */
    ck_assert_double_eq_tol(r.agents_per_s, 1 / 60.0, 1e-7);
    ck_assert_double_eq_tol(r.agent_jct_s.max, 60, 0.1);
}
END_TEST

static char *text_of(const struct result *r)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(f);
    result_write_text(r, f);
    fclose(f);
    return text;
}

START_TEST(no_tpot_is_said)
{
    struct result r = {.slo_met = true, .slo_ttft_s = 4, .slo_tpot_s = 0.05, .ttft_ok_frac = 1};
    char *text = text_of(&r);
    ck_assert_ptr_nonnull(strstr(text, "SLO met: mean TTFT 0 (limit 4) s, no TPOT: no request "));
    ck_assert_ptr_null(strstr(text, "mean TPOT"));
    free(text);
    r.tpot_requests = 1;
    text = text_of(&r);
    ck_assert_ptr_nonnull(strstr(text, "mean TPOT 0 (limit 50) ms"));
    free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("metrics");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, balance_by_hand);
    tcase_add_test(tc, windows_are_whole);
    tcase_add_test(tc, a_short_run_is_one_window);
    tcase_add_test(tc, series_show_the_last_window);
    tcase_add_test(tc, jct_counts_from_the_first_arrival);
    tcase_add_test(tc, no_tpot_is_said);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
