/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Storage of finite capacity: which blocks of the agents' contexts are still there. Least recently
 * used first, by agents: all blocks of one are used together, at every turn, so that the agent
 * whose last turn ended first loses blocks first; of its context the last ones, since the others
 * are of no use without those before them.
 *
 * A turn's context is leased from its arrival to its end: what it was told to hit is there when it
 * is read. Its new blocks count from its end; when everybody else's are leased, it is they that do
 * not stay. Contexts of one agent are taken to be its own (no blocks shared between agents).
 */
#ifndef DUALPATH_SCHED_STORED_H
#define DUALPATH_SCHED_STORED_H

#include <stdint.h>

#include "base/list.h"

struct stored_context {
    struct list lru; /* empty while leased */
    uint32_t blocks; /* in storage, from the first on */
};

struct stored {
    uint64_t capacity_blocks; /* 0: no limit, and nothing is counted */
    uint64_t blocks, peak_blocks;
    uint64_t written, evicted, overwritten; /* blocks: written = blocks + evicted + overwritten */
    struct list lru;
};

void stored_init(struct stored *s, uint64_t capacity_blocks);

/* An agent's context before its first turn. */
void stored_context_init(struct stored_context *c);

/* A turn has arrived: its context may not be evicted. */
void stored_lease(struct stored_context *c);

/* The turn is over. It has hit hit_blocks and its context comes to blocks, all written to storage
 * but the hits; evicts what does not fit, perhaps of this context itself. */
void stored_release(struct stored *s, struct stored_context *c, uint32_t hit_blocks,
                    uint32_t blocks);

#endif
