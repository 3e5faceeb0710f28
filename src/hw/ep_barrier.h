/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What keeps the engines of an expert-parallel group in step: a barrier that also adds up a number.
 * Where a real group would exchange tokens between experts, the engines of ours meet here.
 *
 * A group is a set of members, one per engine. Members arrive; when all have, each gets released()
 * from the event loop with the sum of what they brought, and the next phase begins. A member that
 * has not arrived while others wait gets called() once per phase, if it has one: idle members come
 * when they are called.
 *
 * Two implementations: local, for groups whose engines all live in this process, and
 * ep_barrier_net.h for groups that span processes.
 */
#ifndef DUALPATH_HW_EP_BARRIER_H
#define DUALPATH_HW_EP_BARRIER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/loop.h"

enum ep_side { EP_PREFILL, EP_DECODE };

struct ep_member {
    /* Set by the owner before attach. */
    enum ep_side side;
    uint32_t group, rank, n_ranks;
    void (*released)(struct ep_member *m, uint64_t sum);
    void (*called)(struct ep_member *m); /* NULL: comes by itself */

    /* Set by the barrier. */
    uint64_t phase; /* phases passed */
    uint64_t value; /* brought to this phase */
    bool waiting;   /* has arrived, is not released */
    bool was_called;
    struct list node;
    struct ep_meeting *meeting;
};

struct ep_barrier;

/* The members of one group in this process. */
struct ep_meeting {
    struct list node;
    struct ep_barrier *barrier;
    enum ep_side side;
    uint32_t group, n_ranks;
    struct list members;
    uint32_t n_members, n_waiting;
    uint64_t sum;            /* of what those who wait have brought */
    struct loop_timer timer; /* somebody has arrived */
};

struct ep_barrier_ops {
    const char *name;
    /* A meeting for the group of m, or NULL: its own part made, the shared part left to
     * ep_attach(). */
    struct ep_meeting *(*new_meeting)(struct ep_barrier *b, const struct ep_member *m);
    void (*free_meeting)(struct ep_meeting *mt);
    /* From the loop, when members have arrived. */
    void (*arrived)(struct ep_meeting *mt);
};

struct ep_barrier {
    const struct ep_barrier_ops *ops;
    struct loop *loop;
    struct list meetings; /* of groups with members here */
};

/* 0, -EINVAL (rank out of range or taken, or another size of the group) or -ENOMEM. */
int ep_attach(struct ep_barrier *b, struct ep_member *m);

/* Nothing comes to m after this; not from inside released() or called(). A group that has lost a
 * member never meets again. */
void ep_detach(struct ep_barrier *b, struct ep_member *m);

/* m must not be waiting. released() comes from the loop, never from inside. */
void ep_arrive(struct ep_barrier *b, struct ep_member *m, uint64_t value);

void ep_barrier_local_init(struct ep_barrier *b, struct loop *loop);
void ep_barrier_done(struct ep_barrier *b); /* all members detached */

/* For implementations. */
void ep_barrier_init(struct ep_barrier *b, const struct ep_barrier_ops *ops, struct loop *loop);

/* NULL when the group has no members here. */
struct ep_meeting *ep_find_meeting(struct ep_barrier *b, enum ep_side side, uint32_t group);

/* The phase is over for all members here. They may arrive for the next one from inside released();
 * those whose turn is still to come count as waiting until then, so that nothing makes them arrive
 * twice. */
void ep_release(struct ep_meeting *mt, uint64_t sum);
void ep_call_missing(struct ep_meeting *mt);

#endif
