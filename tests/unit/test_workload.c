/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From traces built by hand, and from the generator, to the agents of a run. */
#include "input/workload.h"

#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "input/generator.h"

#define ALL 0 /* agents: as many as the trace has */

static struct scenario_workload config(uint32_t agents, enum arrival_kind arrival)
{
    struct scenario_workload cfg = {.trace = "by hand",
                                    .agents = agents,
                                    .arrival = arrival,
                                    .append_scale = 1,
                                    .generation_scale = 1,
                                    .tool_latency_scale = 1};
    return cfg;
}

/* A trace of room for a few sessions and turns; sessions must be added one after another. */
static struct trace trace_make(uint32_t block_tok)
{
    struct trace t = {.closed_loop = true, .block_tok = block_tok, .n_scopes = 1};
    t.sessions = calloc(8, sizeof(*t.sessions));
    t.turns = calloc(32, sizeof(*t.turns));
    t.ids = calloc(64, sizeof(*t.ids));
    t.waits = calloc(8, sizeof(*t.waits));
    for (uint64_t i = 0; block_tok && i < 64; i++) {
        t.ids[t.n_ids++] = UINT64_MAX - i;
    }
    return t;
}

static struct trace_session *add_session(struct trace *t, const char *name, uint64_t arrival_ns)
{
    struct trace_session *s = &t->sessions[t->n_sessions++];
    *s = (struct trace_session){.arrival_ns = arrival_ns,
                                .first_turn = t->n_turns,
                                .parent = TRACE_NONE,
                                .parent_turn = TRACE_NONE};
    strcpy(s->name, name);
    return s;
}

static struct trace_turn *add_turn(struct trace *t, uint32_t prompt_tok, uint32_t gen_tok,
                                   uint64_t delay_ns)
{
    t->sessions[t->n_sessions - 1].n_turns++;
    struct trace_turn *turn = &t->turns[t->n_turns++];
    *turn = (struct trace_turn){.prompt_tok = prompt_tok, .gen_tok = gen_tok, .delay_ns = delay_ns};
    if (t->block_tok) {
        turn->n_ids = prompt_tok / t->block_tok;
        turn->first_id = t->n_turns - 1;
    }
    return turn;
}

static void add_wait(struct trace *t, uint32_t session)
{
    struct trace_turn *turn = &t->turns[t->n_turns - 1];
    if (turn->n_waits++ == 0) {
        turn->first_wait = (uint32_t)t->n_waits;
    }
    t->waits[t->n_waits++] = session;
}

static struct workload *build(struct trace t, const struct scenario_workload *cfg)
{
    struct workload *w;
    struct err err = ERR_INIT;
    int rc = workload_from_trace(&t, cfg, 0, 64, 1, &w, &err);
    ck_assert_msg(rc == 0, "%s: %s", err.field, err.text);
    ck_assert_ptr_null(t.turns);
    return w;
}

static struct workload_session session_at(const struct workload *w, uint32_t session)
{
    struct workload_session s;
    w->ops->session(w, session, &s);
    return s;
}

static struct workload_turn turn_at(const struct workload *w, uint32_t session, uint32_t turn)
{
    struct workload_turn t;
    w->ops->turn(w, session, turn, &t);
    return t;
}

static struct workload_counts counts_of(const struct workload *w)
{
    struct workload_info info;
    workload_info(w, &info);
    return info.counts;
}

/* Three sessions without ids; in order of arrival: b, c, a. */
static struct trace three_chains(void)
{
    struct trace t = trace_make(0);
    add_session(&t, "a", 900);
    add_turn(&t, 100, 10, 0);
    add_turn(&t, 150, 1, 2000);
    add_session(&t, "b", 300);
    add_turn(&t, 200, 20, 5);
    add_session(&t, "c", 300);
    add_turn(&t, 300, 30, 0);
    add_turn(&t, 330, 3, 0);
    add_turn(&t, 1000, 7, 0);
    return t;
}

START_TEST(recorded_sessions_stand_in_order_of_arrival)
{
    struct scenario_workload cfg = config(ALL, ARRIVAL_RECORDED);
    struct workload *w = build(three_chains(), &cfg);
    ck_assert_uint_eq(w->n_sessions, 3);
    ck_assert_uint_eq(w->block_tok, 64);
    const uint64_t arrivals[] = {300, 300, 900};
    const uint32_t turns[] = {1, 3, 2}, prompts[] = {200, 300, 100};
    for (uint32_t i = 0; i < 3; i++) {
        struct workload_session s = session_at(w, i);
        ck_assert_uint_eq(s.arrival_ns, arrivals[i]);
        ck_assert_uint_eq(s.n_turns, turns[i]);
        ck_assert_uint_eq(s.parent, WORKLOAD_NONE);
        ck_assert_uint_eq(turn_at(w, i, 0).prompt_tok, prompts[i]);
        ck_assert_ptr_null(turn_at(w, i, 0).block_ids);
    }
    ck_assert_uint_eq(turn_at(w, 2, 1).delay_ns, 2000);
    ck_assert_uint_eq(turn_at(w, 2, 1).gen_tok, 1);
    struct workload_info info;
    workload_info(w, &info);
    ck_assert_uint_eq(info.n_agents, 3);
    ck_assert_uint_eq(info.n_turns, 6);
    workload_free(w);
}
END_TEST

START_TEST(fewer_agents_are_the_first_ones)
{
    struct scenario_workload cfg = config(2, ARRIVAL_OFFLINE);
    struct workload *w = build(three_chains(), &cfg);
    ck_assert_uint_eq(w->n_sessions, 2);
    ck_assert_uint_eq(session_at(w, 0).arrival_ns, 0);
    ck_assert_uint_eq(session_at(w, 1).arrival_ns, 0);
    ck_assert_uint_eq(turn_at(w, 0, 0).prompt_tok, 200);
    ck_assert_uint_eq(turn_at(w, 1, 2).prompt_tok, 1000);
    workload_free(w);
}
END_TEST

START_TEST(lengths_are_scaled_turn_by_turn)
{
    struct scenario_workload cfg = config(ALL, ARRIVAL_RECORDED);
    cfg.append_scale = 1.5;
    cfg.generation_scale = 0.25;
    cfg.tool_latency_scale = 3;
    struct workload *w = build(three_chains(), &cfg);
    /* c: appends 300, 0, 667 and generations 30, 3, 7 */
    const uint32_t prompts[] = {450, 458, 458 + 1 + 1001}, gens[] = {8, 1, 2};
    for (uint32_t k = 0; k < 3; k++) {
        ck_assert_uint_eq(turn_at(w, 1, k).prompt_tok, prompts[k]);
        ck_assert_uint_eq(turn_at(w, 1, k).gen_tok, gens[k]);
    }
    ck_assert_uint_eq(turn_at(w, 2, 1).delay_ns, 6000);
    ck_assert_uint_eq(turn_at(w, 2, 1).gen_tok, 1);
    ck_assert_uint_eq(counts_of(w).lengths_raised, 1); /* a's last: 0.25 of 1 */
    workload_free(w);
}
END_TEST

START_TEST(sessions_end_at_max_len)
{
    struct scenario_workload cfg = config(ALL, ARRIVAL_RECORDED);
    cfg.max_len_tok = 330;
    struct workload *w = build(three_chains(), &cfg);
    ck_assert_uint_eq(session_at(w, 1).n_turns, 1); /* 300 + 30 just fits, 330 + 3 does not */
    ck_assert_uint_eq(counts_of(w).turns_cut, 2);
    ck_assert_uint_eq(counts_of(w).sessions_dropped, 0);
    workload_free(w);
    cfg.max_len_tok = 219;
    w = build(three_chains(), &cfg);
    ck_assert_uint_eq(w->n_sessions, 1);
    ck_assert_uint_eq(turn_at(w, 0, 0).prompt_tok, 100);
    ck_assert_uint_eq(counts_of(w).turns_cut, 4);
    ck_assert_uint_eq(counts_of(w).sessions_dropped, 2);
    workload_free(w);
}
END_TEST

/*
 * With block ids: "main" spawns "side" with its start and "late" after its turn 0; its turn 1 waits
 * for "side", its turn 2 for both. "other" arrives first.
 */
static struct trace family(void)
{
    struct trace t = trace_make(16);
    t.n_scopes = 2;
    add_session(&t, "side", 0);
    t.sessions[0].parent = 2;
    t.sessions[0].spawn_delay_ns = 40;
    add_turn(&t, 20, 1, 0);
    add_session(&t, "other", 100)->scope = 1;
    add_turn(&t, 8, 1, 0); /* shorter than a block */
    add_session(&t, "main", 500);
    add_turn(&t, 32, 1, 0);
    add_turn(&t, 16, 1, 7);
    add_wait(&t, 0);
    add_turn(&t, 64, 1, 9);
    add_wait(&t, 3);
    add_wait(&t, 0);
    add_session(&t, "late", 0);
    t.sessions[3].parent = 2;
    t.sessions[3].parent_turn = 0;
    t.sessions[3].spawn_delay_ns = 70;
    add_turn(&t, 48, 1, 0);
    return t;
}

/* Finds the session that begins with a prompt, from session `from` on. */
static uint32_t find(const struct workload *w, uint32_t prompt_tok, uint32_t from)
{
    while (turn_at(w, from, 0).prompt_tok != prompt_tok) {
        ck_assert_uint_lt(++from, w->n_sessions);
    }
    return from;
}

START_TEST(an_agent_brings_the_sessions_it_spawns)
{
    struct scenario_workload cfg = config(ALL, ARRIVAL_RECORDED);
    struct workload *w = build(family(), &cfg);
    ck_assert_uint_eq(w->n_sessions, 4);
    ck_assert_uint_eq(w->block_tok, 16);
    uint32_t other = find(w, 8, 0), main_ = find(w, 32, 0), side = find(w, 20, 0),
             late = find(w, 48, 0);
    ck_assert_uint_eq(other, 0);
    ck_assert_uint_eq(session_at(w, other).scope, 1);
    ck_assert_ptr_nonnull(turn_at(w, other, 0).block_ids);
    ck_assert_uint_eq(turn_at(w, other, 0).n_blocks, 0);
    ck_assert_uint_eq(session_at(w, main_).arrival_ns, 500);
    ck_assert_uint_eq(session_at(w, side).parent, main_);
    ck_assert_uint_eq(session_at(w, side).parent_turn, WORKLOAD_NONE);
    ck_assert_uint_eq(session_at(w, side).spawn_delay_ns, 40);
    ck_assert_uint_eq(session_at(w, late).parent, main_);
    ck_assert_uint_eq(session_at(w, late).parent_turn, 0);
    struct workload_turn last = turn_at(w, main_, 2);
    ck_assert_uint_eq(last.n_waits, 2);
    ck_assert_uint_eq(last.waits[0], late);
    ck_assert_uint_eq(last.waits[1], side);
    ck_assert_uint_eq(last.n_blocks, 4);
    ck_assert_uint_eq(last.block_ids[0], UINT64_MAX - 4);
    struct workload_info info;
    workload_info(w, &info);
    ck_assert_uint_eq(info.n_agents, 2);
    workload_free(w);
}
END_TEST

START_TEST(copies_of_a_family_keep_to_themselves)
{
    struct scenario_workload cfg = config(50, ARRIVAL_POISSON);
    cfg.aps = 2;
    struct workload *w = build(family(), &cfg);
    bool seen[200] = {false};
    uint32_t n_main = 0;
    uint64_t before_ns = 0;
    for (uint32_t i = 0; i < w->n_sessions; i++) {
        struct workload_session s = session_at(w, i);
        if (s.parent != WORKLOAD_NONE) {
            ck_assert_uint_eq(turn_at(w, s.parent, 0).prompt_tok, 32);
            ck_assert_uint_eq(s.scope, session_at(w, s.parent).scope);
            continue;
        }
        ck_assert_uint_ge(s.arrival_ns, before_ns);
        before_ns = s.arrival_ns;
        ck_assert(!seen[s.scope]);
        seen[s.scope] = true;
        if (turn_at(w, i, 0).prompt_tok == 32) {
            n_main++;
            struct workload_turn last = turn_at(w, i, 2);
            ck_assert_uint_eq(session_at(w, last.waits[0]).parent, i);
            ck_assert_uint_eq(session_at(w, last.waits[1]).parent, i);
            ck_assert_uint_eq(turn_at(w, last.waits[0], 0).prompt_tok, 48);
            ck_assert_uint_eq(turn_at(w, i, 1).waits[0], last.waits[1]);
        }
    }
    ck_assert_uint_eq(w->n_sessions, 50 + 2 * n_main);
    ck_assert_uint_gt(n_main, 10); /* 1 + half of 48, 4 standard deviations below */
    ck_assert_uint_lt(n_main, 40);
    workload_free(w);
}
END_TEST

START_TEST(a_cut_turn_takes_its_children_along)
{
    struct trace t = family();
    t.sessions[3].parent_turn = 2; /* late, spawned by main's last turn... */
    t.turns[4].n_waits = 0;        /* ...which waits for nobody */
    add_session(&t, "after", 600);
    add_turn(&t, 5, 1, 0);
    add_wait(&t, 3);
    struct scenario_workload cfg = config(ALL, ARRIVAL_RECORDED);
    cfg.max_len_tok = 60;
    struct workload *w = build(t, &cfg);
    ck_assert_uint_eq(w->n_sessions, 4);
    ck_assert_uint_eq(session_at(w, find(w, 32, 0)).n_turns, 2);
    ck_assert_uint_eq(turn_at(w, find(w, 5, 0), 0).n_waits, 0);
    struct workload_counts counts = counts_of(w);
    ck_assert_uint_eq(counts.turns_cut, 2);
    ck_assert_uint_eq(counts.sessions_dropped, 1);
    ck_assert_uint_eq(counts.waits_dropped, 1);
    workload_free(w);
}
END_TEST

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
    uint64_t fewer = 0;
    for (uint32_t i = 0; i < 500; i++) {
        struct workload_session s = session_at(w, i), p = session_at(plain, i);
        fewer += p.n_turns - s.n_turns;
        ck_assert_uint_eq(turn_at(w, i, 0).prompt_tok, 2 * turn_at(plain, i, 0).prompt_tok);
        uint32_t end = 0, plain_end = 0;
        for (uint32_t k = 0; k < s.n_turns; k++) {
            struct workload_turn a = turn_at(w, i, k), b = turn_at(plain, i, k);
            ck_assert_uint_eq(a.prompt_tok - end, 2 * (b.prompt_tok - plain_end));
            ck_assert_uint_eq(a.gen_tok, b.gen_tok);
            end = a.prompt_tok + a.gen_tok;
            plain_end = b.prompt_tok + b.gen_tok;
        }
        ck_assert_uint_le(end, 49152);
    }
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

static void expect_error(struct trace t, const struct scenario_workload *cfg, int code,
                         const char *source, const char *field, const char *text)
{
    struct workload *w;
    struct err err = ERR_INIT;
    ck_assert_int_eq(workload_from_trace(&t, cfg, 1100, 64, 1, &w, &err), code);
    ck_assert_str_eq(err.source, source);
    ck_assert_str_eq(err.field, field);
    ck_assert_msg(strstr(err.text, text), "'%s' lacks '%s'", err.text, text);
    ck_assert_ptr_null(t.sessions);
}

START_TEST(bad_turns_are_named)
{
    struct scenario_workload cfg = config(ALL, ARRIVAL_RECORDED);
    struct trace t = three_chains();
    t.turns[4].gen_tok = 0;
    expect_error(t, &cfg, -EINVAL, "by hand", "session c turn 1", "0 generated tokens");
    t = three_chains();
    t.turns[0].prompt_tok = 0;
    expect_error(t, &cfg, -EINVAL, "by hand", "session a turn 0", "prompt of 0 tokens");
    t = three_chains();
    t.turns[1].prompt_tok = 109;
    expect_error(t, &cfg, -EINVAL, "by hand", "session a turn 1", "after a context of 110");
    t = three_chains();
    t.turns[5].gen_tok = 101;
    expect_error(t, &cfg, -ERANGE, "by hand", "session c turn 2",
                 "1101 tokens, beyond the model's context limit of 1100");
    t = three_chains();
    t.closed_loop = false;
    expect_error(t, &cfg, -EINVAL, "by hand", "session a turn 1", "open-loop");
    t = three_chains();
    t.turns[5].gen_tok = 101;
    cfg.max_len_tok = 1100; /* not below the model's limit, so not a wish to cut */
    expect_error(t, &cfg, -ERANGE, "by hand", "session c turn 2", "1101 tokens");
    cfg.max_len_tok = 5;
    expect_error(three_chains(), &cfg, -EINVAL, "by hand", "", "no session");
}
END_TEST

START_TEST(bad_settings_are_named)
{
    struct scenario_workload cfg = config(ALL, ARRIVAL_RECORDED);
    cfg.append_scale = 2;
    expect_error(family(), &cfg, -EINVAL, "", "workload.append_scale", "block ids");
    cfg.append_scale = 0;
    expect_error(three_chains(), &cfg, -EINVAL, "", "workload.append_scale", "above 0");
    cfg.append_scale = 1;
    cfg.tool_latency_scale = NAN;
    expect_error(three_chains(), &cfg, -EINVAL, "", "workload.tool_latency_scale", "not below 0");
    cfg.tool_latency_scale = 1e18;
    expect_error(three_chains(), &cfg, -ERANGE, "by hand", "session a turn 1", "2000 ns");
    cfg.tool_latency_scale = 1;
    cfg = config(ALL, ARRIVAL_POISSON);
    expect_error(three_chains(), &cfg, -EINVAL, "", "workload.arrival.aps", "found 0 agents");
    cfg = config(UINT32_MAX, ARRIVAL_RECORDED);
    expect_error(family(), &cfg, -ERANGE, "", "workload.agents", "scopes");

    cfg = config(ALL, ARRIVAL_RECORDED);
    strcpy(cfg.trace, GENERATOR_NAME);
    struct workload *w;
    struct err err = ERR_INIT;
    ck_assert_int_eq(workload_build(&cfg, 65536, 64, 1, &w, &err), -EINVAL);
    ck_assert_str_eq(err.field, "workload.arrival.kind");
    err = ERR_INIT;
    cfg.arrival = ARRIVAL_OFFLINE;
    ck_assert_int_eq(workload_build(&cfg, 32767, 64, 1, &w, &err), -ERANGE);
    ck_assert_str_eq(err.field, "workload.max_len_tok");
    err = ERR_INIT;
    cfg.max_len_tok = 65536;
    ck_assert_int_eq(workload_build(&cfg, 65535, 64, 1, &w, &err), -ERANGE);
    ck_assert_str_eq(err.field, "workload.max_len_tok");
}
END_TEST

START_TEST(a_trace_is_read_from_where_the_scenario_found_it)
{
    struct scenario_workload cfg = config(ALL, ARRIVAL_RECORDED);
    strcpy(cfg.trace, "arxiv_mooncake_trace.first20.jsonl");
    strcpy(cfg.trace_path, "traces/mooncake/arxiv_mooncake_trace.first20.jsonl");
    struct workload *w;
    struct err err = ERR_INIT;
    ck_assert_msg(workload_build(&cfg, 0, 64, 1, &w, &err) == 0, "%s: %s", err.source, err.text);
    ck_assert_uint_eq(w->n_sessions, 20);
    ck_assert_uint_eq(w->block_tok, 512);
    workload_free(w);
    cfg.trace_path[0] = '\0';
    ck_assert_int_eq(workload_build(&cfg, 0, 64, 1, &w, &err), -ENOENT);
    ck_assert_str_eq(err.source, cfg.trace);
}
END_TEST

START_TEST(turns_that_can_never_start_are_refused)
{
    struct scenario_workload cfg = config(ALL, ARRIVAL_RECORDED);
    struct trace t = family();
    t.sessions[3].parent_turn = 2; /* main's turn 2 waits for the session that it spawns */
    expect_error(t, &cfg, -EINVAL, "by hand", "session main turn 2", "never start");
    t = family();
    t.sessions[2].parent = 3; /* each the other's child */
    expect_error(t, &cfg, -EINVAL, "by hand", "session side turn 0", "never start");
    t = family();
    t.sessions[3].parent_turn = 3;
    expect_error(t, &cfg, -EINVAL, "by hand", "session late", "does not exist");
    t = family();
    t.waits[1] = 4;
    expect_error(t, &cfg, -EINVAL, "by hand", "session main turn 2", "does not exist");
    t = family();
    t.sessions[1].n_turns = 0;
    expect_error(t, &cfg, -EINVAL, "by hand", "session other", "no turn");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("workload");
    TCase *t = tcase_create("workload");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, recorded_sessions_stand_in_order_of_arrival);
    tcase_add_test(t, fewer_agents_are_the_first_ones);
    tcase_add_test(t, lengths_are_scaled_turn_by_turn);
    tcase_add_test(t, sessions_end_at_max_len);
    tcase_add_test(t, an_agent_brings_the_sessions_it_spawns);
    tcase_add_test(t, copies_of_a_family_keep_to_themselves);
    tcase_add_test(t, a_cut_turn_takes_its_children_along);
    tcase_add_test(t, generated_copies_begin_with_a_round_of_their_own);
    tcase_add_test(t, a_copy_keeps_what_just_fits);
    tcase_add_test(t, scaled_trajectories_are_cut_at_max_len);
    tcase_add_test(t, poisson_gaps_are_exponential_and_leave_the_rest_alone);
    tcase_add_test(t, the_largest_published_run_is_cheap);
    tcase_add_test(t, bad_turns_are_named);
    tcase_add_test(t, bad_settings_are_named);
    tcase_add_test(t, a_trace_is_read_from_where_the_scenario_found_it);
    tcase_add_test(t, turns_that_can_never_start_are_refused);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
