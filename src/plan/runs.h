/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Many independent simulations, a few at a time, each in a process of its own: a run that fails or
 * crashes takes nothing else with it, and the library stays free of threads.
 */
#ifndef DUALPATH_PLAN_RUNS_H
#define DUALPATH_PLAN_RUNS_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/err.h"
#include "input/scenario.h"
#include "report/metrics.h"
#include "report/result.h"

/* A run over time, at most this many points, evenly spread. */
#define RUNS_MAX_POINTS 400u

/* Between this point and the one before; max_avg: over the windows that ended there, 0 if none. */
struct run_point {
    double t_s;
    double agents; /* not over yet, at t_s */
    double prompt_tok_per_s, ttft_s;
    double snic_max_avg;
    double forward_s, forward_max_avg_s; /* see struct metrics_sample */
};

/*
 * The steady part of a run with open arrivals. Windows of 150 s; warm-up is over with the first
 * whose mean TTFT is within 5 % of the one 30 minutes before (the paper's rule); the means are over
 * what finished from the start of that earlier window to the last arrival. Of a run that stops as
 * the paper's do, see run_steady_end().
 */
struct run_steady {
    bool reached; /* false: no such window; means are over the second half of the arrivals (of a
                     run that stops as the paper's do, over what it ended with all the same) */
    double start_s, end_s;
    double ttft_s, ttst_s, tpot_s, agent_jct_s;
    double sched_s, alloc_s, read_s, prefill_s, prefill_queue_s; /* as in struct result */
    double agents;                                               /* in the system, mean */
    struct metrics_working_set working_set;
};

struct run_job {
    const char *scenario; /* as for scenario_read() */
    const char *const *sets;
    size_t n_sets;
    bool until_steady; /* with open arrivals: stops when run_course() says so */
};

struct run_outcome {
    struct err err; /* err.code 0: the run succeeded */
    struct result result;
    struct run_steady steady;
    size_t n_points;
    struct run_point points[RUNS_MAX_POINTS];
};

struct runs_options {
    unsigned workers;                                     /* processes at a time, >= 1 */
    const atomic_bool *interrupted;                       /* NULL, or set by a signal handler */
    void (*progress)(void *arg, size_t done, size_t all); /* NULL, or after every run */
    void *progress_arg;
};

/*
 * Runs all jobs, the largest first; jobs that come to the same scenario and end run once.
 * outcomes[i] is job i's. Returns 0 when every job was tried; -ECANCELED when interrupted; another
 * negative errno with err when a scenario is wrong (nothing has run then) or processes cannot be
 * started.
 */
int runs_execute(const struct run_job *jobs, size_t n, const struct runs_options *options,
                 struct run_outcome *outcomes, struct err *err);

#endif
