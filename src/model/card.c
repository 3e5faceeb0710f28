/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "model/card.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* One FP32 scale per this many FP8 values, in the published MLA and indexer cache layouts. */
#define SCALE_GROUP 128

/* Activations are kept in 16 bits whatever the weights and the KV are. */
#define HIDDEN_BYTES 2

uint32_t card_moe_layers(const struct model_card *card)
{
    return card->n_experts ? card->n_layers - card->n_dense_layers : 0;
}

uint32_t card_full_layers(const struct model_card *card)
{
    return card->n_layers - card->n_window_layers;
}

static double fp8_bytes(uint32_t values)
{
    return values + 4 * ceil((double)values / SCALE_GROUP);
}

static double gqa_kv_bytes(const struct model_card *card, double bytes)
{
    return 2.0 * card->n_kv_heads * card->head_dim * bytes * card_full_layers(card) /
           card->n_layers;
}

int card_set_kv_layout(struct model_card *card)
{
    bool fp8 = strcmp(card->kv_dtype, "fp8") == 0;
    if (!fp8 && strcmp(card->kv_dtype, "bf16") != 0 && strcmp(card->kv_dtype, "fp16") != 0) {
        return -EINVAL;
    }
    if (card->attention == ATTENTION_GQA) {
        card->indexer_bytes_per_tok_layer = 0;
        card->kv_bytes_per_tok_layer = gqa_kv_bytes(card, fp8 ? 1 : 2);
        return 0;
    }
    card->indexer_bytes_per_tok_layer =
        card->attention == ATTENTION_DSA ? fp8_bytes(card->indexer_dim) : 0;
    double latent = fp8 ? fp8_bytes(card->kv_lora_rank) : 2.0 * card->kv_lora_rank;
    card->kv_bytes_per_tok_layer =
        latent + 2.0 * card->rope_dim + card->indexer_bytes_per_tok_layer;
    return 0;
}

uint64_t card_kv_bytes_per_tok(const struct model_card *card)
{
    return (uint64_t)llround(card->kv_bytes_per_tok_layer * card->n_layers);
}

uint64_t card_hidden_bytes_per_tok_layer(const struct model_card *card)
{
    return (uint64_t)ceil(HIDDEN_BYTES * (double)card->hidden * card_full_layers(card) /
                          card->n_layers);
}

double card_restore_flops_per_tok(const struct model_card *card)
{
    double elements = card->attention == ATTENTION_GQA
                          ? 2.0 * card->n_kv_heads * card->head_dim
                          : (double)card->kv_lora_rank + card->rope_dim;
    elements += card->attention == ATTENTION_DSA ? card->indexer_dim : 0;
    return 2.0 * card->hidden * elements * card_full_layers(card);
}

double card_attention_pairs(double cached_tok, double new_tok)
{
    return new_tok * cached_tok + new_tok * (new_tok + 1) / 2;
}

double card_limited_pairs(double cached_tok, double new_tok, double limit)
{
    double growing = fmin(fmax(limit - cached_tok, 0), new_tok);
    return card_attention_pairs(cached_tok, growing) + (new_tok - growing) * limit;
}

double card_linear_flops(const struct model_card *card, double new_tok)
{
    return 2 * card->active_params * new_tok;
}

static double indexer_flops_per_pair(const struct model_card *card)
{
    if (card->attention != ATTENTION_DSA) {
        return 0;
    }
    return 2.0 * card->indexer_heads * card->indexer_dim * card->n_layers;
}

double card_indexer_flops(const struct model_card *card, double cached_tok, double new_tok)
{
    return indexer_flops_per_pair(card) * card_attention_pairs(cached_tok, new_tok);
}

/* All layers, scores over the latent and its rope part, values over the latent. */
static double absorbed_flops_per_pair(const struct model_card *card)
{
    return 2.0 * card->n_heads * (2.0 * card->kv_lora_rank + card->rope_dim) * card->n_layers;
}

static double gqa_flops_per_pair_layer(const struct model_card *card)
{
    return 4.0 * card->n_heads * card->head_dim;
}

static double mla_core_flops(const struct model_card *card, double cached_tok, double new_tok)
{
    double pairs = card_attention_pairs(cached_tok, new_tok);
    double layer_heads = (double)card->n_layers * card->n_heads;
    double per_pair = 2 * layer_heads * (card->nope_dim + card->rope_dim + card->v_head_dim);
    double expand = 2 * layer_heads * card->kv_lora_rank * (card->nope_dim + card->v_head_dim);
    return fmin(absorbed_flops_per_pair(card) * pairs,
                per_pair * pairs + expand * (cached_tok + new_tok));
}

double card_core_flops(const struct model_card *card, double cached_tok, double new_tok)
{
    switch (card->attention) {
    case ATTENTION_MLA:
        return mla_core_flops(card, cached_tok, new_tok);
    case ATTENTION_DSA:
        return absorbed_flops_per_pair(card) *
               card_limited_pairs(cached_tok, new_tok, card->sparse_topk);
    case ATTENTION_GQA:
        break;
    }
    double full = card_full_layers(card) * card_attention_pairs(cached_tok, new_tok);
    double window =
        card->n_window_layers * card_limited_pairs(cached_tok, new_tok, card->window_tok);
    return gqa_flops_per_pair_layer(card) * (full + window);
}

double card_attention_flops(const struct model_card *card, double cached_tok, double new_tok)
{
    return card_core_flops(card, cached_tok, new_tok) +
           card_indexer_flops(card, cached_tok, new_tok);
}

/* Core FLOPs of one query on context_tok keys, in the form the paper's table counts. */
static double ratio_core_flops(const struct model_card *card, double context_tok)
{
    switch (card->attention) {
    case ATTENTION_MLA:
        return card->mla_core_scale * absorbed_flops_per_pair(card) * context_tok;
    case ATTENTION_DSA:
        return card->mla_core_scale * absorbed_flops_per_pair(card) *
               fmin(context_tok, card->sparse_topk);
    case ATTENTION_GQA:
        break;
    }
    return gqa_flops_per_pair_layer(card) *
           (card_full_layers(card) * context_tok +
            card->n_window_layers * fmin(context_tok, card->window_tok));
}

double card_cache_compute_ratio(const struct model_card *card, double context_tok,
                                double append_tok)
{
    double kv = (card->kv_bytes_per_tok_layer - card->indexer_bytes_per_tok_layer) * card->n_layers;
    double flops_per_tok = 2 * card->active_params + ratio_core_flops(card, context_tok) +
                           indexer_flops_per_pair(card) * context_tok;
    return kv * context_tok / (append_tok * flops_per_tok);
}

static double attention_params_per_layer(const struct model_card *card)
{
    double hidden = card->hidden, heads = card->n_heads;
    if (card->attention == ATTENTION_GQA) {
        return hidden * card->head_dim * (2 * heads + 2.0 * card->n_kv_heads);
    }
    double qk_dim = card->nope_dim + card->rope_dim;
    double q_in = card->q_lora_rank ? card->q_lora_rank : hidden;
    double query = (card->q_lora_rank ? hidden * q_in : 0) + q_in * heads * qk_dim;
    double latent = hidden * (card->kv_lora_rank + card->rope_dim);
    double expand = heads * card->kv_lora_rank * (card->nope_dim + card->v_head_dim);
    double out = heads * card->v_head_dim * hidden;
    double indexer = 0;
    if (card->attention == ATTENTION_DSA) {
        indexer = q_in * card->indexer_heads * card->indexer_dim +
                  hidden * (card->indexer_dim + card->indexer_heads);
    }
    return query + latent + expand + out + indexer;
}

struct card_params card_count_params(const struct model_card *card)
{
    double moe_layers = card_moe_layers(card);
    double expert = 3.0 * card->hidden * card->expert_width; /* gate, up, down */
    double dense_ffn = 3.0 * card->hidden * card->dense_width * (card->n_layers - moe_layers);
    double router = moe_layers * card->hidden * card->n_experts;
    double shared = moe_layers * card->n_shared_experts * expert;
    struct card_params p = {
        .routed = moe_layers * card->n_experts * expert,
        .routed_active = moe_layers * card->experts_per_tok * expert,
        .head = (double)card->hidden * card->vocab,
        .embedding = card->tied_embeddings ? 0 : (double)card->hidden * card->vocab,
    };
    double common = attention_params_per_layer(card) * card->n_layers + dense_ffn + router + shared;
    p.active = common + p.routed_active + p.head;
    p.total = common + p.routed + p.head + p.embedding;
    return p;
}
