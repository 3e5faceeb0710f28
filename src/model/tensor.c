/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "model/tensor.h"

#define REDUCES_PER_LAYER 2.0
#define BF16_BYTES        2.0

uint32_t tensor_kv_parts(const struct model_card *card, uint32_t tp)
{
    if (card->attention != ATTENTION_GQA || tp <= 1) {
        return 1;
    }
    return tp < card->n_kv_heads ? tp : card->n_kv_heads;
}

/* Of a layer, held whole by every GPU: a latent's down-projections and the indexer. */
static double whole_attention_params(const struct model_card *card)
{
    double hidden = card->hidden, q_in = card->q_lora_rank ? card->q_lora_rank : hidden;
    if (card->attention == ATTENTION_GQA) {
        return 0;
    }
    double down = hidden * (card->q_lora_rank + card->kv_lora_rank + card->rope_dim);
    double indexer = card->attention == ATTENTION_DSA
                         ? q_in * card->indexer_heads * card->indexer_dim +
                               hidden * (card->indexer_dim + card->indexer_heads)
                         : 0;
    return down + indexer;
}

double tensor_params(const struct model_card *card, double params, uint32_t tp)
{
    if (tp <= 1) {
        return params;
    }
    double whole = whole_attention_params(card) * card->n_layers +
                   (double)card_moe_layers(card) * card->hidden * card->n_experts;
    double kv = card->attention == ATTENTION_GQA
                    ? 2.0 * card->hidden * card->head_dim * card->n_kv_heads * card->n_layers
                    : 0;
    return whole + kv / tensor_kv_parts(card, tp) + (params - whole - kv) / tp;
}

double tensor_reduce_bytes(const struct model_card *card, double tok, uint32_t tp)
{
    if (tp <= 1) {
        return 0;
    }
    return 2.0 * (tp - 1) / tp * REDUCES_PER_LAYER * card->n_layers * tok * card->hidden *
           BF16_BYTES;
}
