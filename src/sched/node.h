/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the agents of prefill and decode nodes have in common: their ports, and the leader's fetch.
 */
#ifndef DUALPATH_SCHED_NODE_H
#define DUALPATH_SCHED_NODE_H

#include "base/idmap.h"
#include "base/loop.h"
#include "datapath/dp.h"
#include "sched/cluster.h"
#include "sched/compute.h"
#include "sched/message.h"

/* The ports of a node; all outlive it. */
struct node_ports {
    struct loop *loop;
    struct dp *dp;
    struct msg_port *messages;
    struct compute_port *compute;
};

struct node {
    const struct cluster *cluster;
    struct node_ports ports;
    uint32_t id;
    struct loop_timer fetch_timer;
    uint64_t paused_fetch_ns; /* when the fetch that was due at node_pause_fetches() would be */
    struct msg_fetch report;
    bool fetches_itself; /* calls node_fetch() when it is time: the periodic fetch pauses */
    bool stopped;

    /* Deaths of other nodes (cluster.retry). */
    struct idmap dead; /* by node id */
    uint32_t n_deaths;
    uint32_t n_doomed;  /* requests here that a dead node had part in */
    bool clear_pending; /* that there are none is to be told */
};

/* Arms the first fetch, spread over the period by node id so that leaders do not all call at once.
 */
void node_init(struct node *n, const struct cluster *cluster, const struct node_ports *ports,
               uint32_t id);

/* Begins the cycle of fetches again: on real machines all nodes do when the run starts, so that
 * their phases are those that the simulator gives them. */
void node_restart_fetches(struct node *n);

/* Sends the report and calls for work now. */
void node_fetch(struct node *n);

/* No fetches for a while, and again from the next time on at which there would have been one. */
void node_pause_fetches(struct node *n);
void node_resume_fetches(struct node *n);

/* No more fetches. */
void node_stop(struct node *n);
void node_done(struct node *n); /* after node_stop() */

/* Whether m comes from a node that is dead: nobody waits for what it still says. */
bool node_ignores(const struct node *n, const struct msg *m);

/* Another node has died: nothing that it sends is received any more. The caller then dooms the
 * requests it had part in. */
void node_take_death(struct node *n, uint32_t dead);

/* Tells, once per death, that n_doomed is 0. */
void node_tell_if_clear(struct node *n);

/* Sends to an endpoint. */
void node_send(struct node *n, uint32_t dst, struct msg *m);

/* Tells the client that an operation failed; the run ends with this, unless it was a copy and the
 * node at its other end turns out to be dead. */
void node_fault(struct node *n, uint32_t request, int status, const char *what);

/* Submits an op whose traffic class names it in a fault. */
void node_submit(struct node *n, struct dp_op *op, uint32_t request);

/* The chain of a request's blocks. */
static inline struct dp_chain node_chain(const struct msg_start *s)
{
    return (struct dp_chain){.chain_id = s->r.session, .turn = s->r.turn};
}

/* Whether op ended well; if not, reports it. What the op was for then stays as it is. */
bool node_op_ok(struct node *n, const struct dp_op *op, uint32_t request);

#endif
