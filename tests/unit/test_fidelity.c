/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Layer streaming in stages ("auto") against layer by layer ("layer"), on the 660B set of 48K.
 *
 * A closed loop amplifies every difference: the order of two requests that arrive together decides
 * which engines they get, and so on to the end. Equally good runs (other seeds, other orders of
 * simultaneous events) differ by about 1 % in JCT. So means over seeds are compared.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "check_suite.h"
#include "golden/scenario_run.h"

struct figures {
    double jct_s, ttft_mean_s, ttft_p99_s;
};

static struct figures run(const char *fidelity, unsigned seed, unsigned agents)
{
    char texts[3][64];
    snprintf(texts[0], sizeof(texts[0]), "system.fidelity=%s", fidelity);
    snprintf(texts[1], sizeof(texts[1]), "seed=%u", seed);
    snprintf(texts[2], sizeof(texts[2]), "workload.agents=%u", agents);
    struct scenario sc;
    struct simulation *s;
    struct result r;
    must_read_scenario("scenarios/ds660b-2p4d.json", SETS(texts[0], texts[1], texts[2]), &sc);
    must_run(&sc, &s, &r);
    simulation_free(s);
    return (struct figures){r.jct_s, r.ttft_s.mean, r.ttft_s.p99};
}

START_TEST(auto_is_close_to_layer)
{
    const unsigned agents = 512, n_seeds = 4;
    struct figures a = {0}, b = {0};
    for (unsigned seed = 1; seed <= n_seeds; seed++) {
        struct figures x = run("auto", seed, agents), y = run("layer", seed, agents);
        printf("seed %u: JCT %.1f | %.1f s, TTFT %.4f | %.4f s, p99 %.3f | %.3f s (auto | layer)\n",
               seed, x.jct_s, y.jct_s, x.ttft_mean_s, y.ttft_mean_s, x.ttft_p99_s, y.ttft_p99_s);
        a.jct_s += x.jct_s;
        a.ttft_mean_s += x.ttft_mean_s;
        a.ttft_p99_s += x.ttft_p99_s;
        b.jct_s += y.jct_s;
        b.ttft_mean_s += y.ttft_mean_s;
        b.ttft_p99_s += y.ttft_p99_s;
    }
    printf("%u agents: JCT %+.2f %%, mean TTFT %+.2f %%, p99 %+.2f %%\n", agents,
           100 * (a.jct_s / b.jct_s - 1), 100 * (a.ttft_mean_s / b.ttft_mean_s - 1),
           100 * (a.ttft_p99_s / b.ttft_p99_s - 1));
    ck_assert_double_eq_tol(a.jct_s / b.jct_s, 1, 0.005);
    ck_assert_double_eq_tol(a.ttft_mean_s / b.ttft_mean_s, 1, 0.01);
    ck_assert_double_eq_tol(a.ttft_p99_s / b.ttft_p99_s, 1, 0.03);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fidelity");
    TCase *t = tcase_create("fidelity");
    tcase_set_timeout(t, 1200);
    tcase_add_test(t, auto_is_close_to_layer);
    suite_add_tcase(s, t);
    return run_suite(s);
}
