/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How much of a request goes into a forward: pure functions. */
#ifndef DUALPATH_SCHED_PACKING_H
#define DUALPATH_SCHED_PACKING_H

#include <stdint.h>

#include "sched/cluster.h"

/* A forward of one engine: what it may hold in all and still, in ns of predicted attention time
 * (cluster.quota_ns) or, if there is no quota, in new tokens (cluster.forward_tok). */
struct packing {
    const struct cluster *cluster;
    double limit, left; /* left is below 0 once more was taken than fits */
};

struct packing packing_begin(const struct cluster *c);

/*
 * The largest number of new tokens, at most new_tok, on cached_tok that fits: all of them, or the
 * largest fitting multiple of a KV block (chunks end on blocks so that every transfer starts on
 * one), or 0. By quota it is found by binary search over the predicted attention time.
 */
uint32_t packing_fit(const struct packing *p, uint32_t cached_tok, uint32_t new_tok);

/* Takes new_tok tokens on cached_tok in, whether they fit or not. */
void packing_take(struct packing *p, uint32_t cached_tok, uint32_t new_tok);

/* How full the forward is, 0 to 1. */
double packing_fill(const struct packing *p);

#endif
