/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/attention.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LANES 8u /* independent sums of a dot product; lets the compiler use vectors */

int attention_init(struct attention *a, const struct kv_content *content, uint32_t heads,
                   struct err *e)
{
    if (heads == 0) {
        return err_set(e, -EINVAL, "attention with 0 query heads");
    }
    *a = (struct attention){.content = *content,
                            .heads = heads,
                            .value_dim = content->dim - content->dim / 9,
                            .scale = 1.0f / sqrtf((float)content->dim)};
    return 0;
}

int attention_scratch_init(struct attention_scratch *s, const struct attention *a)
{
    size_t dim = a->content.dim, heads = a->heads;
    *s = (struct attention_scratch){.query = calloc(heads * dim, sizeof(float)),
                                    .out = calloc(heads * a->value_dim, sizeof(float)),
                                    .tile = calloc(ATTENTION_TILE_TOK * dim, sizeof(float)),
                                    .max = calloc(heads, sizeof(float)),
                                    .sum = calloc(heads, sizeof(float))};
    return s->query && s->out && s->tile && s->max && s->sum ? 0 : -ENOMEM;
}

void attention_scratch_done(struct attention_scratch *s)
{
    free(s->query);
    free(s->out);
    free(s->tile);
    free(s->max);
    free(s->sum);
    *s = (struct attention_scratch){0};
}

static float dot(const float *x, const float *y, uint32_t n)
{
    float lane[LANES] = {0};
    uint32_t whole = n - n % LANES;
    for (uint32_t i = 0; i < whole; i += LANES) {
        for (uint32_t k = 0; k < LANES; k++) {
            lane[k] += x[i + k] * y[i + k];
        }
    }
    for (uint32_t i = whole; i < n; i++) {
        lane[i - whole] += x[i] * y[i];
    }
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

static void add_scaled(float *acc, float p, const float *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        acc[i] += p * v[i];
    }
}

static void scale_by(float *acc, float p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        acc[i] *= p;
    }
}

static void start(const struct attention *a, struct attention_scratch *s)
{
    memset(s->out, 0, attention_out_values(a) * sizeof(float));
    for (uint32_t h = 0; h < a->heads; h++) {
        s->max[h] = -INFINITY;
        s->sum[h] = 0;
    }
}

static void take_tile(const struct attention *a, struct attention_scratch *s, uint32_t h,
                      const float *rows, uint32_t n)
{
    uint32_t dim = a->content.dim;
    float score[ATTENTION_TILE_TOK], max = s->max[h];
    for (uint32_t j = 0; j < n; j++) {
        score[j] = dot(s->query + h * dim, rows + j * dim, dim) * a->scale;
        max = score[j] > max ? score[j] : max;
    }
    float *out = s->out + h * a->value_dim;
    float shrink = expf(s->max[h] - max);
    scale_by(out, shrink, a->value_dim);
    float sum = s->sum[h] * shrink;
    for (uint32_t j = 0; j < n; j++) {
        float p = expf(score[j] - max);
        sum += p;
        add_scaled(out, p, rows + j * dim, a->value_dim);
    }
    s->max[h] = max;
    s->sum[h] = sum;
}

static void finish(const struct attention *a, struct attention_scratch *s)
{
    for (uint32_t h = 0; h < a->heads; h++) {
        scale_by(s->out + h * a->value_dim, 1.0f / s->sum[h], a->value_dim);
    }
}

static void draw_queries(const struct attention *a, uint64_t chain_id, uint32_t tok, uint32_t layer,
                         struct attention_scratch *s)
{
    for (uint32_t h = 0; h < a->heads; h++) {
        kv_content_query(&a->content, chain_id, tok, layer, h, s->query + h * a->content.dim);
    }
}

/* Tokens of the tile that starts at tok: tiles end at block borders, where the rows are torn apart.
 */
static uint32_t tile_tok(const struct attention *a, uint32_t tok, uint32_t end)
{
    uint32_t block = a->content.layout.block_tok;
    uint32_t in_block = tok % block;
    uint32_t n = ATTENTION_TILE_TOK - in_block % ATTENTION_TILE_TOK;
    n = n < block - in_block ? n : block - in_block;
    return n < end - tok ? n : end - tok;
}

void attention_token(const struct attention *a, uint64_t chain_id, uint32_t tok, uint32_t layer,
                     const uint8_t *kv, struct attention_scratch *s)
{
    draw_queries(a, chain_id, tok, layer, s);
    start(a, s);
    for (uint32_t j = 0, n; j <= tok; j += n) {
        n = tile_tok(a, j, tok + 1);
        const float *rows =
            (const float *)(const void *)(kv + kv_row_offset(&a->content.layout, j, layer));
        for (uint32_t h = 0; h < a->heads; h++) {
            take_tile(a, s, h, rows, n);
        }
    }
    finish(a, s);
}

void attention_reference(const struct attention *a, uint64_t chain_id, uint32_t tok, uint32_t layer,
                         struct attention_scratch *s)
{
    uint32_t dim = a->content.dim;
    draw_queries(a, chain_id, tok, layer, s);
    start(a, s);
    for (uint32_t j = 0, n; j <= tok; j += n) {
        n = tile_tok(a, j, tok + 1);
        for (uint32_t i = 0; i < n; i++) {
            kv_content_row(&a->content, chain_id, j + i, layer, s->tile + i * dim);
        }
        for (uint32_t h = 0; h < a->heads; h++) {
            take_tile(a, s, h, s->tile, n);
        }
    }
    finish(a, s);
}

double attention_tolerance(const struct attention *a, uint32_t context_tok)
{
    const double u = 0x1p-24, lambda = 10;
    double dim = a->content.dim, n = context_tok;
    double each = u * (lambda * (2 * dim + 2 * sqrt(2 * n)) + 32);
    return 2 * each;
}
