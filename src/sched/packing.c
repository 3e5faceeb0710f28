/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sched/packing.h"

static bool by_quota(const struct packing *p)
{
    return p->cluster->quota_ns > 0;
}

static bool fits(const struct packing *p, uint32_t cached_tok, uint32_t new_tok)
{
    return by_quota(p) ? timing_attention_ns(p->cluster->timing, cached_tok, new_tok) <= p->left_ns
                       : new_tok <= p->left_tok;
}

struct packing packing_begin(const struct cluster *c)
{
    return (struct packing){
        .cluster = c, .left_ns = (double)c->quota_ns, .left_tok = c->forward_tok};
}

uint32_t packing_fit(const struct packing *p, uint32_t cached_tok, uint32_t new_tok)
{
    if (fits(p, cached_tok, new_tok)) {
        return new_tok;
    }
    uint32_t block_tok = p->cluster->kv.block_tok;
    uint32_t fit = 0, too_many = (new_tok + block_tok - 1) / block_tok;
    while (too_many - fit > 1) {
        uint32_t middle = fit + (too_many - fit) / 2;
        if (fits(p, cached_tok, middle * block_tok)) {
            fit = middle;
        } else {
            too_many = middle;
        }
    }
    return fit * block_tok;
}

void packing_take(struct packing *p, uint32_t cached_tok, uint32_t new_tok)
{
    p->left_ns -= timing_attention_ns(p->cluster->timing, cached_tok, new_tok);
    p->left_tok -= new_tok < p->left_tok ? new_tok : p->left_tok;
}

double packing_fill(const struct packing *p)
{
    double left = by_quota(p) ? p->left_ns / (double)p->cluster->quota_ns
                              : (double)p->left_tok / p->cluster->forward_tok;
    return left > 0 ? 1 - left : 1;
}
