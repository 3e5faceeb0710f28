/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Which forward a request is in: one fetched when a forward has started is in the next, and a
 * prompt that was cut goes on in the next.
 *
 * Two prefill GPUs in one EP group, engines in turn. The first forward has session 0 alone, the one
 * whose message comes first. Sessions 1 (three chunks) and 2 begin in the second; 3 is behind 1 on
 * its GPU, so that each forward follows the one before at once. Session 4 comes during the second,
 * is fetched at the start of the third, while without layer streaming the KV of 2 leaves its GPU,
 * and is computed in the fourth: its first token comes with that of session 1.
 */
#include "check_suite.h"
#include "scenario_run.h"

#define N_SESSIONS 5

static const char trace[] =
    "{\"schema\":\"dualpath/trace/1\",\"block_tok\":0,\"sessions\":5}\n"
    "{\"arrival_ns\":1000000,\"turns\":[{\"prompt_tok\":64,\"gen_tok\":1}]}\n"
    "{\"arrival_ns\":1000001,\"turns\":[{\"prompt_tok\":60000,\"gen_tok\":1}]}\n"
    "{\"arrival_ns\":1000002,\"turns\":[{\"prompt_tok\":8000,\"gen_tok\":1}]}\n"
    "{\"arrival_ns\":1000003,\"turns\":[{\"prompt_tok\":64,\"gen_tok\":1}]}\n"
    "{\"arrival_ns\":400000000,\"turns\":[{\"prompt_tok\":64,\"gen_tok\":1}]}\n";

/* One long prompt, then short ones. */
static const char long_first[] =
    "{\"schema\":\"dualpath/trace/1\",\"block_tok\":0,\"sessions\":4}\n"
    "{\"arrival_ns\":1000000,\"turns\":[{\"prompt_tok\":120000,\"gen_tok\":1}]}\n"
    "{\"arrival_ns\":1000001,\"turns\":[{\"prompt_tok\":64,\"gen_tok\":1}]}\n"
    "{\"arrival_ns\":1000002,\"turns\":[{\"prompt_tok\":64,\"gen_tok\":1}]}\n"
    "{\"arrival_ns\":1000003,\"turns\":[{\"prompt_tok\":64,\"gen_tok\":1}]}\n";

static void first_tokens(const char *const *sets, const char *text, unsigned n_sessions,
                         double *ret_s)
{
    struct scenario sc;
    must_read_scenario("quickstart", sets, &sc);
    char *csv = replayed_requests(&sc, text);
    const char *line = csv;
    for (unsigned i = 0; i < n_sessions; i++) {
        unsigned session;
        double first_s;
        line = strchr(line, '\n') + 1;
        ck_assert_int_eq(sscanf(line, "%u,%*u,%*u,%*u,%*u,%*f,%lf", &session, &first_s), 2);
        ck_assert_uint_lt(session, n_sessions);
        ret_s[session] = first_s;
    }
    free(csv);
}

static void check_forwards(const char *preset, const char *packing, const char *limit)
{
    double first_s[N_SESSIONS];
    first_tokens(SETS(preset, "system.scheduler=round_robin", "workload.max_len_tok=128K",
                      "cluster.gpus_per_node=2", packing, limit),
                 trace, N_SESSIONS, first_s);
    ck_assert_double_lt(first_s[0], 0.4);
    ck_assert_double_gt(first_s[2], 0.4);
    ck_assert_double_lt(first_s[2], first_s[4]);
    ck_assert_double_eq(first_s[3], first_s[1]);
    ck_assert_double_eq(first_s[4], first_s[1]);
}

START_TEST(test_not_layerwise)
{
    check_forwards("system.preset=basic", "system.packing=quota", "system.quota_s=300ms");
}
END_TEST

START_TEST(test_free_transfers)
{
    check_forwards("system.preset=oracle", "system.packing=quota", "system.quota_s=300ms");
}
END_TEST

/* Chunks of 24,000, 24,000 and 12,000 tokens. */
START_TEST(test_by_tokens)
{
    check_forwards("system.preset=basic", "system.packing=tokens", "system.forward_tok=24000");
    check_forwards("system.preset=oracle", "system.packing=tokens", "system.forward_tok=24000");
}
END_TEST

/* Two engines, each of which takes one request at a time (beta): sessions 0 and 2 are dealt to one,
 * 1 and 3 to the other. 2 waits for its engine, and 3 does not wait with it. */
START_TEST(test_queues)
{
    double first_s[4];
    first_tokens(SETS("system.preset=layerwise", "workload.max_len_tok=128K",
                      "cluster.gpus_per_node=2", "system.packing=quota", "system.quota_s=300ms",
                      "system.beta_s=1ns"),
                 long_first, 4, first_s);
    ck_assert_double_lt(first_s[1], first_s[3]);
    ck_assert_double_lt(first_s[3], first_s[0]);
    ck_assert_double_lt(first_s[0], first_s[2]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("forwards");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, test_not_layerwise);
    tcase_add_test(tc, test_free_transfers);
    tcase_add_test(tc, test_by_tokens);
    tcase_add_test(tc, test_queues);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
