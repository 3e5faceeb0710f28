/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The largest load that a system carries under its SLO: Poisson arrivals of agents, mean TTFT and
 * TPOT of the steady part within slo.ttft_s and slo.tpot_s, no growing backlog.
 */
#ifndef DUALPATH_PLAN_CAPACITY_H
#define DUALPATH_PLAN_CAPACITY_H

#include "plan/runs.h"

struct capacity_options {
    double step_aps;            /* resolution; the answer is a multiple of it */
    double first_aps, most_aps; /* where the search starts, and ends whatever it finds */
    double span_s;              /* of arrivals in every run */
    struct runs_options runs;
};

struct capacity {
    double aps;   /* the largest load found to meet the SLO; 0: not even one step does */
    bool at_most; /* most_aps itself meets it */
    unsigned n_runs;
    struct run_steady steady; /* at aps */
};

/*
 * Assumes that a load above one that fails fails as well. Every round tries as many loads at once
 * as there are workers. With base->until_steady runs stop as the paper's do, and a load meets the
 * SLO if its run has become steady. Returns 0, or a negative errno with err.
 */
int capacity_search(const struct run_job *base, const struct capacity_options *options,
                    struct capacity *ret, struct err *err);

#endif
