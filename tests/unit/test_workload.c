/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From traces built by hand, and from the generator, to the agents of a run. */
#include "check_suite.h"
#include "input/workload.h"

#include <check.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "input/generator.h"
#include "unit/workload_test.h"

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
    tcase_add_test(t, bad_turns_are_named);
    tcase_add_test(t, bad_settings_are_named);
    tcase_add_test(t, a_trace_is_read_from_where_the_scenario_found_it);
    tcase_add_test(t, turns_that_can_never_start_are_refused);
    suite_add_tcase(s, t);
    return run_suite(s);
}
