/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "check_suite.h"
#include "trace_test.h"

#define TRACE(requests)                                                                            \
    "{\"id\":\"x\",\"block_size\":64,\"hash_id_scope\":\"local\",\"requests\":[" requests "]}"
#define REQ(t, more) "{\"t\":" t ",\"in\":70,\"out\":3,\"hash_ids\":[1]" more "}"
#define SUB(t, status, duration, requests)                                                         \
    "{\"t\":" t ",\"type\":\"subagent\",\"agent_id\":\"s\",\"status\":\"" status                   \
    "\",\"duration_ms\":" duration ",\"requests\":[" requests "]}"
#define API(a, think) ",\"api_time\":" a ",\"think_time\":" think

/* 122 requests of the agent and 4 completed subagents; every one of them is waited for. */
START_TEST(v8_subagent_of_a_recorded_session)
{
    struct trace t;
    struct err err = ERR_INIT;
    ck_assert_int_eq(trace_read("traces/weka/trace_0010.json", NULL, &t, &err), 0);
    ck_assert_uint_eq(t.n_sessions, 5);
    ck_assert_uint_eq(t.sessions[0].n_turns, 122);
    ck_assert_uint_eq(t.n_scopes, 1);
    ck_assert(t.closed_loop);
    uint32_t waits = 0;
    for (uint32_t k = 0; k < t.sessions[0].n_turns; k++) {
        waits += turn_of(&t, 0, k)->n_waits;
    }
    ck_assert_uint_eq(waits, 4);
    for (uint32_t s = 1; s < 5; s++) {
        ck_assert_uint_eq(t.sessions[s].parent, 0);
        ck_assert_uint_eq(t.sessions[s].scope, 0);
    }
    trace_done(&t);
}
END_TEST

START_TEST(v8_times)
{
    struct trace t;
    /* clang-format off */
    must_read(TRACE(REQ("0", API("2", "0")) ","
                    REQ("5", API("9.62", "3")) ","
                    SUB("25.5", "completed", "10500",
                        REQ("0", API("1", "0")) ","
                        REQ("4", API("2", "2.5"))) ","
                    SUB("24", "completed", "4000", REQ("0.5", API("1", "0"))) ","
                    REQ("30", API("1", "15")) ","
                    SUB("32", "async_launched", "null", REQ("0", API("9", "0"))) ","
                    REQ("40", API("1", "7"))),
              NULL, &t);
    /* clang-format on */
    ck_assert_uint_eq(t.n_sessions, 4);
    ck_assert_str_eq(t.sessions[1].name, "x/s");
    ck_assert_uint_eq(turn_of(&t, 0, 1)->delay_ns, 3 * S);
    /* First subagent: spawned at 15 s, 0.38 s after the turn before it ended at 14.62 s. */
    ck_assert_uint_eq(t.sessions[1].spawn_delay_ns, 380 * MS);
    ck_assert_uint_eq(t.sessions[1].parent_turn, 1);
    ck_assert_uint_eq(turn_of(&t, 1, 0)->t_ns, 15 * S);
    ck_assert_uint_eq(turn_of(&t, 1, 1)->t_ns, 19 * S);
    ck_assert_uint_eq(turn_of(&t, 1, 1)->delay_ns, 2500 * MS);
    /* Second: spawned at 20 s, its first request half a second later. */
    ck_assert_uint_eq(t.sessions[2].spawn_delay_ns, 5380 * MS);
    ck_assert_uint_eq(turn_of(&t, 2, 0)->delay_ns, 500 * MS);
    ck_assert_uint_eq(turn_of(&t, 2, 0)->t_ns, 20500 * MS);
    /* The parent waits for both; the later marker counts. */
    ck_assert_uint_eq(turn_of(&t, 0, 2)->n_waits, 2);
    ck_assert_uint_eq(turn_of(&t, 0, 2)->delay_ns, 4500 * MS);
    /* Nobody waits for the third. */
    ck_assert_uint_eq(t.sessions[3].spawn_delay_ns, 1 * S);
    ck_assert_uint_eq(turn_of(&t, 3, 0)->t_ns, 32 * S);
    ck_assert_uint_eq(turn_of(&t, 0, 3)->n_waits, 0);
    ck_assert_uint_eq(turn_of(&t, 0, 3)->delay_ns, 7 * S);
    static const uint64_t order[] = {0, 1, 4, 5, 6, 2, 7, 3};
    ck_assert_mem_eq(t.file_order, order, sizeof(order));
    ck_assert_uint_eq(t.n_repairs, 0);
    trace_done(&t);
}
END_TEST

START_TEST(noise_is_repaired_and_counted)
{
    struct trace t;
    must_read(
        TRACE(REQ("0", API("10", "0")) "," SUB("8", "completed", "5000", REQ("0", "")) "," REQ(
            "7", ",\"api_time\":-1") "," REQ("9",
                                             "") "," REQ("20",
                                                         ",\"think_time\":4") "," SUB("30",
                                                                                      "completed",
                                                                                      "1", "")),
        NULL, &t);
    ck_assert_uint_eq(t.n_sessions, 2);
    ck_assert_uint_eq(t.sessions[1].spawn_delay_ns, 0); /* at 3 s, the turn ended at 10 s */
    ck_assert_uint_eq(repairs(&t, "subagent spawned before the end"), 1);
    ck_assert_uint_eq(turn_of(&t, 0, 1)->delay_ns, 0);
    ck_assert_uint_eq(repairs(&t, "before the end of what it waits for"), 1);
    ck_assert_uint_eq(repairs(&t, "negative api_time"), 1);
    ck_assert_uint_eq(turn_of(&t, 0, 2)->delay_ns,
                      2 * S); /* from 7 s, the end of the turn of length 0 */
    ck_assert_uint_eq(turn_of(&t, 0, 3)->delay_ns, 4 * S);
    ck_assert_uint_eq(repairs(&t, "missing think_time"), 1);
    ck_assert_uint_eq(repairs(&t, "missing api_time"), 3);
    ck_assert_uint_eq(repairs(&t, "subagent without requests"), 1);
    trace_done(&t);
}
END_TEST

/* Subagents before the first turn, inside subagents, and of an agent that asks nothing itself. */
START_TEST(unusual_places_of_subagents)
{
    struct trace t;
    must_read(
        TRACE(SUB("4", "completed", "3000", REQ("0", API("1", "0"))) "," REQ("6", API("1", "0"))),
        NULL, &t);
    ck_assert_uint_eq(t.sessions[0].arrival_ns, 0); /* of both, at 1 s */
    ck_assert_int_eq(t.base_ns, 1 * (int64_t)S);
    ck_assert_uint_eq(t.sessions[1].parent_turn, TRACE_NONE);
    ck_assert_uint_eq(t.sessions[1].spawn_delay_ns, 0);
    ck_assert_uint_eq(turn_of(&t, 0, 0)->n_waits, 1);
    ck_assert_uint_eq(turn_of(&t, 0, 0)->delay_ns, 2 * S);
    trace_done(&t);
    must_read(
        TRACE(REQ("0", API("1", "0")) "," SUB(
            "20", "completed", "10000",
            REQ("0", API("1", "0")) "," SUB(
                "5", "completed", "2000",
                REQ("0", API("1", "0"))) "," REQ("7", API("1", "6"))) "," REQ("21",
                                                                              API("1", "20"))),
        NULL, &t);
    ck_assert_uint_eq(t.n_sessions, 3);
    ck_assert_uint_eq(t.sessions[2].parent, 1);
    ck_assert_uint_eq(t.sessions[2].spawn_delay_ns, 2 * S);
    ck_assert_uint_eq(turn_of(&t, 2, 0)->t_ns, 13 * S);
    ck_assert_uint_eq(turn_of(&t, 1, 1)->delay_ns, 2 * S);
    ck_assert_uint_eq(t.waits[turn_of(&t, 1, 1)->first_wait], 2);
    trace_done(&t);
    must_read(TRACE(SUB("4", "completed", "3000", REQ("0", API("1", "0")))), NULL, &t);
    ck_assert_uint_eq(t.n_sessions, 1);
    ck_assert_uint_eq(t.sessions[0].parent, TRACE_NONE);
    ck_assert_uint_eq(repairs(&t, "starts by the clock"), 1);
    trace_done(&t);
}
END_TEST

#define VAGUE                                                                                      \
    TRACE("{\"t\":0,\"in\":64,\"out\":1,\"hash_ids\":[7],\"api_time\":1,\"think_time\":0},"        \
          "{\"t\":1,\"type\":\"subagent\",\"status\":\"completed\",\"duration_ms\":9000,"          \
          "\"requests\":["                                                                         \
          "{\"t\":2,\"in\":64,\"out\":1,\"hash_ids\":[7],\"api_time\":1,\"think_time\":0}]}")

START_TEST(the_dialect_is_asked_for_when_nothing_tells)
{
    struct trace t;
    must_fail(VAGUE, NULL, "\"requests", "requests", "v7 or v8");
    must_read(VAGUE, &(struct trace_options){.weka_dialect = "v7"}, &t);
    ck_assert_uint_eq(turn_of(&t, 1, 0)->t_ns, 2 * S);
    trace_done(&t);
    must_read(VAGUE, &(struct trace_options){.weka_dialect = "v8"}, &t);
    ck_assert_int_eq(t.base_ns, -6 * (int64_t)S); /* spawned at 1 s - 9 s, asks 2 s later */
    ck_assert_uint_eq(repairs(&t, "subagent spawned before the end"), 1);
    trace_done(&t);
    must_fail(VAGUE, &(struct trace_options){.weka_dialect = "v6"}, "{", "", "\"v6\"");
}
END_TEST

START_TEST(bad_traces_are_errors_with_a_place)
{
    must_fail(TRACE(REQ("0", "") ",\n" REQ("\"NaN\"", "")), NULL, "\"t\":\"NaN", "requests[1].t",
              "found the string");
    must_fail(TRACE("{\"in\":1,\"out\":1,\"hash_ids\":[]}"), NULL, "{\"in", "requests[0].t",
              "missing");
    must_fail(TRACE("{\"t\":0,\"in\":1,\"out\":1}"), NULL, "{\"t", "requests[0].hash_ids",
              "missing");
    must_fail(TRACE(REQ("1e10", "")), NULL, "\"t\":1e10", "requests[0].t", "below 2^63 ns");
    must_fail(TRACE(REQ("3e9", "")), NULL, "\"t\":3e9", "requests[0].t", "beyond 2^61 ns");
    must_fail(TRACE(REQ("0", API("3e9", "0"))), NULL, "\"api", "requests[0].api_time", "beyond");
    must_fail(TRACE(SUB("-2e9", "completed", "2e12", REQ("0", ""))), NULL, "\"duration",
              "requests[0].duration_ms", "beyond");
    must_fail(TRACE("7"), NULL, "7]", "requests[0].t", "missing");
    must_fail(TRACE(SUB("4", "lost", "3", REQ("0", ""))), NULL, "\"status", "requests[0].status",
              "found the string \"lost\"");
    must_fail(TRACE(SUB("4", "completed", "null", REQ("0", ""))), NULL, "\"duration_ms",
              "requests[0].duration_ms", "found null");
    must_fail("{\"block_size\":0,\"requests\":[]}", NULL, "\"block", "block_size",
              "1 token or more");
    must_fail("{\"block_size\":64,\"hash_id_scope\":\"x\",\"requests\":[]}", NULL, "\"hash",
              "hash_id_scope", "expected \"local\"");
    must_fail("{\"block_size\":64,\"requests\":3}", NULL, "\"requests", "requests",
              "expected an array");
    must_fail(TRACE(REQ("0", "")) " { @", NULL, "@", "", "not valid JSON");
    must_fail(TRACE(""), NULL, NULL, "", "no requests");
}
END_TEST

/* A trace is skipped whole, however far it got. */
START_TEST(tolerant_reading_skips_whole_traces)
{
    struct trace t;
    must_read(TRACE(REQ("0", API("1", "0"))) TRACE(
                  REQ("0", API("1", "0")) "," SUB("4", "completed", "3000", REQ("0", "")) "," SUB(
                      "5", "lost", "3000", REQ("0", ""))) TRACE(REQ("3", API("1", "0"))),
              &(struct trace_options){.tolerant = true}, &t);
    ck_assert_uint_eq(t.n_sessions, 2);
    ck_assert_uint_eq(t.n_turns, 2);
    ck_assert_uint_eq(t.n_ids, 2);
    ck_assert_uint_eq(t.file_order[1], 1);
    ck_assert_uint_eq(t.turns[1].t_ns, 3 * S);
    ck_assert_uint_eq(repairs(&t, "bad row skipped"), 1);
    trace_done(&t);
}
END_TEST

START_TEST(repetitions_are_consecutive)
{
#define SAME REQ("1", API("1", "0"))
    struct trace t;
    struct trace_options o = {.dedupe = true};
    must_read(
        TRACE(SAME "," SAME "," SAME "," SUB("9", "async_launched", "null", REQ("0", "")) "," SAME),
        &o, &t);
    ck_assert_uint_eq(repairs(&t, "dropped"), 2); /* not the one behind the subagent */
    ck_assert_uint_eq(t.sessions[0].n_turns, 2);
    trace_done(&t);
}
END_TEST

START_TEST(global_ids_share_a_scope)
{
#define GLOBAL "{\"block_size\":64,\"hash_id_scope\":\"global\",\"requests\":[" REQ("0", "") "]}"
    struct trace t;
    must_read(GLOBAL TRACE(REQ("0", "")) GLOBAL, NULL, &t);
    ck_assert_uint_eq(t.n_scopes, 2);
    ck_assert_uint_eq(t.sessions[0].scope, t.sessions[2].scope);
    ck_assert_uint_ne(t.sessions[0].scope, t.sessions[1].scope);
    trace_done(&t);
    must_fail(GLOBAL "{\"block_size\":32,\"requests\":[" REQ("0", "") "]}", NULL,
              "{\"block_size\":32", "", "blocks of 32 tokens");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace_weka");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, v8_subagent_of_a_recorded_session);
    tcase_add_test(tc, v8_times);
    tcase_add_test(tc, noise_is_repaired_and_counted);
    tcase_add_test(tc, unusual_places_of_subagents);
    tcase_add_test(tc, the_dialect_is_asked_for_when_nothing_tells);
    tcase_add_test(tc, bad_traces_are_errors_with_a_place);
    tcase_add_test(tc, tolerant_reading_skips_whole_traces);
    tcase_add_test(tc, repetitions_are_consecutive);
    tcase_add_test(tc, global_ids_share_a_scope);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
