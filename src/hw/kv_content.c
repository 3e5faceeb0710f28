/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/kv_content.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <zlib.h>

#include "base/hash.h"

/* What a key is for; kernels/attention.cu has the same numbers. */
enum tag { TAG_KV = 1, TAG_QUERY = 2, TAG_LOT = 3 };

int kv_content_init(struct kv_content *c, uint64_t seed, const struct kv_layout *layout,
                    struct err *e)
{
    if (layout->n_layers == 0 || layout->block_tok == 0) {
        return err_set(e, -EINVAL, "KV of 0 layers, or blocks of 0 tokens");
    }
    if (layout->layer_tok_bytes == 0 || layout->layer_tok_bytes % sizeof(float) != 0 ||
        layout->layer_tok_bytes / sizeof(float) > UINT32_MAX) {
        return err_set(e, -EINVAL,
                       "KV of %" PRIu64 " bytes per token and layer: a multiple of 4 is wanted, "
                       "real runs compute in fp32",
                       layout->layer_tok_bytes);
    }
    *c = (struct kv_content){.seed = seed,
                             .layout = *layout,
                             .dim = (uint32_t)(layout->layer_tok_bytes / sizeof(float))};
    return 0;
}

uint64_t kv_row_offset(const struct kv_layout *l, uint32_t tok, uint32_t layer)
{
    uint64_t block_tok = l->block_tok;
    return tok / block_tok * kv_full_block_bytes(l) +
           (layer * block_tok + tok % block_tok) * l->layer_tok_bytes;
}

static uint64_t key(const struct kv_content *c, enum tag tag, uint64_t chain_id, uint32_t tok,
                    uint32_t layer)
{
    uint64_t k = hash_mix64(c->seed ^ ((uint64_t)tag << 56));
    k = hash_mix64(k ^ chain_id);
    return hash_mix64(k ^ ((uint64_t)layer << 32 | tok));
}

/* 24 bits to a multiple of 2^-23 in [-1, 1): exact, whatever the rounding mode. */
static float value(uint32_t bits)
{
    return (float)((int32_t)(bits >> 8) - (1 << 23)) * 0x1p-23f;
}

static void draw(uint64_t k, uint32_t n, float *ret)
{
    uint32_t pairs = n / 2;
    for (uint32_t i = 0; i < pairs; i++) {
        uint64_t h = hash_mix64(k + i);
        ret[2 * i] = value((uint32_t)h);
        ret[2 * i + 1] = value((uint32_t)(h >> 32));
    }
    if (n % 2) {
        ret[n - 1] = value((uint32_t)hash_mix64(k + pairs));
    }
}

void kv_content_row(const struct kv_content *c, uint64_t chain_id, uint32_t tok, uint32_t layer,
                    float *ret_row)
{
    draw(key(c, TAG_KV, chain_id, tok, layer), c->dim, ret_row);
}

void kv_content_query(const struct kv_content *c, uint64_t chain_id, uint32_t tok, uint32_t layer,
                      uint32_t head, float *ret_query)
{
    uint64_t k = key(c, TAG_QUERY, chain_id, tok, layer);
    draw(hash_mix64(k ^ head), c->dim, ret_query);
}

uint64_t kv_content_lot(const struct kv_content *c, uint64_t chain_id, uint32_t tok, uint32_t layer)
{
    return key(c, TAG_LOT, chain_id, tok, layer);
}

static float *row_at(const struct kv_content *c, uint8_t *kv, uint32_t tok, uint32_t layer)
{
    return (float *)(void *)(kv + kv_row_offset(&c->layout, tok, layer));
}

void kv_content_fill_layer(const struct kv_content *c, const struct kv_run *run, uint32_t layer,
                           uint8_t *kv)
{
    for (uint32_t i = 0; i < run->n_tok; i++) {
        uint32_t tok = run->first_tok + i;
        kv_content_row(c, run->chain_id, tok, layer, row_at(c, kv, tok, layer));
    }
}

void kv_content_layer_block(const struct kv_content *c, uint64_t chain_id, uint32_t block,
                            uint32_t layer, uint8_t *ret)
{
    for (uint32_t t = 0; t < c->layout.block_tok; t++) {
        kv_content_row(c, chain_id, block * c->layout.block_tok + t, layer, row_at(c, ret, t, 0));
    }
}

void kv_content_full_block(const struct kv_content *c, uint64_t chain_id, uint32_t block,
                           uint8_t *ret)
{
    for (uint32_t layer = 0; layer < c->layout.n_layers; layer++) {
        kv_content_layer_block(c, chain_id, block, layer,
                               ret + kv_row_offset(&c->layout, 0, layer));
    }
}

uint32_t kv_block_checksum(const struct kv_layout *l, const uint8_t *block)
{
    return (uint32_t)crc32_z(0, block, kv_full_block_bytes(l));
}

/* The rows of a Full Block in memory order, a piece of a row at a time. */
#define PIECE_VALUES 256u

static uLong row_checksum(const struct kv_content *c, uint64_t row_key, uLong crc)
{
    float piece[PIECE_VALUES];
    for (uint32_t i = 0; i < c->dim; i += PIECE_VALUES) {
        uint32_t n = c->dim - i < PIECE_VALUES ? c->dim - i : PIECE_VALUES;
        draw(row_key + i / 2, n, piece);
        crc = crc32_z(crc, (const Bytef *)piece, n * sizeof(float));
    }
    return crc;
}

uint32_t kv_content_checksum(const struct kv_content *c, uint64_t chain_id, uint32_t block)
{
    uLong crc = 0;
    for (uint32_t layer = 0; layer < c->layout.n_layers; layer++) {
        for (uint32_t t = 0; t < c->layout.block_tok; t++) {
            uint32_t tok = block * c->layout.block_tok + t;
            crc = row_checksum(c, key(c, TAG_KV, chain_id, tok, layer), crc);
        }
    }
    return (uint32_t)crc;
}

struct row_id {
    uint64_t chain_id;
    uint32_t tok, layer;
};

static int wrong_byte(const struct kv_content *c, const struct row_id *id, uint32_t byte,
                      uint8_t found, uint8_t expected, struct err *e)
{
    return err_set(e, -EBADMSG,
                   "KV of chain %" PRIu64 ", block %" PRIu32 ", layer %" PRIu32 ", token %" PRIu32
                   ": byte %" PRIu32 " is 0x%02x, must be 0x%02x",
                   id->chain_id, id->tok / c->layout.block_tok, id->layer, id->tok, byte, found,
                   expected);
}

static int verify_row(const struct kv_content *c, const struct row_id *id, const uint8_t *row,
                      struct err *e)
{
    uint64_t k = key(c, TAG_KV, id->chain_id, id->tok, id->layer);
    float piece[PIECE_VALUES];
    for (uint32_t i = 0; i < c->dim; i += PIECE_VALUES) {
        uint32_t n = c->dim - i < PIECE_VALUES ? c->dim - i : PIECE_VALUES;
        draw(k + i / 2, n, piece);
        const uint8_t *expected = (const uint8_t *)piece, *found = row + i * sizeof(float);
        if (memcmp(expected, found, n * sizeof(float)) == 0) {
            continue;
        }
        uint32_t b = 0;
        while (found[b] == expected[b]) {
            b++;
        }
        return wrong_byte(c, id, i * (uint32_t)sizeof(float) + b, found[b], expected[b], e);
    }
    return 0;
}

int kv_content_verify_layer(const struct kv_content *c, const struct kv_run *run, uint32_t layer,
                            const uint8_t *kv, struct err *e)
{
    for (uint32_t i = 0; i < run->n_tok; i++) {
        struct row_id id = {run->chain_id, run->first_tok + i, layer};
        int rc = verify_row(c, &id, kv + kv_row_offset(&c->layout, id.tok, layer), e);
        if (rc) {
            return rc;
        }
    }
    return 0;
}

int kv_content_verify_block(const struct kv_content *c, uint64_t chain_id, uint32_t block,
                            uint32_t n_tok, const uint8_t *bytes, struct err *e)
{
    for (uint32_t layer = 0; layer < c->layout.n_layers; layer++) {
        for (uint32_t t = 0; t < n_tok; t++) {
            struct row_id id = {chain_id, block * c->layout.block_tok + t, layer};
            int rc = verify_row(c, &id, bytes + kv_row_offset(&c->layout, t, layer), e);
            if (rc) {
                return rc;
            }
        }
    }
    return 0;
}
