/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a real run has used, from the reports of its agents: the rows that a simulation has, too. */
#ifndef DUALPATH_PLAN_REAL_FIGURES_H
#define DUALPATH_PLAN_REAL_FIGURES_H

#include "base/err.h"
#include "input/scenario.h"
#include "real/agent_report.h"
#include "report/result.h"
#include "sched/cluster.h"

/*
 * Fills the balances, utilization, utilization_run and the bottleneck of *ret, whose jct_s is
 * there: bytes that were moved over what the scenario's (with --machine: the probe's) bandwidths
 * would have moved in the whole run. Bytes count as in sim/sim_dp.h: a copy leaves through the CNIC
 * of its source, enters through that of its destination, and takes part in the DRAM at either end.
 *
 * Unlike in a simulation, agents report at the end only, so the whole run stands for its steady
 * part as well; and SNIC is bytes over bandwidth, not the time in which there was something to
 * move.
 *
 * reports: one per node; those of nodes that died are all zero. 0 or -ENOMEM.
 */
int real_figures(const struct cluster *c, const struct scenario_cluster *capacities,
                 const struct agent_report *const *reports, struct result *ret, struct err *err);

#endif
