/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The client: replays a workload against the central scheduler and takes the times.
 *
 * A turn arrives delay_ns after the end of everything it waits for. It is submitted when it has
 * arrived and the blocks it hits are durable: its session's own last turn (always), and for traces
 * with block ids the prompts of other sessions that it shares a prefix with. So a hit is never read
 * before it is written, and which blocks hit depends on the order of arrivals alone, not on how
 * fast the cluster is. Waiting for durability counts as scheduling time of the turn.
 *
 * With a storage of finite capacity a turn hits what is left of its session's context at its
 * arrival (sched/stored.h); the rest is computed and written again.
 *
 * A request whose node has died is submitted again unless the agent has its answer; sched/retry.h.
 *
 * The storage index is a trie of the trace's blocks; a session's private context (no ids in the
 * trace) is a single edge of such a trie and is kept as its length.
 */
#ifndef DUALPATH_SCHED_CLIENT_H
#define DUALPATH_SCHED_CLIENT_H

#include "base/idmap.h"
#include "base/loop.h"
#include "base/pool.h"
#include "datapath/block_trie.h"
#include "sched/cluster.h"
#include "sched/message.h"
#include "sched/stored.h"
#include "sched/workload.h"

/* Everything there is to know of a finished turn; times on the client's clock. */
struct client_turn {
    uint32_t session, turn;
    uint32_t prompt_tok, hit_tok, gen_tok;
    uint64_t arrival_ns, submit_ns;
    uint64_t first_ns, second_ns, last_ns; /* second = first when there is one token only */
    /* Parts of first_ns - arrival_ns: they add up, prefill_ns is what is left. */
    uint64_t scheduled_ns, alloc_ns, read_ns, prefill_ns;
    uint64_t queue_ns; /* part of prefill_ns: at the engine until it is packed into a forward */
};

/* What the client tells its owner; all calls come from the loop. */
struct client_observer {
    void *self;
    void (*turn_arrived)(void *self);
    void (*turn_over)(void *self, const struct client_turn *t);
    void (*session_over)(void *self, uint32_t session, uint64_t arrival_ns, uint64_t end_ns);
    void (*all_over)(void *self); /* every session is over and everything durable */
    /* node: that tells it; MSG_NO_NODE: the scheduler */
    void (*fault)(void *self, const struct msg_fault *f, uint32_t node);
    /* NULL, or: the first request is in the system, before it is submitted; the last one has left
     * it. */
    void (*busy)(void *self, bool busy);
};

struct client_totals {
    uint64_t sessions, requests;
    uint64_t prompt_tok, hit_tok, gen_tok; /* of submitted requests */
    uint64_t evicted_tok;                  /* of prompts: hits if the storage had no limit */
    uint64_t sessions_over, requests_over;
    uint64_t served_prompt_tok, served_gen_tok; /* as the nodes report them */
    uint64_t reruns;                            /* submissions again after a death */
    uint64_t not_durable; /* requests answered whose new blocks were lost with their node */
};

struct client_session;
struct client_request;

struct client {
    const struct cluster *cluster;
    const struct workload *workload;
    struct loop *loop;
    struct msg_port *messages;
    struct client_observer observer;
    struct client_session *sessions;
    struct pool requests;
    struct idmap by_id; /* indexes of submitted requests, by the id on the wire */
    uint32_t next_id;
    struct block_trie trie;
    struct stored stored; /* private contexts only */
    uint32_t next_root;   /* next session to arrive by itself */
    struct loop_timer arrival_timer;
    struct client_totals totals;
    uint64_t in_system; /* requests arrived and not over */
};

/* Attaches to MSG_CLIENT and arms the first arrivals. Returns 0, -ENOMEM or the port's error. */
int client_init(struct client *c, const struct cluster *cluster, const struct workload *workload,
                struct loop *loop, struct msg_port *messages,
                const struct client_observer *observer);
void client_done(struct client *c);

#endif
