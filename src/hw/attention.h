/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One attention layer, shaped like MLA in its absorbed form (multi-query): heads query heads share
 * one latent row per token. A key is the whole row of dim values, a value its first value_dim = dim
 * - dim / 9 values (DeepSeek: 512 of 576).
 *
 *     out[h] = sum_j p_j * row_j[0 .. value_dim],  p = softmax_j(q_h . row_j / sqrt(dim)),  j <=
 * token
 *
 * Computed in fp32 by online softmax (Milakov and Gimelshein 2018) over tiles of consecutive
 * tokens. Tiles, lanes and the order of all sums depend on positions and dim alone, so that two
 * runs over the same bytes agree bit for bit, however a prompt was cut into chunks and wherever the
 * rows came from.
 */
#ifndef DUALPATH_HW_ATTENTION_H
#define DUALPATH_HW_ATTENTION_H

#include <stdint.h>

#include "hw/kv_content.h"

#define ATTENTION_TILE_TOK 32u

struct attention {
    struct kv_content content;
    uint32_t heads;
    uint32_t value_dim;
    float scale; /* 1 / sqrt(dim) */
};

/* The new tokens of one request in one layer. */
struct attention_task {
    uint64_t chain_id;
    uint32_t layer;
    uint32_t first_tok, n_tok; /* tokens 0 .. first_tok - 1 have their KV already */
    uint32_t arrived_tok;      /* so many of these the data path has brought since the last task */
    uint64_t hbm_offset_bytes; /* place of token 0 in the engine's HBM... */
    uint8_t *kv;               /* ...and its address in this process */
};

/* Working memory of one thread. */
struct attention_scratch {
    float *query;     /* [heads][dim] */
    float *out;       /* [heads][value_dim] */
    float *tile;      /* [ATTENTION_TILE_TOK][dim], rows drawn for the reference */
    float *max, *sum; /* [heads] */
};

/* heads >= 1. 0, or -EINVAL. */
int attention_init(struct attention *a, const struct kv_content *content, uint32_t heads,
                   struct err *e);

/* Floats of the output of one token. */
static inline uint32_t attention_out_values(const struct attention *a)
{
    return a->heads * a->value_dim;
}

/* 0 or -ENOMEM; done() takes what init() left behind in both cases. */
int attention_scratch_init(struct attention_scratch *s, const struct attention *a);
void attention_scratch_done(struct attention_scratch *s);

/* Output of one token over the KV in memory (kv: place of token 0), into s->out. */
void attention_token(const struct attention *a, uint64_t chain_id, uint32_t tok, uint32_t layer,
                     const uint8_t *kv, struct attention_scratch *s);

/* The same straight from the content function: what s->out must be. */
void attention_reference(const struct attention *a, uint64_t chain_id, uint32_t tok, uint32_t layer,
                         struct attention_scratch *s);

/*
 * How far two fp32 evaluations over context_tok rows may lie apart, whatever the order of their
 * sums. Rounding errors of a sum of m terms grow like lambda sqrt(m) u (Higham and Mary 2019, A New
 * Approach to Probabilistic Rounding Error Analysis; u = 2^-24; with lambda = 10 the bound fails
 * with probability 2 exp(-50)). |q|, |row| <= 1: a score is off by lambda sqrt(dim) u * dim /
 * sqrt(dim) = lambda u dim, and its probability by twice that (itself and the denominator). The
 * weighted sum and its denominator add lambda u sqrt(2 n) each: n additions and as many rescalings.
 * exp and the rest add less than 32 u. The bound holds for each of the two.
 */
double attention_tolerance(const struct attention *a, uint32_t context_tok);

#endif
