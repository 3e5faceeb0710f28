/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "input/cards_shape.h"

#include <errno.h>
#include <stddef.h>

static const char *key_of(const struct card_source *src, size_t offset)
{
    for (size_t i = 0; i < src->n_fields; i++) {
        if (src->fields[i].offset == offset && src->fields[i].type != FIELD_IGNORE) {
            return src->fields[i].key;
        }
    }
    return "";
}

/* Members that a kind of model needs, and why. */
struct need {
    size_t offset;
    const char *because;
};
#define NEED(member, why)                                                                          \
    {                                                                                              \
        offsetof(struct model_card, member), why                                                   \
    }

static const struct need gqa_needs[] = {
    NEED(n_kv_heads, "grouped-query attention"),
    NEED(head_dim, "grouped-query attention"),
};
static const struct need mla_needs[] = {
    NEED(kv_lora_rank, "latent attention"),
    NEED(rope_dim, "latent attention"),
    NEED(nope_dim, "latent attention"),
    NEED(v_head_dim, "latent attention"),
};
static const struct need dsa_needs[] = {
    NEED(indexer_heads, "sparse attention"),
    NEED(indexer_dim, "sparse attention"),
    NEED(sparse_topk, "sparse attention"),
};
static const struct need moe_needs[] = {
    NEED(experts_per_tok, "a mixture of experts"),
    NEED(expert_width, "a mixture of experts"),
};

static int check_needs(const struct card_source *src, const struct model_card *card,
                       const struct need *needs, size_t n, struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t *value =
            (const uint32_t *)(const void *)((const char *)card + needs[i].offset);
        if (*value == 0) {
            return json_fields_error(src->file, key_of(src, needs[i].offset), err,
                                     "missing or 0, %s needs a whole number above 0",
                                     needs[i].because);
        }
    }
    return 0;
}

static int check_attention(const struct card_source *src, const struct model_card *card,
                           struct err *err)
{
    if (card->attention == ATTENTION_GQA) {
        int ret = check_needs(src, card, gqa_needs, sizeof(gqa_needs) / sizeof(*gqa_needs), err);
        if (ret == 0 && card->n_heads % card->n_kv_heads != 0) {
            ret = json_fields_error(src->file, key_of(src, offsetof(struct model_card, n_kv_heads)),
                                    err, "found %u, expected a divisor of the %u query heads",
                                    card->n_kv_heads, card->n_heads);
        }
        return ret;
    }
    int ret = check_needs(src, card, mla_needs, sizeof(mla_needs) / sizeof(*mla_needs), err);
    if (ret == 0 && card->attention == ATTENTION_DSA) {
        ret = check_needs(src, card, dsa_needs, sizeof(dsa_needs) / sizeof(*dsa_needs), err);
    }
    return ret;
}

static int check_experts(const struct card_source *src, const struct model_card *card,
                         struct err *err)
{
    if (card->n_experts == 0) {
        return 0;
    }
    int ret = check_needs(src, card, moe_needs, sizeof(moe_needs) / sizeof(*moe_needs), err);
    if (ret == 0 && card->experts_per_tok > card->n_experts) {
        ret =
            json_fields_error(src->file, key_of(src, offsetof(struct model_card, experts_per_tok)),
                              err, "found %u, expected at most the %u experts there are",
                              card->experts_per_tok, card->n_experts);
    }
    if (ret == 0 && card->expert_groups_per_tok > card->expert_groups) {
        ret = json_fields_error(
            src->file, key_of(src, offsetof(struct model_card, expert_groups_per_tok)), err,
            "found %u, expected at most the %u groups of experts there are",
            card->expert_groups_per_tok, card->expert_groups);
    }
    return ret;
}

static int check_layers(const struct card_source *src, const struct model_card *card,
                        struct err *err)
{
    static const struct need dense_need[] = {NEED(dense_width, "a dense FFN layer")};
    static const struct need window_need[] = {NEED(window_tok, "a sliding-window layer")};
    int ret = 0;
    if (card->n_dense_layers > card->n_layers) {
        return json_fields_error(src->file,
                                 key_of(src, offsetof(struct model_card, n_dense_layers)), err,
                                 "found %u, expected at most the %u layers there are",
                                 card->n_dense_layers, card->n_layers);
    }
    if (card->n_window_layers > card->n_layers) {
        return json_fields_error(src->file,
                                 key_of(src, offsetof(struct model_card, n_window_layers)), err,
                                 "found %u, expected at most the %u layers there are",
                                 card->n_window_layers, card->n_layers);
    }
    if (card->n_dense_layers > 0) {
        ret = check_needs(src, card, dense_need, 1, err);
    }
    if (ret == 0 && card->n_window_layers > 0) {
        ret = check_needs(src, card, window_need, 1, err);
    }
    return ret;
}

int card_check_shapes(const struct card_source *src, const struct model_card *card, struct err *err)
{
    int ret = check_layers(src, card, err);
    if (ret == 0) {
        ret = check_attention(src, card, err);
    }
    if (ret == 0) {
        ret = check_experts(src, card, err);
    }
    return ret;
}
