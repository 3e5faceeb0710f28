/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the simulator knows of a model: shapes, parameter counts and KV-cache layout. Cards are JSON
 * files (scenarios/models) or HuggingFace config.json files; input/cards.h reads both. This room
 * holds the pure arithmetic on them.
 */
#ifndef DUALPATH_MODEL_CARD_H
#define DUALPATH_MODEL_CARD_H

#include <stdbool.h>
#include <stdint.h>

enum attention_kind {
    ATTENTION_GQA, /* grouped-query (MHA when n_kv_heads == n_heads) */
    ATTENTION_MLA, /* multi-head latent, dense */
    ATTENTION_DSA, /* MLA with an indexer that selects sparse_topk keys */
};

struct model_card {
    char name[64];
    uint32_t n_layers;
    uint32_t n_dense_layers; /* leading layers with a dense FFN; all of them for a dense model */
    uint32_t hidden;
    enum attention_kind attention;
    uint32_t n_heads, n_kv_heads, head_dim;                              /* GQA */
    uint32_t q_lora_rank, kv_lora_rank, rope_dim, nope_dim, v_head_dim;  /* MLA and DSA */
    uint32_t indexer_heads, indexer_dim, sparse_topk;                    /* DSA */
    uint32_t n_window_layers, window_tok;                                /* sliding-window layers */
    uint32_t n_experts, experts_per_tok, n_shared_experts, expert_width; /* 0 for a dense model */
    uint32_t expert_groups, expert_groups_per_tok; /* a token's experts come from so many of the
                                                      groups; 0 = from anywhere */
    uint32_t dense_width;                          /* FFN width of dense layers */
    uint32_t vocab;
    bool tied_embeddings;               /* LM head and embedding table are one matrix */
    double total_params, active_params; /* parameters, LM head included */
    uint64_t max_context_tok;

    double kv_bytes_per_tok_layer;      /* stored bytes of one token in one (average) layer, indexer
                                           included */
    double indexer_bytes_per_tok_layer; /* the indexer's share of them; 0 without DSA */
    double weight_bytes_per_param;      /* 1 for FP8, 2 for BF16 */
    double mla_core_scale; /* factor on the MLA core in card_cache_compute_ratio() only: 0.88 gives
                              the paper's table 1 for DeepSeek, 1 is the arithmetic; times use 1 */
    bool expert_parallel;  /* attention DP + experts EP; false: data parallel only */
    char kv_dtype[16];     /* "fp8", "bf16", "fp16": as the card states it */
    char source[256];      /* where the numbers come from */
};

/*
 * Sets kv_bytes_per_tok_layer and indexer_bytes_per_tok_layer from the shapes and kv_dtype:
 *   GQA  2 * n_kv_heads * head_dim elements per full-attention layer, averaged over all layers (the
 *        window layers' keys are bounded by the window and not stored)
 *   MLA  bf16/fp16: 2*(kv + rope) bytes; fp8: kv + one FP32 scale per 128 + rope in BF16 (656 for
 *        512+64)
 *   DSA  the same, plus indexer_dim in FP8 with one FP32 scale per 128 (132 for 128)
 * Returns 0, or -EINVAL when kv_dtype is none of "fp8", "bf16", "fp16".
 */
int card_set_kv_layout(struct model_card *card);

/* KV-cache bytes of one token over all layers, as stored (integer: layers x bytes per layer). */
uint64_t card_kv_bytes_per_tok(const struct model_card *card);

/* Bytes of the hidden states of one token that enter one (average) layer, in BF16: what HCache
 * keeps instead of KV (arXiv 2410.05004: half of the KV of multi-head attention; grouped queries
 * and latents are smaller than it). Layers whose KV is not stored (windows) need none. A whole
 * number, rounded up. */
uint64_t card_hidden_bytes_per_tok_layer(const struct model_card *card);

/*
 * FLOPs of making one token's KV of all layers from its hidden states. HCache: 4*hidden^2 a layer,
 * the K and V projections of multi-head attention; in general 2*hidden*(elements of K and V, or of
 * the latent, the rotary key and the indexer's key).
 */
double card_restore_flops_per_tok(const struct model_card *card);

/* Query-key pairs of new_tok tokens appended to cached_tok: n*c + n(n+1)/2. */
double card_attention_pairs(double cached_tok, double new_tok);

/* FLOPs of the projections, FFNs and LM head for new_tok tokens: 2 * active * n. */
double card_linear_flops(const struct model_card *card, double new_tok);

/*
 * Key visits when each query sees at most limit keys: the sum over i = 1..n of min(cached + i,
 * limit). With limit >= cached + n it is card_attention_pairs(). Sliding windows and DSA's top-k.
 */
double card_limited_pairs(double cached_tok, double new_tok, double limit);

/* FLOPs of the DSA indexer over all layers (it scores every pair, in FP8): 2*h_I*d_I*layers*pairs.
 * 0 without DSA. */
double card_indexer_flops(const struct model_card *card, double cached_tok, double new_tok);

/*
 * FLOPs of the attention core over all layers, scores and values:
 *   GQA  4*heads*dim*(full layers*pairs + window layers*limited pairs)
 *   MLA  the cheaper of absorbed, 2*heads*(kv+rope+kv)*layers*pairs, and expanded,
 *        2*heads*(nope+rope+v)*layers*pairs + 2*kv*heads*(nope+v)*layers*(c+n)
 *   DSA  absorbed, over min(top-k, context) keys of each query
 */
double card_core_flops(const struct model_card *card, double cached_tok, double new_tok);

/* FLOPs of attention over all layers: core + indexer. */
double card_attention_flops(const struct model_card *card, double cached_tok, double new_tok);

/*
 * Cache-compute ratio: bytes of KV to load per FLOP of an append of append_tok on context_tok = L,
 *     kv*L / [append * (2*active + c*min(L, topk) + i*L)]
 * with kv the bytes without the indexer's, c the core's and i the indexer's FLOPs per pair (facts
 * of table 1 of the paper, which uses append 429; append's own triangle is left out there and
 * here).
 */
double card_cache_compute_ratio(const struct model_card *card, double context_tok,
                                double append_tok);

/*
 * Parameters counted from the shapes: projections, indexer, FFNs, routers, embedding and LM head
 * (biases and norms are left out, below 0.1 %; prediction (MTP) layers too). Active: those one
 * token meets, so experts_per_tok + shared experts, and the LM head but not the embedding table.
 */
struct card_params {
    double total, active;
    double routed;        /* all routed experts of all layers */
    double routed_active; /* those one token meets */
    double head;          /* the LM head; the embedding table is as large, unless tied */
    double embedding;     /* 0 when tied to the head */
};
struct card_params card_count_params(const struct model_card *card);

/* Layers whose FFN is a mixture of experts, and layers with full (not windowed) attention. */
uint32_t card_moe_layers(const struct model_card *card);
uint32_t card_full_layers(const struct model_card *card);

#endif
