/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A scenario run in virtual time: the cluster's objects on the simulated ports. */
#ifndef DUALPATH_PLAN_SIMULATE_H
#define DUALPATH_PLAN_SIMULATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "input/scenario.h"
#include "input/workload.h"
#include "report/metrics.h"
#include "report/result.h"

struct simulation;

/* How far a run has got. */
struct simulation_progress {
    double simulated_s;
    uint64_t events;
    uint64_t requests_over, requests_total; /* total: of all turns of the workload */
};

struct simulation_options {
    const atomic_bool *interrupted; /* NULL, or set by a signal handler */
    void (*progress)(void *arg, const struct simulation_progress *p); /* NULL: not wanted */
    void *progress_arg;
    FILE *requests_csv;  /* NULL, or one row per request */
    FILE *decisions_csv; /* NULL, or one row per decision of the central scheduler */
    FILE *series_csv;    /* NULL, or one row per interval */
    /* NULL, or asked every 10 s of simulated time: true ends the run there. Requests are then in
     * the system, so conservation is not checked, and figures are of what has finished. */
    bool (*enough)(void *arg, const struct metrics *m);
    void *enough_arg;
};

/*
 * Builds everything for sc (which must outlive it): workload, cluster, links. What fails here is
 * bad input: err names file and field. Returns 0 and *ret_simulation, freed with simulation_free().
 */
int simulation_new(const struct scenario *sc, const struct simulation_options *options,
                   struct simulation **ret_simulation, struct err *err);
void simulation_free(struct simulation *s);

/* The workload that it runs, for an export. */
const struct workload *simulation_workload(const struct simulation *s);

/*
 * Runs it to the end and checks that everything is conserved (unless options.enough ended it
 * before). Returns 0 and *ret; -ECANCELED when interrupted; another negative errno with err when
 * the run did not finish every request or something was not conserved. Once only.
 */
int simulation_run(struct simulation *s, struct result *ret, struct err *err);

#endif
