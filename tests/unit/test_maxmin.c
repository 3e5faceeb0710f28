/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The incremental solver against progressive filling of the whole network, at random events. */
#include "check_suite.h"
#include "sim/maxmin.h"

#include <check.h>
#include <math.h>

#include "base/rng.h"

#define MAX_RESOURCES 40
#define MAX_FLOWS     120

static struct maxmin_resource resources[MAX_RESOURCES];
static struct maxmin_flow flows[MAX_FLOWS];
static bool alive[MAX_FLOWS];

static void ignore(struct maxmin_flow *f, void *arg)
{
    (void)f;
    (void)arg;
}

/* Whole-network progressive filling, all rates raised together in steps: slow, obvious,
 * independent. */
static void reference(int n_resources, double *ret_rate)
{
    bool frozen[MAX_FLOWS];
    for (int f = 0; f < MAX_FLOWS; f++) {
        frozen[f] = !alive[f];
        ret_rate[f] = 0;
    }
    for (;;) {
        double step = INFINITY;
        for (int r = 0; r < n_resources; r++) {
            double left = resources[r].capacity_Bps;
            int open = 0;
            for (int f = 0; f < MAX_FLOWS; f++) {
                for (int k = 0; alive[f] && k < flows[f].n_links; k++) {
                    if (flows[f].links[k].resource == &resources[r]) {
                        left -= ret_rate[f];
                        open += !frozen[f];
                    }
                }
            }
            if (open > 0) {
                step = fmin(step, fmax(left, 0) / open);
            }
        }
        for (int f = 0; f < MAX_FLOWS; f++) {
            step = frozen[f] ? step : fmin(step, flows[f].cap_Bps - ret_rate[f]);
        }
        if (isinf(step)) {
            return;
        }
        for (int f = 0; f < MAX_FLOWS; f++) {
            ret_rate[f] += frozen[f] ? 0 : step;
        }
        for (int f = 0; f < MAX_FLOWS; f++) {
            if (frozen[f]) {
                continue;
            }
            frozen[f] = ret_rate[f] >= flows[f].cap_Bps * (1 - 1e-13);
            for (int k = 0; k < flows[f].n_links; k++) {
                double used = 0;
                for (int g = 0; g < MAX_FLOWS; g++) {
                    for (int j = 0; alive[g] && j < flows[g].n_links; j++) {
                        used += flows[g].links[j].resource == flows[f].links[k].resource
                                    ? ret_rate[g]
                                    : 0;
                    }
                }
                frozen[f] |= used >= flows[f].links[k].resource->capacity_Bps * (1 - 1e-13);
            }
        }
    }
}

static void add_random_flow(struct maxmin *m, struct rng *rng, int f, int n_resources)
{
    struct maxmin_resource *on[MAXMIN_MAX_LINKS];
    unsigned n = 1 + (unsigned)rng_below(rng, MAXMIN_MAX_LINKS);
    for (unsigned k = 0; k < n;) {
        on[k] = &resources[rng_below(rng, (uint64_t)n_resources)];
        bool seen = false;
        for (unsigned j = 0; j < k; j++) {
            seen |= on[j] == on[k];
        }
        k += !seen;
    }
    flows[f].cap_Bps = rng_below(rng, 3) == 0 ? 1 + 20 * rng_uniform(rng) : MAXMIN_NO_CAP;
    maxmin_add(m, &flows[f], on, n);
    alive[f] = true;
}

START_TEST(equals_progressive_filling_at_random_events)
{
    struct rng *rng = rng_new((uint64_t)_i, "test_maxmin");
    int n_resources = 5 + (int)rng_below(rng, MAX_RESOURCES - 5);
    struct maxmin m;
    maxmin_init(&m);
    for (int r = 0; r < n_resources; r++) {
        maxmin_resource_init(&resources[r], 10 + 90 * rng_uniform(rng));
    }
    for (int f = 0; f < MAX_FLOWS; f++) {
        alive[f] = false;
    }
    double worst = 0;
    for (int event = 0; event < 300; event++) {
        int changes = 1 + (int)rng_below(rng, 4);
        for (int c = 0; c < changes; c++) {
            int f = (int)rng_below(rng, MAX_FLOWS);
            if (alive[f]) {
                maxmin_remove(&m, &flows[f]);
                alive[f] = false;
            } else {
                add_random_flow(&m, rng, f, n_resources);
            }
        }
        if (rng_below(rng, 10) == 0) {
            maxmin_set_capacity(&m, &resources[rng_below(rng, (uint64_t)n_resources)],
                                10 + 90 * rng_uniform(rng));
        }
        maxmin_solve(&m, ignore, NULL);
        double want[MAX_FLOWS];
        reference(n_resources, want);
        for (int f = 0; f < MAX_FLOWS; f++) {
            if (alive[f]) {
                worst = fmax(worst, fabs(flows[f].rate_Bps - want[f]) / fmax(want[f], 1e-9));
                ck_assert(flows[f].rate_Bps <= flows[f].cap_Bps);
            }
        }
        for (int r = 0; r < n_resources; r++) {
            ck_assert(maxmin_certified(&resources[r], 1e-9));
        }
    }
    ck_assert_double_le(worst, 1e-9);
    maxmin_done(&m);
    rng_free(rng);
}
END_TEST

START_TEST(textbook_line_network)
{
    /* Three links in a row of capacity 1; a long flow over all, a short one on each; then one
     * doubles. */
    struct maxmin m;
    maxmin_init(&m);
    struct maxmin_resource *all[3];
    for (int r = 0; r < 3; r++) {
        maxmin_resource_init(&resources[r], 1);
        all[r] = &resources[r];
    }
    for (int f = 0; f < 4; f++) {
        flows[f] = (struct maxmin_flow){.cap_Bps = MAXMIN_NO_CAP};
    }
    maxmin_add(&m, &flows[0], all, 3);
    for (int f = 1; f < 4; f++) {
        maxmin_add(&m, &flows[f], &all[f - 1], 1);
    }
    maxmin_solve(&m, ignore, NULL);
    for (int f = 0; f < 4; f++) {
        ck_assert_double_eq_tol(flows[f].rate_Bps, 0.5, 1e-12);
    }
    maxmin_set_capacity(&m, &resources[2], 2);
    maxmin_solve(&m, ignore, NULL);
    ck_assert_double_eq_tol(flows[3].rate_Bps, 1.5, 1e-12);
    ck_assert_double_eq_tol(flows[0].rate_Bps, 0.5, 1e-12);
    maxmin_done(&m);
}
END_TEST

START_TEST(certificate_sees_wrong_rates)
{
    /* Two flows on a link of capacity 10, one capped at 2: rates 2 and 8. */
    struct maxmin m;
    maxmin_init(&m);
    struct maxmin_resource *link = &resources[0];
    maxmin_resource_init(link, 10);
    flows[0] = (struct maxmin_flow){.cap_Bps = 2};
    flows[1] = (struct maxmin_flow){.cap_Bps = MAXMIN_NO_CAP};
    maxmin_add(&m, &flows[0], &link, 1);
    maxmin_add(&m, &flows[1], &link, 1);
    maxmin_solve(&m, ignore, NULL);
    ck_assert(maxmin_certified(link, 1e-9));
    static const double wrong[][2] = {{2.1, 7.9}, {1.9, 8.1}, {2, 7.9}, {2, 8.1}, {5, 5}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        flows[0].rate_Bps = wrong[i][0];
        flows[1].rate_Bps = wrong[i][1];
        ck_assert_msg(!maxmin_certified(link, 1e-9), "%g and %g pass", wrong[i][0], wrong[i][1]);
    }
    maxmin_done(&m);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("maxmin");
    TCase *t = tcase_create("maxmin");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, textbook_line_network);
    tcase_add_test(t, certificate_sees_wrong_rates);
    tcase_add_loop_test(t, equals_progressive_filling_at_random_events, 1, 31);
    suite_add_tcase(s, t);
    return run_suite(s);
}
