/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the KV-cache holds on real machines: a pure function of (seed, chain, token, layer), so that
 * any process can say what any byte must be, wherever it came from.
 *
 * The KV of one token in one layer is a row of dim = layer_tok_bytes / 4 fp32 values in [-1, 1),
 * multiples of 2^-23. A row is drawn from a counter-based generator: a key is mixed from its
 * coordinates, and value pair i is hash_mix64(key + i) (SplitMix64's finaliser), low half first.
 * kernels/attention.cu draws the same bits. Queries come from the same generator under another tag.
 */
#ifndef DUALPATH_HW_KV_CONTENT_H
#define DUALPATH_HW_KV_CONTENT_H

#include <stdint.h>

#include "base/err.h"
#include "datapath/kv_layout.h"

struct kv_content {
    uint64_t seed;
    struct kv_layout layout;
    uint32_t dim; /* values of a row */
};

/* A run of tokens of one chain in a memory. */
struct kv_run {
    uint64_t chain_id;
    uint32_t first_tok, n_tok;
};

/* 0, or -EINVAL: layer_tok_bytes is no multiple of 4, or something is 0. */
int kv_content_init(struct kv_content *c, uint64_t seed, const struct kv_layout *layout,
                    struct err *e);

/* Bytes from the place of a chain's token 0 to the row of (tok, layer). */
uint64_t kv_row_offset(const struct kv_layout *l, uint32_t tok, uint32_t layer);

/* The row of (chain, tok, layer): dim values. */
void kv_content_row(const struct kv_content *c, uint64_t chain_id, uint32_t tok, uint32_t layer,
                    float *ret_row);

/* The query of a head: dim values in [-1, 1). */
void kv_content_query(const struct kv_content *c, uint64_t chain_id, uint32_t tok, uint32_t layer,
                      uint32_t head, float *ret_query);

/* A number that decides, alike in every process, whether something about (chain, tok, layer) is
 * sampled. */
uint64_t kv_content_lot(const struct kv_content *c, uint64_t chain_id, uint32_t tok,
                        uint32_t layer);

/* Writes the rows of a run in one layer. kv is the place of the chain's token 0. */
void kv_content_fill_layer(const struct kv_content *c, const struct kv_run *run, uint32_t layer,
                           uint8_t *kv);

/* Writes a Full Block, or the Layer Block of one layer; ret is where that block begins. */
void kv_content_full_block(const struct kv_content *c, uint64_t chain_id, uint32_t block,
                           uint8_t *ret);
void kv_content_layer_block(const struct kv_content *c, uint64_t chain_id, uint32_t block,
                            uint32_t layer, uint8_t *ret);

/* CRC-32 (zlib's) of a Full Block in memory, and what it must be. */
uint32_t kv_block_checksum(const struct kv_layout *l, const uint8_t *block);
uint32_t kv_content_checksum(const struct kv_content *c, uint64_t chain_id, uint32_t block);

/*
 * Compares memory with the content, byte by byte. 0, or -EBADMSG with the first wrong (chain,
 * block, layer, token, byte) in e. verify_layer: kv is the place of the chain's token 0;
 * verify_block: block bytes are those of the Full Block, of which the first n_tok tokens count.
 */
int kv_content_verify_layer(const struct kv_content *c, const struct kv_run *run, uint32_t layer,
                            const uint8_t *kv, struct err *e);
int kv_content_verify_block(const struct kv_content *c, uint64_t chain_id, uint32_t block,
                            uint32_t n_tok, const uint8_t *bytes, struct err *e);

#endif
