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
#include "input/scenario.h"
#include "plan/simulate.h"

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
    const struct row *row = &rows[_i];
    size_t n_sets = 0;
    while (row->sets[n_sets]) {
        n_sets++;
    }
    struct scenario sc;
    struct scenario_notes notes;
    struct simulation_options options = {0};
    struct simulation *s;
    struct result r;
    struct err err = {0};
    ck_assert_msg(!scenario_read(row->scenario, row->sets, n_sets, &sc, &notes, &err), "%s",
                  err.text);
    ck_assert_msg(!simulation_new(&sc, &options, &s, &err), "%s", err.text);
    ck_assert_msg(!simulation_run(s, &r, &err), "%s", err.text);
    ck_assert_uint_gt(r.requests, 0);
    simulation_free(s);
    scenario_notes_done(&notes);
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
