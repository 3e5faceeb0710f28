/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Runs in processes of their own, targets, calibration and the search for the largest load. */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check_suite.h"
#include "plan/calibrate.h"
#include "plan/capacity.h"
#include "plan/simulate.h"
#include "plan/target.h"

static const struct runs_options two = {.workers = 2};

/* The same scenario in this process. */
static struct result here(const char *const *sets, size_t n)
{
    struct scenario sc;
    struct scenario_notes notes;
    struct err err = ERR_INIT;
    struct simulation *s;
    struct result r;
    const struct simulation_options options = {0};
    ck_assert_int_eq(scenario_read("quickstart", sets, n, &sc, &notes, &err), 0);
    ck_assert_int_eq(simulation_new(&sc, &options, &s, &err), 0);
    ck_assert_int_eq(simulation_run(s, &r, &err), 0);
    simulation_free(s);
    scenario_notes_done(&notes);
    return r;
}

START_TEST(a_run_elsewhere_is_the_run_here)
{
    static const char *const seeds[] = {"seed=1", "seed=2", "seed=1"};
    struct run_job jobs[3];
    struct run_outcome *o = calloc(3, sizeof(*o));
    struct err err = ERR_INIT;
    for (int i = 0; i < 3; i++) {
        jobs[i] = (struct run_job){.scenario = "quickstart", .sets = &seeds[i], .n_sets = 1};
    }
    ck_assert_int_eq(runs_execute(jobs, 3, &two, o, &err), 0);
    for (int i = 0; i < 3; i++) {
        struct result r = here(&seeds[i], 1);
        ck_assert_int_eq(o[i].err.code, 0);
        ck_assert_double_eq(o[i].result.jct_s, r.jct_s);
        ck_assert_uint_eq(o[i].result.events, r.events);
        ck_assert_uint_gt(o[i].n_points, 10);
        ck_assert_double_eq(o[i].points[o[i].n_points - 1].agents, 0);
    }
    ck_assert_double_ne(o[0].result.jct_s, o[1].result.jct_s);
    free(o);
}
END_TEST

START_TEST(a_run_that_fails_fails_alone)
{
    /* The buffer holds no prompt of this length: an error of this run. */
    static const char *const sets[] = {"cluster.dram_buffer_bytes=100MB", "seed=1"};
    const struct run_job jobs[2] = {{"quickstart", &sets[0], 1, false},
                                    {"quickstart", &sets[1], 1, false}};
    struct run_outcome *o = calloc(2, sizeof(*o));
    struct err err = ERR_INIT;
    ck_assert_int_eq(runs_execute(jobs, 2, &two, o, &err), 0);
    ck_assert_int_lt(o[0].err.code, 0);
    ck_assert_int_eq(o[1].err.code, 0);
    const struct run_job wrong = {.scenario = "no-such-scenario"};
    ck_assert_int_lt(runs_execute(&wrong, 1, &two, o, &err), 0);
    ck_assert(err.set);
    free(o);
}
END_TEST

/* Targets */

static char path[] = "/tmp/dualpath-targets-XXXXXX";

static void write_file(const char *text)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static void make_file(void)
{
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

static void remove_file(void)
{
    unlink(path);
}

#define COLUMNS "experiment,model,scenario,set,metric,published,fit\n"

START_TEST(targets_are_read_by_column_name)
{
    struct targets t;
    struct err err = ERR_INIT;
    write_file("fit,metric,published,set,scenario,model,experiment\n"
               "1,jct_s,12.5,seed=3 workload.agents=4 seed=5,quickstart,m,e\n0,ttft_s,1,,q,m,e\n");
    ck_assert_int_eq(targets_read(path, &t, &err), 0);
    ck_assert_uint_eq(t.n, 2);
    ck_assert_double_eq(t.rows[0].published, 12.5);
    ck_assert(t.rows[0].fitted && !t.rows[1].fitted);
    ck_assert_uint_eq(t.rows[0].n_sets, 3);
    ck_assert_str_eq(target_setting(&t.rows[0], "seed"), "5");
    ck_assert_ptr_null(target_setting(&t.rows[0], "workload"));
    ck_assert_uint_eq(t.rows[1].n_sets, 0);
    targets_done(&t);
}
END_TEST

START_TEST(bad_targets_are_refused)
{
    static const char *const texts[] = {"experiment,model\n", COLUMNS "e,m,q,,jct_s,twelve,0\n",
                                        COLUMNS "e,m,q,,jct_s,0,0\n",
                                        COLUMNS "e,m,q,,jct_s,1,yes\n", COLUMNS "e,m,q\n"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct targets t;
        struct err err = ERR_INIT;
        write_file(texts[i]);
        ck_assert_int_lt(targets_read(path, &t, &err), 0);
        ck_assert(err.set);
    }
}
END_TEST

START_TEST(metrics_over_time_are_means_of_their_window)
{
    struct run_outcome *o = calloc(1, sizeof(*o));
    struct err err = ERR_INIT;
    double v;
    o->result.jct_s = 1000;
    for (o->n_points = 0; o->n_points < 100; o->n_points++) {
        double t = 10.0 * (double)(o->n_points + 1);
        o->points[o->n_points] = (struct run_point){.t_s = t,
                                                    .agents = 1000 - t,
                                                    .forward_s = t,
                                                    .forward_max_avg_s = t * t / 100,
                                                    .ttft_s = 1};
    }
    ck_assert_int_eq(target_value("attention_max_avg@10", o, &v, &err), 0);
    /* 60, 70, 80, 90 and 100 over 100, for as long: 33,000 over 400 over 100. */
    ck_assert_double_eq_tol(v, 0.825, 1e-9);
    ck_assert_int_eq(target_value("agents@500", o, &v, &err), 0);
    ck_assert_double_eq(v, 500);
    ck_assert_int_eq(target_value("ttft_s@500", o, &v, &err), 0);
    ck_assert_double_eq(v, 1);
    ck_assert_int_eq(target_value("nonsense", o, &v, &err), -EINVAL);
    ck_assert_int_eq(target_value("agents@x", o, &v, &err), -EINVAL);
    free(o);
}
END_TEST

/* Seeds: runs that became steady, where one did; a failed one is not hidden by them. */
START_TEST(runs_above_the_slo_do_not_count)
{
    struct targets t;
    struct err err = ERR_INIT;
    struct run_outcome *o = calloc(4, sizeof(*o));
    write_file(COLUMNS
               "e,m,q,workload.arrival.kind=poisson workload.agents=100,ttft_s,1,0\n"
               "e,m,q,workload.agents=100,jct_s,1,0\ne,m,q,workload.agents=1024,jct_s,1,0\n");
    ck_assert_int_eq(targets_read(path, &t, &err), 0);
    ck_assert_uint_eq(target_seeds(&t.rows[0]), TARGET_MANY_SEEDS);
    ck_assert_uint_eq(target_seeds(&t.rows[1]), 3);
    ck_assert_uint_eq(target_seeds(&t.rows[2]), 1);
    for (unsigned i = 0; i < 4; i++) {
        ck_assert(target_counts(&t.rows[0], o, 4, i)); /* none is steady */
    }
    o[1].steady.reached = true;
    o[2].err.code = -EIO;
    ck_assert(!target_counts(&t.rows[0], o, 4, 0));
    ck_assert(target_counts(&t.rows[0], o, 4, 1));
    ck_assert(target_counts(&t.rows[0], o, 4, 2));
    ck_assert(target_counts(&t.rows[1], o, 4, 0)); /* offline: nothing to be steady */
    targets_done(&t);
    free(o);
}
END_TEST

/* Calibration: figures made with known constants give these constants back. */

static const char profile_text[] =
    "{\"schema\": \"dualpath/profile/1\", \"name\": \"p\", \"source\": \"t\", \"scenario\": {},"
    " \"fit\": {\"model\": \"m\", \"targets\": \"t\", \"constants\": ["
    " {\"keys\": [\"timing.attention_efficiency\", \"timing.linear_efficiency\"], \"value\": 0.5,"
    "  \"min\": 0.05, \"max\": 2, \"reading\": \"prefill\"},"
    " {\"keys\": [\"timing.decode_fixed_s\"], \"value\": 0.004, \"min\": 0.0001, \"max\": 1,"
    "  \"reading\": \"decode\"}]}}";

/* Of runs of so few agents the fit takes the mean of three seeds. */
static void make_targets(char *text, size_t size)
{
    const char *truth[] = {"timing.attention_efficiency=0.3", "timing.linear_efficiency=0.3",
                           "timing.decode_fixed_s=7ms", "workload.agents=96", NULL};
    static const char *const seeds[] = {"seed=1", "seed=2", "seed=3"};
    double jct_s = 0, ttft_s = 0, tpot_s = 0;
    for (unsigned i = 0; i < 3; i++) {
        truth[4] = seeds[i];
        struct result r = here(truth, 5);
        jct_s += r.jct_s / 3;
        ttft_s += r.ttft_s.mean / 3;
        tpot_s += r.tpot_s.mean / 3;
    }
    snprintf(text, size,
             COLUMNS "e,m,quickstart,workload.agents=96,jct_s,%.9g,1\n"
                     "e,m,quickstart,workload.agents=96,ttft_s,%.9g,1\n"
                     "e,m,quickstart,workload.agents=96,tpot_s,%.9g,1\n"
                     "e,other,quickstart,,jct_s,1,1\n",
             jct_s, ttft_s, tpot_s);
}

START_TEST(a_fit_finds_the_constants_that_made_the_figures)
{
    char text[600], profile_path[64];
    struct targets t;
    struct calibrate_fit fit;
    struct err err = ERR_INIT;
    const struct calibrate_options options = {.max_steps = 12, .runs = two};
    make_targets(text, sizeof(text));
    write_file(text);
    ck_assert_int_eq(targets_read(path, &t, &err), 0);
    snprintf(profile_path, sizeof(profile_path), "%s.json", path);
    FILE *f = fopen(profile_path, "w");
    fputs(profile_text, f);
    fclose(f);
    json_t *profile = json_loads(profile_text, 0, NULL);
    ck_assert_int_eq(calibrate_fit_read(profile, "p", &fit, &err), 0);
    ck_assert_int_eq(calibrate(&t, "m", profile_path, &options, &fit, &err), 0);
    ck_assert_uint_eq(fit.n_targets, 3);
    ck_assert_double_lt(fit.rms, 0.01);
    ck_assert_double_gt(fit.start_rms, 0.1);
    ck_assert_double_eq_tol(fit.constants[0].value, 0.3, 0.02);
    ck_assert_double_eq_tol(fit.constants[1].value, 0.007, 0.0003);
    ck_assert_int_eq(calibrate_fit_write(profile, &fit), 0);
    const json_t *timing = json_object_get(json_object_get(profile, "scenario"), "timing");
    ck_assert_double_eq_tol(json_number_value(json_object_get(timing, "decode_fixed_s")), 0.007,
                            0.0003);
    ck_assert_double_eq(json_number_value(json_object_get(timing, "linear_efficiency")),
                        json_number_value(json_object_get(timing, "attention_efficiency")));
    json_t *constant =
        json_array_get(json_object_get(json_object_get(profile, "fit"), "constants"), 1);
    ck_assert_double_gt(fit.constants[1].log_std, 0);
    ck_assert_ptr_nonnull(json_object_get(constant, "confidence_frac"));
    targets_done(&t);

    /* Two figures for two constants: nothing says how well. */
    *(strstr(text, "\ne,other") - 1) = '0';
    write_file(text);
    ck_assert_int_eq(targets_read(path, &t, &err), 0);
    ck_assert_int_eq(calibrate_fit_read(profile, "p", &fit, &err), 0);
    ck_assert_int_eq(calibrate(&t, "m", profile_path, &options, &fit, &err), 0);
    ck_assert_uint_eq(fit.n_targets, 2);
    ck_assert_double_eq(fit.constants[1].log_std, 0);
    ck_assert_int_eq(calibrate_fit_write(profile, &fit), 0);
    ck_assert_ptr_null(json_object_get(constant, "confidence_frac"));
    json_decref(profile);
    targets_done(&t);
    unlink(profile_path);
}
END_TEST

START_TEST(a_fit_needs_as_many_figures_as_constants)
{
    struct targets t;
    struct calibrate_fit fit;
    struct err err = ERR_INIT;
    const struct calibrate_options options = {.max_steps = 1, .runs = two};
    write_file(COLUMNS "e,m,quickstart,,jct_s,1,1\ne,m,quickstart,,ttft_s,1,0\n");
    ck_assert_int_eq(targets_read(path, &t, &err), 0);
    json_t *profile = json_loads(profile_text, 0, NULL);
    ck_assert_int_eq(calibrate_fit_read(profile, "p", &fit, &err), 0);
    ck_assert_int_eq(calibrate(&t, "m", "p.json", &options, &fit, &err), -EINVAL);
    json_decref(profile);
    targets_done(&t);
}
END_TEST

START_TEST(fits_that_are_no_calibration_are_refused)
{
    static const char *const constants[] = {
        "[]",
        "[{},{},{},{},{},{},{}]",
        "[{\"keys\": [\"timing.nonsense\"], \"value\": 1, \"min\": 1, \"max\": 1, \"reading\": "
        "\"\"}]",
        "[{\"keys\": [\"system.preset\"], \"value\": 1, \"min\": 1, \"max\": 1, \"reading\": "
        "\"\"}]",
        "[{\"keys\": [\"slo.ttft_s\"], \"value\": 3, \"min\": 1, \"max\": 2, \"reading\": \"\"}]",
        "[{\"keys\": [\"slo.ttft_s\"], \"value\": 1, \"min\": 1, \"max\": 2}]"};
    for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++) {
        struct calibrate_fit fit;
        struct err err = ERR_INIT;
        json_t *list = json_loads(constants[i], 0, NULL);
        json_t *profile = json_pack("{s:{s:o}}", "fit", "constants", list);
        ck_assert_int_eq(calibrate_fit_read(profile, "p", &fit, &err), -EINVAL);
        ck_assert(strstr(err.field, "fit.constants") != NULL);
        json_decref(profile);
    }
}
END_TEST

/* Capacity: with a load that every sequence adds to. */

#define SLOWING "slo.tpot_s=12ms", "timing.decode_sequence_s=2ms"

static bool meets_slo(double aps, double span_s)
{
    char texts[3][64];
    const char *sets[] = {texts[0], texts[1], texts[2], SLOWING};
    struct run_outcome *o = calloc(1, sizeof(*o));
    struct err err = ERR_INIT;
    snprintf(texts[0], 64, "workload.arrival.kind=poisson");
    snprintf(texts[1], 64, "workload.arrival.aps=%.9g", aps);
    snprintf(texts[2], 64, "workload.agents=%.0f", ceil(aps * span_s));
    const struct run_job job = {"quickstart", sets, 5, false};
    ck_assert_int_eq(runs_execute(&job, 1, &two, o, &err), 0);
    ck_assert_int_eq(o->err.code, 0);
    bool meets = o->steady.ttft_s <= 4 && o->steady.tpot_s <= 0.012 && !o->result.unstable;
    free(o);
    return meets;
}

/* Mean TTFT of the points that end in (from_s, to_s], as good as the points are many. */
static double ttft_between(const struct run_outcome *o, double from_s, double to_s)
{
    double sum = 0, n = 0;
    for (size_t i = 0; i < o->n_points; i++) {
        const struct run_point *p = &o->points[i];
        bool inside = p->t_s > from_s && p->t_s <= to_s && p->ttft_s > 0;
        sum += inside ? p->ttft_s : 0;
        n += inside;
    }
    return sum / n;
}

/* An online run of the paper ends when the TTFT is what it was 30 minutes before or above the SLO,
 * whichever comes first; else it goes on until all agents are over. */
START_TEST(a_run_may_end_as_the_papers_do)
{
    static const char *const sets[] = {"workload.arrival.kind=poisson", "workload.arrival.aps=0.02",
                                       "workload.agents=80"};
    static const char *const strict[] = {"workload.arrival.kind=poisson",
                                         "workload.arrival.aps=0.02", "workload.agents=80",
                                         "slo.ttft_s=1us"};
    static const char *const brief[] = {"workload.arrival.kind=poisson",
                                        "workload.arrival.aps=0.02", "workload.agents=12"};
    const struct run_job jobs[] = {{"quickstart", sets, 3, true},
                                   {"quickstart", strict, 4, true},
                                   {"quickstart", sets, 3, false},
                                   {"quickstart", brief, 3, true}};
    struct run_outcome *o = calloc(4, sizeof(*o));
    struct err err = ERR_INIT;
    ck_assert_int_eq(runs_execute(jobs, 4, &two, o, &err), 0);
    const struct run_steady *steady = &o[0].steady, *slow = &o[1].steady, *whole = &o[2].steady;
    ck_assert(steady->reached);
    ck_assert_double_ge(steady->end_s, 1950);
    ck_assert_double_eq_tol(steady->end_s - steady->start_s, 150, 10);
    double before_s = ttft_between(&o[0], steady->end_s - 1950, steady->end_s - 1800);
    ck_assert_double_eq_tol(steady->ttft_s / before_s, 1, 0.1);
    ck_assert_double_eq_tol(steady->ttft_s, ttft_between(&o[0], steady->start_s, steady->end_s),
                            0.05 * steady->ttft_s);
    ck_assert_double_eq_tol(steady->sched_s + steady->alloc_s + steady->read_s + steady->prefill_s,
                            steady->ttft_s, 1e-6);
    ck_assert_uint_lt(o[0].result.agents, 80);
    ck_assert(!slow->reached);
    ck_assert_double_lt(slow->end_s, 300);
    /* Arrivals that end before are no steady state, and the run ends with them. */
    ck_assert(!o[3].steady.reached);
    ck_assert_double_lt(o[3].steady.end_s, 1200);
    ck_assert_uint_lt(o[3].result.agents, 12);
    ck_assert_uint_eq(o[2].result.agents, 80);
    ck_assert_double_gt(whole->end_s - whole->start_s, 1800);
    free(o);
}
END_TEST

START_TEST(capacity_is_the_last_step_that_meets_the_slo)
{
    static const char *const sets[] = {SLOWING};
    const struct run_job base = {"quickstart", sets, 2, false};
    const struct capacity_options options = {
        .step_aps = 0.05, .first_aps = 0.05, .most_aps = 1, .span_s = 600, .runs = two};
    struct capacity found;
    struct err err = ERR_INIT;
    ck_assert_int_eq(capacity_search(&base, &options, &found, &err), 0);
    ck_assert_double_gt(found.aps, 0);
    ck_assert(!found.at_most);
    ck_assert_double_eq_tol(fmod(found.aps + 0.025, 0.05), 0.025, 1e-9);
    ck_assert(meets_slo(found.aps, 600));
    ck_assert(!meets_slo(found.aps + 0.05, 600));
    ck_assert_double_le(found.steady.tpot_s, 0.012);
}
END_TEST

START_TEST(capacity_says_when_it_met_its_end_or_nothing)
{
    static const char *const impossible[] = {"slo.tpot_s=1us"};
    const struct run_job any = {.scenario = "quickstart"},
                         none = {"quickstart", impossible, 1, false};
    const struct capacity_options options = {
        .step_aps = 0.05, .first_aps = 0.05, .most_aps = 0.1, .span_s = 600, .runs = two};
    struct capacity found;
    struct err err = ERR_INIT;
    ck_assert_int_eq(capacity_search(&any, &options, &found, &err), 0);
    ck_assert(found.at_most);
    ck_assert_double_eq_tol(found.aps, 0.1, 1e-12);
    ck_assert_int_eq(capacity_search(&none, &options, &found, &err), 0);
    ck_assert_double_eq(found.aps, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("plan");
    TCase *t = tcase_create("plan");
    tcase_set_timeout(t, 200);
    tcase_add_unchecked_fixture(t, make_file, remove_file);
    tcase_add_test(t, a_run_elsewhere_is_the_run_here);
    tcase_add_test(t, a_run_that_fails_fails_alone);
    tcase_add_test(t, targets_are_read_by_column_name);
    tcase_add_test(t, bad_targets_are_refused);
    tcase_add_test(t, metrics_over_time_are_means_of_their_window);
    tcase_add_test(t, runs_above_the_slo_do_not_count);
    tcase_add_test(t, a_fit_finds_the_constants_that_made_the_figures);
    tcase_add_test(t, a_fit_needs_as_many_figures_as_constants);
    tcase_add_test(t, fits_that_are_no_calibration_are_refused);
    tcase_add_test(t, a_run_may_end_as_the_papers_do);
    tcase_add_test(t, capacity_is_the_last_step_that_meets_the_slo);
    tcase_add_test(t, capacity_says_when_it_met_its_end_or_nothing);
    suite_add_tcase(s, t);
    return run_suite(s);
}
