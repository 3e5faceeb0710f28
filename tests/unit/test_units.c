/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Quantities as people write them, and what is no quantity. */
#include "base/units.h"
#include "check_suite.h"

#include <check.h>
#include <errno.h>

START_TEST(quantities)
{
    static const struct {
        enum unit_kind kind;
        const char *text;
        double value;
    } good[] = {
        {UNIT_BPS, "50GB/s", 50e9},   {UNIT_BPS, "400Gb/s", 50e9},
        {UNIT_BPS, "400Gbps", 50e9},  {UNIT_BYTES, "80GiB", 80 * 0x1p30},
        {UNIT_BYTES, "80 GB", 80e9},  {UNIT_S, "10ns", 1e-8},
        {UNIT_S, "300ms", 0.3},       {UNIT_S, "2", 2},
        {UNIT_S, "5min", 300},        {UNIT_TOK, "48K", 49152},
        {UNIT_NONE, "-1.5e3", -1500}, {UNIT_NONE, "0", 0},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        double value = 0;
        ck_assert_msg(units_parse(good[i].kind, good[i].text, &value) == 0, "%s", good[i].text);
        ck_assert_double_eq_tol(value, good[i].value,
                                1e-12 * good[i].value * good[i].value + 1e-15);
    }
}
END_TEST

START_TEST(nonsense)
{
    static const char *const bad[] = {"",    "nan", "inf", "-inf", "0x10", "1e999", "GB/s",
                                      "1 x", "n1s", "+",   "--1",  "1e",   "10nss"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        double value = 7;
        ck_assert_msg(units_parse(UNIT_S, bad[i], &value) == -EINVAL, "%s", bad[i]);
        ck_assert_double_eq(value, 7);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("units");
    TCase *t = tcase_create("units");
    tcase_add_test(t, quantities);
    tcase_add_test(t, nonsense);
    suite_add_tcase(s, t);
    return run_suite(s);
}
