/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * EP groups that span nodes: the barrier of ep_barrier.h by messages of the control plane, one
 * round trip per phase.
 *
 *   node -> leader   MSG_MEET arrive: all members of the group here have come; the sum they brought
 *   leader -> nodes  MSG_MEET call: somebody has come; members that come when called, do
 *   leader -> nodes  MSG_MEET release: all have; the sum over all
 *
 * The leader is the node of the group's first engine; it speaks to itself as to the others.
 * Messages carry the phase, so that both sides know that they talk of the same one.
 */
#ifndef DUALPATH_HW_EP_BARRIER_NET_H
#define DUALPATH_HW_EP_BARRIER_NET_H

#include "hw/ep_barrier.h"
#include "sched/message.h"

struct ep_barrier_net {
    struct ep_barrier barrier;
    uint32_t prefill_nodes, gpus_per_node; /* numbered as in sched/cluster.h */
    uint32_t node;
    struct msg_port *messages;
};

/* For the engines of one node; loop and messages outlive it. Ends by ep_barrier_done(). */
void ep_barrier_net_init(struct ep_barrier_net *b, uint32_t prefill_nodes, uint32_t gpus_per_node,
                         uint32_t node, struct loop *loop, struct msg_port *messages);

/* Takes a MSG_MEET for the node. 0, or -EPROTO when it makes no sense. */
int ep_barrier_net_take(struct ep_barrier_net *b, const struct msg *m);

#endif
