/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/ep_barrier.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

int ep_attach(struct ep_barrier *b, struct ep_member *m)
{
    m->phase = 0;
    m->waiting = m->was_called = false;
    m->meeting = NULL;
    list_init(&m->node);
    return b->ops->attach(b, m);
}

void ep_detach(struct ep_barrier *b, struct ep_member *m)
{
    if (m->meeting) {
        b->ops->detach(b, m);
        m->meeting = NULL;
    }
}

void ep_arrive(struct ep_barrier *b, struct ep_member *m, uint64_t value)
{
    assert(m->meeting && !m->waiting);
    m->waiting = true;
    m->value = value;
    b->ops->arrive(b, m);
}

/* A group of this process. */
struct meeting {
    struct list node;
    struct ep_barrier_local *barrier;
    enum ep_side side;
    uint32_t group, n_ranks;
    struct list members;
    uint32_t n_members, n_waiting;
    uint64_t sum;
    struct loop_timer timer; /* somebody arrived: call the others, or release all */
};

static struct ep_barrier_local *local_of(struct ep_barrier *b)
{
    return container_of(b, struct ep_barrier_local, barrier);
}

static void release_all(struct meeting *mt)
{
    uint64_t sum = mt->sum;
    mt->n_waiting = 0;
    mt->sum = 0;
    ep_release_members(&mt->members, sum);
}

void ep_release_members(struct list *members, uint64_t sum)
{
    struct list before;
    list_init(&before);
    list_move_all(members, &before);
    while (!list_empty(&before)) {
        struct ep_member *m = container_of(list_first(&before), struct ep_member, node);
        list_remove(&m->node);
        list_add_tail(members, &m->node);
        m->waiting = m->was_called = false;
        m->phase++;
        m->released(m, sum);
    }
}

void ep_call_missing(struct list *members)
{
    list_for_each_safe (pos, tmp, members) {
        struct ep_member *m = container_of(pos, struct ep_member, node);
        if (!m->waiting && m->called && !m->was_called) {
            m->was_called = true;
            m->called(m);
        }
    }
}

static void meet(struct loop_timer *t)
{
    struct meeting *mt = container_of(t, struct meeting, timer);
    if (mt->n_waiting == mt->n_ranks) {
        release_all(mt);
    } else {
        ep_call_missing(&mt->members);
    }
}

static struct meeting *find_meeting(struct ep_barrier_local *b, const struct ep_member *m)
{
    list_for_each (pos, &b->meetings) {
        struct meeting *mt = container_of(pos, struct meeting, node);
        if (mt->side == m->side && mt->group == m->group) {
            return mt;
        }
    }
    return NULL;
}

static struct meeting *new_meeting(struct ep_barrier_local *b, const struct ep_member *m)
{
    struct meeting *mt = calloc(1, sizeof(*mt));
    if (mt) {
        mt->barrier = b;
        mt->side = m->side;
        mt->group = m->group;
        mt->n_ranks = m->n_ranks;
        list_init(&mt->members);
        loop_timer_init(&mt->timer, meet);
        list_add_tail(&b->meetings, &mt->node);
    }
    return mt;
}

bool ep_rank_taken(const struct list *members, uint32_t rank)
{
    list_for_each (pos, members) {
        if (container_of(pos, struct ep_member, node)->rank == rank) {
            return true;
        }
    }
    return false;
}

static int local_attach(struct ep_barrier *barrier, struct ep_member *m)
{
    struct ep_barrier_local *b = local_of(barrier);
    if (m->rank >= m->n_ranks) {
        return -EINVAL;
    }
    struct meeting *mt = find_meeting(b, m);
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

static void local_detach(struct ep_barrier *barrier, struct ep_member *m)
{
    struct meeting *mt = m->meeting;
    list_remove(&m->node);
    if (m->waiting) {
        m->waiting = false;
        mt->n_waiting--;
        mt->sum -= m->value;
    }
    if (--mt->n_members == 0) {
        loop_disarm(local_of(barrier)->loop, &mt->timer);
        list_remove(&mt->node);
        free(mt);
    }
}

static void local_arrive(struct ep_barrier *barrier, struct ep_member *m)
{
    struct meeting *mt = m->meeting;
    mt->n_waiting++;
    mt->sum += m->value;
    loop_post(local_of(barrier)->loop, &mt->timer);
}

static const struct ep_barrier_ops local_ops = {
    .name = "local", .attach = local_attach, .detach = local_detach, .arrive = local_arrive};

void ep_barrier_local_init(struct ep_barrier_local *b, struct loop *loop)
{
    *b = (struct ep_barrier_local){.barrier.ops = &local_ops, .loop = loop};
    list_init(&b->meetings);
}

void ep_barrier_local_done(struct ep_barrier_local *b)
{
    assert(list_empty(&b->meetings));
    (void)b;
}
