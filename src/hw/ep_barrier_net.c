/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/ep_barrier_net.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* A group as this node sees it, and, if it leads it, as all nodes do. */
struct meeting {
    struct list node;
    struct ep_barrier_net *owner;
    enum ep_side side;
    uint32_t group, n_ranks;
    uint32_t first_node, n_nodes; /* with engines of it */
    struct list members;
    uint32_t n_members, n_waiting;
    uint64_t phase, sum;     /* of the members here */
    bool told;               /* that all of them have come */
    struct loop_timer timer; /* one has come: call the others, or tell */

    uint64_t lead_phase, lead_sum;
    bool *came; /* [n_nodes] */
    uint32_t n_came;
};

static struct ep_barrier_net *net_of(struct ep_barrier *b)
{
    return container_of(b, struct ep_barrier_net, barrier);
}

static void say(const struct meeting *mt, uint32_t node, enum msg_meet_kind kind, uint64_t phase,
                uint64_t sum)
{
    struct ep_barrier_net *b = mt->owner;
    struct msg m = {
        .type = MSG_MEET,
        .src = MSG_NODE(b->node),
        .dst = MSG_NODE(node),
        .u.meet = {.kind = kind, .side = mt->side, .group = mt->group, .phase = phase, .sum = sum}};
    msg_send(b->messages, &m, 0);
}

static void somebody_came(struct loop_timer *t)
{
    struct meeting *mt = container_of(t, struct meeting, timer);
    if (mt->n_waiting < mt->n_members) {
        ep_call_missing(&mt->members);
    } else if (!mt->told) {
        mt->told = true;
        say(mt, mt->first_node, MSG_MEET_ARRIVE, mt->phase, mt->sum);
    }
}

/* The leader */

static void tell_all(struct meeting *mt, enum msg_meet_kind kind, uint64_t phase, uint64_t sum)
{
    for (uint32_t i = 0; i < mt->n_nodes; i++) {
        if (kind == MSG_MEET_RELEASE || !mt->came[i]) {
            say(mt, mt->first_node + i, kind, phase, sum);
        }
    }
}

static int take_arrive(struct meeting *mt, uint32_t node, const struct msg_meet *m)
{
    uint32_t i = node - mt->first_node;
    if (mt->owner->node != mt->first_node || i >= mt->n_nodes || mt->came[i] ||
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

static int take_call(struct meeting *mt, const struct msg_meet *m)
{
    if (m->phase != mt->phase) {
        return -EPROTO;
    }
    ep_call_missing(&mt->members);
    return 0;
}

static int take_release(struct meeting *mt, const struct msg_meet *m)
{
    if (m->phase != mt->phase || !mt->told) {
        return -EPROTO;
    }
    mt->phase++;
    mt->told = false;
    mt->n_waiting = 0;
    mt->sum = 0;
    ep_release_members(&mt->members, m->sum);
    return 0;
}

static struct meeting *find_meeting(struct ep_barrier_net *b, enum ep_side side, uint32_t group)
{
    list_for_each (pos, &b->meetings) {
        struct meeting *mt = container_of(pos, struct meeting, node);
        if (mt->side == side && mt->group == group) {
            return mt;
        }
    }
    return NULL;
}

int ep_barrier_net_take(struct ep_barrier_net *b, const struct msg *msg)
{
    const struct msg_meet *m = &msg->u.meet;
    struct meeting *mt = find_meeting(b, (enum ep_side)m->side, m->group);
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

/* Members */

static struct meeting *new_meeting(struct ep_barrier_net *b, const struct ep_member *m)
{
    struct meeting *mt = calloc(1, sizeof(*mt));
    if (!mt) {
        return NULL;
    }
    uint32_t gpus = b->gpus_per_node;
    uint32_t base = m->side == EP_PREFILL ? 0 : b->prefill_nodes;
    uint32_t first = m->group * m->n_ranks / gpus, last = ((m->group + 1) * m->n_ranks - 1) / gpus;
    mt->owner = b;
    mt->side = m->side;
    mt->group = m->group;
    mt->n_ranks = m->n_ranks;
    mt->first_node = base + first;
    mt->n_nodes = last - first + 1;
    mt->came = calloc(mt->n_nodes, sizeof(*mt->came));
    if (!mt->came) {
        free(mt);
        return NULL;
    }
    list_init(&mt->members);
    loop_timer_init(&mt->timer, somebody_came);
    list_add_tail(&b->meetings, &mt->node);
    return mt;
}

static int attach(struct ep_barrier *barrier, struct ep_member *m)
{
    struct ep_barrier_net *b = net_of(barrier);
    if (m->rank >= m->n_ranks) {
        return -EINVAL;
    }
    struct meeting *mt = find_meeting(b, m->side, m->group);
    if (mt && (mt->n_ranks != m->n_ranks || ep_rank_taken(&mt->members, m->rank))) {
        return -EINVAL;
    }
    mt = mt ? mt : new_meeting(b, m);
    if (!mt) {
        return -ENOMEM;
    }
    m->meeting = mt;
    mt->n_members++;
    list_add_tail(&mt->members, &m->node);
    return 0;
}

static void detach(struct ep_barrier *barrier, struct ep_member *m)
{
    struct meeting *mt = m->meeting;
    list_remove(&m->node);
    if (m->waiting) {
        m->waiting = false;
        mt->n_waiting--;
        mt->sum -= m->value;
    }
    if (--mt->n_members == 0) {
        loop_disarm(net_of(barrier)->loop, &mt->timer);
        list_remove(&mt->node);
        free(mt->came);
        free(mt);
    }
}

static void arrive(struct ep_barrier *barrier, struct ep_member *m)
{
    struct meeting *mt = m->meeting;
    mt->n_waiting++;
    mt->sum += m->value;
    loop_post(net_of(barrier)->loop, &mt->timer);
}

static const struct ep_barrier_ops ops = {
    .name = "net", .attach = attach, .detach = detach, .arrive = arrive};

void ep_barrier_net_init(struct ep_barrier_net *b, uint32_t prefill_nodes, uint32_t gpus_per_node,
                         uint32_t node, struct loop *loop, struct msg_port *messages)
{
    *b = (struct ep_barrier_net){.barrier.ops = &ops,
                                 .prefill_nodes = prefill_nodes,
                                 .gpus_per_node = gpus_per_node,
                                 .node = node,
                                 .loop = loop,
                                 .messages = messages};
    list_init(&b->meetings);
}

void ep_barrier_net_done(struct ep_barrier_net *b)
{
    assert(list_empty(&b->meetings));
    (void)b;
}
