/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Comparison of results and of decisions, on small files. */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check_suite.h"
#include "plan/compare.h"

static char paths[2][64];

static void put(int i, const char *text)
{
    FILE *f = fopen(paths[i], "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

static void setup(void)
{
    const char *tmp = getenv("TMPDIR");
    for (int i = 0; i < 2; i++) {
        snprintf(paths[i], sizeof(paths[i]), "%s/compare-XXXXXX", tmp ? tmp : "/tmp");
        int fd = mkstemp(paths[i]);
        ck_assert_int_ge(fd, 0);
        close(fd);
    }
}

static void teardown(void)
{
    unlink(paths[0]);
    unlink(paths[1]);
}

static const struct compare_figure *figure(const struct compare_results *r, const char *path)
{
    for (uint32_t i = 0; i < r->n; i++) {
        if (strcmp(r->figures[i].path, path) == 0) {
            return &r->figures[i];
        }
    }
    ck_abort_msg("no figure %s", path);
    return NULL;
}

START_TEST(test_figures)
{
    struct compare_results r;
    struct err e = ERR_INIT;
    put(0, "{\"schema\": \"dualpath/result/1\", \"jct_s\": 10, \"ttft_s\": {\"mean\": 2.0, "
           "\"p50\": 0},"
           " \"requests\": 128, \"slo\": {\"met\": true}, \"old\": 1,"
           " \"run\": {\"backend\": \"real\", \"wall_s\": 1, \"trace_sha256\": \"t\","
           " \"scenario_sha256\": \"s\"}}");
    put(1, "{\"schema\": \"dualpath/result/1\", \"jct_s\": 11, \"ttft_s\": {\"mean\": 1.5, "
           "\"p50\": 1},"
           " \"requests\": 128, \"slo\": {\"met\": false}, \"new\": 1,"
           " \"run\": {\"backend\": \"sim\", \"wall_s\": 9, \"trace_sha256\": \"t\","
           " \"scenario_sha256\": \"other\"}}");
    ck_assert_msg(compare_results(paths[0], paths[1], 0.15, &r, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(r.n, 7); /* the run block apart */
    ck_assert_str_eq(r.backend_a, "real");
    ck_assert_str_eq(r.backend_b, "sim");
    ck_assert(r.same_trace && !r.same_scenario);
    const struct compare_figure *f = figure(&r, "jct_s");
    ck_assert(f->error == 1 && fabs(f->error_frac - 0.1) < 1e-12 && !f->beyond);
    f = figure(&r, "ttft_s.mean");
    ck_assert(f->error == -0.5 && f->error_frac == -0.25 && f->beyond);
    f = figure(&r, "ttft_s.p50");
    ck_assert(isinf(f->error_frac) && f->error_frac > 0 && f->beyond);
    ck_assert(!figure(&r, "requests")->beyond && figure(&r, "requests")->error_frac == 0);
    ck_assert(figure(&r, "slo.met")->a == 1 && figure(&r, "slo.met")->b == 0);
    ck_assert(figure(&r, "old")->in_a && !figure(&r, "old")->in_b && figure(&r, "old")->beyond);
    ck_assert(!figure(&r, "new")->in_a && figure(&r, "new")->in_b);
    ck_assert_uint_eq(r.n_beyond, 5);
    compare_results_done(&r);
}
END_TEST

static const struct {
    const char *text, *field, *says;
    unsigned line;
} bad_results[] = {
    {"{", "", "", 1},
    {"[]", "", "expected a result", 1},
    {"{\"jct_s\": 1}", "", "expected a result", 1},
    {"{\n\"schema\": \"dualpath/scenario/1\"}", "schema", "expected a result", 2},
    {"{\"schema\": \"dualpath/result/1\",\n\"jct_s\": \"long\"}", "jct_s", "\"long\"", 2},
    {"{\"schema\": \"dualpath/result/1\",\n\n\"ttft_s\": {\"mean\": [1]}}", "ttft_s.mean",
     "expected a number", 3},
};

START_TEST(test_bad_result)
{
    struct compare_results r;
    struct err e = ERR_INIT;
    put(0, "{\"schema\": \"dualpath/result/1\"}");
    put(1, bad_results[_i].text);
    ck_assert_int_eq(compare_results(paths[0], paths[1], 0.1, &r, &e), -EINVAL);
    ck_assert_str_eq(e.source, paths[1]);
    ck_assert_uint_eq(e.line, bad_results[_i].line);
    ck_assert_str_eq(e.field, bad_results[_i].field);
    ck_assert_msg(strstr(e.text, bad_results[_i].says), "%s", e.text);
}
END_TEST

START_TEST(test_absent)
{
    struct compare_results r;
    struct compare_decisions d;
    struct err e = ERR_INIT;
    put(0, "{\"schema\": \"dualpath/result/1\"}");
    ck_assert_int_eq(compare_results(paths[0], "absent.json", 0.1, &r, &e), -ENOENT);
    e = ERR_INIT;
    ck_assert_int_eq(compare_decisions("absent.csv", paths[0], &d, &e), -ENOENT);
}
END_TEST

#define HEAD "session,turn,prefill_engine,decode_engine,path\n"

START_TEST(test_decisions)
{
    struct compare_decisions d;
    struct err e = ERR_INIT;
    put(0, HEAD "0,0,0,0,prefill\n1,0,1,1,decode\n0,1,0,0,prefill\n2,0,1,0,prefill\n");
    put(1, HEAD "0,0,0,0,prefill\n0,1,0,0,prefill\n1,0,1,1,prefill\n");
    ck_assert_int_eq(compare_decisions(paths[0], paths[1], &d, &e), 0);
    ck_assert_uint_eq(d.n_a, 4);
    ck_assert_uint_eq(d.n_b, 3);
    ck_assert_uint_eq(d.first, 2);
    ck_assert(d.has_a && d.has_b);
    ck_assert_uint_eq(d.a.session, 1);
    ck_assert_uint_eq(d.b.turn, 1);
    ck_assert_uint_eq(d.n_rows_differ, 3);
    ck_assert_uint_eq(d.n_decided_otherwise, 1); /* session 1 reads elsewhere */
    ck_assert_uint_eq(d.n_only_a, 1);
    ck_assert_uint_eq(d.n_only_b, 0);
}
END_TEST

START_TEST(test_same_decisions)
{
    struct compare_decisions d;
    struct err e = ERR_INIT;
    put(0, HEAD "0,0,0,0,prefill\n1,0,1,1,decode\n");
    put(1, HEAD "0,0,0,0,prefill\n1,0,1,1,decode\n");
    ck_assert_int_eq(compare_decisions(paths[0], paths[1], &d, &e), 0);
    ck_assert_uint_eq(d.first + d.n_rows_differ + d.n_decided_otherwise, 0);
    /* One file ends early. */
    put(1, HEAD "0,0,0,0,prefill\n");
    ck_assert_int_eq(compare_decisions(paths[0], paths[1], &d, &e), 0);
    ck_assert_uint_eq(d.first, 2);
    ck_assert(d.has_a && !d.has_b);
}
END_TEST

static const struct {
    const char *text, *says;
    unsigned line;
} bad_decisions[] = {
    {"session,turn\n0,0\n", "prefill_engine", 1},
    {HEAD "0,0,0,0,sideways\n", "expected prefill, decode, split or kept", 2},
    {HEAD "0,0,0,0,decode\n0,x,0,0,decode\n", "\"x\"", 3},
};

START_TEST(test_bad_decisions)
{
    struct compare_decisions d;
    struct err e = ERR_INIT;
    put(0, HEAD);
    put(1, bad_decisions[_i].text);
    ck_assert_int_eq(compare_decisions(paths[0], paths[1], &d, &e), -EINVAL);
    char text[1400];
    err_format(&e, text, sizeof(text));
    ck_assert_str_eq(e.source, paths[1]);
    ck_assert_msg(strstr(text, bad_decisions[_i].says) && e.line == bad_decisions[_i].line, "%s",
                  text);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("compare");
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, test_figures);
    tcase_add_loop_test(t, test_bad_result, 0, sizeof(bad_results) / sizeof(bad_results[0]));
    tcase_add_test(t, test_absent);
    tcase_add_test(t, test_decisions);
    tcase_add_test(t, test_same_decisions);
    tcase_add_loop_test(t, test_bad_decisions, 0, sizeof(bad_decisions) / sizeof(bad_decisions[0]));
    suite_add_tcase(s, t);
    return run_suite(s);
}
