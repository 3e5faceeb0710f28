/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "input/cards.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "input/cards_find.h"
#include "input/cards_shape.h"
#include "input/json_fields.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

/* Short rows: S the struct, then key = member. */
#define U32_FIELD(S, member, needed, lowest)                                                       \
    {                                                                                              \
        .key = #member, .type = FIELD_U32, .offset = offsetof(struct S, member),                   \
        .required = needed, .min = lowest, .max = 1 << 24                                          \
    }
#define TEXT_FIELD(S, member)                                                                      \
    {                                                                                              \
        .key = #member, .type = FIELD_STRING, .offset = offsetof(struct S, member),                \
        .size = sizeof(((struct S *)0)->member), .required = true                                  \
    }
#define NUMBER_FIELD(S, member, needed, kind, above, lowest, highest)                              \
    {                                                                                              \
        .key = #member, .type = FIELD_NUMBER, .offset = offsetof(struct S, member),                \
        .required = needed, .above_min = above, .min = lowest, .max = highest, .unit = kind        \
    }
#define FRACTION_FIELD(S, member) NUMBER_FIELD(S, member, true, UNIT_NONE, true, 0, 1)

static const char *const attention_words[] = {
    [ATTENTION_GQA] = "gqa", [ATTENTION_MLA] = "mla", [ATTENTION_DSA] = "dsa", NULL};

#define CARD(member) U32_FIELD(model_card, member, false, 0)
static const struct json_field card_fields[] = {
    {.key = "schema", .type = FIELD_IGNORE},
    TEXT_FIELD(model_card, name),
    TEXT_FIELD(model_card, source),
    TEXT_FIELD(model_card, kv_dtype),
    {.key = "attention",
     .type = FIELD_WORD,
     .offset = offsetof(struct model_card, attention),
     .required = true,
     .words = attention_words},
    U32_FIELD(model_card, n_layers, true, 1),
    U32_FIELD(model_card, hidden, true, 1),
    U32_FIELD(model_card, n_heads, true, 1),
    U32_FIELD(model_card, vocab, true, 1),
    CARD(n_dense_layers),
    CARD(n_kv_heads),
    CARD(head_dim),
    CARD(q_lora_rank),
    CARD(kv_lora_rank),
    CARD(rope_dim),
    CARD(nope_dim),
    CARD(v_head_dim),
    CARD(indexer_heads),
    CARD(indexer_dim),
    CARD(sparse_topk),
    CARD(n_window_layers),
    CARD(window_tok),
    CARD(n_experts),
    CARD(experts_per_tok),
    CARD(n_shared_experts),
    CARD(expert_width),
    CARD(expert_groups),
    CARD(expert_groups_per_tok),
    CARD(dense_width),
    {.key = "max_context_tok",
     .type = FIELD_U64,
     .offset = offsetof(struct model_card, max_context_tok),
     .required = true,
     .min = 1,
     .unit = UNIT_TOK},
    {.key = "tied_embeddings",
     .type = FIELD_BOOL,
     .offset = offsetof(struct model_card, tied_embeddings)},
    {.key = "expert_parallel",
     .type = FIELD_BOOL,
     .offset = offsetof(struct model_card, expert_parallel)},
    NUMBER_FIELD(model_card, total_params, false, UNIT_NONE, true, 0, 0),
    NUMBER_FIELD(model_card, active_params, false, UNIT_NONE, true, 0, 0),
    NUMBER_FIELD(model_card, kv_bytes_per_tok_layer, false, UNIT_NONE, true, 0, 0),
    NUMBER_FIELD(model_card, indexer_bytes_per_tok_layer, false, UNIT_NONE, false, 0, 0),
    NUMBER_FIELD(model_card, weight_bytes_per_param, true, UNIT_NONE, true, 0, 8),
    NUMBER_FIELD(model_card, mla_core_scale, false, UNIT_NONE, true, 0, 2),
};

static const struct json_field gpu_fields[] = {
    {.key = "schema", .type = FIELD_IGNORE},
    TEXT_FIELD(gpu_profile, name),
    TEXT_FIELD(gpu_profile, source),
    NUMBER_FIELD(gpu_profile, bf16_flops, true, UNIT_FLOPS, true, 0, 0),
    NUMBER_FIELD(gpu_profile, fp8_flops, false, UNIT_FLOPS, true, 0, 0),
    NUMBER_FIELD(gpu_profile, fp4_flops, false, UNIT_FLOPS, true, 0, 0),
    NUMBER_FIELD(gpu_profile, hbm_Bps, true, UNIT_BPS, true, 0, 0),
    NUMBER_FIELD(gpu_profile, hbm_bytes, true, UNIT_BYTES, true, 0, 0),
    NUMBER_FIELD(gpu_profile, nic_Bps, true, UNIT_BPS, true, 0, 0),
    FRACTION_FIELD(gpu_profile, mfu_attention_prefill),
    FRACTION_FIELD(gpu_profile, mfu_indexer_prefill),
    FRACTION_FIELD(gpu_profile, mfu_sparse_prefill),
    FRACTION_FIELD(gpu_profile, mfu_gemm),
    FRACTION_FIELD(gpu_profile, mfu_grouped_gemm),
    FRACTION_FIELD(gpu_profile, mfu_attention_decode),
    FRACTION_FIELD(gpu_profile, mfu_sparse_decode),
    FRACTION_FIELD(gpu_profile, hbm_efficiency),
    NUMBER_FIELD(gpu_profile, nvlink_Bps, false, UNIT_BPS, false, 0, 0),
    U32_FIELD(gpu_profile, nvlink_gpus, true, 1),
};

static const struct json_field storage_fields[] = {
    {.key = "schema", .type = FIELD_IGNORE},
    TEXT_FIELD(storage_profile, name),
    TEXT_FIELD(storage_profile, source),
    NUMBER_FIELD(storage_profile, latency_median_s, true, UNIT_S, false, 0, 0),
    NUMBER_FIELD(storage_profile, latency_sigma, true, UNIT_NONE, false, 0, 10),
    FRACTION_FIELD(storage_profile, efficiency_max),
    NUMBER_FIELD(storage_profile, half_size_bytes, true, UNIT_BYTES, false, 0, 0),
    NUMBER_FIELD(storage_profile, stream_Bps, false, UNIT_BPS, false, 0, 0),
    U32_FIELD(storage_profile, stream_ios, false, 0),
    U32_FIELD(storage_profile, read_queues, false, 0),
    U32_FIELD(storage_profile, reads_in_service, true, 1),
    U32_FIELD(storage_profile, writes_in_service, true, 1),
    NUMBER_FIELD(storage_profile, cluster_Bps, true, UNIT_BPS, false, 0, 0),
};

/* The first thing to be wrong in a file of another kind. */
static int check_schema(const struct json_file *f, const char *schema, struct err *err)
{
    const json_t *value = json_object_get(f->root, "schema");
    char found[128];
    if (json_is_string(value) && strcmp(json_string_value(value), schema) == 0) {
        return 0;
    }
    if (!json_is_object(f->root)) {
        json_describe(f->root, found, sizeof(found));
        return json_file_error(f, "", err, "found %s, expected an object", found);
    }
    if (!value) {
        return json_fields_error(f, "schema", err, "missing, expected \"%s\"", schema);
    }
    json_describe(value, found, sizeof(found));
    return json_fields_error(f, "schema", err, "found %s, expected \"%s\"", found, schema);
}

static int read_table(const struct json_file *f, const char *schema,
                      const struct json_field *fields, size_t n, void *out, struct err *err)
{
    int ret = check_schema(f, schema, err);
    if (ret == 0) {
        ret = json_fields_check_unknown(f, fields, n, err);
    }
    if (ret == 0) {
        ret = json_fields_read(f, fields, n, out, err);
    }
    return ret;
}

/* KV bytes follow from kv_dtype unless the card gives its own layout. */
static int derive_kv(const struct json_file *f, struct model_card *card, struct err *err)
{
    struct model_card derived = *card;
    if (card_set_kv_layout(&derived) == 0) {
        if (!json_object_get(f->root, "indexer_bytes_per_tok_layer")) {
            card->indexer_bytes_per_tok_layer = derived.indexer_bytes_per_tok_layer;
        }
        if (!json_object_get(f->root, "kv_bytes_per_tok_layer")) {
            card->kv_bytes_per_tok_layer = derived.kv_bytes_per_tok_layer;
        }
    } else if (!json_object_get(f->root, "kv_bytes_per_tok_layer")) {
        return json_fields_error(f, "kv_dtype", err,
                                 "found the string \"%s\", expected \"fp8\", \"bf16\" or \"fp16\" "
                                 "(or a kv_bytes_per_tok_layer of its own)",
                                 card->kv_dtype);
    }
    if (card->indexer_bytes_per_tok_layer > card->kv_bytes_per_tok_layer) {
        return json_fields_error(f, "indexer_bytes_per_tok_layer", err,
                                 "found %g, expected at most kv_bytes_per_tok_layer, %g",
                                 card->indexer_bytes_per_tok_layer, card->kv_bytes_per_tok_layer);
    }
    return 0;
}

static int derive_params(const struct json_file *f, struct model_card *card, struct err *err)
{
    struct card_params p = card_count_params(card);
    if (card->total_params == 0) {
        card->total_params = p.total;
    }
    if (card->active_params == 0) {
        card->active_params = p.active;
    }
    if (card->active_params > card->total_params) {
        return json_fields_error(f, "active_params", err,
                                 "found %g, expected at most total_params, %g", card->active_params,
                                 card->total_params);
    }
    if (card->active_params <= p.routed_active || card->total_params <= p.routed) {
        return json_fields_error(f, "active_params", err,
                                 "total %g and active %g, expected more than the routed experts' "
                                 "%g and %g",
                                 card->total_params, card->active_params, p.routed,
                                 p.routed_active);
    }
    return 0;
}

static int read_own_card(const struct json_file *f, struct model_card *ret_card, struct err *err)
{
    struct card_source src = {f, card_fields, COUNT(card_fields)};
    struct model_card card = {.mla_core_scale = 1};
    int ret = read_table(f, "dualpath/model/1", card_fields, COUNT(card_fields), &card, err);
    if (ret < 0) {
        return ret;
    }
    if (card.n_experts == 0) {
        card.n_dense_layers = card.n_layers;
    }
    if (!json_object_get(f->root, "expert_parallel")) {
        card.expert_parallel = card.n_experts > 0;
    }
    ret = card_check_shapes(&src, &card, err);
    if (ret == 0) {
        ret = derive_kv(f, &card, err);
    }
    if (ret == 0) {
        ret = derive_params(f, &card, err);
    }
    if (ret == 0) {
        *ret_card = card;
    }
    return ret;
}

static int open_named(const char *kind, const char *name, struct json_file *ret_file,
                      struct err *err)
{
    char path[1200];
    int ret = cards_find(kind, name, path, sizeof(path), err);
    return ret < 0 ? ret : json_file_read(path, ret_file, err);
}

int card_read(const char *name_or_path, struct model_card *ret_card, struct err *err)
{
    struct json_file f;
    int ret = open_named("models", name_or_path, &f, err);
    if (ret < 0) {
        return ret;
    }
    ret = card_is_hf(&f) ? card_read_hf(&f, ret_card, err) : read_own_card(&f, ret_card, err);
    json_file_done(&f);
    return ret;
}

int gpu_read(const char *name_or_path, struct gpu_profile *ret_gpu, struct err *err)
{
    struct gpu_profile gpu = {0};
    struct json_file f;
    int ret = open_named("gpus", name_or_path, &f, err);
    if (ret < 0) {
        return ret;
    }
    ret = read_table(&f, "dualpath/gpu/1", gpu_fields, COUNT(gpu_fields), &gpu, err);
    json_file_done(&f);
    if (ret < 0) {
        return ret;
    }
    if (gpu.fp8_flops == 0) {
        gpu.fp8_flops = gpu.bf16_flops;
    }
    if (gpu.fp4_flops == 0) {
        gpu.fp4_flops = gpu.fp8_flops;
    }
    *ret_gpu = gpu;
    return 0;
}

int storage_read(const char *name_or_path, struct storage_profile *ret_storage, struct err *err)
{
    struct storage_profile storage = {0};
    struct json_file f;
    int ret = open_named("storage", name_or_path, &f, err);
    if (ret < 0) {
        return ret;
    }
    ret =
        read_table(&f, "dualpath/storage/1", storage_fields, COUNT(storage_fields), &storage, err);
    json_file_done(&f);
    if (ret == 0) {
        *ret_storage = storage;
    }
    return ret;
}
