/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Whole runs with the solver's certificate checked after every solve: maxmin.c is compiled in here
 * once more with the check on, and takes the place of the library's.
 */
#define DUALPATH_CHECK_CERTIFICATE 1
#undef NDEBUG
#include "sim/maxmin.c" /* NOLINT: on purpose */

#include <check.h>

#include "check_suite.h"
#include "golden/scenario_run.h"

struct row {
    const char *scenario;
    const char *sets[4];
};

static const struct row rows[] = {
    {"scenarios/quickstart.json", {"workload.agents=8"}},
    {"scenarios/quickstart.json", {"workload.agents=8", "system.preset=basic"}},
    {"scenarios/saturate.json",
     {"workload.agents=100", "cluster.decode_nodes=7", "cluster.dram_Bps=200GB/s"}},
};

START_TEST(holds_after_every_solve)
{
    struct scenario sc;
    struct simulation *s;
    struct result r;
    must_read_scenario(rows[_i].scenario, rows[_i].sets, &sc);
    must_run(&sc, &s, &r);
    ck_assert_uint_gt(r.requests, 0);
    simulation_free(s);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("certificate");
    TCase *t = tcase_create("runs");
    tcase_set_timeout(t, 200);
    tcase_add_loop_test(t, holds_after_every_solve, 0, (int)(sizeof(rows) / sizeof(rows[0])));
    suite_add_tcase(s, t);
    return run_suite(s);
}
