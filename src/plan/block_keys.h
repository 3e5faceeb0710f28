/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Which blocks of a workload's prompts are the same: the names that a cache of KV blocks
 * (sim/dram_tier.h) knows them by. A session without block ids is a chain of its own: session and
 * number of the block. With block ids, a block of a prompt is the trie node of the id that its last
 * token is under, so that sessions share what they have a common prefix up to; blocks beyond the
 * ids, and those that decoding fills, are the turn's own, as no other prompt can hit them.
 */
#ifndef DUALPATH_PLAN_BLOCK_KEYS_H
#define DUALPATH_PLAN_BLOCK_KEYS_H

#include "datapath/block_lru.h"
#include "datapath/block_trie.h"
#include "datapath/dp.h"
#include "sched/workload.h"

struct block_keys {
    const struct workload *workload;
    const struct block_trie *trie; /* of the client, which puts every prompt there on arrival */
    uint32_t block_tok;            /* of a KV block */
    uint32_t *nodes;               /* of the prompt at hand */
    uint32_t capacity_nodes;
};

/* workload and trie must outlive it. */
void block_keys_init(struct block_keys *k, const struct workload *workload,
                     const struct block_trie *trie, uint32_t block_tok);
void block_keys_done(struct block_keys *k);

/* The names of n blocks of a chain; self is a struct block_keys. The chain's turn has arrived. */
void block_keys_of(void *self, const struct dp_chain *chain, uint32_t n,
                   struct block_key *ret_keys);

#endif
