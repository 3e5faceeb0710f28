/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A scenario run on real machines: the same scheduler, engines and data path in processes, on the
 * wall clock. */
#ifndef DUALPATH_PLAN_REAL_RUN_H
#define DUALPATH_PLAN_REAL_RUN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "input/scenario.h"
#include "input/workload.h"
#include "report/result.h"

struct real_run;

struct real_run_options {
    const atomic_bool *interrupted; /* set by a signal handler */
    void *self;
    void (*note)(void *self, const char *text);      /* one line for the log */
    FILE *requests_csv, *series_csv, *decisions_csv; /* NULL: not wanted */
    /* NULL: agents are started on this machine. Else they are waited for, and this is where the
     * join file goes that they need, which must not exist yet. */
    const char *join_path;
    const char *listen; /* numeric address of this machine that agents can reach; NULL: 127.0.0.1 */
    double join_timeout_s;
};

/*
 * Checks that sc (which must outlive it) can be run for real, builds the workload, opens the hub
 * and starts agents. 0 and *ret (real_run_free()); -EINVAL, err naming the key, for what a real run
 * cannot do; -ENODEV in a build without ZeroMQ or io_uring; another negative errno when the
 * machine fails.
 */
int real_run_new(const struct scenario *sc, const struct real_run_options *options,
                 struct real_run **ret, struct err *err);
void real_run_free(struct real_run *r); /* no agent and no file of the run is left */

const struct workload *real_run_workload(const struct real_run *r);

/* Once. 0 and *ret (result_done()), -ECANCELED when interrupted, -ENODEV when a node lacks
 * hardware, another negative errno with err naming what went wrong and where: no result is ever
 * given for a run in which a check has failed. */
int real_run_go(struct real_run *r, struct result *ret, struct err *err);

#endif
