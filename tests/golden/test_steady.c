/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Little's law on steady runs, recounted from the rows of the requests; and who is unstable. */
#include "check_suite.h"
#include "scenario_run.h"

#include <math.h>

#define POISSON(aps) "workload.arrival={\"kind\":\"poisson\",\"aps\":" #aps "}"

struct recount {
    double in_system; /* time average of requests in the system */
    double arrivals_per_s;
    double latency_s; /* mean of those that ended in the window */
};

/* Runs it and counts, from the CSV of requests alone, what the steady block says of its window. */
static json_t *run_and_recount(const char *name, const char *const *sets, struct recount *ret)
{
    struct scenario sc;
    struct simulation *s;
    struct result r;
    struct err err = ERR_INIT;
    char *rows = NULL;
    size_t size = 0;
    struct simulation_options options = {.requests_csv = open_memstream(&rows, &size)};
    must_read_scenario(name, sets, &sc);
    ck_assert_int_eq(simulation_new(&sc, &options, &s, &err), 0);
    ck_assert_int_eq(simulation_run(s, &r, &err), 0);
    simulation_free(s);
    fclose(options.requests_csv);
    json_t *o = result_json(&r);
    double from = number(o, "steady.start_s"), to = number(o, "steady.end_s");
    double area = 0, latency = 0, arrived = 0, over = 0;
    char *next = strchr(rows, '\n') + 1;
    while (*next) {
        double arrival_s, last_s;
        ck_assert_int_eq(sscanf(next, "%*u,%*u,%*u,%*u,%*u,%lf,%*f,%*f,%lf,", &arrival_s, &last_s),
                         2);
        area += fmax(fmin(last_s, to) - fmax(arrival_s, from), 0);
        arrived += arrival_s > from && arrival_s <= to;
        over += last_s > from && last_s <= to;
        latency += last_s > from && last_s <= to ? last_s - arrival_s : 0;
        next = strchr(next, '\n') + 1;
    }
    free(rows);
    *ret = (struct recount){area / (to - from), arrived / (to - from), latency / over};
    return o;
}

static void check_little(const char *name, const char *const *sets)
{
    struct recount own;
    json_t *o = run_and_recount(name, sets, &own);
    double l = number(o, "steady.requests_in_system");
    double lambda = number(o, "steady.arrivals_per_s"), w = number(o, "steady.latency_s");
    printf("%s: L %.4f, lambda W %.4f: %+.2f %%\n", name, l, lambda * w,
           100 * (lambda * w / l - 1));
    ck_assert_double_gt(l, 0.5);
    ck_assert_double_eq_tol(l, lambda * w, 0.01 * l);
    ck_assert_double_eq_tol(l, own.in_system, 1e-6 * l);
    ck_assert_double_eq_tol(lambda, own.arrivals_per_s, 1e-9 * lambda);
    ck_assert_double_eq_tol(w, own.latency_s, 1e-6 * w);
    json_decref(o);
}

START_TEST(test_little)
{
    check_little("quickstart", SETS(POISSON(0.5), "workload.agents=1000"));
    check_little("ds27b-1p1d", SETS(POISSON(0.8), "workload.agents=1000", "seed=3"));
    check_little("azure-code", SETS(POISSON(20)));
    check_little("mooncake-conversation", NULL);
}
END_TEST

static void check_stability(const char *name, const char *const *sets, bool unstable)
{
    char *text = NULL;
    size_t size = 0;
    struct scenario sc;
    struct simulation *s;
    struct result r;
    must_read_scenario(name, sets, &sc);
    must_run(&sc, &s, &r);
    simulation_free(s);
    json_t *o = result_json(&r);
    FILE *out = open_memstream(&text, &size);
    result_write_text(&r, out);
    fclose(out);
    printf("%s %s: backlog %+.3f/s, %s\n", name, sets ? sets[0] : "",
           number(o, "stability.backlog_slope_per_s"),
           number(o, "stability.unstable") != 0 ? "unstable" : "stable");
    ck_assert_msg(number(o, "stability.unstable") == unstable, "%s %s: slope %g/s", name,
                  sets ? sets[0] : "", number(o, "stability.backlog_slope_per_s"));
    ck_assert_int_eq(strstr(text, "UNSTABLE: the backlog grew by") != NULL, unstable);
    ck_assert(!unstable || number(o, "stability.backlog_slope_per_s") > 0.5);
    ck_assert(!unstable || !json_is_true(json_object_get(json_object_get(o, "slo"), "met")));
    json_decref(o);
    free(text);
}

/* Offered beyond capacity (quickstart carries about 2.4 agents/s, azure-code 200 requests/s). */
START_TEST(test_unstable)
{
    const char *const seeds[] = {"seed=1", "seed=2", "seed=3"};
    for (size_t i = 0; i < 3; i++) {
        check_stability("quickstart", SETS(POISSON(4.5), "workload.agents=1000", seeds[i]), true);
        check_stability("azure-code", SETS(POISSON(400), seeds[i]), true);
    }
}
END_TEST

/* Close to capacity, and while the number of agents still rises to its level. */
START_TEST(test_stable)
{
    const char *const seeds[] = {"seed=1", "seed=2", "seed=3", "seed=4", "seed=5"};
    for (size_t i = 0; i < 5; i++) {
        check_stability("quickstart", SETS(POISSON(1.6), "workload.agents=100", seeds[i]), false);
        check_stability("quickstart", SETS(POISSON(1.6), "workload.agents=600", seeds[i]), false);
        check_stability("azure-code", SETS(POISSON(50), seeds[i]), false);
    }
    check_stability("mooncake-conversation", SETS(POISSON(3)), false);
    check_stability("ds27b-1p1d", NULL, false);
    check_stability("weka-sessions", NULL, false);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("steady");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 240);
    tcase_add_test(tc, test_little);
    tcase_add_test(tc, test_unstable);
    tcase_add_test(tc, test_stable);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
