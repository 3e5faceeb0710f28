/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The readers and the statistics against figures that an independent program computed. */
#include "check_suite.h"
#include "trace_test.h"

#include <math.h>

#include "input/trace_stats.h"

struct expected {
    char file[128], kind[32];
    unsigned long long requests, in, out, refs, distinct, prefix_hit, any_hit, full_hit;
    double first_t, last_t;
};

static void read_shipped(const char *file, struct trace *t)
{
    char path[256];
    struct err err = ERR_INIT;
    snprintf(path, sizeof(path), "traces/%s", file);
    int rc = trace_read(path, NULL, t, &err);
    ck_assert_msg(rc == 0, "%s:%u: %s: %s", path, err.line, err.field, err.text);
}

static void check_row(const struct expected *e)
{
    struct trace t;
    struct trace_stats s;
    struct err err = ERR_INIT;
    read_shipped(e->file, &t);
    ck_assert_int_eq(trace_stats_compute(&t, &s, &err), 0);
    ck_assert_str_eq(t.format, e->kind);
    ck_assert_uint_eq(s.requests, e->requests);
    ck_assert_uint_eq(s.input_tok, e->in);
    ck_assert_uint_eq(s.output_tok, e->out);
    ck_assert_uint_eq(s.block_refs, e->refs);
    ck_assert_uint_eq(s.distinct_blocks, e->distinct);
    ck_assert_uint_eq(s.hit_blocks, e->prefix_hit);
    ck_assert_uint_eq(s.any_hit_blocks, e->any_hit);
    ck_assert_uint_eq(s.full_hit_requests, e->full_hit);
    double unit_ns = strcmp(e->kind, "weka") == 0 ? 1e9 : 1e6;
    ck_assert_int_eq(s.first_ns, llround(e->first_t * unit_ns));
    ck_assert_int_eq(s.last_ns, llround(e->last_t * unit_ns));
    trace_done(&t);
}

START_TEST(test_statistics)
{
    char line[512];
    unsigned rows = 0;
    FILE *fp = fopen("traces/expected.tsv", "r");
    ck_assert_ptr_nonnull(fp);
    ck_assert_ptr_nonnull(fgets(line, sizeof(line), fp)); /* names of the columns */
    while (fgets(line, sizeof(line), fp)) {
        struct expected e;
        int n = sscanf(line, "%127s %31s %llu %llu %llu %llu %llu %llu %llu %llu %lf %lf", e.file,
                       e.kind, &e.requests, &e.in, &e.out, &e.refs, &e.distinct, &e.prefix_hit,
                       &e.any_hit, &e.full_hit, &e.first_t, &e.last_t);
        ck_assert_int_eq(n, 12);
        check_row(&e);
        rows++;
    }
    fclose(fp);
    ck_assert_uint_eq(rows, 23);
}
END_TEST

START_TEST(test_lru)
{
    char line[512];
    struct trace t;
    FILE *fp = fopen("traces/expected_lru.tsv", "r");
    ck_assert_ptr_nonnull(fp);
    ck_assert_ptr_nonnull(fgets(line, sizeof(line), fp));
    read_shipped("mooncake/conversation_trace.jsonl", &t);
    unsigned rows = 0;
    while (fgets(line, sizeof(line), fp)) {
        char file[128], capacity[32];
        unsigned long long refs, hits, evictions;
        double ratio;
        ck_assert_int_eq(sscanf(line, "%127s %31s %llu %llu %lf %llu", file, capacity, &refs, &hits,
                                &ratio, &evictions),
                         6);
        ck_assert_str_eq(file, "mooncake/conversation_trace.jsonl");
        bool infinite = strcmp(capacity, "inf") == 0;
        struct trace_lru lru = {.capacity_blocks =
                                    infinite ? UINT64_MAX : strtoull(capacity, NULL, 10)};
        struct err err = ERR_INIT;
        ck_assert_int_eq(trace_lru_compute(&t, &lru, &err), 0);
        ck_assert_uint_eq(lru.hit_blocks, hits);
        ck_assert_uint_eq(lru.evictions, evictions);
        ck_assert_uint_eq(t.n_ids, refs);
        rows++;
    }
    fclose(fp);
    trace_done(&t);
    ck_assert_uint_eq(rows, 7);
}
END_TEST

/* The published averages of the conversation trace: 36.6 % of blocks, 37.4 % of tokens, and 38.4 %
 * as the mean of the requests' own ratios. */
START_TEST(test_averages)
{
    struct trace t;
    struct trace_stats s;
    struct err err = ERR_INIT;
    read_shipped("mooncake/conversation_trace.jsonl", &t);
    ck_assert_int_eq(trace_stats_compute(&t, &s, &err), 0);
    ck_assert_double_eq_tol(s.hit_blocks_frac, 0.366, 0.0005);
    ck_assert_double_eq_tol(s.hit_tok_frac, 0.374, 0.0005);
    ck_assert_double_eq_tol(s.mean_hit_blocks_frac, 0.384, 0.0005);
    trace_done(&t);
}
END_TEST

/* Figures counted over the file with Python: rows, sums, and the last time less the first. */
START_TEST(test_azure)
{
    struct trace t;
    struct trace_stats s;
    struct err err = ERR_INIT;
    read_shipped("azure/AzureLLMInferenceTrace_code.csv", &t);
    ck_assert_int_eq(trace_stats_compute(&t, &s, &err), 0);
    ck_assert_uint_eq(s.requests, 8819);
    ck_assert_uint_eq(s.input_tok, 18059974);
    ck_assert_uint_eq(s.output_tok, 245896);
    ck_assert_int_eq(s.first_ns, 1700158623979960000); /* 2023-11-16 18:17:03.97996 UTC */
    ck_assert_int_eq(s.last_ns - s.first_ns, 3435948056000);
    ck_assert_uint_eq(s.block_refs, 0);
    ck_assert(!t.closed_loop);
    trace_done(&t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace_expected");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, test_statistics);
    tcase_add_test(tc, test_lru);
    tcase_add_test(tc, test_averages);
    tcase_add_test(tc, test_azure);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
