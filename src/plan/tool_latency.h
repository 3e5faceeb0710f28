/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What slow tools do: agents whose life is stretched r times by a pause before every turn, at the
 * largest load that meets the SLO. The rule of thumb is capacity x r, working set x r^2, cost x
 * r^3, each a consequence of the one before: so many more agents, each staying so much longer, in
 * memory that is held so much longer. Measured beside it:
 *   capacity     agents in the system at the largest load under the SLO: aps * lifetime (Little)
 *   working set  bytes of KV behind them, in use or waiting for a tool (run_steady.working_set)
 *   cost         working set * lifetime: memory held, for as long as an agent needs it
 */
#ifndef DUALPATH_PLAN_TOOL_LATENCY_H
#define DUALPATH_PLAN_TOOL_LATENCY_H

#include <stdio.h>

#include "plan/capacity.h"

struct tool_latency_point {
    double wanted_r;
    double pause_s; /* before all turns but the first: (r - 1) * lifetime / pauses of an agent */
    double aps, lifetime_s;
    double agents, working_set_bytes, held_byte_s;
};

#define TOOL_LATENCY_POINTS 3u /* r = 1, 2, 4 */

/* Searches for the points of base, a scenario without pauses; first_aps and step_aps are those of
 * the search at r = 1, the others begin at what it finds. 0, or a negative errno with err. */
int tool_latency_run(const struct run_job *base, const struct capacity_options *options,
                     struct tool_latency_point *ret_points, struct err *err);

int tool_latency_write_text(const struct tool_latency_point *points, const char *workload,
                            FILE *out);
int tool_latency_write_csv(const struct tool_latency_point *points, const char *workload,
                           FILE *out);

/* Measured over predicted, as factors over r = 1: *ret_measured of capacity (power 1), working set
 * (2), cost (3). */
double tool_latency_factor(const struct tool_latency_point *points, unsigned i, unsigned power);

#endif
