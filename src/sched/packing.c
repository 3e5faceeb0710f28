/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sched/packing.h"

static double takes(const struct packing *p, uint32_t cached_tok, uint32_t new_tok)
{
    const struct cluster *c = p->cluster;
    return c->quota_ns > 0 ? timing_attention_ns(c->timing, cached_tok, new_tok) : new_tok;
}

struct packing packing_begin(const struct cluster *c)
{
    double limit = c->quota_ns > 0 ? (double)c->quota_ns : c->forward_tok;
    return (struct packing){.cluster = c, .limit = limit, .left = limit};
}

uint32_t packing_fit(const struct packing *p, uint32_t cached_tok, uint32_t new_tok)
{
    if (takes(p, cached_tok, new_tok) <= p->left) {
        return new_tok;
    }
    uint32_t block_tok = p->cluster->kv.block_tok;
    uint32_t fit = 0, too_many = (new_tok + block_tok - 1) / block_tok;
    while (too_many - fit > 1) {
        uint32_t middle = fit + (too_many - fit) / 2;
        if (takes(p, cached_tok, middle * block_tok) <= p->left) {
            fit = middle;
        } else {
            too_many = middle;
        }
    }
    return fit * block_tok;
}

void packing_take(struct packing *p, uint32_t cached_tok, uint32_t new_tok)
{
    p->left -= takes(p, cached_tok, new_tok);
}

double packing_fill(const struct packing *p)
{
    return p->left > 0 ? 1 - p->left / p->limit : 1;
}
