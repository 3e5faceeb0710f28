/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The central scheduler: queues, accounts and messages around a policy.
 *
 * Every request waits twice, for a prefill engine and for a decode engine, independently. Leaders
 * fetch; a fetch brings the node's report and, if it comes from a group's first node, hands out
 * work to the engines of that group. When both engines are known the path is chosen and the decode
 * node is told to start. Work is serial and charged: cluster.scheduler_cost_ns per request.
 */
#ifndef DUALPATH_SCHED_CENTRAL_H
#define DUALPATH_SCHED_CENTRAL_H

#include "base/idmap.h"
#include "base/loop.h"
#include "base/pool.h"
#include "sched/message.h"
#include "sched/policy.h"

struct central_request {
    struct list prefill_link, decode_link;
    uint32_t index; /* in the pool */
    struct policy_request p;
    struct msg_request r;
    uint64_t received_ns;
    uint32_t prefill_engine, decode_engine; /* POLICY_WAIT while not chosen */

    /* With cluster.retry a request is kept until MSG_OVER; see retry.h. */
    struct list kept;          /* in open, in order of tickets, or started */
    uint32_t prefill_read_tok; /* started: hits that the prefill node reads */
    bool lost_told;            /* MSG_LOST was sent */
    uint32_t lost_at;          /* number of the last death that it had part in; 0: none */
};

/* What was assigned to an engine, in total, beside what its node has reported done. */
struct central_account {
    uint64_t tok, requests, blocks;
    uint64_t done_tok, done_requests, done_blocks;
};

/* Decode engines engine .. engine + n_engines have the KV of a session's turns so far. */
struct central_kept {
    uint32_t engine, n_engines;
    uint32_t tok;
};

/* Told of every decision, in order. */
struct central_observer {
    void *self;
    void (*decided)(void *self, const struct msg_start *start);
};

struct central {
    const struct cluster *cluster;
    const struct policy_ops *policy;
    struct loop *loop;
    struct msg_port *messages;
    struct pool requests;
    uint64_t next_ticket;
    uint64_t busy_until_ns;

    struct list unplaced_prefill, unplaced_decode; /* not yet in any queue */
    struct list global_prefill;
    struct list *prefill_queues; /* by engine */
    struct list *decode_queues;  /* by group */
    uint64_t *decode_queued_tok; /* by group */

    struct policy_engine *prefill, *decode;
    struct policy_node *nodes;
    struct central_account *prefill_accounts, *decode_accounts; /* by engine */
    uint64_t *read_assigned_tok;                                /* by node */
    struct pool kept;             /* struct central_kept: what decode nodes say they have... */
    struct idmap kept_by_session; /* ...until the session's next turn is decided */

    /* cluster.retry */
    struct list open, started;
    struct idmap by_id; /* of these two, by request */
    uint32_t n_deaths;
    uint32_t *cleared; /* by node: deaths of which it has nothing left */

    struct central_observer observer; /* set after central_init(), or left empty */
    uint64_t n_decisions;
    /* Of (session, turn, engines, path, parts of it) in order: equal runs, equal decisions. */
    uint64_t decision_hash;
};

/* Attaches to MSG_SCHEDULER. Returns 0, -ENOMEM or the port's error. */
int central_init(struct central *s, const struct cluster *cluster, struct loop *loop,
                 struct msg_port *messages);
void central_done(struct central *s);

#endif
