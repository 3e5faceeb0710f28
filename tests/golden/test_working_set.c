/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The working set of a run, and lambda * T * total / 2, from the rows of its requests. */
#include "check_suite.h"
#include "scenario_run.h"

#define KV_BYTES 21720.0 /* DS 27B, per token */
#define MOST     64

/* What the rows say of a session. */
struct session {
    double first_s, last_s, prompt, total;
};

static struct session sessions[MOST];
static double context_tok_s, end_s;
static unsigned n_sessions;

static void take_row(const char *line)
{
    unsigned id, turn, prompt, hit, gen;
    double arrival, first, second, last;
    ck_assert_int_eq(sscanf(line, "%u,%u,%u,%u,%u,%lf,%lf,%lf,%lf", &id, &turn, &prompt, &hit, &gen,
                            &arrival, &first, &second, &last),
                     9);
    ck_assert_uint_lt(id, MOST);
    struct session *s = &sessions[id];
    n_sessions += turn == 0;
    s->first_s = turn == 0 ? arrival : s->first_s;
    context_tok_s += prompt * (last - (turn == 0 ? arrival : s->last_s));
    s->last_s = last;
    s->total = prompt + gen;
    end_s = last > end_s ? last : end_s;
}

static void check_run(const struct scenario *sc)
{
    struct simulation *s;
    struct result r;
    struct err err = ERR_INIT;
    char *text = NULL, line[256];
    context_tok_s = end_s = n_sessions = 0;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    const struct simulation_options options = {.requests_csv = out};
    ck_assert_int_eq(simulation_new(sc, &options, &s, &err), 0);
    ck_assert_int_eq(simulation_run(s, &r, &err), 0);
    fclose(out);
    FILE *in = fmemopen(text, size, "r");
    ck_assert_ptr_nonnull(fgets(line, sizeof(line), in));
    while (fgets(line, sizeof(line), in)) {
        take_row(line);
    }
    double in_system_s = 0, total = 0;
    for (unsigned i = 0; i < n_sessions; i++) {
        in_system_s += sessions[i].last_s - sessions[i].first_s;
        total += sessions[i].total / n_sessions;
    }
    double model = in_system_s / end_s * total / 2 * KV_BYTES;
    ck_assert_double_eq_tol(r.working_set_bytes / (context_tok_s / end_s * KV_BYTES), 1, 1e-6);
    ck_assert_double_eq_tol(r.working_set_model_bytes / model, 1, 1e-6);
    ck_assert(model > 0);
    fclose(in);
    free(text);
    simulation_free(s);
}

START_TEST(test_generated)
{
    struct scenario sc;
    must_read_scenario("quickstart", SETS("workload.agents=6"), &sc);
    check_run(&sc);
}
END_TEST

/* Tools take their time: the context has to be kept meanwhile. */
START_TEST(test_pauses)
{
    char path[] = "/tmp/dualpath-pauses-XXXXXX", trace[64];
    struct scenario sc;
    int fd = mkstemp(path);
    FILE *out = fdopen(fd, "w");
    for (unsigned i = 0; i < 3; i++) {
        fprintf(out,
                "{\"session_id\": %u, \"timestamp\": %u, \"input_length\": 3000, "
                "\"output_length\": 50, \"hash_ids\": [%u, %u, %u, %u, %u, %u]}\n",
                i, 1000 * i, 20 * i, 20 * i + 1, 20 * i + 2, 20 * i + 3, 20 * i + 4, 20 * i + 5);
        fprintf(out,
                "{\"session_id\": %u, \"delay\": 30000, \"input_length\": 3072, "
                "\"output_length\": 70, \"hash_ids\": [%u, %u, %u, %u, %u, %u]}\n",
                i, 20 * i, 20 * i + 1, 20 * i + 2, 20 * i + 3, 20 * i + 4, 20 * i + 5);
    }
    fclose(out);
    snprintf(trace, sizeof(trace), "workload.trace=%s", path);
    must_read_scenario("quickstart",
                       SETS(trace, "workload.agents=0", "workload.max_len_tok=0",
                            "workload.arrival=recorded", "workload.trace_block_tok=512"),
                       &sc);
    check_run(&sc);
    ck_assert_double_gt(sessions[0].last_s - sessions[0].first_s, 30);
    unlink(path);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("working_set");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, test_generated);
    tcase_add_test(tc, test_pauses);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
