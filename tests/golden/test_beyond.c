/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Options beside DualPath and Basic: the rows' file, what is compared with what, the three outputs;
 * and what a pause between turns does to a run. */
#include "check_suite.h"
#include "scenario_run.h"

#include <errno.h>
#include <math.h>

#include "plan/beyond.h"
#include "plan/run_steady.h"
#include "plan/simulation.h"

#define ROWS "tests/golden/beyond_small.csv"

static struct beyond_rows must_run_rows(const char *table)
{
    struct beyond_rows b;
    struct err err = ERR_INIT;
    const struct runs_options options = {.workers = 2};
    ck_assert_msg(!beyond_read(ROWS, table, &b, &err), "%s", err.text);
    ck_assert_msg(!beyond_run(&b, &options, &err), "%s", err.text);
    return b;
}

START_TEST(test_rows)
{
    struct beyond_rows b = must_run_rows(NULL);
    ck_assert_uint_eq(b.n, 7);
    /* The same scenario run directly. */
    json_t *o = run_json("quickstart", SETS("workload.agents=8", "system.preset=basic"));
    double jct_s = number(o, "jct_s"); /* of 12 digits */
    ck_assert_double_eq_tol(b.rows[0].outcome.result.jct_s, jct_s, 1e-11 * jct_s);
    json_decref(o);
    const struct beyond_row *hidden = &b.rows[2];
    double expected = hidden->outcome.result.jct_s / b.rows[1].outcome.result.jct_s - 1;
    ck_assert_double_eq(beyond_against(&b, hidden, "dualpath"), expected);
    ck_assert_double_eq(beyond_against(&b, &b.rows[1], "dualpath"), 0);
    ck_assert_ptr_eq(beyond_reference(&b, hidden, "basic"), &b.rows[0]);
    ck_assert(isnan(beyond_against(&b, hidden, "oracle")));
    /* Left out, failed, open. */
    ck_assert(b.rows[3].left_out && isnan(beyond_against(&b, &b.rows[3], "dualpath")));
    ck_assert_int_eq(b.rows[4].outcome.err.code, -EINVAL);
    ck_assert(isnan(beyond_against(&b, &b.rows[4], "dualpath")));
    ck_assert_double_eq(beyond_figure(&b.rows[5]), b.rows[5].outcome.result.ttft_s.mean);
    ck_assert_double_eq(beyond_figure(&b.rows[0]), b.rows[0].outcome.result.jct_s);
    beyond_done(&b);
}
END_TEST

static char *written(const struct beyond_rows *b, int (*write)(const struct beyond_rows *, FILE *))
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    ck_assert_int_eq(write(b, out), 0);
    fclose(out);
    return text;
}

static unsigned count(const char *text, char c)
{
    unsigned n = 0;
    for (; *text; text++) {
        n += *text == c;
    }
    return n;
}

START_TEST(test_outputs)
{
    struct beyond_rows b = must_run_rows(NULL);
    char *json = written(&b, beyond_write_json), *csv = written(&b, beyond_write_csv);
    char *text = written(&b, beyond_write_text);
    json_t *list = json_loads(json, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_uint_eq(json_array_size(list), 7);
    ck_assert_double_eq_tol(number(json_array_get(list, 2), "against_dualpath_frac"),
                            beyond_against(&b, &b.rows[2], "dualpath"), 1e-8);
    ck_assert_ptr_nonnull(json_object_get(json_array_get(list, 3), "left_out"));
    ck_assert_ptr_nonnull(json_object_get(json_array_get(list, 4), "failed"));
    json_decref(list);
    /* Every line of the CSV has as many cells as its header. */
    ck_assert_uint_eq(count(csv, '\n'), 8);
    unsigned commas = 0;
    for (char *line = strtok(csv, "\n"); line; line = strtok(NULL, "\n")) {
        unsigned n = count(line, ',');
        commas = commas ? commas : n;
        ck_assert_msg(n == commas, "%s", line);
    }
    ck_assert_ptr_nonnull(strstr(text, "left out: this program has no cluster.warp_drive"));
    ck_assert_ptr_nonnull(strstr(text, "fastest by JCT: "));
    ck_assert_ptr_nonnull(strstr(text, "fastest by mean TTFT: "));
    free(json);
    free(csv);
    free(text);
    beyond_done(&b);
}
END_TEST

START_TEST(test_no_such_table)
{
    struct beyond_rows b;
    struct err err = ERR_INIT;
    ck_assert_int_eq(beyond_read(ROWS, "magic", &b, &err), -EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "no table \"magic\""));
}
END_TEST

/* Every row that is shipped is a scenario, and every workload has what it is compared with. */
START_TEST(test_shipped_rows)
{
    struct beyond_rows b;
    struct err err = ERR_INIT;
    ck_assert_msg(!beyond_read("scenarios/paper/beyond.csv", NULL, &b, &err), "%s", err.text);
    for (size_t i = 0; i < b.n; i++) {
        const struct beyond_row *r = &b.rows[i];
        struct scenario sc;
        struct scenario_notes notes;
        if (r->left_out) {
            continue;
        }
        int rc =
            scenario_read(r->scenario, (const char *const *)r->sets, r->n_sets, &sc, &notes, &err);
        ck_assert_msg(rc == 0, "%s, %s: %s: %s", r->workload, r->option, err.field, err.text);
        scenario_notes_done(&notes);
        ck_assert(r->is_search ||
                  (beyond_reference(&b, r, "dualpath") && beyond_reference(&b, r, "basic")));
    }
    beyond_done(&b);
}
END_TEST

/* A pause before each turn but the first makes an agent last that much longer, and its context is
 * part of the working set all the while. Hand-sized load: two agents, one after the other in the
 * same chain. */
START_TEST(test_tool_latency)
{
#define AGENTS "workload.agents=2"
    struct scenario sc;
    struct simulation *s;
    struct result plain, slow;
    must_read_scenario("quickstart", SETS(AGENTS), &sc);
    must_run(&sc, &s, &plain);
    double held_tok_s = s->recorder.metrics.context_tok_s;
    simulation_free(s);
    must_read_scenario("quickstart", SETS(AGENTS, "workload.tool_latency_s=7"), &sc);
    must_run(&sc, &s, &slow);
    double pauses = (double)(slow.requests - slow.agents);
    ck_assert_double_eq_tol(slow.agent_jct_s.mean - plain.agent_jct_s.mean,
                            7 * pauses / (double)slow.agents, 0.01 * 7 * pauses);
    ck_assert_uint_eq(slow.prompt_tok, plain.prompt_tok);
    /* The context of every turn but an agent's first is kept for 7 s more. */
    double waiting_tok = 0;
    for (uint32_t i = 0; i < s->workload->n_sessions; i++) {
        struct workload_session ws;
        s->workload->ops->session(s->workload, i, &ws);
        for (uint32_t k = 1; k < ws.n_turns; k++) {
            struct workload_turn t;
            s->workload->ops->turn(s->workload, i, k, &t);
            waiting_tok += t.prompt_tok;
        }
    }
    ck_assert_double_eq_tol(s->recorder.metrics.context_tok_s, held_tok_s + 7 * waiting_tok,
                            0.01 * 7 * waiting_tok);
    simulation_free(s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("beyond");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, test_rows);
    tcase_add_test(tc, test_outputs);
    tcase_add_test(tc, test_no_such_table);
    tcase_add_test(tc, test_shipped_rows);
    tcase_add_test(tc, test_tool_latency);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
