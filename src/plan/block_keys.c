/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "plan/block_keys.h"

#include <stdlib.h>

/* What the chain of a key counts: sessions (no bit), trie nodes, turns of a session. */
#define KEY_NODE  (UINT64_C(1) << 63)
#define KEY_TURN  (UINT64_C(1) << 62)
#define TURN_BITS 30

void block_keys_init(struct block_keys *k, const struct workload *workload,
                     const struct block_trie *trie, uint32_t block_tok)
{
    *k = (struct block_keys){.workload = workload, .trie = trie, .block_tok = block_tok};
}

void block_keys_done(struct block_keys *k)
{
    free(k->nodes);
    k->nodes = NULL;
    k->capacity_nodes = 0;
}

/* The prompt's nodes; returns how many. */
static uint32_t path_of(struct block_keys *k, uint32_t session, const struct workload_turn *wt)
{
    struct workload_session ws;
    if (wt->n_blocks > k->capacity_nodes) {
        free(k->nodes);
        k->nodes = malloc(wt->n_blocks * sizeof(*k->nodes));
        k->capacity_nodes = wt->n_blocks;
        if (!k->nodes) {
            abort(); /* out of memory while the run is on: as the pools do */
        }
    }
    k->workload->ops->session(k->workload, session, &ws);
    return block_trie_path(k->trie, ws.scope, wt->block_ids, wt->n_blocks, k->nodes);
}

static uint64_t last_id(const struct block_keys *k, uint32_t block)
{
    return (((uint64_t)block + 1) * k->block_tok - 1) / k->workload->block_tok;
}

void block_keys_of(void *self, const struct dp_chain *chain, uint32_t n, struct block_key *ret_keys)
{
    struct block_keys *k = self;
    uint32_t session = (uint32_t)chain->chain_id;
    struct workload_turn wt;
    k->workload->ops->turn(k->workload, session, chain->turn, &wt);
    uint32_t n_nodes = wt.block_ids ? path_of(k, session, &wt) : 0;
    uint64_t own =
        wt.block_ids ? KEY_TURN | chain->chain_id << TURN_BITS | chain->turn : chain->chain_id;
    uint32_t prompt_blocks = wt.prompt_tok / k->block_tok;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t block = chain->first_block + i;
        bool shared = block < prompt_blocks && last_id(k, block) < n_nodes;
        ret_keys[i] = (struct block_key){
            .chain = shared ? KEY_NODE | k->nodes[last_id(k, block)] : own, .block = block};
    }
}
