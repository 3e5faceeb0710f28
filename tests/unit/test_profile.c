/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Calibration profiles inside scenarios: what wins over what, and what is wrong where. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check_suite.h"
#include "scenario_test.h"

#define HEAD                                                                                       \
    "{\"schema\": \"dualpath/profile/1\", \"name\": \"p\", \"source\": \"test\", \"fit\": {},\n"

static char path[] = "/tmp/dualpath-profile-XXXXXX.json", set[64];

static void write_profile(const char *text)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static void make_file(void)
{
    int fd = mkstemps(path, 5);
    ck_assert_int_ge(fd, 0);
    close(fd);
    snprintf(set, sizeof(set), "profile=%s", path);
}

static void remove_file(void)
{
    unlink(path);
    scenario_notes_done(&notes);
}

START_TEST(a_profile_stands_between_explicit_keys_and_defaults)
{
    write_profile(HEAD "\"scenario\": {\"timing\": {\"forward_fixed_s\": \"80ms\", "
                       "\"decode_fixed_s\": 0.004},\n"
                       "  \"system\": {\"fetch_period_s\": 0.2}}}\n");
    parse_ok(MINIMAL, set, "timing.decode_fixed_s=9ms");
    ck_assert_double_eq_tol(sc.timing.forward_fixed_s, 0.08, 1e-12);
    ck_assert_double_eq_tol(sc.timing.decode_fixed_s, 0.009, 1e-12);
    ck_assert_double_eq_tol(sc.system.fetch_period_s, 0.2, 1e-12);
    ck_assert_int_eq(origin("timing.forward_fixed_s")->by, SCENARIO_BY_CALIBRATION);
    ck_assert_uint_eq(origin("timing.forward_fixed_s")->line, 2);
    ck_assert_int_eq(origin("timing.decode_fixed_s")->by, SCENARIO_BY_SET);
    ck_assert_uint_eq(origin("system.fetch_period_s")->line, 3);
    ck_assert_int_eq(origin("timing.linear_efficiency")->by, SCENARIO_BY_PROFILE);
    ck_assert_str_eq(sc.profile, path);
}
END_TEST

/* What was fitted to the default storage says nothing about another one. */
START_TEST(a_group_named_explicitly_takes_nothing_from_the_profile)
{
    write_profile(HEAD "\"scenario\": {\"cluster\": {\"storage\": {\"efficiency_max\": 0.5}}}}");
    parse_ok(MINIMAL, set, NULL);
    ck_assert_double_eq_tol(sc.cluster.storage.efficiency_max, 0.5, 1e-12);
    parse_ok(MINIMAL, set, "cluster.storage=local-nvme");
    ck_assert_double_ne(sc.cluster.storage.efficiency_max, 0.5);
}
END_TEST

START_TEST(a_profile_counts_in_the_hash)
{
    char before[65];
    write_profile(HEAD "\"scenario\": {\"timing\": {\"forward_fixed_s\": 0.07}}}");
    parse_ok(MINIMAL, set, NULL);
    memcpy(before, sc.sha256, sizeof(before));
    write_profile(HEAD "\"scenario\": {\"timing\": {\"forward_fixed_s\": 0.08}}}");
    parse_ok(MINIMAL, set, NULL);
    ck_assert_str_ne(before, sc.sha256);
}
END_TEST

static const struct {
    const char *text, *expected;
} faults[] = {
    {HEAD "\"scenario\": {\"timing\": {\"forward_fxed_s\": 1}}}", ":2:25: timing.forward_fxed_s: "},
    {HEAD "\"scenario\": {\"timing\": {\"attention_efficiency\": -1}}}",
     ":2:25: timing.attention_efficiency: found the number -1"},
    {HEAD "\"scenari\": {}}", ":2:1: scenari: unknown key"},
    {HEAD "\"scenario\": 3}", ":2:1: scenario: "},
    {"{\"schema\": \"dualpath/model/1\"}", ":1:2: schema: expected"},
    {"[]", "expected an object"},
    {"{", ":1:"},
};

START_TEST(a_fault_is_told_of_the_profiles_own_file)
{
    write_profile(faults[_i].text);
    ck_assert_int_lt(parse_text(MINIMAL, set, NULL), 0);
    ck_assert_msg(strncmp(message, path, strlen(path)) == 0, "%s", message);
    ck_assert_msg(strstr(message, faults[_i].expected) != NULL, "%s", message);
}
END_TEST

START_TEST(an_unknown_profile_is_told_of_the_scenario)
{
    ck_assert_int_lt(parse_text(MINIMAL, "profile=no-such-profile", NULL), 0);
    ck_assert_msg(strncmp(message, "--set: profile: ", 16) == 0, "%s", message);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("profile");
    TCase *t = tcase_create("profile");
    tcase_add_unchecked_fixture(t, make_file, remove_file);
    tcase_add_test(t, a_profile_stands_between_explicit_keys_and_defaults);
    tcase_add_test(t, a_group_named_explicitly_takes_nothing_from_the_profile);
    tcase_add_test(t, a_profile_counts_in_the_hash);
    tcase_add_loop_test(t, a_fault_is_told_of_the_profiles_own_file, 0,
                        sizeof(faults) / sizeof(faults[0]));
    tcase_add_test(t, an_unknown_profile_is_told_of_the_scenario);
    suite_add_tcase(s, t);
    return run_suite(s);
}
