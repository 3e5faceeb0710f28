/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * HuggingFace config.json of the families below, taken as it is: members we do not need are
 * skipped. Parameter counts come from the shapes. What the file does not say is the family's:
 *
 * - KV-cache: FP8 for mixtures of experts, as they are served; BF16 for qwen2 and llama.
 * - Weights: what quantization_config says, fp8 (1 byte) or mxfp4 (experts 4.25 bits, the rest
 *   BF16); without it BF16.
 */
#include "input/cards_shape.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* 32 values of 4 bits share one scale of 8 bits. */
#define MXFP4_BYTES_PER_PARAM (4.25 / 8)

#define U32_FIELD(name, member, needed)                                                            \
    {                                                                                              \
        .key = name, .type = FIELD_U32, .offset = offsetof(struct model_card, member),             \
        .required = needed, .min = 0, .max = 1 << 24                                               \
    }
#define SIZE_FIELD(name, member, needed)                                                           \
    {                                                                                              \
        .key = name, .type = FIELD_U32, .offset = offsetof(struct model_card, member),             \
        .required = needed, .min = 1, .max = 1 << 24                                               \
    }

#define COMMON_FIELDS                                                                              \
    SIZE_FIELD("num_hidden_layers", n_layers, true), SIZE_FIELD("hidden_size", hidden, true),      \
        SIZE_FIELD("vocab_size", vocab, true), SIZE_FIELD("num_attention_heads", n_heads, true),   \
        {.key = "max_position_embeddings",                                                         \
         .type = FIELD_U64,                                                                        \
         .offset = offsetof(struct model_card, max_context_tok),                                   \
         .required = true,                                                                         \
         .min = 1},                                                                                \
    {                                                                                              \
        .key = "tie_word_embeddings", .type = FIELD_BOOL,                                          \
        .offset = offsetof(struct model_card, tied_embeddings)                                     \
    }
#define GQA_FIELDS                                                                                 \
    SIZE_FIELD("num_key_value_heads", n_kv_heads, true), SIZE_FIELD("head_dim", head_dim, false)
#define MLA_FIELDS                                                                                 \
    SIZE_FIELD("kv_lora_rank", kv_lora_rank, true),                                                \
        SIZE_FIELD("qk_rope_head_dim", rope_dim, true),                                            \
        SIZE_FIELD("qk_nope_head_dim", nope_dim, true),                                            \
        SIZE_FIELD("v_head_dim", v_head_dim, true),                                                \
        {.key = "q_lora_rank",                                                                     \
         .type = FIELD_U32,                                                                        \
         .offset = offsetof(struct model_card, q_lora_rank),                                       \
         .nullable = true,                                                                         \
         .max = 1 << 24},                                                                          \
        SIZE_FIELD("n_routed_experts", n_experts, true),                                           \
        SIZE_FIELD("num_experts_per_tok", experts_per_tok, true),                                  \
        U32_FIELD("n_group", expert_groups, false),                                                \
        U32_FIELD("topk_group", expert_groups_per_tok, false),                                     \
        SIZE_FIELD("moe_intermediate_size", expert_width, true),                                   \
        U32_FIELD("n_shared_experts", n_shared_experts, true),                                     \
        U32_FIELD("first_k_dense_replace", n_dense_layers, true),                                  \
        SIZE_FIELD("intermediate_size", dense_width, true)

static const struct json_field dense_fields[] = {
    COMMON_FIELDS,
    GQA_FIELDS,
    SIZE_FIELD("intermediate_size", dense_width, true),
};
static const struct json_field mla_fields[] = {COMMON_FIELDS, MLA_FIELDS};
static const struct json_field dsa_fields[] = {
    COMMON_FIELDS,
    MLA_FIELDS,
    SIZE_FIELD("index_n_heads", indexer_heads, true),
    SIZE_FIELD("index_head_dim", indexer_dim, true),
    SIZE_FIELD("index_topk", sparse_topk, true),
};
static const struct json_field qwen_moe_fields[] = {
    COMMON_FIELDS,
    GQA_FIELDS,
    SIZE_FIELD("num_experts", n_experts, true),
    SIZE_FIELD("num_experts_per_tok", experts_per_tok, true),
    SIZE_FIELD("moe_intermediate_size", expert_width, true),
};
static const struct json_field glm_moe_fields[] = {
    COMMON_FIELDS,
    GQA_FIELDS,
    SIZE_FIELD("n_routed_experts", n_experts, true),
    SIZE_FIELD("num_experts_per_tok", experts_per_tok, true),
    SIZE_FIELD("moe_intermediate_size", expert_width, true),
    U32_FIELD("n_shared_experts", n_shared_experts, true),
    U32_FIELD("first_k_dense_replace", n_dense_layers, true),
    SIZE_FIELD("intermediate_size", dense_width, true),
};
/* Both names of top-k stand in published gpt-oss files; the second is in all of them. */
static const struct json_field local_moe_fields[] = {
    COMMON_FIELDS,
    GQA_FIELDS,
    SIZE_FIELD("num_local_experts", n_experts, true),
    SIZE_FIELD("num_experts_per_tok", experts_per_tok, true),
    SIZE_FIELD("intermediate_size", expert_width, true),
};

/* A member that, when present, must hold this or the shapes above do not describe the model. */
struct fixed_member {
    const char *key, *json;
};
static const struct fixed_member deepseek_fixed[] = {{"moe_layer_freq", "1"}, {NULL, NULL}};
static const struct fixed_member qwen_fixed[] = {{"use_sliding_window", "false"}, {NULL, NULL}};
static const struct fixed_member qwen_moe_fixed[] = {
    {"use_sliding_window", "false"},
    {"decoder_sparse_step", "1"},
    {"mlp_only_layers", "[]"},
    {NULL, NULL},
};
static const struct fixed_member nothing_fixed[] = {{NULL, NULL}};

struct hf_family {
    const char *model_type, *architecture;
    enum attention_kind attention;
    const struct json_field *fields;
    size_t n_fields;
    const struct fixed_member *fixed;
    const char *kv_dtype;
    bool windows; /* some layers may be sliding-window ones: layer_types, sliding_window */
    double mla_core_scale;
};

#define FIELDS(table) table, sizeof(table) / sizeof((table)[0])
static const struct hf_family families[] = {
    {"deepseek_v32", "DeepseekV32ForCausalLM", ATTENTION_DSA, FIELDS(dsa_fields), deepseek_fixed,
     "fp8", false, 0.88},
    {"deepseek_v3", "DeepseekV3ForCausalLM", ATTENTION_MLA, FIELDS(mla_fields), deepseek_fixed,
     "fp8", false, 0.88},
    {"kimi_k2", "DeepseekV3ForCausalLM", ATTENTION_MLA, FIELDS(mla_fields), deepseek_fixed, "fp8",
     false, 1},
    {"qwen2", "Qwen2ForCausalLM", ATTENTION_GQA, FIELDS(dense_fields), qwen_fixed, "bf16", false,
     1},
    {"qwen3_moe", "Qwen3MoeForCausalLM", ATTENTION_GQA, FIELDS(qwen_moe_fields), qwen_moe_fixed,
     "fp8", false, 1},
    {"glm4_moe", "Glm4MoeForCausalLM", ATTENTION_GQA, FIELDS(glm_moe_fields), nothing_fixed, "fp8",
     false, 1},
    {"llama", "LlamaForCausalLM", ATTENTION_GQA, FIELDS(dense_fields), nothing_fixed, "bf16", false,
     1},
    {"gpt_oss", "GptOssForCausalLM", ATTENTION_GQA, FIELDS(local_moe_fields), nothing_fixed, "fp8",
     true, 1},
    {"minimax_m2", "MiniMaxM2ForCausalLM", ATTENTION_GQA, FIELDS(local_moe_fields), nothing_fixed,
     "fp8", false, 1},
};
#define N_FAMILIES (sizeof(families) / sizeof(families[0]))

bool card_is_hf(const struct json_file *f)
{
    return json_object_get(f->root, "model_type") || json_object_get(f->root, "architectures");
}

static bool is_string(const json_t *value, const char *text)
{
    return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

/* By model_type, else by the first architecture (MiniMax-M2's file has an older model_type). */
static const struct hf_family *find_family(const struct json_file *f)
{
    const json_t *type = json_object_get(f->root, "model_type");
    const json_t *architecture = json_array_get(json_object_get(f->root, "architectures"), 0);
    for (size_t i = 0; i < N_FAMILIES; i++) {
        if (is_string(type, families[i].model_type)) {
            return &families[i];
        }
    }
    for (size_t i = 0; i < N_FAMILIES; i++) {
        if (is_string(architecture, families[i].architecture)) {
            return &families[i];
        }
    }
    return NULL;
}

static int unknown_family(const struct json_file *f, struct err *err)
{
    char found[128], known[256] = "";
    const char *key = json_object_get(f->root, "model_type") ? "model_type" : "architectures";
    json_describe(json_object_get(f->root, key), found, sizeof(found));
    for (size_t i = 0, n = 0; i < N_FAMILIES && n < sizeof(known); i++) {
        n += (size_t)snprintf(known + n, sizeof(known) - n, "%s%s", i ? ", " : "",
                              families[i].model_type);
    }
    return json_fields_error(f, key, err, "found %s, expected one of the families %s", found,
                             known);
}

static int check_fixed(const struct json_file *f, const struct fixed_member *fixed, struct err *err)
{
    for (; fixed->key; fixed++) {
        const json_t *value = json_object_get(f->root, fixed->key);
        if (!value || json_is_null(value)) {
            continue;
        }
        json_t *expected = json_loads(fixed->json, JSON_DECODE_ANY, NULL);
        if (!expected) {
            return err_nomem(err);
        }
        bool equal = json_equal(value, expected);
        json_decref(expected);
        if (!equal) {
            char found[128];
            json_describe(value, found, sizeof(found));
            return json_fields_error(f, fixed->key, err,
                                     "found %s, only models where it is %s can be modelled", found,
                                     fixed->json);
        }
    }
    return 0;
}

static int read_window_size(const struct json_file *f, struct model_card *card, struct err *err)
{
    static const struct json_field field = SIZE_FIELD("sliding_window", window_tok, true);
    return json_fields_read(f, &field, 1, card, err);
}

/* layer_types names each layer's attention; where it is absent every other layer has a window. */
static int read_windows(const struct json_file *f, struct model_card *card, struct err *err)
{
    const json_t *types = json_object_get(f->root, "layer_types"), *type;
    size_t i;
    if (!types) {
        card->n_window_layers = (card->n_layers + 1) / 2;
        return read_window_size(f, card, err);
    }
    if (!json_is_array(types) || json_array_size(types) != card->n_layers) {
        return json_fields_error(f, "layer_types", err, "expected an array of %u strings",
                                 card->n_layers);
    }
    json_array_foreach(types, i, type)
    {
        if (is_string(type, "sliding_attention")) {
            card->n_window_layers++;
        } else if (!is_string(type, "full_attention")) {
            char path[64], found[128];
            snprintf(path, sizeof(path), "layer_types[%zu]", i);
            json_describe(type, found, sizeof(found));
            return json_file_error(f, path, err,
                                   "found %s, expected \"full_attention\" or \"sliding_attention\"",
                                   found);
        }
    }
    return card->n_window_layers ? read_window_size(f, card, err) : 0;
}

/* Experts in MXFP4 and the rest in BF16, as one average over all but embedding and head. */
static double mxfp4_bytes_per_param(const struct model_card *card)
{
    struct card_params p = card_count_params(card);
    double matrices = p.total - p.head - p.embedding;
    return (MXFP4_BYTES_PER_PARAM * p.routed + 2 * (matrices - p.routed)) / matrices;
}

static int read_weights(const struct json_file *f, struct model_card *card, struct err *err)
{
    const json_t *quantization = json_object_get(f->root, "quantization_config");
    const json_t *method = json_object_get(quantization, "quant_method");
    if (!quantization || json_is_null(quantization)) {
        card->weight_bytes_per_param = 2;
    } else if (is_string(method, "fp8")) {
        card->weight_bytes_per_param = 1;
    } else if (is_string(method, "mxfp4")) {
        card->weight_bytes_per_param = mxfp4_bytes_per_param(card);
    } else if (!method) {
        return json_fields_error(f, "quantization_config", err,
                                 "no quant_method in it, expected \"fp8\" or \"mxfp4\"");
    } else {
        char found[128];
        json_describe(method, found, sizeof(found));
        return json_file_error(f, "quantization_config.quant_method", err,
                               "found %s, expected \"fp8\" or \"mxfp4\"", found);
    }
    return 0;
}

static void fill_defaults(const struct hf_family *family, const struct json_file *f,
                          struct model_card *card)
{
    snprintf(card->name, sizeof(card->name), "%s", family->model_type);
    snprintf(card->kv_dtype, sizeof(card->kv_dtype), "%s", family->kv_dtype);
    snprintf(card->source, sizeof(card->source), "HuggingFace config %.200s", f->source);
    card->attention = family->attention;
    card->mla_core_scale = family->mla_core_scale;
    if (card->n_experts == 0) {
        card->n_dense_layers = card->n_layers;
    }
    card->expert_parallel = card->n_experts > 0;
    if (card->attention == ATTENTION_GQA && card->head_dim == 0) {
        card->head_dim = card->hidden / card->n_heads;
    }
}

int card_read_hf(const struct json_file *f, struct model_card *ret_card, struct err *err)
{
    struct model_card card = {0};
    const struct hf_family *family = find_family(f);
    if (!family) {
        return unknown_family(f, err);
    }
    struct card_source src = {f, family->fields, family->n_fields};
    int ret = json_fields_read(f, family->fields, family->n_fields, &card, err);
    if (ret == 0) {
        ret = check_fixed(f, family->fixed, err);
    }
    if (ret == 0 && family->windows) {
        ret = read_windows(f, &card, err);
    }
    if (ret < 0) {
        return ret;
    }
    fill_defaults(family, f, &card);
    ret = card_check_shapes(&src, &card, err);
    if (ret == 0) {
        ret = read_weights(f, &card, err);
    }
    if (ret < 0) {
        return ret;
    }
    struct card_params p = card_count_params(&card);
    card.total_params = p.total;
    card.active_params = p.active;
    card_set_kv_layout(&card); /* the families' types are among those it knows */
    *ret_card = card;
    return 0;
}
