/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * scenarios/saturate.json against the closed forms of the bottleneck-free region, written down here
 * a second time (arXiv 2602.21548, bottleneck-free analysis; the derivation stands in
 * model/bounds.h). Every storage NIC always has reads queued, computing takes no time, requests are
 * equal.
 *
 * Without an argument a subset runs; "full" runs every point and prints the table that stands in
 * src/sim/README.md.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_suite.h"
#include "input/scenario.h"
#include "plan/simulate.h"

#define AGENTS_PER_NODE 160u

static bool full;

/* A set-up, one parameter at a time away from g = 8, s = 1, B = 50 GB/s, M = 500 GB/s. */
struct setup {
    const char *name;
    double g, s, dram_Bps;
    double pd_min, pd_max; /* the knees, from the published formula */
};

static const double cnic_Bps = 50e9;
static const struct setup setups[] = {
    {"g=8 s=1 M=500", 8, 1, 500e9, 1.0 / 7, 7.0 / 2},
    {"s=2", 8, 2, 500e9, 1.0 / 3, 1},
    {"g=4", 4, 1, 500e9, 1.0 / 3, 3.0 / 2},
    {"M=250", 8, 1, 250e9, 1.0 / 7, 1},
};

struct point {
    unsigned setup, p, d;
    bool fast; /* in the suite */
};

static const struct point points[] = {
    {0, 1, 10, false}, {0, 1, 9, false}, {0, 1, 8, false}, {0, 1, 7, true},  {0, 1, 4, false},
    {0, 1, 1, true},   {0, 2, 1, false}, {0, 3, 1, false}, {0, 7, 2, false}, {0, 4, 1, true},
    {0, 5, 1, false},  {1, 1, 5, false}, {1, 1, 4, false}, {1, 1, 3, false}, {1, 1, 2, false},
    {1, 1, 1, true},   {1, 3, 2, false}, {1, 2, 1, false}, {2, 1, 5, false}, {2, 1, 4, false},
    {2, 1, 3, true},   {2, 1, 2, false}, {2, 1, 1, false}, {2, 3, 2, false}, {2, 2, 1, true},
    {2, 3, 1, false},  {3, 1, 8, false}, {3, 1, 7, false}, {3, 1, 1, true},  {3, 3, 2, false},
    {3, 2, 1, false},  {3, 3, 1, false},
};

/*
 * Loads by resource, as fractions of capacity, when each prefill node's NIC reads x and each decode
 * node's y of its line rate (T_p and T_c of the paper with P*g*D*g pairs summed up): x = y = 1
 * gives the paper's inequalities.
 */
static void closed_forms(const struct setup *c, double pd, double x, double y,
                         double ret[RESULT_N_RESOURCES])
{
    double unit = c->s / c->g, dram = c->s * cnic_Bps / c->dram_Bps;
    ret[RESULT_PE_SNIC] = x;
    ret[RESULT_DE_SNIC] = y;
    ret[RESULT_PE_CNIC_READ] = unit * 2 * x;
    ret[RESULT_PE_CNIC_WRITE] = unit * (x + y / pd);
    ret[RESULT_DE_CNIC_READ] = unit * (x * pd + 2 * y);
    ret[RESULT_DE_CNIC_WRITE] = unit * (2 * x * pd + y);
    ret[RESULT_PE_DRAM] = dram * 2 * x;
    ret[RESULT_DE_DRAM] = dram * (3 * y + 2 * x * pd);
}

static double largest(const double *load)
{
    double most = 0;
    for (unsigned r = 0; r <= RESULT_DE_DRAM; r++) {
        most = fmax(most, load[r]);
    }
    return most;
}

/* Share of all storage NICs together. */
static double together(const struct point *at, double x, double y)
{
    return (x * at->p + y * at->d) / (at->p + at->d);
}

/*
 * Outside the region the equations say that the binding resource is full: one line in x and y.
 * Which nodes' NICs give way they leave open. Of rates in the ratio x : y, those on the line.
 */
static void scale_to_line(const struct setup *c, double pd, double *x, double *y)
{
    double forms[RESULT_N_RESOURCES];
    closed_forms(c, pd, *x, *y, forms);
    double most = largest(forms);
    *x /= most;
    *y /= most;
}

/* The largest load of a resource other than the storage NICs. */
static double largest_beyond(const struct setup *c, double pd, double x, double y)
{
    double forms[RESULT_N_RESOURCES];
    closed_forms(c, pd, x, y, forms);
    forms[RESULT_PE_SNIC] = forms[RESULT_DE_SNIC] = 0;
    return largest(forms);
}

/* What all NICs together can reach with a resource full, whichever give way: least and most. */
static void range_when_full(const struct setup *c, const struct point *at, double *ret_least,
                            double *ret_most)
{
    double pd = (double)at->p / at->d;
    *ret_least = 1;
    *ret_most = 0;
    for (unsigned k = 0; k <= 1000; k++) {
        double x = k / 1000.0, low = 0, high = 1;
        if (largest_beyond(c, pd, x, 0) > 1 || largest_beyond(c, pd, x, 1) < 1) {
            continue;
        }
        for (unsigned i = 0; i < 50; i++) {
            double mid = (low + high) / 2;
            *(largest_beyond(c, pd, x, mid) < 1 ? &low : &high) = mid;
        }
        *ret_least = fmin(*ret_least, together(at, x, low));
        *ret_most = fmax(*ret_most, together(at, x, low));
    }
}

/* storage: a setting more. */
static void run(const struct setup *c, const struct point *at, const char *storage,
                struct result *ret)
{
    char texts[6][64];
    const char *sets[7] = {[6] = storage};
    snprintf(texts[0], sizeof(texts[0]), "cluster.prefill_nodes=%u", at->p);
    snprintf(texts[1], sizeof(texts[1]), "cluster.decode_nodes=%u", at->d);
    snprintf(texts[2], sizeof(texts[2]), "cluster.gpus_per_node=%.0f", c->g);
    snprintf(texts[3], sizeof(texts[3]), "cluster.snic_Bps=%.0f", c->s * cnic_Bps);
    snprintf(texts[4], sizeof(texts[4]), "cluster.dram_Bps=%.0f", c->dram_Bps);
    snprintf(texts[5], sizeof(texts[5]), "workload.agents=%u", AGENTS_PER_NODE * (at->p + at->d));
    for (unsigned i = 0; i < 6; i++) {
        sets[i] = texts[i];
    }
    struct scenario sc;
    struct scenario_notes notes;
    struct simulation_options options = {0};
    struct simulation *s;
    struct err err = {0};
    ck_assert_msg(!scenario_read("scenarios/saturate.json", sets, 7, &sc, &notes, &err), "%s",
                  err.text);
    ck_assert_msg(!simulation_new(&sc, &options, &s, &err), "%s", err.text);
    ck_assert_msg(!simulation_run(s, ret, &err), "%s", err.text);
    simulation_free(s);
    scenario_notes_done(&notes);
}

/* wanted: with all NICs throttled alike, and with the found ratio of the two sides. */
static void print(const struct setup *c, const struct point *at, const double wanted[2],
                  double found, const struct result *r, const double *forms)
{
    printf("| %s | %u:%u | %.4f | %.4f | %.4f |", c->name, at->p, at->d, wanted[0], wanted[1],
           found);
    for (unsigned i = RESULT_PE_CNIC_READ; i <= RESULT_DE_DRAM; i++) {
        printf(" %.3f (%+.1f %%) |", r->utilization[i], 100 * (r->utilization[i] / forms[i] - 1));
    }
    printf("\n");
    fflush(stdout);
}

static void check_outside(const struct setup *c, const struct point *at, const double wanted[2],
                          double found)
{
    double least, most;
    range_when_full(c, at, &least, &most);
    ck_assert_double_lt(wanted[0], 1);
    ck_assert_double_eq_tol(found / wanted[1], 1, 0.02);
    ck_assert_double_ge(found, 0.98 * least);
    ck_assert_double_le(found, 1.02 * most);
}

static void check(const struct point *at)
{
    const struct setup *c = &setups[at->setup];
    double pd = (double)at->p / at->d, forms[RESULT_N_RESOURCES];
    struct result r;
    run(c, at, "cluster.storage.cluster_Bps=0", &r);

    bool knee = fabs(pd / c->pd_min - 1) < 1e-9 || fabs(pd / c->pd_max - 1) < 1e-9;
    bool inside = pd > c->pd_min && pd < c->pd_max && !knee;
    double x = r.utilization[RESULT_PE_SNIC], y = r.utilization[RESULT_DE_SNIC];
    double found = together(at, x, y), alike[2] = {1, 1};
    if (inside) {
        x = y = 1;
    } else if (!knee) {
        scale_to_line(c, pd, &x, &y);
        scale_to_line(c, pd, &alike[0], &alike[1]);
    }
    double wanted[2] = {together(at, alike[0], alike[1]), knee ? 1 : together(at, x, y)};
    closed_forms(c, pd, 1, 1, forms);
    ck_assert_double_eq_tol(largest(forms), 1, inside || knee ? 1e-9 : INFINITY); /* knees */
    closed_forms(c, pd, x, y, forms);
    print(c, at, wanted, found, &r, forms);

    if (knee) {
        ck_assert_double_ge(found, 0.97);
    } else if (inside) {
        ck_assert_double_ge(found, 0.99);
    } else {
        check_outside(c, at, wanted, found);
    }
    for (unsigned i = RESULT_PE_CNIC_READ; i <= RESULT_DE_DRAM; i++) {
        ck_assert_msg(fabs(r.utilization[i] / forms[i] - 1) < 0.01, "%s %u:%u %s: %.4f, not %.4f",
                      c->name, at->p, at->d, result_resource_name((enum result_resource)i),
                      r.utilization[i], forms[i]);
    }
}

START_TEST(region)
{
    const struct point *at = &points[_i];
    if (full || at->fast) {
        check(at);
    }
}
END_TEST

/*
 * Two NICs of 50 GB/s that reach 0.66 of it ask for 66 GB/s, and the storage cluster has 33: it is
 * full, the NICs' lines are used by half, and what depends on the reads is as at half the load, in
 * bytes: 0.33 of what the closed forms say for full lines.
 */
START_TEST(the_storage_cluster_binds)
{
    const struct setup *c = &setups[0];
    const struct point at = {0, 1, 1, true};
    double forms[RESULT_N_RESOURCES];
    struct result r;
    run(c, &at,
        "cluster.storage={\"base\": \"3fs\", \"latency_median_s\": 0, \"efficiency_max\": 0.66,"
        " \"half_size_bytes\": 0, \"cluster_Bps\": \"33GB/s\"}",
        &r);
    ck_assert_double_eq_tol(r.utilization[RESULT_STORAGE_CLUSTER], 1, 0.001);
    ck_assert_int_eq(r.bottleneck, RESULT_STORAGE_CLUSTER);
    double x = r.utilization[RESULT_PE_SNIC], y = r.utilization[RESULT_DE_SNIC];
    ck_assert_double_eq_tol((x + y) / 2, 0.5, 0.001);
    closed_forms(c, 1, 0.66 * x, 0.66 * y, forms);
    for (unsigned i = RESULT_PE_CNIC_READ; i <= RESULT_DE_DRAM; i++) {
        ck_assert_double_eq_tol(r.utilization[i] / forms[i], 1, 0.01);
    }
}
END_TEST

int main(int argc, char **argv)
{
    full = argc > 1 && strcmp(argv[1], "full") == 0;
    Suite *s = suite_create("saturate");
    TCase *t = tcase_create("region");
    tcase_set_timeout(t, 600);
    tcase_add_loop_test(t, region, 0, (int)(sizeof(points) / sizeof(points[0])));
    tcase_add_test(t, the_storage_cluster_binds);
    suite_add_tcase(s, t);
    return run_suite(s);
}
