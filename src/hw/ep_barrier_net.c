/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/ep_barrier_net.h"

#include <errno.h>
#include <stdlib.h>

/* A group as this node sees it, and, if it leads it, as all nodes do. */
struct net_meeting {
    struct ep_meeting here;
    uint32_t first_node, n_nodes; /* with engines of it */
    uint64_t phase;               /* of the members here */
    bool told;                    /* that all of them have come */

    uint64_t lead_phase, lead_sum;
    bool *came; /* [n_nodes] */
    uint32_t n_came;
};

static struct ep_barrier_net *net_of(struct ep_barrier *b)
{
    return container_of(b, struct ep_barrier_net, barrier);
}

static struct net_meeting *net_meeting(struct ep_meeting *mt)
{
    return container_of(mt, struct net_meeting, here);
}

static void say(const struct net_meeting *mt, uint32_t node, enum msg_meet_kind kind,
                uint64_t phase, uint64_t sum)
{
    struct ep_barrier_net *b = net_of(mt->here.barrier);
    struct msg m = {.type = MSG_MEET,
                    .src = MSG_NODE(b->node),
                    .dst = MSG_NODE(node),
                    .u.meet = {.kind = kind,
                               .side = mt->here.side,
                               .group = mt->here.group,
                               .phase = phase,
                               .sum = sum}};
    msg_send(b->messages, &m, 0);
}

static void arrived(struct ep_meeting *here)
{
    struct net_meeting *mt = net_meeting(here);
    if (here->n_waiting < here->n_members) {
        ep_call_missing(here);
    } else if (!mt->told) {
        mt->told = true;
        say(mt, mt->first_node, MSG_MEET_ARRIVE, mt->phase, here->sum);
    }
}

/* The leader */

static void tell_all(struct net_meeting *mt, enum msg_meet_kind kind, uint64_t phase, uint64_t sum)
{
    for (uint32_t i = 0; i < mt->n_nodes; i++) {
        if (kind == MSG_MEET_RELEASE || !mt->came[i]) {
            say(mt, mt->first_node + i, kind, phase, sum);
        }
    }
}

static int take_arrive(struct net_meeting *mt, uint32_t node, const struct msg_meet *m)
{
    uint32_t i = node - mt->first_node;
    if (net_of(mt->here.barrier)->node != mt->first_node || i >= mt->n_nodes || mt->came[i] ||
        m->phase != mt->lead_phase) {
        return -EPROTO;
    }
    mt->came[i] = true;
    mt->lead_sum += m->sum;
    if (++mt->n_came < mt->n_nodes) {
        if (mt->n_came == 1) {
            tell_all(mt, MSG_MEET_CALL, mt->lead_phase, 0);
        }
        return 0;
    }
    tell_all(mt, MSG_MEET_RELEASE, mt->lead_phase, mt->lead_sum);
    mt->lead_phase++;
    mt->lead_sum = 0;
    mt->n_came = 0;
    for (i = 0; i < mt->n_nodes; i++) {
        mt->came[i] = false;
    }
    return 0;
}

/* Everybody */

static int take_call(struct net_meeting *mt, const struct msg_meet *m)
{
    if (m->phase != mt->phase) {
        return -EPROTO;
    }
    ep_call_missing(&mt->here);
    return 0;
}

static int take_release(struct net_meeting *mt, const struct msg_meet *m)
{
    if (m->phase != mt->phase || !mt->told) {
        return -EPROTO;
    }
    mt->phase++;
    mt->told = false;
    ep_release(&mt->here, m->sum);
    return 0;
}

int ep_barrier_net_take(struct ep_barrier_net *b, const struct msg *msg)
{
    const struct msg_meet *m = &msg->u.meet;
    struct ep_meeting *here = ep_find_meeting(&b->barrier, (enum ep_side)m->side, m->group);
    struct net_meeting *mt = here ? net_meeting(here) : NULL;
    uint32_t from = msg->src - MSG_NODE(0);
    if (!mt || (m->kind != MSG_MEET_ARRIVE && from != mt->first_node)) {
        return -EPROTO;
    }
    switch (m->kind) {
    case MSG_MEET_ARRIVE:
        return take_arrive(mt, from, m);
    case MSG_MEET_CALL:
        return take_call(mt, m);
    case MSG_MEET_RELEASE:
        return take_release(mt, m);
    default:
        return -EPROTO;
    }
}

/* Meetings */

static struct ep_meeting *new_meeting(struct ep_barrier *barrier, const struct ep_member *m)
{
    const struct ep_barrier_net *b = net_of(barrier);
    struct net_meeting *mt = calloc(1, sizeof(*mt));
    if (!mt) {
        return NULL;
    }
    uint32_t gpus = b->gpus_per_node;
    uint32_t base = m->side == EP_PREFILL ? 0 : b->prefill_nodes;
    uint32_t first = m->group * m->n_ranks / gpus, last = ((m->group + 1) * m->n_ranks - 1) / gpus;
    mt->first_node = base + first;
    mt->n_nodes = last - first + 1;
    mt->came = calloc(mt->n_nodes, sizeof(*mt->came));
    if (!mt->came) {
        free(mt);
        return NULL;
    }
    return &mt->here;
}

static void free_meeting(struct ep_meeting *here)
{
    struct net_meeting *mt = net_meeting(here);
    free(mt->came);
    free(mt);
}

static const struct ep_barrier_ops ops = {
    .name = "net", .new_meeting = new_meeting, .free_meeting = free_meeting, .arrived = arrived};

void ep_barrier_net_init(struct ep_barrier_net *b, uint32_t prefill_nodes, uint32_t gpus_per_node,
                         uint32_t node, struct loop *loop, struct msg_port *messages)
{
    *b = (struct ep_barrier_net){.prefill_nodes = prefill_nodes,
                                 .gpus_per_node = gpus_per_node,
                                 .node = node,
                                 .messages = messages};
    ep_barrier_init(&b->barrier, &ops, loop);
}
