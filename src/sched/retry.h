/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What happens when a node dies and cluster.retry is set: its requests are run again on the nodes
 * that are left, none is lost and none is served twice.
 *
 *   1. Whoever runs the nodes notices the death and sends MSG_DEAD to the scheduler. That gives the
 *      node no more work, puts what was chosen for it and not started back into the queues, marks
 *      the requests that have started there, as prefill or as decode node, as lost, and tells all
 *      live nodes.
 *   2. A node that is told ignores the dead one from then on, lets nothing of it into its memory
 *      any more (dp_forget_node()), and cancels what the dead one had part in. When nothing is
 *      left of it, no transfer, no buffer, no place in a batch, it says so (MSG_CLEAR), by way of
 *      the client: so the client has heard everything that the node had told it before.
 *   3. When all live nodes are clear, the scheduler tells the client of each lost request
 *      (MSG_LOST). What the client has heard of it by now is all that it will hear:
 *        - without its last token it is submitted again, under a new id;
 *        - with its last token, the agent has its answer and nothing is repeated. If what it had
 *          to write is not durable, the session's next turn hits only what was durable before.
 *      The client answers each with MSG_OVER, and sends that for requests that end well, too.
 *
 * Storage outlives nodes, so a request that is run again reads the same hits; blocks that the dead
 * node had written already are written once more, with the same bytes.
 *
 * Accounts: of a cancelled request, a live decode node reports all as done. A live prefill node may
 * never have heard of it; it reports a request as done if its first token was sent, else neither
 * that nor the read, and the scheduler takes back what it had charged.
 *
 * Not supported: EP groups that span nodes, as one that has lost a member never meets again; KV
 * that decode nodes keep for the next turn (cluster.reuse), as what a dead node has kept is not
 * forgotten; traces with block ids, as a prefix that another session waits for may never become
 * durable.
 *
 * This header is the scheduler's side; it is used by central.c only.
 */
#ifndef DUALPATH_SCHED_RETRY_H
#define DUALPATH_SCHED_RETRY_H

#include "sched/central.h"

bool central_is_dead(const struct central *s, uint32_t node);

/* The messages of above. */
void central_take_death(struct central *s, uint32_t node);
void central_take_clear(struct central *s, const struct msg_clear *m);
void central_take_over(struct central *s, const struct msg_over *m);

/* A request has been submitted; has started. */
void central_keep_open(struct central *s, struct central_request *q);
void central_keep_started(struct central *s, struct central_request *q, uint32_t prefill_read_tok);

/* Of central.c. */
void central_refresh_engine(struct policy_engine *e, const struct central_account *a,
                            uint64_t capacity_blocks);

#endif
