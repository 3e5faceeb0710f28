/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Whole runs of the shipped traces: totals against figures that other programs computed. */
#include "check_suite.h"
#include "scenario_run.h"

#include <stdbool.h>

#include "input/trace.h"

struct sums {
    unsigned long long requests, in, out, prefix_hit;
};

/* Adds the rows of traces/expected.tsv whose file begins with prefix. */
static struct sums expected_sums(const char *prefix)
{
    char line[512], file[128], kind[32];
    struct sums sums = {0};
    FILE *fp = fopen("traces/expected.tsv", "r");
    ck_assert_ptr_nonnull(fp);
    ck_assert_ptr_nonnull(fgets(line, sizeof(line), fp)); /* names of the columns */
    while (fgets(line, sizeof(line), fp)) {
        struct sums row;
        unsigned long long refs, distinct;
        ck_assert_int_eq(sscanf(line, "%127s %31s %llu %llu %llu %llu %llu %llu", file, kind,
                                &row.requests, &row.in, &row.out, &refs, &distinct,
                                &row.prefix_hit),
                         8);
        if (strncmp(file, prefix, strlen(prefix)) == 0) {
            sums.requests += row.requests;
            sums.in += row.in;
            sums.out += row.out;
            sums.prefix_hit += row.prefix_hit;
        }
    }
    fclose(fp);
    return sums;
}

static void check_sums(const json_t *o, const struct sums *e)
{
    ck_assert_uint_eq((unsigned long long)number(o, "requests"), e->requests);
    ck_assert_uint_eq((unsigned long long)number(o, "tokens.prompt"), e->in);
    ck_assert_uint_eq((unsigned long long)number(o, "tokens.generated"), e->out);
}

/* What any sane run has, whatever the trace. */
static void check_sane(const json_t *o)
{
    double parts = number(o, "ttft_breakdown_s.sched") + number(o, "ttft_breakdown_s.alloc") +
                   number(o, "ttft_breakdown_s.read") + number(o, "ttft_breakdown_s.prefill");
    ck_assert_double_eq_tol(parts, number(o, "ttft_s.mean"), 1e-9 * parts);
    ck_assert_double_gt(number(o, "prefill_queue_s"), 0);
    ck_assert_double_lt(number(o, "prefill_queue_s"), number(o, "ttft_breakdown_s.prefill"));
    ck_assert_double_gt(number(o, "ttft_s.p50"), 0);
    ck_assert_double_le(number(o, "ttft_s.p50"), number(o, "ttft_s.p99"));
    ck_assert_double_ge(number(o, "jct_s"), number(o, "agent_jct_s.max") * (1 - 1e-9));
    ck_assert_double_eq(number(o, "tokens.hit") + number(o, "tokens.miss"),
                        number(o, "tokens.prompt"));
    ck_assert_double_eq(number(o, "bytes.pe_path") + number(o, "bytes.de_path"),
                        number(o, "bytes.storage_read"));
    const char *key;
    json_t *frac;
    json_object_foreach(json_object_get(o, "utilization"), key, frac)
    {
        ck_assert_double_ge(json_number_value(frac), 0);
        ck_assert_double_le(json_number_value(frac), 1 + 1e-9);
    }
}

/* Sessions with subagents, closed loop. Their blocks are whole, so every hit is a block of 64. */
START_TEST(test_weka)
{
    struct sums e = expected_sums("weka/");
    ck_assert_uint_eq(e.requests, 322);
    json_t *o = run_json("weka-sessions", NULL);
    check_sums(o, &e);
    check_sane(o);
    ck_assert_uint_eq((unsigned long long)number(o, "tokens.hit"), 64 * e.prefix_hit);
    ck_assert_uint_eq((unsigned long long)number(o, "agents"), 18);
    json_decref(o);
}
END_TEST

/* Hits of the conversation trace in tokens, counted here: its ids are chained, so an id seen before
 * is a prefix seen before; one token at least is computed; storage holds blocks of 64. */
static uint64_t mooncake_hit_tok(void)
{
    struct trace t;
    struct err err = ERR_INIT;
    uint64_t hit_tok = 0;
    ck_assert_int_eq(trace_read("traces/mooncake/conversation_trace.jsonl", NULL, &t, &err), 0);
    bool *seen = calloc(1u << 20, sizeof(*seen));
    for (uint64_t i = 0; i < t.n_turns; i++) {
        const struct trace_turn *q = &t.turns[i];
        uint64_t tok = 0;
        for (uint64_t k = 0; k < q->n_ids; k++) {
            uint64_t id = t.ids[q->first_id + k];
            ck_assert_uint_lt(id, 1u << 20);
            tok += seen[id] ? 512 : 0;
            seen[id] = true;
        }
        tok = tok < q->prompt_tok ? tok : q->prompt_tok - 1u;
        hit_tok += tok - tok % 64;
    }
    free(seen);
    trace_done(&t);
    return hit_tok;
}

START_TEST(test_mooncake)
{
    struct sums e = expected_sums("mooncake/conversation_trace");
    json_t *o = run_json("mooncake-conversation", NULL);
    check_sums(o, &e);
    check_sane(o);
    ck_assert_uint_eq((unsigned long long)number(o, "tokens.hit"), mooncake_hit_tok());
    ck_assert_double_eq(number(o, "stability.unstable"), 0);
    json_decref(o);
}
END_TEST

/* Sums of the file's columns: TIMESTAMP,ContextTokens,GeneratedTokens. */
static struct sums azure_sums(void)
{
    char line[256];
    struct sums sums = {0};
    FILE *fp = fopen("traces/azure/AzureLLMInferenceTrace_code.csv", "r");
    ck_assert_ptr_nonnull(fp);
    ck_assert_ptr_nonnull(fgets(line, sizeof(line), fp));
    while (fgets(line, sizeof(line), fp)) {
        unsigned long long in, out;
        ck_assert_int_eq(sscanf(line, "%*[^,],%llu,%llu", &in, &out), 2);
        sums.requests++;
        sums.in += in;
        sums.out += out;
    }
    fclose(fp);
    return sums;
}

START_TEST(test_azure)
{
    struct sums e = azure_sums();
    json_t *o = run_json("azure-code", NULL);
    check_sums(o, &e);
    check_sane(o);
    ck_assert_double_eq(number(o, "tokens.hit"), 0);
    ck_assert_double_eq(number(o, "stability.unstable"), 0);
    json_decref(o);
}
END_TEST

/* Totals of sessions that only append, from their lengths alone: a turn hits the whole blocks of
 * what its session has computed so far, which is all but the last generated token. */
static struct sums appending_sums(const struct workload *w, uint64_t *ret_hit_tok)
{
    struct sums sums = {0};
    *ret_hit_tok = 0;
    for (uint32_t i = 0; i < w->n_sessions; i++) {
        struct workload_session s;
        uint64_t context = 0;
        w->ops->session(w, i, &s);
        for (uint32_t k = 0; k < s.n_turns; k++) {
            struct workload_turn t;
            w->ops->turn(w, i, k, &t);
            ck_assert_ptr_null(t.block_ids);
            ck_assert_uint_gt(t.prompt_tok, context);
            *ret_hit_tok += context - context % 64;
            context = t.prompt_tok + t.gen_tok - 1;
            sums.requests++;
            sums.in += t.prompt_tok;
            sums.out += t.gen_tok;
        }
    }
    return sums;
}

START_TEST(test_ds660b_2p4d)
{
    struct scenario sc;
    struct simulation *s;
    struct result r;
    uint64_t hit_tok;
    must_read_scenario("ds660b-2p4d", NULL, &sc);
    must_run(&sc, &s, &r);
    struct sums e = appending_sums(simulation_workload(s), &hit_tok);
    simulation_free(s);
    json_t *o = result_json(&r);
    check_sums(o, &e);
    check_sane(o);
    ck_assert_double_eq(number(o, "agents"), 512);
    ck_assert_uint_eq((unsigned long long)number(o, "tokens.hit"), hit_tok);
    json_decref(o);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("totals");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 240);
    tcase_add_test(tc, test_weka);
    tcase_add_test(tc, test_mooncake);
    tcase_add_test(tc, test_azure);
    tcase_add_test(tc, test_ds660b_2p4d);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
