/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the simulator can and a real run cannot is refused by name, before anything is started. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check_suite.h"
#include "plan/real_run.h"

static const char *const sets[] = {
    "system.decode_buffer=hbm",     "cluster.storage.capacity_bytes=1GB",
    "cluster.dram_cache_bytes=1GB", "system.restore=compressed",
    "system.restore=gpu_direct",    "system.preset=oracle",
};

START_TEST(test_refused)
{
    struct scenario sc;
    struct scenario_notes notes;
    struct err err = ERR_INIT;
    struct real_run *r = NULL;
    const struct real_run_options options = {0};
    int rc = scenario_read("scenarios/loopback.json", &sets[_i], 1, &sc, &notes, &err);
    ck_assert_msg(rc == 0, "%s: %s", err.field, err.text);
    scenario_notes_done(&notes);
    ck_assert_int_eq(real_run_new(&sc, &options, &r, &err), -EINVAL);
    const char *key = strstr(sets[_i], "oracle") ? "system.free_transfers" : sets[_i];
    ck_assert_msg(strncmp(err.field, key, strcspn(key, "=")) == 0, "%s: %s", err.field, err.text);
    ck_assert_ptr_null(r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("real_refusals");
    TCase *t = tcase_create("all");
    tcase_add_loop_test(t, test_refused, 0, sizeof(sets) / sizeof(sets[0]));
    suite_add_tcase(s, t);
    return run_suite(s);
}
