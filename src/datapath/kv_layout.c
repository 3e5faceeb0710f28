/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "datapath/kv_layout.h"

#include <assert.h>

void kv_shape_layers(struct dp_op *op, const struct kv_layout *l, uint32_t first_tok,
                     uint32_t n_tok, struct dp_place src, struct dp_place dst)
{
    assert(first_tok % l->block_tok == 0 && n_tok > 0);
    uint64_t offset = first_tok / l->block_tok * kv_full_block_bytes(l);
    op->src = src;
    op->dst = dst;
    op->src.offset_bytes += offset;
    op->dst.offset_bytes += offset;
    op->part_bytes = n_tok * l->layer_tok_bytes;
    op->parts_total = l->n_layers;
    op->segments = kv_blocks(l, n_tok);
    op->segment_bytes = l->block_tok * l->layer_tok_bytes;
    op->segment_stride_bytes = kv_full_block_bytes(l);
    op->part_stride_bytes = l->block_tok * l->layer_tok_bytes;
}

void kv_shape_blocks(struct dp_op *op, const struct kv_layout *l, uint32_t first_block,
                     uint32_t n_blocks, struct dp_place src, struct dp_place dst)
{
    assert(n_blocks > 0);
    uint64_t block = kv_full_block_bytes(l);
    op->src = src;
    op->dst = dst;
    op->src.offset_bytes += first_block * block;
    op->dst.offset_bytes += first_block * block;
    op->chain.first_block = first_block;
    op->part_bytes = block;
    op->parts_total = n_blocks;
    op->parts_ready = n_blocks;
    op->segments = 1;
    op->segment_bytes = block;
    op->segment_stride_bytes = block;
    op->part_stride_bytes = block;
}
