/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Workloads from the generator: copies, cuts, arrivals, size. */
#include "check_suite.h"
#include "input/workload.h"

#include <check.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "input/generator.h"
#include "unit/workload_test.h"

static struct workload *build_generated(uint32_t agents, enum arrival_kind arrival,
                                        double append_scale)
{
    struct scenario_workload cfg = config(agents, arrival);
    strcpy(cfg.trace, GENERATOR_NAME);
    cfg.max_len_tok = 49152;
    cfg.append_scale = append_scale;
    cfg.aps = 0.4;
    struct workload *w;
    struct err err = ERR_INIT;
    ck_assert_msg(workload_build(&cfg, 163840, 64, 5, &w, &err) == 0, "%s", err.text);
    return w;
}

START_TEST(generated_copies_begin_with_a_round_of_their_own)
{
    struct workload *w = build_generated(3000, ARRIVAL_OFFLINE, 1);
    struct trace t;
    struct err err = ERR_INIT;
    ck_assert_int_eq(generator_make(49152, 500, 5, &t, &err), 0);
    uint64_t turns = 0, cut = 0, first_sum = 0;
    for (uint32_t i = 0; i < w->n_sessions; i++) {
        uint32_t n = session_at(w, i).n_turns;
        uint32_t synthetic = i < 500 ? 0 : turn_at(w, i, 0).prompt_tok + 1;
        turns += n;
        if (synthetic) {
            ck_assert_uint_ge(synthetic, 2);
            ck_assert_uint_le(synthetic, 65);
            ck_assert_uint_eq(turn_at(w, i, 0).gen_tok, 1);
            first_sum += synthetic - 1;
        }
        /* Which trajectory it is: the one with the same first prompt, generation and second prompt.
         */
        uint32_t k = synthetic != 0, j = 0;
        struct workload_turn a = turn_at(w, i, k), b = turn_at(w, i, k + 1);
        const struct trace_turn *o = t.turns;
        while (o[0].prompt_tok + synthetic != a.prompt_tok || o[0].gen_tok != a.gen_tok ||
               o[1].prompt_tok + synthetic != b.prompt_tok) {
            ck_assert_uint_lt(++j, 500);
            o = &t.turns[t.sessions[j].first_turn];
        }
        if (i < 500) {
            ck_assert_uint_eq(j, i);
        }
        cut += t.sessions[j].n_turns - (n - k);
        for (uint32_t m = k; m < n; m++) {
            struct workload_turn turn = turn_at(w, i, m);
            ck_assert_uint_eq(turn.prompt_tok, o[m - k].prompt_tok + synthetic);
            ck_assert_uint_eq(turn.gen_tok, o[m - k].gen_tok);
            ck_assert_uint_le(turn.prompt_tok + turn.gen_tok, 49152);
        }
        if (n - k < t.sessions[j].n_turns) {
            ck_assert_uint_gt(o[n - k].prompt_tok + synthetic + o[n - k].gen_tok, 49152);
        }
    }
    ck_assert_double_eq_tol((double)first_sum / 2500, 32.5, 4 * 18.5 / 50); /* 4 standard errors */
    struct workload_info info;
    workload_info(w, &info);
    ck_assert_uint_eq(info.n_turns, turns);
    ck_assert_uint_eq(info.counts.turns_cut, 0);
    ck_assert_uint_eq(info.counts.agent_turns_cut, cut);
    ck_assert_uint_gt(cut, 0);
    ck_assert_str_eq(info.trace->sha256, t.sha256);
    trace_done(&t);
    workload_free(w);
}
END_TEST

/* A lone session that ends at 151 tokens, in a limit that leaves 33 for the first round. */
START_TEST(a_copy_keeps_what_just_fits)
{
    struct trace t = trace_make(0);
    add_session(&t, "a", 0);
    add_turn(&t, 100, 10, 0);
    add_turn(&t, 150, 1, 0);
    struct scenario_workload cfg = config(2001, ARRIVAL_OFFLINE);
    cfg.max_len_tok = 184;
    struct workload *w = build(t, &cfg);
    uint32_t n_just = 0, n_not = 0, n_cut = 0;
    for (uint32_t i = 1; i < w->n_sessions; i++) {
        uint32_t first_tok = turn_at(w, i, 0).prompt_tok;
        ck_assert_uint_eq(session_at(w, i).n_turns, first_tok <= 32 ? 3 : 2);
        n_just += first_tok == 32;
        n_not += first_tok == 33;
        n_cut += first_tok > 32;
    }
    ck_assert_uint_gt(n_just, 0);
    ck_assert_uint_gt(n_not, 0);
    ck_assert_uint_eq(counts_of(w).agent_turns_cut, n_cut);
    workload_free(w);
}
END_TEST

START_TEST(scaled_trajectories_are_cut_at_max_len)
{
    struct workload *w = build_generated(500, ARRIVAL_OFFLINE, 2),
                    *plain = build_generated(500, ARRIVAL_OFFLINE, 1);
    uint64_t fewer = 0, dropped = 0;
    for (uint32_t i = 0; i < 500; i++) {
        struct workload_session p = session_at(plain, i);
        struct workload_turn first = turn_at(plain, i, 0);
        if (2 * first.prompt_tok + first.gen_tok > 49152) {
            dropped++; /* its first turn alone is too long now */
            fewer += p.n_turns;
            continue;
        }
        uint32_t k_w = i - (uint32_t)dropped;
        struct workload_session s = session_at(w, k_w);
        fewer += p.n_turns - s.n_turns;
        uint32_t end = 0, plain_end = 0;
        for (uint32_t k = 0; k < s.n_turns; k++) {
            struct workload_turn a = turn_at(w, k_w, k), b = turn_at(plain, i, k);
            ck_assert_uint_eq(a.prompt_tok - end, 2 * (b.prompt_tok - plain_end));
            ck_assert_uint_eq(a.gen_tok, b.gen_tok);
            end = a.prompt_tok + a.gen_tok;
            plain_end = b.prompt_tok + b.gen_tok;
        }
        ck_assert_uint_le(end, 49152);
    }
    ck_assert_uint_eq(counts_of(w).sessions_dropped, dropped);
    ck_assert_uint_gt(fewer, 10000); /* nearly twice as long, so nearly half of 53,000 turns */
    ck_assert_uint_eq(counts_of(w).turns_cut, fewer);
    workload_free(w);
    workload_free(plain);
}
END_TEST

START_TEST(poisson_gaps_are_exponential_and_leave_the_rest_alone)
{
    struct workload *w = build_generated(4000, ARRIVAL_POISSON, 1),
                    *offline = build_generated(4000, ARRIVAL_OFFLINE, 1);
    uint64_t before_ns = 0;
    uint32_t longer = 0;
    for (uint32_t i = 0; i < 4000; i++) {
        uint64_t at_ns = session_at(w, i).arrival_ns;
        longer += at_ns - before_ns > 2500000000u;
        before_ns = at_ns;
        ck_assert_uint_eq(session_at(offline, i).arrival_ns, 0);
        ck_assert_uint_eq(turn_at(w, i, 1).prompt_tok, turn_at(offline, i, 1).prompt_tok);
    }
    /* 4 standard errors: the mean of 4000 gaps, and the share of those above the mean, 1/e. */
    ck_assert_double_eq_tol((double)before_ns / 4000, 2.5e9, 4 * 2.5e9 / sqrt(4000));
    ck_assert_double_eq_tol(longer / 4000.0, exp(-1), 4 * sqrt(exp(-1) * (1 - exp(-1)) / 4000));
    workload_free(w);
    workload_free(offline);
}
END_TEST

START_TEST(the_largest_published_run_is_cheap)
{
    struct workload *w = build_generated(49152, ARRIVAL_OFFLINE, 1);
    struct workload_info info;
    workload_info(w, &info);
    ck_assert_uint_eq(w->n_sessions, 49152);
    ck_assert_double_eq_tol((double)info.n_turns / 49152, 107, 0.05 * 107);
    workload_free(w);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("workload_generated");
    TCase *t = tcase_create("workload_generated");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, generated_copies_begin_with_a_round_of_their_own);
    tcase_add_test(t, a_copy_keeps_what_just_fits);
    tcase_add_test(t, scaled_trajectories_are_cut_at_max_len);
    tcase_add_test(t, poisson_gaps_are_exponential_and_leave_the_rest_alone);
    tcase_add_test(t, the_largest_published_run_is_cheap);
    suite_add_tcase(s, t);
    return run_suite(s);
}
