/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a finished simulation says about its course, from its samples. */
#ifndef DUALPATH_PLAN_RUN_STEADY_H
#define DUALPATH_PLAN_RUN_STEADY_H

#include "plan/runs.h"
#include "report/metrics.h"

/* Finds the end of the warm-up and the means after it. */
void run_steady_find(const struct metrics *m, uint64_t last_arrival_ns, struct run_steady *ret);

/* Fills at most RUNS_MAX_POINTS points; returns their number. */
size_t run_points(const struct metrics *m, struct run_point *ret_points);

#endif
