/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Published figures to compare with, or to fit to: a CSV file with the columns
 *   experiment  name of the table or figure
 *   model       short name, the group over which errors are averaged
 *   scenario    a shipped scenario's name or a file; empty when no run is needed
 *   set         PATH=VALUE settings separated by spaces
 *   metric      see target_value()
 *   published   the figure
 *   fit         1 if the profile in use was fitted to this row, 0 if it is a prediction
 */
#ifndef DUALPATH_PLAN_TARGET_H
#define DUALPATH_PLAN_TARGET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "plan/runs.h"

struct target {
    char *experiment, *model, *scenario, *metric;
    char **sets; /* as run_job.sets */
    size_t n_sets;
    double published;
    bool fitted;
};

struct targets {
    struct target *rows;
    size_t n;
};

/* Reads the file. Returns 0, or a negative errno with err naming file, line and column. */
int targets_read(const char *path, struct targets *ret, struct err *err);
void targets_done(struct targets *t);

/* Appends the PATH=VALUE settings of text, separated by spaces, to *sets (malloc'd strings in a
 * malloc'd array). 0 or -ENOMEM. */
int target_split_sets(const char *text, char ***sets, size_t *n_sets);

/* The value that row's setting gives to a path, NULL if it has none. */
const char *target_setting(const struct target *t, const char *path);

/* workload.agents of its settings, 0 if they do not say. */
double target_agents(const struct target *t);

/* Whether its agents come over time; such runs stop as the paper's do (run_job.until_steady). */
bool target_is_open(const struct target *t);

/*
 * How many seeds its figure is a mean of: several for agents that come over time, as waits near
 * saturation hang on when they happen to, and for runs of few agents, which end with the longest of
 * the trajectories drawn.
 */
#define TARGET_MANY_SEEDS 5u
unsigned target_seeds(const struct target *t);

/*
 * Whether run i of the n of a row (one with each seed) counts. Of those with open arrivals only the
 * ones that became steady within the SLO do, as the paper's points end so; all, if none did. A
 * failed run counts, so that it is seen.
 */
bool target_counts(const struct target *t, const struct run_outcome *o, unsigned n, unsigned i);

/*
 * The metric of an outcome; the outcome's own error, or -EINVAL for an unknown metric, with err:
 *   jct_s, ttft_s, ttst_s, tpot_s, agent_jct_s, agents (in the system): with open arrivals those
 *     of run_outcome.steady
 *   sched_frac, alloc_frac, read_frac, prefill_frac: of the mean TTFT, of the same part
 *   snic_max_avg, attention_max_avg: over the steady part
 *   attention_max_avg@P, snic_max_avg@P: over the 5 % of the run that end at P %
 *   agents@T, prompt_tok_per_s@T, ttft_s@T: at T s, the latter over the 100 s around it
 */
int target_value(const char *metric, const struct run_outcome *o, double *ret, struct err *err);

#endif
