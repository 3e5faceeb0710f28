/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Room in a memory of fixed size (a node's DRAM buffer, a GPU's HBM), granted strictly first come
 * first served: a large request at the head is never overtaken, so nobody starves. Grants come from
 * the loop.
 *
 * A holder may mark its room idle: worth keeping, but to be had by whoever waits for room. It is
 * asked back through reclaim(), when the head of the queue does not fit otherwise.
 */
#ifndef DUALPATH_DATAPATH_SPACE_H
#define DUALPATH_DATAPATH_SPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/loop.h"
#include "base/slots.h"

struct space_claim;

struct space {
    struct loop *loop;
    uint64_t capacity, used, peak; /* in the unit of the owner: bytes, or token blocks */
    uint64_t idle;                 /* of used */
    uint64_t taken_total, given_total;
    double used_amount_ns; /* integral of used - idle over time, until since_ns */
    uint64_t since_ns;
    struct list waiters;
    struct slots slots;
    struct loop_timer grant_timer;
    /* NULL, or: gives back some idle room; false when there is none, but perhaps the claim's
     * own. */
    bool (*reclaim)(struct space *s, struct space_claim *claim);
    void *owner; /* reclaim()'s */
};

struct space_claim {
    uint64_t amount; /* asked for; once granted, what is still held */
    uint32_t slot;   /* once granted: a number of its own among the holders, for addresses */
    bool waiting;    /* asked for, not granted */
    bool held;       /* granted, not all given back */
    void (*granted)(struct space_claim *claim);
    struct space_claim *into; /* NULL, or a claim that holds room: once granted, this one's is
                                 added to it, without a slot of its own */
    struct list node;
};

void space_init(struct space *s, struct loop *loop, uint64_t capacity);

/* Asks for claim->amount <= capacity; granted() is called from the loop, once. Returns 0, or
 * -ENOSPC when the amount can never fit. */
int space_ask(struct space *s, struct space_claim *claim);

/* Marks so much of what is held as idle, or as in use again. */
void space_set_idle(struct space *s, uint64_t amount, bool idle);

/* Gives back part or all of what a granted claim holds, and is using; with the last of it goes the
 * slot. */
void space_give(struct space *s, struct space_claim *claim, uint64_t amount);

/* Takes back what was asked for and not granted: granted() does not come. Harmless on a claim that
 * does not wait. */
void space_withdraw(struct space *s, struct space_claim *claim);

/* Seconds for which the whole capacity would have been in use: the integral of (used - idle) /
 * capacity. */
double space_full_s(const struct space *s);

void space_done(struct space *s);

#endif
