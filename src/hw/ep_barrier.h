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
 * Two implementations: ep_barrier_local, for groups whose engines all live in this process, and
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
    void *meeting;
};

struct ep_barrier;

struct ep_barrier_ops {
    const char *name;
    /* 0, -EINVAL (rank out of range or taken) or -ENOMEM. */
    int (*attach)(struct ep_barrier *b, struct ep_member *m);
    void (*detach)(struct ep_barrier *b, struct ep_member *m);
    void (*arrive)(struct ep_barrier *b, struct ep_member *m);
};

struct ep_barrier {
    const struct ep_barrier_ops *ops;
};

int ep_attach(struct ep_barrier *b, struct ep_member *m);

/* Nothing comes to m after this; not from inside released() or called(). A group that has lost a
 * member never meets again. */
void ep_detach(struct ep_barrier *b, struct ep_member *m);

/* m must not be waiting. released() comes from the loop, never from inside. */
void ep_arrive(struct ep_barrier *b, struct ep_member *m, uint64_t value);

struct ep_barrier_local {
    struct ep_barrier barrier;
    struct loop *loop;
    struct list meetings;
};

void ep_barrier_local_init(struct ep_barrier_local *b, struct loop *loop);
void ep_barrier_local_done(struct ep_barrier_local *b); /* all members detached */

/* For implementations. Members may arrive for the next phase from inside released(); those whose
 * turn is still to come count as waiting until then, so that nothing makes them arrive twice. */
void ep_release_members(struct list *members, uint64_t sum);
void ep_call_missing(struct list *members);
bool ep_rank_taken(const struct list *members, uint32_t rank);

#endif
