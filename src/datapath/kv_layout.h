/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Where KV-cache lies: one layout for storage, DRAM and HBM. Full Blocks of block_tok tokens follow
 * each other; inside a Full Block the Layer Blocks follow each other in layer order. A copy of all
 * layers of a token range, layer by layer, is therefore a part per layer and a strided piece per
 * block.
 */
#ifndef DUALPATH_DATAPATH_KV_LAYOUT_H
#define DUALPATH_DATAPATH_KV_LAYOUT_H

#include <stdint.h>

#include "datapath/dp.h"

struct kv_layout {
    uint32_t n_layers;
    uint32_t block_tok;
    uint64_t layer_tok_bytes; /* KV bytes of one token in one layer */
};

static inline uint64_t kv_full_block_bytes(const struct kv_layout *l)
{
    return l->layer_tok_bytes * l->block_tok * l->n_layers;
}

/* Full Blocks that tok tokens occupy, a partial last one included. */
static inline uint64_t kv_blocks(const struct kv_layout *l, uint64_t tok)
{
    return (tok + l->block_tok - 1) / l->block_tok;
}

/* Room that tok tokens take in a memory: whole blocks. */
static inline uint64_t kv_room_bytes(const struct kv_layout *l, uint64_t tok)
{
    return kv_blocks(l, tok) * kv_full_block_bytes(l);
}

/* Shapes op as a copy of tokens first_tok .. first_tok + n_tok, one part per layer. src and dst are
 * the places of token 0; first_tok must be a multiple of the block. Sets nothing else of op. */
void kv_shape_layers(struct dp_op *op, const struct kv_layout *l, uint32_t first_tok,
                     uint32_t n_tok, struct dp_place src, struct dp_place dst);

/* Shapes op as a transfer of whole Full Blocks first_block .. first_block + n_blocks, one part
 * each. */
void kv_shape_blocks(struct dp_op *op, const struct kv_layout *l, uint32_t first_block,
                     uint32_t n_blocks, struct dp_place src, struct dp_place dst);

#endif
