/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The hub of a real run: client and central scheduler on the wall clock, and the agents around
 * them.
 *
 * hub_new() listens and starts the agents, or waits for those that somebody else starts; hub_run()
 * brings them up, plays the workload, and collects their reports. A run that cannot go on ends with
 * the cause that is nearest to the root: an agent killed before an agent that gave up, before a
 * lost connection, before the operations that failed on its account.
 *
 * With cluster.retry an agent that dies while the run goes on does not end it: the scheduler is
 * told (sched/retry.h). An operation that failed at another node for no other reason than such a
 * death is forgiven: the death must be noticed before the time for which silence is borne is over.
 */
#ifndef DUALPATH_REAL_HUB_H
#define DUALPATH_REAL_HUB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"
#include "real/agent_report.h"
#include "real/run_config.h"
#include "sched/central.h"
#include "sched/client.h"
#include "sched/workload.h"

struct hub;

struct hub_options {
    const struct run_config *config; /* outlives the hub */
    const struct workload *workload; /* arrivals count from the start of the run */
    const char *join_path;           /* written, and removed at the end */
    const char *host;                /* listen here: a numeric address */
    bool start_agents;               /* on this machine */
    uint64_t join_timeout_ns;        /* until all agents are ready */
    uint64_t stuck_ns;               /* no request has finished for so long: give up */
    const atomic_bool *interrupted;  /* set by a signal handler: ends the run within 50 ms */
    void *self;
    void (*note)(void *self, const char *text); /* for the log: refused peers, agents coming up */
    /* All are ready, nothing has arrived yet: set observers, start measuring. 0 or negative errno.
     */
    int (*begin)(void *self, struct hub *h);
    struct client_observer observer; /* without all_over and fault; times are those of hub_loop() */
};

/* 0 and *ret (hub_free()), or negative errno with err. */
int hub_new(const struct hub_options *options, struct hub **ret, struct err *err);

/* Once. 0, -ECANCELED when interrupted, -ENODEV when a node lacks hardware that the run needs, or
 * another negative errno; with err naming what ended the run. */
int hub_run(struct hub *h, struct err *err);

/* Ends agents that still run, by their pids. */
void hub_free(struct hub *h);

struct loop *hub_loop(struct hub *h);
struct central *hub_central(struct hub *h);
const struct client *hub_client(const struct hub *h);
uint64_t hub_start_ns(const struct hub *h); /* on hub_loop() */

/* Whether it has died (cluster.retry), and if so when, on hub_loop() (ret_ns may be NULL); how many
 * have. */
bool hub_node_died(const struct hub *h, uint32_t node, uint64_t *ret_ns);
uint32_t hub_deaths(const struct hub *h);

/* The report of a node that lives, after a good hub_run(). */
const struct agent_report *hub_report(const struct hub *h, uint32_t node);

/* "prefill node 0", "decode node 3". */
void hub_node_name(const struct cluster *c, uint32_t node, char *buf, size_t size);

#endif
