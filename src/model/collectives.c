/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "model/collectives.h"

#include <math.h>

#define DISPATCH_BYTES_PER_VALUE (1.0 + 4.0 / 128)
#define COMBINE_BYTES_PER_VALUE  2.0

#define QUEUE_PAIRS_PER_PEER 24.0

double collective_copy_bytes(const struct model_card *card)
{
    return card->hidden * (DISPATCH_BYTES_PER_VALUE + COMBINE_BYTES_PER_VALUE);
}

/* C(all - gone, k) / C(all, k): none of k drawn from all is among the gone. */
static double none_among(double all, double gone, uint32_t k)
{
    double p = 1;
    for (uint32_t i = 0; i < k; i++) {
        p *= all - gone > i ? (all - gone - i) / (all - i) : 0;
    }
    return p;
}

double collective_remote_domains(const struct model_card *card, uint32_t n_domains)
{
    double n = n_domains;
    uint32_t groups = card->expert_groups, k = card->expert_groups_per_tok;
    double missed = groups > 1 && k > 0 && groups % n_domains == 0
                        ? none_among(groups, groups / n, k)
                        : none_among(card->n_experts, card->n_experts / n, card->experts_per_tok);
    return (n - 1) * (1 - missed);
}

static uint32_t domains_of(uint32_t group_gpus, uint32_t domain_gpus)
{
    return (group_gpus + domain_gpus - 1) / domain_gpus;
}

static bool leaves_domain(const struct model_card *card, uint32_t group_gpus, uint32_t domain_gpus)
{
    return card->expert_parallel && card->n_experts > 0 && group_gpus > domain_gpus;
}

double collective_prefill_bytes_per_tok(const struct model_card *card, uint32_t group_gpus,
                                        uint32_t domain_gpus)
{
    if (!leaves_domain(card, group_gpus, domain_gpus)) {
        return 0;
    }
    return collective_remote_domains(card, domains_of(group_gpus, domain_gpus)) *
           collective_copy_bytes(card) * card_moe_layers(card);
}

double collective_decode_bytes_per_tok(const struct model_card *card, uint32_t group_gpus,
                                       uint32_t domain_gpus)
{
    if (!leaves_domain(card, group_gpus, domain_gpus)) {
        return 0;
    }
    return card->experts_per_tok * collective_copy_bytes(card) * card_moe_layers(card);
}

double collective_prefill_queue_pairs(uint32_t group_gpus, uint32_t domain_gpus)
{
    return QUEUE_PAIRS_PER_PEER * (domains_of(group_gpus, domain_gpus) - 1);
}

double collective_decode_queue_pairs(const struct model_card *card, uint32_t group_gpus,
                                     uint32_t domain_gpus, double batch)
{
    if (!leaves_domain(card, group_gpus, domain_gpus)) {
        return 0;
    }
    double outside = 1 - (double)domain_gpus / group_gpus;
    double missed = pow(1 - (double)card->experts_per_tok / card->n_experts, batch);
    return outside * card->n_experts * (1 - missed);
}
