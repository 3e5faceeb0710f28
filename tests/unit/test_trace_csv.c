/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The CSV stream and the formats on top of it. */
#include "check_suite.h"
#include "trace_test.h"

#define AZURE "TIMESTAMP,ContextTokens,GeneratedTokens\n"

START_TEST(azure_times_in_every_dialect)
{
    struct trace t;
    must_read("\xef\xbb\xbfTIMESTAMP,ContextTokens,GeneratedTokens\r\n"
              "2024-02-28 23:59:59.9999999,1,2\r\n" /* the day before a leap day */
              "2024-02-29 00:00:00+00:00,3,4\r\n"
              "\"2024-03-01T00:00:00.000000001Z\",5,6\r\n"
              "2024-03-01 01:00:00+01:00,7,8",
              NULL, &t);
    ck_assert_uint_eq(t.n_turns, 4);
    ck_assert_int_eq(t.base_ns,
                     1709164799999999900); /* date -u -d '2024-02-28 23:59:59.9999999' +%s%N */
    ck_assert_uint_eq(t.turns[1].t_ns, 100);
    ck_assert_uint_eq(t.turns[2].t_ns, 86400 * S + 101);
    ck_assert_uint_eq(t.turns[3].t_ns, 86400 * S + 100);
    ck_assert_uint_eq(t.turns[3].prompt_tok, 7);
    ck_assert_uint_eq(t.turns[3].gen_tok, 8);
    ck_assert_str_eq(t.sessions[3].name, "row 4");
    ck_assert_uint_eq(t.block_tok, 0);
    trace_done(&t);
}
END_TEST

START_TEST(bad_rows_are_errors_with_a_place)
{
    static const char *const bad_times[] = {"2023-02-29 00:00:00",
                                            "2024-13-01 00:00:00",
                                            "2024-00-01 00:00:00",
                                            "2024-01-32 00:00:00",
                                            "2024-01-01 24:00:00",
                                            "2024-01-01 00:60:00",
                                            "2024-01-01 00:00:60",
                                            "2024-01-01 00:00:00.",
                                            "2024-01-01",
                                            "2024-01-01 00:00:00.1234567890",
                                            "2024-01-01 00:00:00+0100",
                                            "1969-12-31 00:00:00",
                                            "now",
                                            ""};
    char text[256];
    for (size_t i = 0; i < sizeof(bad_times) / sizeof(bad_times[0]); i++) {
        snprintf(text, sizeof(text), AZURE "2024-01-01 00:00:00,1,1\n%s,7,7\n", bad_times[i]);
        char at[64];
        snprintf(at, sizeof(at), "%s,7,7", bad_times[i]);
        must_fail(text, NULL, at, "TIMESTAMP", "expected a time");
    }
    must_fail(AZURE "2024-01-01 00:00:00,-1,1\n", NULL, "-1,1", "ContextTokens", "found \"-1\"");
    must_fail(AZURE "\n\n2024-01-01 00:00:00,1,1.0\n", NULL, "1.0", "GeneratedTokens",
              "found \"1.0\"");
    must_fail(AZURE "2024-01-01 00:00:00,1,4294967295\n", NULL, "4294", "GeneratedTokens",
              "below 2^32-1");
    must_fail(AZURE "2024-01-01 00:00:00,1\n", NULL, "2024-", "", "found 2 fields, expected 3");
    must_fail(AZURE "2024-01-01 00:00:00,1,1,1\n", NULL, "2024-", "", "found 4 fields");
    must_fail(AZURE "2024-01-01 00:00:00,1,\"1\n", NULL, "2024-", "", "not valid CSV");
    must_fail(AZURE "2024-01-01 00:00:00,1,1\"\n", NULL, "2024-", "", "not valid CSV");
    must_fail("TIMESTAMP,ContextTokens\n", &(struct trace_options){.format = "azure"}, "TIMESTAMP",
              "GeneratedTokens", "no such column");
    must_fail(AZURE, NULL, NULL, "", "no requests");
}
END_TEST

START_TEST(tolerant_reading_skips_and_counts)
{
    struct trace t;
    must_read(AZURE
              "2024-01-01 00:00:00,1,1\nx,1,1\n2024-01-01 00:00:01,1,1\"x\n2024-01-01 00:00:02,1\n"
              "2024-01-01 00:00:03,9,0\n",
              &(struct trace_options){.tolerant = true}, &t);
    ck_assert_uint_eq(t.n_turns, 2);
    ck_assert_uint_eq(t.turns[1].t_ns, 3 * S);
    ck_assert_uint_eq(repairs(&t, "bad row skipped"), 3);
    trace_done(&t);
    must_read(AZURE "2024-01-01 00:00:00,1,1\n2024-01-01 00:00:03,9,0\n",
              &(struct trace_options){.drop_zero_output = true}, &t);
    ck_assert_uint_eq(t.n_turns, 1);
    ck_assert_uint_eq(repairs(&t, "request without output dropped"), 1);
    trace_done(&t);
}
END_TEST

static void read_shipped(const char *path, struct trace *t)
{
    struct err err = ERR_INIT;
    int rc = trace_read(path, NULL, t, &err);
    ck_assert_msg(rc == 0, "%s:%u: %s: %s", path, err.line, err.field, err.text);
}

/* The file is the 2023 Azure code trace in Vidur's format: same rows, times in seconds from the
 * first. */
START_TEST(vidur_is_azure_with_other_columns)
{
    struct trace a, v;
    read_shipped("traces/azure/AzureLLMInferenceTrace_code.csv", &a);
    read_shipped("traces/vidur/splitwise_code.csv", &v);
    ck_assert_uint_eq(a.n_turns, v.n_turns);
    for (uint64_t i = 0; i < a.n_turns; i++) {
        ck_assert_uint_eq(a.turns[i].t_ns, v.turns[i].t_ns);
        ck_assert_uint_eq(a.turns[i].prompt_tok, v.turns[i].prompt_tok);
        ck_assert_uint_eq(a.turns[i].gen_tok, v.turns[i].gen_tok);
    }
    trace_done(&a);
    trace_done(&v);
}
END_TEST

START_TEST(decimal_times_are_exact)
{
    struct trace t;
    must_read("arrival_timestamp,prompt_size,token_size\n0.0000000014,1,1\n1,1,1\n1700000000."
              "123456789,1,1\n"
              "-0.5,1,1\n2.,1,1\n",
              NULL, &t);
    ck_assert_str_eq(t.format, "splitwise");
    ck_assert_int_eq(t.base_ns, -500000000);
    ck_assert_uint_eq(t.turns[0].t_ns, 500000001);
    ck_assert_uint_eq(t.turns[2].t_ns, 1700000000623456789); /* no double holds it */
    trace_done(&t);
#define ONE "arrived_at,num_prefill_tokens,num_decode_tokens\n"
    must_fail(ONE "1e3,7,7\n", NULL, "1e3", "arrived_at", "expected a decimal number");
    must_fail(ONE ".5,7,7\n", NULL, ".5,7", "arrived_at", "expected a decimal number");
    must_fail(ONE "9300000000,7,7\n", NULL, "93", "arrived_at", "below 2^63 ns");
    must_fail(ONE ",7,7\n", NULL, ",7,7", "arrived_at", "expected a decimal number");
}
END_TEST

#define ROUNDS                                                                                     \
    "session_id,arrival_time,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms\n"

START_TEST(tracelab_rounds)
{
    struct trace t;
    read_shipped("traces/tracelab/replay_examples_multi_session_example.csv", &t);
    ck_assert_uint_eq(t.n_sessions, 3);
    ck_assert_uint_eq(t.sessions[1].arrival_ns, 200 * MS);
    ck_assert_uint_eq(turn_of(&t, 0, 1)->prompt_tok, 704);
    ck_assert_uint_eq(turn_of(&t, 0, 1)->delay_ns, 100 * MS);
    ck_assert_uint_eq(turn_of(&t, 2, 2)->delay_ns, 50 * MS);
    ck_assert_uint_eq(repairs(&t, "not the previous context"), 1); /* 784, of 784 + 48 */
    ck_assert(t.closed_loop);
    trace_done(&t);
    must_read(ROUNDS "a,5,0,0,10,1,2.5\nb,7,0,0,20,1,0\na,5,1,11,3,1,0\n", NULL, &t);
    ck_assert_uint_eq(turn_of(&t, 0, 1)->prompt_tok, 14);
    ck_assert_uint_eq(turn_of(&t, 0, 1)->t_ns, 2500000);
    ck_assert_uint_eq(turn_of(&t, 0, 1)->delay_ns, 2500000);
    ck_assert_uint_eq(t.file_order[1], 2);
    trace_done(&t);
    must_fail(ROUNDS "a,5,1,0,10,1,0\n", NULL, "1,0,10", "round_idx", "expected 0");
    must_fail(ROUNDS "a,5,0,0,10,1,0\na,5,2,11,10,1,0\n", NULL, "2,11", "round_idx",
              "the round after");
    must_fail(ROUNDS "a,5,0,0,10,1,-1\n", NULL, "-1", "tool_wait_after_ms", "0 or more");
    must_fail(ROUNDS "a,5,0,4294967290,10,1,0\n", NULL, "10,1", "input_len", "below 2^32");
}
END_TEST

START_TEST(lines_order_and_empty_requests_are_known)
{
    struct trace t;
    must_read(AZURE "2024-01-01 00:00:02,1,1\n"
                    "\n"
                    "2024-01-01 00:00:01,1,0\n"
                    "2024-01-01 00:00:01,0,1\n",
              NULL, &t);
    ck_assert_uint_eq(t.turns[0].line, 2);
    ck_assert_uint_eq(t.turns[1].line, 4);
    ck_assert_uint_eq(t.n_repairs, 1);
    ck_assert_ptr_nonnull(strstr(t.repairs[0].reason, "earlier than the one before"));
    ck_assert_uint_eq(t.repairs[0].count, 1);
    ck_assert_ptr_nonnull(strstr(t.repairs[0].first, "row 2"));
    const struct trace_turn *first = NULL;
    ck_assert_uint_eq(trace_empty_turns(&t, &first), 2);
    ck_assert_ptr_eq(first, &t.turns[1]);
    trace_done(&t);
}
END_TEST

START_TEST(unknown_formats_are_described)
{
    must_fail("TIMESTAMP,ContextTokens,out\n1,2,3\n", NULL, NULL, "",
              "found a first line \"TIMESTAMP,ContextTokens,out\"; azure would be nearest, but the "
              "column \"GeneratedTokens\" is missing; expected one of: dualpath, weka");
    must_fail("{\"input_length\": 1, \"timestamp\": 1, \"output_length\": 1}\n", NULL, NULL, "",
              "mooncake would be nearest, but the key \"hash_ids\" is missing");
    must_fail("a,b,c,d,e,f,g\n", NULL, NULL, "",
              "found a first line \"a,b,c,d,e,f,...\"; expected one of");
    must_fail("\x01\x02\n", NULL, NULL, "", "found a first line \"??\"; expected one of");
    must_fail("a,b\n", NULL, NULL, "", "workload.format (of dualpath trace: --trace-format)");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace_csv");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, azure_times_in_every_dialect);
    tcase_add_test(tc, bad_rows_are_errors_with_a_place);
    tcase_add_test(tc, tolerant_reading_skips_and_counts);
    tcase_add_test(tc, vidur_is_azure_with_other_columns);
    tcase_add_test(tc, decimal_times_are_exact);
    tcase_add_test(tc, tracelab_rounds);
    tcase_add_test(tc, lines_order_and_empty_requests_are_known);
    tcase_add_test(tc, unknown_formats_are_described);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
