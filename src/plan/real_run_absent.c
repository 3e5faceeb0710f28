/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Stands in for real_run.c in a build without libzmq or liburing. */
#include <errno.h>
#include <stddef.h>

#include "plan/real_run.h"

int real_run_new(const struct scenario *sc, const struct real_run_options *options,
                 struct real_run **ret, struct err *err)
{
    (void)sc;
    (void)options;
    (void)ret;
    return err_set(err, -ENODEV,
                   "this program was built without libzmq or liburing: no runs on real machines");
}

void real_run_free(struct real_run *r)
{
    (void)r;
}

const struct workload *real_run_workload(const struct real_run *r)
{
    (void)r;
    return NULL;
}

int real_run_go(struct real_run *r, struct result *ret, struct err *err)
{
    (void)r;
    (void)ret;
    return err_set(err, -ENODEV, "not built");
}
