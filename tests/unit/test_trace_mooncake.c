/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "check_suite.h"
#include "trace_test.h"

#define ROW(t, ids)                                                                                \
    "{\"timestamp\": " t ", \"input_length\": 512, \"output_length\": 1, \"hash_ids\": " ids "}\n"

#define LENGTHS(in, out)                                                                           \
    "{\"timestamp\": 0, \"input_length\": " in ", \"output_length\": " out ", \"hash_ids\": [1]}"

START_TEST(rows_become_sessions_of_one_turn)
{
    struct trace t;
    must_read(
        "\xef\xbb\xbf" ROW("1005", "[1]") "\r\n" ROW("1000", "[ 2 ]") "\n" ROW("1000.5", "[3\t]"),
        NULL, &t);
    ck_assert_uint_eq(t.n_sessions, 3);
    ck_assert(!t.closed_loop);
    ck_assert_uint_eq(t.block_tok, 512);
    ck_assert_int_eq(t.base_ns, 1000 * (int64_t)MS);
    ck_assert_uint_eq(t.turns[0].t_ns, 5 * MS); /* file order is kept */
    ck_assert_uint_eq(t.sessions[0].arrival_ns, 5 * MS);
    ck_assert_uint_eq(t.turns[1].t_ns, 0);
    ck_assert_uint_eq(t.turns[2].t_ns, MS / 2);
    trace_done(&t);
}
END_TEST

START_TEST(ids_are_unsigned_and_exact)
{
    struct trace t;
    must_read(ROW("0", "[14879255164371896291]") ROW("1", "[18446744073709551615]")
                  ROW("2", "[9007199254740993]") ROW("3", "[9223372036854775807]"),
              NULL, &t);
    ck_assert_uint_eq(t.ids[0], 14879255164371896291ull);
    ck_assert_uint_eq(t.ids[1], UINT64_MAX);
    ck_assert_uint_eq(t.ids[2], 9007199254740993ull); /* not a double */
    ck_assert_uint_eq(t.ids[3], (uint64_t)INT64_MAX);
    trace_done(&t);
    /* The key may be written with escapes, and other members may be of any size or shape. */
    must_read("{\"seed\": 99999999999999999999, \"x\": {\"hash_ids\": [9, 9]}, \"timestamp\": 0, "
              "\"hash\\u005fids\": [5], \"input_length\": 1, \"output_length\": 1}",
              &(struct trace_options){.format = "mooncake"}, &t);
    ck_assert_uint_eq(t.n_ids, 1);
    ck_assert_uint_eq(t.ids[0], 5);
    trace_done(&t);
}
END_TEST

START_TEST(bad_rows_are_errors_with_a_place)
{
    const char *u64 = "expected an unsigned 64-bit integer";
    must_fail(ROW("0", "[1]") ROW("1", "[1, -2]"), NULL, "-2", "hash_ids[1]", u64);
    must_fail(ROW("0", "[1.5]"), NULL, "1.5", "hash_ids[0]", "found 1.5");
    must_fail(ROW("0", "[18446744073709551616]"), NULL, "1844", "hash_ids[0]", u64);
    must_fail(ROW("0", "[01]"), NULL, "01", "hash_ids[0]", u64);
    must_fail(ROW("0", "[1, ]"), NULL, "]}", "hash_ids[1]", "found nothing");
    must_fail(ROW("0", "[\"1\"]"), NULL, "\"1\"", "hash_ids[0]", "found \"1\"");
    must_fail(ROW("0", "7"), NULL, "\"hash_ids", "hash_ids", "expected an array");
    must_fail(ROW("-1", "[1]"), NULL, "\"timestamp", "timestamp",
              "expected 0 or more milliseconds");
    must_fail(ROW("1e300", "[1]"), NULL, "\"timestamp", "timestamp", "below 2^63 ns");
    must_fail(ROW("\"0\"", "[1]"), NULL, "\"timestamp", "timestamp",
              "found the string \"0\", expected a number");
    must_fail(ROW("0", "[1]") "x\n", NULL, "x", "", "not valid JSON");
    must_fail(ROW("0", "[1], \"hash_ids\": [2]"), NULL, "\": [2]", "", "duplicate object key");
    must_fail(ROW("0", "[1], \"input_tokens\": 9"), NULL, "\"input_tokens", "input_tokens",
              "found both");
    must_fail(ROW("0", "[1], \"created_time\": 9"), NULL, "\"created", "created_time",
              "found both");
    must_fail(LENGTHS("-5", "1"), NULL, "\"input_length", "input_length", "found the number -5");
    must_fail(LENGTHS("5", "1.5"), NULL, "\"output_length", "output_length",
              "found the number 1.5");
    must_fail(LENGTHS("4294967295", "1"), NULL, "\"input_length", "input_length", "below 2^32-1");
    must_fail("{\"timestamp\":0,\"input_length\":5,\"hash_ids\":[1]}", NULL, "{", "output_length",
              "missing");
    must_fail("{\"input_length\":5,\"output_length\":5,\"hash_ids\":[1]}", NULL, "{", "timestamp",
              "missing");
    must_fail("[]", &(struct trace_options){.format = "mooncake"}, "[]", "", "expected an object");
    must_fail("", NULL, NULL, "", "empty");
    must_fail("\n \n", NULL, NULL, "", "empty");
}
END_TEST

START_TEST(tolerant_reading_skips_and_counts)
{
    struct trace t;
    must_read(ROW("0", "[1]") "garbage\n" ROW("5", "[-1]") ROW("\"x\"", "[1]") ROW("7", "[2]"),
              &(struct trace_options){.tolerant = true}, &t);
    ck_assert_uint_eq(t.n_turns, 2);
    ck_assert_uint_eq(t.turns[1].t_ns, 7 * MS);
    ck_assert_uint_eq(repairs(&t, "bad row skipped"), 3);
    ck_assert_ptr_nonnull(strstr(t.repairs[0].first, ":2:"));
    trace_done(&t);
}
END_TEST

#define TURN(session, when, ids)                                                                   \
    "{\"session_id\": " session ", " when ", \"input_length\": 600, \"output_length\": 1, "        \
    "\"hash_ids\": " ids "}\n"

START_TEST(interleaved_sessions_are_grouped)
{
    struct trace t;
    must_read(
        TURN("\"b\"", "\"timestamp\": 1", "[1, 2]") TURN("\"a\"", "\"timestamp\": 2", "[7, 8]")
            TURN("\"b\"", "\"delay\": 0.25", "[1, 3]") TURN("\"a\"", "\"timestamp\": 9", "[7, 9]")
                TURN("\"b\"", "\"delay\": 3, \"timestamp\": 40", "[5, 6]"),
        NULL, &t);
    static const uint64_t order[] = {0, 3, 1, 4, 2};
    ck_assert_uint_eq(t.n_sessions, 2);
    ck_assert_mem_eq(t.file_order, order, sizeof(order));
    ck_assert_uint_eq(turn_of(&t, 0, 1)->delay_ns, MS / 4);
    ck_assert_uint_eq(turn_of(&t, 0, 1)->t_ns,
                      MS / 4); /* no time recorded: the previous one + delay */
    ck_assert_uint_eq(turn_of(&t, 0, 2)->delay_ns, 3 * MS);
    ck_assert_uint_eq(turn_of(&t, 0, 2)->t_ns, 39 * MS);
    ck_assert_uint_eq(turn_of(&t, 1, 1)->delay_ns, 7 * MS);
    ck_assert_uint_eq(repairs(&t, "gap between recorded starts"), 1);
    ck_assert_uint_eq(repairs(&t, "does not extend"), 1);
    ck_assert_uint_eq(t.ids[turn_of(&t, 1, 1)->first_id + 1], 9);
    trace_done(&t);
    must_fail(TURN("\"b\"", "\"timestamp\": 1", "[1, 2]") TURN("\"b\" ", "\"x\": 1", "[1, 2]"),
              NULL, "{\"session_id\": \"b\" ", "delay", "missing");
    must_fail(TURN("1.5", "\"timestamp\": 1", "[1, 2]"), NULL, "\"session_id", "session_id",
              "expected a string");
}
END_TEST

/* delay + tool_wait_ms pass after everything in wait_for is over. */
START_TEST(agentic_rows_are_linked)
{
    struct trace t;
    struct err err = ERR_INIT;
    struct trace_options o = {.block_tok = 1024};
    ck_assert_int_eq(trace_read("traces/dynamo/agentic_mooncake.jsonl", &o, &t, &err), 0);
    ck_assert_uint_eq(t.n_sessions, 2);
    ck_assert_str_eq(t.sessions[0].name, "run-42:root");
    ck_assert_uint_eq(t.sessions[1].parent, 0);
    ck_assert_uint_eq(t.sessions[1].parent_turn, 0);
    ck_assert_uint_eq(t.sessions[1].spawn_delay_ns, 0);
    ck_assert_uint_eq(turn_of(&t, 1, 0)->delay_ns, 5 * MS);
    ck_assert_uint_eq(turn_of(&t, 0, 1)->delay_ns, 2510 * MS);
    ck_assert_uint_eq(turn_of(&t, 0, 1)->n_waits, 1);
    ck_assert_uint_eq(t.waits[turn_of(&t, 0, 1)->first_wait], 1);
    ck_assert_uint_eq(turn_of(&t, 0, 0)->n_waits, 0);
    ck_assert(t.closed_loop);
    trace_done(&t);
}
END_TEST

#define STEP(id, session, waits)                                                                   \
    "{\"request_id\": \"" id "\", \"session_id\": \"" session                                      \
    "\", \"timestamp\": 1, \"wait_for\": " waits                                                   \
    ", \"input_length\": 512, \"output_length\": 1, \"hash_ids\": [1]}\n"

/* A session that waits for several requests of one other session starts after the last of them. */
START_TEST(agentic_rows_with_several_waits)
{
    struct trace t;
    must_read(STEP("a", "s", "[]") STEP("b", "s", "[\"a\"]") STEP("o", "other", "[]")
                  STEP("c", "child", "[\"b\", \"o\", \"a\"]") STEP("d", "child", "[\"c\", \"a\"]"),
              NULL, &t);
    ck_assert_uint_eq(t.n_sessions, 3);
    ck_assert_uint_eq(t.sessions[2].parent, 0);
    ck_assert_uint_eq(t.sessions[2].parent_turn, 1);
    ck_assert_uint_eq(turn_of(&t, 2, 0)->n_waits, 1);
    ck_assert_uint_eq(t.waits[turn_of(&t, 2, 0)->first_wait], 1);
    ck_assert_uint_eq(turn_of(&t, 2, 1)->n_waits, 0); /* both are over already */
    trace_done(&t);
}
END_TEST

START_TEST(agentic_rows_that_cannot_be_linked_are_errors)
{
    must_fail(STEP("a", "s", "[\"b\"]"), NULL, "\"wait_for", "wait_for", "found \"b\"");
    must_fail(STEP("a", "s", "[]") STEP("a", "u", "[]"), NULL,
              "\"request_id\": \"a\", \"session_id\": \"u", "request_id", "a second time");
    must_fail(STEP("a", "s", "[7]"), NULL, "\"wait_for", "wait_for", "element 0");
    must_fail(STEP("a", "s", "\"a\""), NULL, "\"wait_for", "wait_for", "expected an array");
    must_fail(STEP("a", "s", "[]") STEP("b", "u", "[]") STEP("c", "u", "[\"a\"]")
                  STEP("d", "s", "[]"),
              NULL, "{\"request_id\": \"c", "wait_for", "in the middle of session \"s\"");
}
END_TEST

START_TEST(options_drop_rows)
{
    const char *text = ROW("0", "[1]") ROW("0", "[1]") ROW(
        "0",
        "[2]") "{\"timestamp\": 0, \"input_length\": 9, \"output_length\": 0, \"hash_ids\": [3]}\n";
    struct trace t;
    must_read(text, NULL, &t);
    ck_assert_uint_eq(t.n_turns, 4);
    ck_assert_uint_eq(repairs(&t, "kept"), 1);
    trace_done(&t);
    must_read(text, &(struct trace_options){.dedupe = true, .drop_zero_output = true}, &t);
    ck_assert_uint_eq(t.n_turns, 2);
    ck_assert_uint_eq(t.ids[1], 2);
    ck_assert_uint_eq(repairs(&t, "dropped"), 2);
    trace_done(&t);
}
END_TEST

/* Two files of a directory are two scopes of one trace, in name order. */
START_TEST(a_directory_is_one_trace)
{
    char dir[] = "/tmp/dualpath-trace-dir-XXXXXX", path[3][64];
    static const char *const names[] = {"b.jsonl", "a.jsonl", "notes.txt"};
    ck_assert_ptr_nonnull(mkdtemp(dir));
    for (int i = 0; i < 3; i++) {
        snprintf(path[i], sizeof(path[i]), "%s/%s", dir, names[i]);
        FILE *fp = fopen(path[i], "w");
        ck_assert_ptr_nonnull(fp);
        fputs(i == 0 ? ROW("3", "[1]") : ROW("4", "[1]") ROW("5", "[1]"), fp);
        fclose(fp);
    }
    struct trace t;
    struct err err = ERR_INIT;
    ck_assert_int_eq(trace_read(dir, NULL, &t, &err), 0);
    ck_assert_uint_eq(t.n_turns, 3);
    ck_assert_uint_eq(t.turns[0].t_ns, 1 * MS);
    ck_assert_uint_eq(t.turns[2].t_ns, 0);
    ck_assert_uint_eq(t.n_scopes, 2);
    ck_assert_uint_eq(t.sessions[2].scope, 1);
    ck_assert_uint_eq(repairs(&t, "ignored"), 1);
    trace_done(&t);
    for (int i = 0; i < 3; i++) {
        unlink(path[i]);
    }
    ck_assert_int_lt(trace_read(dir, NULL, &t, &err), 0); /* empty */
    rmdir(dir);
    err = ERR_INIT;
    ck_assert_int_lt(trace_read(dir, NULL, &t, &err), 0);
    ck_assert_str_eq(err.source, dir);
}
END_TEST

/* The digest is sha256sum's of the file. */
START_TEST(the_input_is_identified)
{
    struct trace t;
    struct err err = ERR_INIT;
    ck_assert_int_eq(
        trace_read("traces/mooncake/arxiv_mooncake_trace.first20.jsonl", NULL, &t, &err), 0);
    ck_assert_str_eq(t.sha256, "48a30bde023f474afca930755cf87b3db14cfe0c7250a47c343858f3e25baba8");
    ck_assert_str_eq(t.format, "mooncake");
    trace_done(&t);
    must_fail("hello, world\n", NULL, NULL, "", "expected one of: dualpath, weka");
    must_fail(ROW("0", "[1]"), &(struct trace_options){.format = "moon"}, NULL, "",
              "found trace format \"moon\"");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace_mooncake");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, rows_become_sessions_of_one_turn);
    tcase_add_test(tc, ids_are_unsigned_and_exact);
    tcase_add_test(tc, bad_rows_are_errors_with_a_place);
    tcase_add_test(tc, tolerant_reading_skips_and_counts);
    tcase_add_test(tc, interleaved_sessions_are_grouped);
    tcase_add_test(tc, agentic_rows_are_linked);
    tcase_add_test(tc, agentic_rows_with_several_waits);
    tcase_add_test(tc, agentic_rows_that_cannot_be_linked_are_errors);
    tcase_add_test(tc, options_drop_rows);
    tcase_add_test(tc, a_directory_is_one_trace);
    tcase_add_test(tc, the_input_is_identified);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
