/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The generated sets against the published means (arXiv 2602.21548, table 2, and total / turns):
 * within 3 % on average over 20 seeds and within 5 % in every single set of 500.
 */
#include "check_suite.h"
#include "input/generator.h"

#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_SEEDS 20

enum figure { TURNS, APPEND, GEN, TOTAL, CONTEXT, PER_TURN, N_FIGURES };
static const char *const names[N_FIGURES] = {"turns", "append",  "gen",
                                             "total", "context", "new tokens per turn"};

static const struct {
    uint64_t max_len_tok;
    double published[N_FIGURES];
} sets[] = {
    {32768, {60, 608, 148, 28639, 17183, 477}},
    {49152, {106, 474, 172, 42607, 25120, 402}},
    {65536, {157, 429, 176, 55958, 32721, 356}},
};

static struct trace make(uint64_t max_len_tok, uint32_t n, uint64_t seed)
{
    struct trace t;
    struct err err = ERR_INIT;
    ck_assert_int_eq(generator_make(max_len_tok, n, seed, &t, &err), 0);
    return t;
}

/* Adds a trajectory's own means to the sums; turn by turn, from the prompts alone. */
static void add_trajectory(const struct trace *t, const struct trace_session *s, double *sums)
{
    double append = 0, gen = 0, context = 0, end = 0;
    for (uint32_t k = 0; k < s->n_turns; k++) {
        const struct trace_turn *turn = &t->turns[s->first_turn + k];
        append += turn->prompt_tok - end;
        gen += turn->gen_tok;
        context += turn->prompt_tok;
        end = (double)turn->prompt_tok + turn->gen_tok;
    }
    sums[TURNS] += s->n_turns;
    sums[APPEND] += append / s->n_turns;
    sums[GEN] += gen / s->n_turns;
    sums[TOTAL] += end;
    sums[CONTEXT] += context / s->n_turns;
}

static void measure(const struct trace *t, double *ret_figures)
{
    double sums[N_FIGURES] = {0};
    for (uint32_t i = 0; i < t->n_sessions; i++) {
        add_trajectory(t, &t->sessions[i], sums);
    }
    sums[PER_TURN] = t->n_sessions * sums[TOTAL] / sums[TURNS];
    for (int f = 0; f < N_FIGURES; f++) {
        ret_figures[f] = sums[f] / t->n_sessions;
    }
}

START_TEST(both_kinds_of_mean_are_the_published_ones)
{
    const double *published = sets[_i].published;
    double mean[N_FIGURES] = {0}, worst[N_FIGURES] = {0};
    for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {
        struct trace t = make(sets[_i].max_len_tok, 500, seed);
        double figures[N_FIGURES];
        measure(&t, figures);
        trace_done(&t);
        for (int f = 0; f < N_FIGURES; f++) {
            double off = figures[f] / published[f] - 1;
            mean[f] += off / N_SEEDS;
            worst[f] = fabs(off) > fabs(worst[f]) ? off : worst[f];
        }
    }
    for (int f = 0; f < N_FIGURES; f++) {
        printf("%llu %-20s mean of %d sets %+.2f %%, worst set %+.2f %%\n",
               (unsigned long long)sets[_i].max_len_tok, names[f], N_SEEDS, 100 * mean[f],
               100 * worst[f]);
        ck_assert_msg(fabs(mean[f]) <= 0.03, "%s is off by %g on average", names[f], mean[f]);
        ck_assert_msg(fabs(worst[f]) <= 0.05, "%s is off by %g in one set", names[f], worst[f]);
    }
}
END_TEST

START_TEST(trajectories_grow_and_stay_within_the_limit)
{
    struct trace t = make(sets[_i].max_len_tok, 500, 7);
    ck_assert(t.closed_loop);
    ck_assert_uint_eq(t.block_tok, 0);
    uint64_t next_turn = 0;
    for (uint32_t i = 0; i < t.n_sessions; i++) {
        const struct trace_session *s = &t.sessions[i];
        ck_assert_uint_eq(s->first_turn, next_turn);
        ck_assert_uint_ge(s->n_turns, 1);
        uint32_t end = 0;
        for (uint32_t k = 0; k < s->n_turns; k++) {
            const struct trace_turn *turn = &t.turns[s->first_turn + k];
            ck_assert_uint_gt(turn->prompt_tok, end);
            ck_assert_uint_ge(turn->gen_tok, 1);
            end = turn->prompt_tok + turn->gen_tok;
        }
        ck_assert_uint_le(end, sets[_i].max_len_tok);
        next_turn += s->n_turns;
    }
    ck_assert_uint_eq(next_turn, t.n_turns);
    trace_done(&t);
}
END_TEST

static int by_turns(const void *a, const void *b)
{
    const struct trace_session *s = a, *t = b;
    return (s->n_turns > t->n_turns) - (s->n_turns < t->n_turns);
}

/*
 * Turns after which a share of the trajectories is over, from the published run at scale (48K set;
 * agents running over time times its turns per second). That rate is known to 15 % only, so the
 * turns are compared relative to each other.
 */
START_TEST(turn_counts_have_the_published_shape)
{
    static const struct {
        double share, turns;
    } over[] = {{0.44, 108}, {0.60, 133}, {0.70, 153}, {0.87, 193}};
    struct trace t = make(sets[_i].max_len_tok, 500, 3);
    qsort(t.sessions, t.n_sessions, sizeof(*t.sessions), by_turns);
    double first = t.sessions[(size_t)(over[0].share * 500)].n_turns;
    for (size_t i = 1; i < sizeof(over) / sizeof(over[0]); i++) {
        double ratio = t.sessions[(size_t)(over[i].share * 500)].n_turns / first;
        double published = over[i].turns / over[0].turns;
        ck_assert_double_eq_tol(ratio, published, 0.1 * published);
    }
    /* A few end early: one in twenty-five within four turns, one in seven within forty. */
    ck_assert_uint_le(t.sessions[(size_t)(0.03 * 500)].n_turns, 4);
    ck_assert_double_le(t.sessions[(size_t)(0.12 * 500) - 1].n_turns,
                        0.4 * sets[_i].published[TURNS]);
    trace_done(&t);
}
END_TEST

/* The mean prompt after so many turns, over the trajectories that have more. */
static double prompt_after(const struct trace *t, uint32_t turn)
{
    double sum = 0, n = 0;
    for (uint32_t k = 0; k < t->n_sessions; k++) {
        if (t->sessions[k].n_turns > turn) {
            sum += t->turns[t->sessions[k].first_turn + turn].prompt_tok;
            n++;
        }
    }
    return sum / n;
}

/*
 * Agents read first. The mean prompt after so many turns as the published run at scale has it (48K
 * set): an agent has had the integral of 1 / (TTFT + decoding) turns, with 4.3 s of decoding, and
 * prompts are the prompt tokens per second over the turns per second. While the TTFT is 11 to 27 s,
 * a second of decoding more or less changes that by 4 to 7 %; later by twice as much. Contexts that
 * grow as a power of the turn are 17 % too short after 16.
 */
START_TEST(contexts_grow_as_in_the_run_at_scale)
{
    static const struct {
        uint32_t turn;
        double prompt_tok, tolerance;
    } published[] = {{8, 9.0e3, 0.12}, {16, 15.3e3, 0.12}, {27, 18.3e3, 0.2}, {46, 22.7e3, 0.2}};
    const uint64_t n_seeds = 10;
    for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++) {
        double mean = 0;
        for (uint64_t seed = 1; seed <= n_seeds; seed++) {
            struct trace t = make(49152, 500, seed);
            mean += prompt_after(&t, published[i].turn) / (double)n_seeds;
            trace_done(&t);
        }
        printf("turn %u: %.0f tok, published %.0f\n", published[i].turn, mean,
               published[i].prompt_tok);
        ck_assert_double_eq_tol(mean, published[i].prompt_tok,
                                published[i].tolerance * published[i].prompt_tok);
    }
}
END_TEST

START_TEST(a_seed_is_a_set)
{
    struct trace a = make(49152, 500, 1), b = make(49152, 500, 1), c = make(49152, 500, 2);
    ck_assert_uint_eq(a.n_turns, b.n_turns);
    ck_assert_mem_eq(a.turns, b.turns, a.n_turns * sizeof(*a.turns));
    ck_assert_str_eq(a.sha256, b.sha256);
    ck_assert_uint_eq(strlen(a.sha256), 64);
    ck_assert_str_ne(a.sha256, c.sha256);
    trace_done(&a);
    trace_done(&b);
    trace_done(&c);
}
END_TEST

START_TEST(between_the_published_lengths_the_means_are_interpolated)
{
    struct trace t = make(40960, 500, 1);
    double figures[N_FIGURES];
    measure(&t, figures);
    trace_done(&t);
    for (int f = TURNS; f <= CONTEXT; f++) {
        double between = (sets[0].published[f] + sets[1].published[f]) / 2;
        ck_assert_double_eq_tol(figures[f], between, 0.05 * between);
    }
}
END_TEST

START_TEST(refuses_lengths_that_nothing_is_known_of)
{
    const uint64_t lengths[] = {0, 1, 32767, 65537, UINT64_MAX};
    for (int i = 0; i < 5; i++) {
        struct trace t;
        struct err err = ERR_INIT;
        ck_assert_int_eq(generator_make(lengths[i], 500, 1, &t, &err), -ERANGE);
        ck_assert_ptr_nonnull(strstr(err.text, "32K to 64K"));
    }
    struct trace t;
    struct err err = ERR_INIT;
    ck_assert_int_eq(generator_make(32768, 0, 1, &t, &err), -EINVAL);
}
END_TEST

START_TEST(any_number_of_trajectories)
{
    for (uint32_t n = 1; n < 2000; n = 3 * n + 1) {
        for (uint64_t seed = 1; seed <= 5; seed++) {
            struct trace t = make(65536, n, seed);
            ck_assert_uint_eq(t.n_sessions, n);
            trace_done(&t);
        }
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("generator");
    TCase *t = tcase_create("generator");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, both_kinds_of_mean_are_the_published_ones, 0, 3);
    tcase_add_loop_test(t, trajectories_grow_and_stay_within_the_limit, 0, 3);
    tcase_add_loop_test(t, turn_counts_have_the_published_shape, 0, 3);
    tcase_add_test(t, contexts_grow_as_in_the_run_at_scale);
    tcase_add_test(t, a_seed_is_a_set);
    tcase_add_test(t, between_the_published_lengths_the_means_are_interpolated);
    tcase_add_test(t, refuses_lengths_that_nothing_is_known_of);
    tcase_add_test(t, any_number_of_trajectories);
    suite_add_tcase(s, t);
    return run_suite(s);
}
