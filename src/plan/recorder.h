/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Between a run, simulated or real, and its record: takes what the client and the scheduler tell,
 * fills metrics, rows of requests and decisions, and what should have become durable. Times in the
 * rows count from the start of the run.
 */
#ifndef DUALPATH_PLAN_RECORDER_H
#define DUALPATH_PLAN_RECORDER_H

#include <stdio.h>

#include "input/scenario.h"
#include "report/metrics.h"
#include "sched/central.h"
#include "sched/client.h"

struct recorder {
    const struct scenario *scenario;
    const struct cluster *cluster;
    const struct workload *workload;
    FILE *requests_csv, *decisions_csv; /* NULL: not wanted */
    struct metrics metrics;
    uint64_t *turn_end_ns;    /* by session: of its last turn, 0 = none */
    uint64_t expected_blocks; /* that finished requests should have persisted */
};

/* Starts the metrics and writes the headers; the run's time begins now. Set scenario, cluster,
 * workload and the files before. 0 or -ENOMEM; recorder_done() then must not be called. */
int recorder_start(struct recorder *r, struct loop *loop, const struct metrics_probe *probe);
void recorder_done(struct recorder *r);

/* Fills turn_arrived, turn_over and session_over; self is the recorder. */
void recorder_observe_client(struct recorder *r, struct client_observer *ret);
void recorder_observe_central(struct recorder *r, struct central_observer *ret);

/* When the last session that nobody spawns arrives; 0 when all are there from the start. */
uint64_t recorder_last_arrival_ns(const struct workload *w);

/* The figures that do not depend on the backend, and the run's identity. trace_sha256: of the
 * workload. */
void recorder_result(struct recorder *r, const char *backend, const char *trace_sha256,
                     struct result *ret);

#endif
