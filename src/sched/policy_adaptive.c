/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * DualPath's adaptive scheduler (arXiv 2602.21548, section on scheduling).
 *
 * Prefill engines of the fetching group, for the head of one global FIFO:
 *   C1  tok_e > beta                          never
 *   C2  read_q <= alpha and tok_e <= beta     first choice
 *   C3  read_q >  alpha and tok_e <= beta     second choice
 * (without layer streaming an engine that lacks HBM for the whole prompt is in C1, too)
 * and in a class the engine with the fewest tokens. The classes follow every assignment (computed
 * once per fetch, as written, the stop rule could never take effect).
 *
 * Decode engines, phase 1: to the group with the fewest tokens, those in its private queue included
 * (without them a drained global queue would go to one group whole). Phase 2: among engines with
 * HBM for the request, those that stay at or below Z by the fewest requests, else the one with the
 * fewest tokens.
 *
 * Engines that still have the KV of the session's last turn (system.decode_reuse; not in the paper)
 * are taken before others that the rules call good, never where the rules would refuse: in phase 1
 * their group, if with the request it has at most LEVEL times the mean of the groups' tokens or if
 * no group has fewer tokens; in phase 2 one of them that has HBM for the request and stays at or
 * below Z; or, if no engine of the group does, one that has as few tokens as any.
 */
#include "sched/policy.h"

#define LEVEL 1.05 /* how far above the mean is still level: the paper's factor in Z */

static uint32_t place_prefill(const struct policy_view *v, const struct policy_request *r)
{
    (void)v;
    (void)r;
    return POLICY_GLOBAL;
}

static bool reads_are_queued(const struct policy_view *v, uint32_t engine)
{
    uint32_t node = policy_prefill_node(v->cluster, engine);
    return v->nodes[node].read_queue_tok > v->cluster->alpha_tok;
}

static uint32_t pick_prefill(const struct policy_view *v, const struct policy_group *g,
                             const struct policy_request *r)
{
    uint32_t best[2] = {POLICY_WAIT, POLICY_WAIT}; /* of C2, of C3 */
    for (uint32_t e = g->first_engine; e < g->first_engine + g->n_engines; e++) {
        if (!policy_prefill_has_room(v, e, r) ||
            !policy_node_lives(v, policy_prefill_node(v->cluster, e))) {
            continue;
        }
        uint32_t *b = &best[reads_are_queued(v, e)];
        if (*b == POLICY_WAIT || v->prefill[e].tok < v->prefill[*b].tok) {
            *b = e;
        }
    }
    return best[0] != POLICY_WAIT ? best[0] : best[1];
}

static uint64_t group_tok(const struct policy_view *v, const struct policy_group *g)
{
    uint64_t tok = 0;
    for (uint32_t e = g->first_engine; e < g->first_engine + g->n_engines; e++) {
        tok += v->decode[e].tok;
    }
    return tok;
}

static uint64_t request_tok(const struct policy_request *r)
{
    return (uint64_t)r->prompt_tok + r->gen_tok;
}

static bool group_lives(const struct policy_view *v, const struct policy_group *g)
{
    uint32_t e = g->first_engine, end = e + g->n_engines;
    while (e < end && !policy_node_lives(v, policy_decode_node(v->cluster, e))) {
        e += v->cluster->gpus_per_node;
    }
    return e < end;
}

static uint32_t place_decode(const struct policy_view *v, const struct policy_request *r)
{
    uint32_t best = 0, keeper = POLICY_WAIT;
    uint64_t least = UINT64_MAX, keeper_tok = 0, all = 0;
    for (uint32_t i = 0; i < cluster_decode_groups(v->cluster); i++) {
        struct policy_group g = policy_decode_group(v->cluster, i);
        uint64_t tok = group_tok(v, &g) + v->decode_queued_tok[i];
        all += tok;
        if (tok < least && group_lives(v, &g)) {
            least = tok;
            best = i;
        }
        if (r->kept_tok > 0 && r->kept_first - g.first_engine < g.n_engines) {
            keeper = i;
            keeper_tok = tok;
        }
    }
    double mean = (double)(all + request_tok(r)) / cluster_decode_groups(v->cluster);
    bool level = keeper_tok <= least || (double)(keeper_tok + request_tok(r)) <= LEVEL * mean;
    return keeper != POLICY_WAIT && level ? keeper : best;
}

static struct policy_decode_plan plan_decode(const struct policy_view *v,
                                             const struct policy_group *g, uint64_t fitting_tok)
{
    double tok = (double)fitting_tok + (double)group_tok(v, g);
    return (struct policy_decode_plan){.level_tok = LEVEL * tok / g->n_engines};
}

struct best_engines {
    uint32_t fewest;   /* requests, of those that stay at or below Z */
    uint32_t lightest; /* tokens, of all that have HBM for the request */
};

static struct best_engines best_of(const struct policy_view *v, uint32_t first, uint32_t n,
                                   const struct policy_request *r,
                                   const struct policy_decode_plan *plan)
{
    struct best_engines best = {POLICY_WAIT, POLICY_WAIT};
    for (uint32_t e = first; e < first + n; e++) {
        const struct policy_engine *d = &v->decode[e];
        if (d->free_blocks < r->blocks ||
            !policy_node_lives(v, policy_decode_node(v->cluster, e))) {
            continue;
        }
        if ((double)(d->tok + request_tok(r)) <= plan->level_tok &&
            (best.fewest == POLICY_WAIT || d->requests < v->decode[best.fewest].requests)) {
            best.fewest = e;
        }
        if (best.lightest == POLICY_WAIT || d->tok < v->decode[best.lightest].tok) {
            best.lightest = e;
        }
    }
    return best;
}

static uint32_t pick_decode(const struct policy_view *v, const struct policy_group *g,
                            const struct policy_request *r, const struct policy_decode_plan *plan)
{
    struct best_engines best = best_of(v, g->first_engine, g->n_engines, r, plan);
    if (r->kept_tok > 0 && r->kept_first - g->first_engine < g->n_engines) {
        struct best_engines keepers = best_of(v, r->kept_first, r->kept_engines, r, plan);
        if (keepers.fewest != POLICY_WAIT) {
            return keepers.fewest;
        }
        if (best.fewest == POLICY_WAIT && keepers.lightest != POLICY_WAIT &&
            v->decode[keepers.lightest].tok <= v->decode[best.lightest].tok) {
            return keepers.lightest;
        }
    }
    return best.fewest != POLICY_WAIT ? best.fewest : best.lightest;
}

const struct policy_ops policy_adaptive = {.name = "adaptive",
                                           .place_prefill = place_prefill,
                                           .pick_prefill = pick_prefill,
                                           .place_decode = place_decode,
                                           .plan_decode = plan_decode,
                                           .pick_decode = pick_decode};
