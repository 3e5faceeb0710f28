/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a finished simulation says about its course, from its samples. */
#ifndef DUALPATH_PLAN_RUN_STEADY_H
#define DUALPATH_PLAN_RUN_STEADY_H

#include "plan/runs.h"
#include "report/metrics.h"

/* Finds the end of the warm-up and the means after it. */
void run_steady_find(const struct metrics *m, uint64_t last_arrival_ns, struct run_steady *ret);

/*
 * When an online experiment of arXiv 2602.21548 ends (section 7.4): the mean TTFT of the last 150 s
 * is above the SLO, or within 5 % of what it was 30 minutes before. Here also with the last
 * arrival: what comes then is no load any more. To be asked again and again, with samples taken in
 * between.
 */
enum run_course { RUN_GOES_ON, RUN_STEADY, RUN_TOO_SLOW, RUN_OUT_OF_AGENTS };
enum run_course run_course(const struct metrics *m, uint64_t last_arrival_ns, double slo_ttft_s);

/*
 * What such an experiment is published with, of a run that ended with its last sample: latencies of
 * the last 150 s; the mean lifetime of all agents that are over; the working set and the number of
 * agents over the last half hour.
 */
void run_steady_end(const struct metrics *m, enum run_course course, struct run_steady *ret);

/* Fills at most RUNS_MAX_POINTS points; returns their number. */
size_t run_points(const struct metrics *m, struct run_point *ret_points);

#endif
