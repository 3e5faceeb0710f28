/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/ep_barrier.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

void ep_barrier_init(struct ep_barrier *b, const struct ep_barrier_ops *ops, struct loop *loop)
{
    *b = (struct ep_barrier){.ops = ops, .loop = loop};
    list_init(&b->meetings);
}

void ep_barrier_done(struct ep_barrier *b)
{
    assert(list_empty(&b->meetings));
    (void)b;
}

struct ep_meeting *ep_find_meeting(struct ep_barrier *b, enum ep_side side, uint32_t group)
{
    list_for_each (pos, &b->meetings) {
        struct ep_meeting *mt = container_of(pos, struct ep_meeting, node);
        if (mt->side == side && mt->group == group) {
            return mt;
        }
    }
    return NULL;
}

static void somebody_came(struct loop_timer *t)
{
    struct ep_meeting *mt = container_of(t, struct ep_meeting, timer);
    mt->barrier->ops->arrived(mt);
}

static struct ep_meeting *new_meeting(struct ep_barrier *b, const struct ep_member *m)
{
    struct ep_meeting *mt = b->ops->new_meeting(b, m);
    if (mt) {
        mt->barrier = b;
        mt->side = m->side;
        mt->group = m->group;
        mt->n_ranks = m->n_ranks;
        list_init(&mt->members);
        loop_timer_init(&mt->timer, somebody_came);
        list_add_tail(&b->meetings, &mt->node);
    }
    return mt;
}

static bool rank_taken(const struct ep_meeting *mt, uint32_t rank)
{
    list_for_each (pos, &mt->members) {
        if (container_of(pos, struct ep_member, node)->rank == rank) {
            return true;
        }
    }
    return false;
}

int ep_attach(struct ep_barrier *b, struct ep_member *m)
{
    m->phase = 0;
    m->waiting = m->was_called = false;
    m->meeting = NULL;
    list_init(&m->node);
    if (m->rank >= m->n_ranks) {
        return -EINVAL;
    }
    struct ep_meeting *mt = ep_find_meeting(b, m->side, m->group);
    if (mt && (mt->n_ranks != m->n_ranks || rank_taken(mt, m->rank))) {
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

void ep_detach(struct ep_barrier *b, struct ep_member *m)
{
    struct ep_meeting *mt = m->meeting;
    if (!mt) {
        return;
    }
    m->meeting = NULL;
    list_remove(&m->node);
    if (m->waiting) {
        m->waiting = false;
        mt->n_waiting--;
        mt->sum -= m->value;
    }
    if (--mt->n_members == 0) {
        loop_disarm(b->loop, &mt->timer);
        list_remove(&mt->node);
        b->ops->free_meeting(mt);
    }
}

void ep_arrive(struct ep_barrier *b, struct ep_member *m, uint64_t value)
{
    struct ep_meeting *mt = m->meeting;
    assert(mt && !m->waiting);
    m->waiting = true;
    m->value = value;
    mt->n_waiting++;
    mt->sum += value;
    loop_post(b->loop, &mt->timer);
}

void ep_release(struct ep_meeting *mt, uint64_t sum)
{
    struct list before;
    list_init(&before);
    mt->n_waiting = 0;
    mt->sum = 0;
    list_move_all(&mt->members, &before);
    while (!list_empty(&before)) {
        struct ep_member *m = container_of(list_first(&before), struct ep_member, node);
        list_remove(&m->node);
        list_add_tail(&mt->members, &m->node);
        m->waiting = m->was_called = false;
        m->phase++;
        m->released(m, sum);
    }
}

void ep_call_missing(struct ep_meeting *mt)
{
    list_for_each_safe (pos, tmp, &mt->members) {
        struct ep_member *m = container_of(pos, struct ep_member, node);
        if (!m->waiting && m->called && !m->was_called) {
            m->was_called = true;
            m->called(m);
        }
    }
}

/* Groups of this process */

static struct ep_meeting *local_new(struct ep_barrier *b, const struct ep_member *m)
{
    (void)b, (void)m;
    return calloc(1, sizeof(struct ep_meeting));
}

static void local_free(struct ep_meeting *mt)
{
    free(mt);
}

static void local_arrived(struct ep_meeting *mt)
{
    if (mt->n_waiting == mt->n_ranks) {
        ep_release(mt, mt->sum);
    } else {
        ep_call_missing(mt);
    }
}

static const struct ep_barrier_ops local_ops = {.name = "local",
                                                .new_meeting = local_new,
                                                .free_meeting = local_free,
                                                .arrived = local_arrived};

void ep_barrier_local_init(struct ep_barrier *b, struct loop *loop)
{
    ep_barrier_init(b, &local_ops, loop);
}
