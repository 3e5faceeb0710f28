/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the simulator knows of a model: shapes, parameter counts and KV-cache layout. Cards are JSON
 * files (scenarios/models) or HuggingFace config.json files; input/model_card.h reads both. This room
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
    uint32_t n_heads, n_kv_heads, head_dim;                               /* GQA */
    uint32_t q_lora_rank, kv_lora_rank, rope_dim, nope_dim, v_head_dim;   /* MLA and DSA */
    uint32_t indexer_heads, indexer_dim, sparse_topk;                     /* DSA */
    uint32_t n_window_layers, window_tok;                                 /* sliding-window layers */
    uint32_t n_experts, experts_per_tok, n_shared_experts, expert_width;  /* 0 for a dense model */
    uint32_t dense_width;                                                 /* FFN width of dense layers */
    uint32_t vocab;
    double total_params, active_params; /* parameters, LM head included */
    uint64_t max_context_tok;

    double kv_bytes_per_tok_layer;  /* stored bytes of one token in one (average) layer */
    double weight_bytes_per_param;  /* 1 for FP8, 2 for BF16 */
    double mla_core_scale;          /* factor on the MLA core's FLOPs (facts/physics: 0.88 for the DeepSeek rows) */
    bool expert_parallel;           /* attention DP + experts EP; false: data parallel only */
    char kv_dtype[16];              /* "fp8", "bf16", "fp16": as the card states it */
    char source[256];               /* where the numbers come from */
};

/* KV-cache bytes of one token over all layers, as stored (integer: layers x bytes per layer). */
uint64_t card_kv_bytes_per_tok(const struct model_card *card);

/* Query-key pairs of new_tok tokens appended to cached_tok: n*c + n(n+1)/2. */
double card_attention_pairs(double cached_tok, double new_tok);

/* FLOPs of the projections, FFNs and LM head for new_tok tokens: 2 * active * n. */
double card_linear_flops(const struct model_card *card, double new_tok);

/* FLOPs of attention over all layers, the cheaper form where there are two (MLA absorbed / expanded). */
double card_attention_flops(const struct model_card *card, double cached_tok, double new_tok);

/*
 * Cache-compute ratio, bytes of KV to load per FLOP of an append of append_tok on context_tok
 * (facts/physics, "FLOPs"; table 1 of the paper uses append 429).
 */
double card_cache_compute_ratio(const struct model_card *card, double context_tok, double append_tok);

#endif
