/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How every check program ends. */
#ifndef DUALPATH_TESTS_CHECK_SUITE_H
#define DUALPATH_TESTS_CHECK_SUITE_H

#include <check.h>
#include <stdlib.h>

/* Runs a suite, as loud as CK_VERBOSITY says. Returns the program's exit status. */
static inline int run_suite(Suite *s)
{
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
