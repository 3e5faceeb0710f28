/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Minimal inputs that broke other loaders, from public bug reports: what ours must do with each. */
#include "check_suite.h"
#include "trace_test.h"

#include "input/trace_stats.h"

static int read_case(const char *file, const struct trace_options *options, struct trace *t,
                     struct err *err)
{
    char path[256];
    snprintf(path, sizeof(path), "traces/cases/%s", file);
    *err = ERR_INIT;
    return trace_read(path, options, t, err);
}

static void accept(const char *file, const struct trace_options *options, struct trace *t)
{
    struct err err;
    int rc = read_case(file, options, t, &err);
    ck_assert_msg(rc == 0, "%s:%u: %s: %s", file, err.line, err.field, err.text);
}

static void refuse(const char *file, unsigned line, const char *field, const char *message)
{
    struct trace t;
    struct err err;
    ck_assert_int_lt(read_case(file, NULL, &t, &err), 0);
    ck_assert_uint_eq(err.line, line);
    ck_assert_str_eq(err.field, field);
    ck_assert_msg(strstr(err.text, message) != NULL, "%s: found \"%s\"", file, err.text);
    ck_assert_msg(strstr(err.source, file) != NULL, "%s", err.source);
}

START_TEST(ids_are_64_bits_wide) /* 01 */
{
    struct trace t;
    struct trace_stats s;
    struct err err = ERR_INIT;
    accept("01_u64_hash_identity.mooncake.jsonl", NULL, &t);
    ck_assert_uint_eq(t.ids[2], 4294967297u);
    ck_assert_int_eq(trace_stats_compute(&t, &s, &err), 0);
    ck_assert_uint_eq(s.hit_blocks, 2);
    ck_assert_uint_eq(s.distinct_blocks, 4);
    ck_assert_uint_eq(s.full_hit_requests, 1);
    trace_done(&t);
}
END_TEST

START_TEST(more_ids_than_length_are_reported) /* 03 */
{
    struct trace t;
    struct trace_options o = {.block_tok = 512};
    accept("03_blockcount_vs_length.mooncake.jsonl", &o, &t);
    ck_assert_uint_eq(t.n_turns, 3);
    ck_assert_uint_eq(t.turns[1].t_ns, 200000); /* 0.2 ms */
    ck_assert_uint_eq(t.n_repairs, 1);
    ck_assert_uint_eq(t.repairs[0].count, 1);
    ck_assert_ptr_nonnull(strstr(t.repairs[0].first, "jsonl:2: 2 ids, length implies 1"));
    trace_done(&t);
}
END_TEST

START_TEST(fewer_ids_than_length_are_refused) /* 04 */
{
    const char *file = "04_length_exceeds_blocks.mooncake.jsonl";
    struct trace t;
    struct err err;
    refuse(file, 1, "hash_ids", "4 ids, but 6755 tokens");
    ck_assert_int_lt(read_case(file, &(struct trace_options){.block_tok = 1688}, &t, &err), 0);
    accept(file, &(struct trace_options){.block_tok = 1689}, &t);
    ck_assert_uint_eq(t.block_tok, 1689);
    ck_assert_uint_eq(t.n_repairs, 0);
    trace_done(&t);
}
END_TEST

START_TEST(numbers_are_numbers) /* 05, 05b */
{
    refuse("05_nan_inf_timestamps.weka.json", 1, "requests[1].requests[0].t",
           "found the string \"NaN\"");
    refuse("05b_nan_literal.mooncake.jsonl", 1, "", "not valid JSON");
    struct trace t;
    struct err err;
    struct trace_options o = {.tolerant = true}; /* all three rows are bad */
    ck_assert_int_lt(read_case("05b_nan_literal.mooncake.jsonl", &o, &t, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "no requests"));
}
END_TEST

START_TEST(negative_think_time_is_zero_and_counted) /* 06 */
{
    struct trace t;
    accept("06_negative_think_time.weka.json", NULL, &t);
    ck_assert_uint_eq(turn_of(&t, 0, 1)->delay_ns, 0);
    ck_assert_uint_eq(repairs(&t, "negative think_time"), 1);
    trace_done(&t);
}
END_TEST

START_TEST(v7_subagent_times_are_absolute) /* 07b */
{
    struct trace t;
    accept("07b_subagent_absolute_startmarker.weka.json", NULL, &t);
    ck_assert_uint_eq(t.n_sessions, 2);
    ck_assert_uint_eq(turn_of(&t, 1, 0)->t_ns, 8500 * MS);
    ck_assert_uint_eq(turn_of(&t, 1, 1)->t_ns, 15500 * MS);
    ck_assert_uint_eq(turn_of(&t, 1, 0)->delay_ns, 0);
    ck_assert_uint_eq(turn_of(&t, 1, 1)->delay_ns, 3 * S);
    ck_assert_uint_eq(t.sessions[1].parent, 0);
    ck_assert_uint_eq(t.sessions[1].parent_turn, 0);
    ck_assert_uint_eq(t.sessions[1].spawn_delay_ns, 500 * MS); /* 8.5 s, the turn ended at 8.0 s */
    ck_assert_uint_eq(turn_of(&t, 0, 1)->n_waits, 1);
    ck_assert_uint_eq(t.waits[turn_of(&t, 0, 1)->first_wait], 1);
    ck_assert_uint_eq(turn_of(&t, 0, 1)->delay_ns, 6 * S); /* 107 s, over at 8.5 s + 92.5 s */
    static const uint64_t order[] = {0, 2, 3,
                                     1}; /* the subagent stands between its parent's turns */
    ck_assert_mem_eq(t.file_order, order, sizeof(order));
    ck_assert_uint_eq(t.n_repairs, 0);
    trace_done(&t);
}
END_TEST

START_TEST(zero_lengths_and_blank_sessions) /* 08 */
{
    struct trace t;
    accept("08_burstgpt_zero_output_blank_session.csv", NULL, &t);
    ck_assert_str_eq(t.format, "burstgpt");
    ck_assert_uint_eq(t.n_turns, 4);
    ck_assert_int_eq(t.base_ns, 19440110 * (int64_t)S);
    ck_assert_uint_eq(t.turns[0].t_ns, 0);
    ck_assert_uint_eq(t.turns[3].t_ns, 2 * S);
    ck_assert_uint_eq(t.turns[1].prompt_tok, 300);
    ck_assert_uint_eq(t.turns[1].gen_tok, 0);
    trace_done(&t);
    accept("08_burstgpt_zero_output_blank_session.csv",
           &(struct trace_options){.drop_zero_output = true}, &t);
    ck_assert_uint_eq(t.n_turns, 2);
    ck_assert_uint_eq(repairs(&t, "without output dropped"), 2);
    trace_done(&t);
}
END_TEST

START_TEST(azure_fractions_are_exact) /* 09 */
{
    static const uint64_t expected[] = {0, 1 * MS, 8 * MS, 10 * MS};
    struct trace t;
    accept("09_azure_sub10ms.csv", NULL, &t);
    ck_assert_uint_eq(t.n_turns, 4);
    for (int i = 0; i < 4; i++) {
        ck_assert_uint_eq(t.turns[i].t_ns, expected[i]);
    }
    trace_done(&t);
}
END_TEST

START_TEST(azure_columns_are_bound_by_name) /* 09c */
{
    struct trace t;
    accept("09c_azure_multimodal_column_order.csv", NULL, &t);
    ck_assert_uint_eq(t.turns[0].prompt_tok, 900);
    ck_assert_uint_eq(t.turns[0].gen_tok, 120);
    trace_done(&t);
}
END_TEST

START_TEST(cumulative_rows_are_not_added_up) /* 10 */
{
    struct trace t;
    struct trace_stats s;
    struct err err = ERR_INIT;
    accept("10_bailian_cumulative_turns.jsonl", NULL, &t);
    ck_assert_uint_eq(t.turns[0].prompt_tok, 521);
    ck_assert_uint_eq(t.turns[1].prompt_tok, 676);
    ck_assert_uint_eq(t.turns[1].t_ns, 1386 * MS); /* 62.5 s - 61.114 s */
    ck_assert_uint_eq(t.block_tok, 16);
    ck_assert_int_eq(trace_stats_compute(&t, &s, &err), 0);
    ck_assert_uint_eq(s.hit_blocks, 32); /* ids 1089..1120 */
    trace_done(&t);
}
END_TEST

START_TEST(incremental_turns_are_warned_of) /* 10b */
{
    struct trace t;
    accept("10b_mooncake_incremental_turns.jsonl", NULL, &t);
    ck_assert_uint_eq(t.n_sessions, 1);
    ck_assert_uint_eq(turn_of(&t, 0, 1)->delay_ns, 2 * S);
    ck_assert_uint_eq(repairs(&t, "does not extend"), 1);
    trace_done(&t);
}
END_TEST

START_TEST(integer_times_in_a_float_field) /* 12 */
{
    struct trace t;
    accept("12_integer_timestamp_in_float_field.bailian.jsonl", NULL, &t);
    ck_assert_uint_eq(t.turns[0].t_ns, 0);
    ck_assert_uint_eq(t.turns[1].t_ns, 5 * S);
    ck_assert_uint_eq(t.turns[2].t_ns, 6500 * MS);
    trace_done(&t);
}
END_TEST

START_TEST(unknown_members_are_skipped) /* 14 */
{
    struct trace t;
    accept("14_extra_fields.weka.json", NULL, &t);
    ck_assert_uint_eq(t.n_turns, 1);
    ck_assert_uint_eq(t.n_repairs, 0);
    trace_done(&t);
}
END_TEST

START_TEST(numeric_and_text_session_ids_are_one) /* 15 */
{
    struct trace t;
    accept("15_numeric_session_id.mooncake.jsonl", NULL, &t);
    ck_assert_uint_eq(t.n_sessions, 1);
    ck_assert_str_eq(t.sessions[0].name, "7");
    ck_assert_uint_eq(t.sessions[0].n_turns, 2);
    ck_assert_uint_eq(turn_of(&t, 0, 1)->delay_ns, 10 * MS);
    ck_assert(t.closed_loop);
    trace_done(&t);
}
END_TEST

START_TEST(csv_is_told_by_its_header) /* 16, 21b */
{
    struct trace t;
    accept("16_csv_autodetect_burst.csv", NULL, &t);
    ck_assert_str_eq(t.format, "burstgpt");
    ck_assert_uint_eq(t.n_turns, 3);
    ck_assert_uint_eq(t.turns[2].t_ns, 113 * S);
    trace_done(&t);
    accept("21b_bom.csv", NULL, &t); /* a byte order mark before the header */
    ck_assert_uint_eq(t.n_turns, 1);
    ck_assert_uint_eq(t.turns[0].prompt_tok, 472);
    trace_done(&t);
}
END_TEST

START_TEST(values_are_a_stream_not_lines) /* 17 */
{
    struct trace t;
    accept("17_pretty_printed_concatenated.weka.jsonl", NULL, &t);
    ck_assert_uint_eq(t.n_sessions, 2);
    ck_assert_str_eq(t.sessions[0].name, "a");
    ck_assert_str_eq(t.sessions[1].name, "b");
    ck_assert_uint_ne(t.sessions[0].scope, t.sessions[1].scope); /* local ids */
    trace_done(&t);
}
END_TEST

START_TEST(duplicates_are_kept_or_dropped) /* 18 */
{
    struct trace t;
    accept("18_exact_duplicate_requests.weka.json", NULL, &t);
    ck_assert_uint_eq(t.n_turns, 3);
    ck_assert_uint_eq(repairs(&t, "repetition of the previous request kept"), 1);
    trace_done(&t);
    accept("18_exact_duplicate_requests.weka.json", &(struct trace_options){.dedupe = true}, &t);
    ck_assert_uint_eq(t.n_turns, 2);
    ck_assert_uint_eq(t.sessions[0].n_turns, 2);
    ck_assert_uint_eq(t.n_ids, 3);
    ck_assert_uint_eq(repairs(&t, "repetition of the previous request dropped"), 1);
    trace_done(&t);
}
END_TEST

START_TEST(aliases_and_fractional_ms) /* 19 */
{
    struct trace t;
    accept("19_field_aliases.mooncake.jsonl", NULL, &t);
    ck_assert_uint_eq(t.n_sessions, 3);
    ck_assert_uint_eq(t.turns[0].prompt_tok, 600);
    ck_assert_uint_eq(t.turns[1].prompt_tok, 600);
    ck_assert_uint_eq(t.turns[0].gen_tok, t.turns[1].gen_tok);
    ck_assert_uint_eq(t.turns[1].t_ns, 10500000);
    ck_assert_uint_eq(turn_of(&t, 2, 1)->delay_ns, 50 * MS);
    ck_assert_uint_eq(t.n_repairs, 0);
    trace_done(&t);
}
END_TEST

START_TEST(wrapped_times_and_an_object_of_lists) /* 20 */
{
    static const uint64_t ids[] = {8302, 14332, 15199, 7398, 15200, 26923};
    struct trace t;
    accept("20_wraparound_unsorted.ragpulse.jsonl", NULL, &t);
    ck_assert_uint_eq(t.n_turns, 2);
    ck_assert_uint_eq(t.turns[0].t_ns, 0);
    ck_assert_uint_eq(t.turns[1].t_ns, (604800 - 604453) * S);
    ck_assert_uint_eq(t.turns[0].n_ids, 6);
    ck_assert_mem_eq(trace_turn_ids(&t, &t.turns[0]), ids, sizeof(ids));
    ck_assert_uint_eq(repairs(&t, "unwrapped"), 1);
    trace_done(&t);
}
END_TEST

START_TEST(sessions_of_llmservingsim) /* 25 */
{
    struct trace t;
    accept("25_llmservingsim_agentic.jsonl", NULL, &t);
    ck_assert_uint_eq(t.n_sessions, 3);
    ck_assert_uint_eq(t.sessions[0].n_turns, 3);
    ck_assert_uint_eq(t.sessions[1].n_turns, 1);
    ck_assert_uint_eq(turn_of(&t, 0, 0)->delay_ns, 0);
    ck_assert_uint_eq(turn_of(&t, 0, 1)->delay_ns, 127348767);
    ck_assert_uint_eq(turn_of(&t, 0, 2)->delay_ns, 197295027);
    ck_assert_uint_eq(t.sessions[0].arrival_ns,
                      3059740); /* 4059740 ns, the flat row came at 1000000 ns */
    ck_assert_uint_eq(repairs(&t, "session id used again"), 1);
    ck_assert_uint_eq(repairs(&t, "session without requests"), 1);
    trace_done(&t);
}
END_TEST

START_TEST(ids_need_not_be_blocks) /* 29 */
{
    struct trace t;
    accept("29_scope_global_ids_not_blocks.weka.json", NULL, &t);
    ck_assert_uint_eq(t.n_turns, 3);
    ck_assert_uint_eq(t.turns[0].prompt_tok, 8);
    ck_assert_uint_eq(t.turns[0].n_ids, 3);
    ck_assert_uint_eq(repairs(&t, "does not follow from the length"), 3);
    trace_done(&t);
}
END_TEST

START_TEST(what_is_not_supported_is_named) /* 23, 27, 30 */
{
    refuse("23_git_lfs_pointer.jsonl", 0, "", "git-lfs pointer");
    refuse("27_repeated_usage.agent-log.jsonl", 0, "", "\"agent-log\"");
    refuse("30_lmcache_agentic.jsonl", 0, "", "\"lmcache-agentic\"");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace_cases");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, ids_are_64_bits_wide);
    tcase_add_test(tc, more_ids_than_length_are_reported);
    tcase_add_test(tc, fewer_ids_than_length_are_refused);
    tcase_add_test(tc, numbers_are_numbers);
    tcase_add_test(tc, negative_think_time_is_zero_and_counted);
    tcase_add_test(tc, v7_subagent_times_are_absolute);
    tcase_add_test(tc, zero_lengths_and_blank_sessions);
    tcase_add_test(tc, azure_fractions_are_exact);
    tcase_add_test(tc, azure_columns_are_bound_by_name);
    tcase_add_test(tc, cumulative_rows_are_not_added_up);
    tcase_add_test(tc, incremental_turns_are_warned_of);
    tcase_add_test(tc, integer_times_in_a_float_field);
    tcase_add_test(tc, unknown_members_are_skipped);
    tcase_add_test(tc, numeric_and_text_session_ids_are_one);
    tcase_add_test(tc, csv_is_told_by_its_header);
    tcase_add_test(tc, values_are_a_stream_not_lines);
    tcase_add_test(tc, duplicates_are_kept_or_dropped);
    tcase_add_test(tc, aliases_and_fractional_ms);
    tcase_add_test(tc, wrapped_times_and_an_object_of_lists);
    tcase_add_test(tc, sessions_of_llmservingsim);
    tcase_add_test(tc, ids_need_not_be_blocks);
    tcase_add_test(tc, what_is_not_supported_is_named);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
