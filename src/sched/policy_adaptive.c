/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * DualPath's adaptive scheduler (arXiv 2602.21548, section on scheduling).
 *
 * Prefill engines of the fetching group, for the head of one global FIFO:
 *   C1  tok_e > beta                          never
 *   C2  read_q <= alpha and tok_e <= beta     first choice
 *   C3  read_q >  alpha and tok_e <= beta     second choice
 * and in a class the engine with the fewest tokens. The classes follow every assignment (computed
 * once per fetch, as written, the stop rule could never take effect).
 *
 * Decode engines, phase 1: to the group with the fewest tokens, those in its private queue included
 * (without them a drained global queue would go to one group whole). Phase 2: among engines with
 * HBM for the request, those that stay at or below Z by the fewest requests, else the one with the
 * fewest tokens.
 */
#include "sched/policy.h"

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
    (void)r;
    uint32_t best[2] = {POLICY_WAIT, POLICY_WAIT}; /* of C2, of C3 */
    for (uint32_t e = g->first_engine; e < g->first_engine + g->n_engines; e++) {
        if (v->prefill[e].tok > v->cluster->beta_tok) {
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

static uint32_t place_decode(const struct policy_view *v, const struct policy_request *r)
{
    (void)r;
    uint32_t best = 0;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < cluster_decode_groups(v->cluster); i++) {
        struct policy_group g = policy_decode_group(v->cluster, i);
        uint64_t tok = group_tok(v, &g) + v->decode_queued_tok[i];
        if (tok < least) {
            least = tok;
            best = i;
        }
    }
    return best;
}

static struct policy_decode_plan plan_decode(const struct policy_view *v,
                                             const struct policy_group *g, uint64_t fitting_tok)
{
    double tok = (double)fitting_tok + (double)group_tok(v, g);
    return (struct policy_decode_plan){.level_tok = 1.05 * tok / g->n_engines};
}

static uint32_t pick_decode(const struct policy_view *v, const struct policy_group *g,
                            const struct policy_request *r, const struct policy_decode_plan *plan)
{
    uint64_t len = (uint64_t)r->prompt_tok + r->gen_tok;
    uint32_t fewest = POLICY_WAIT, lightest = POLICY_WAIT;
    for (uint32_t e = g->first_engine; e < g->first_engine + g->n_engines; e++) {
        const struct policy_engine *d = &v->decode[e];
        if (d->free_blocks < r->blocks) {
            continue;
        }
        if ((double)(d->tok + len) <= plan->level_tok &&
            (fewest == POLICY_WAIT || d->requests < v->decode[fewest].requests)) {
            fewest = e;
        }
        if (lightest == POLICY_WAIT || d->tok < v->decode[lightest].tok) {
            lightest = e;
        }
    }
    return fewest != POLICY_WAIT ? fewest : lightest;
}

const struct policy_ops policy_adaptive = {.name = "adaptive",
                                           .place_prefill = place_prefill,
                                           .pick_prefill = pick_prefill,
                                           .place_decode = place_decode,
                                           .plan_decode = plan_decode,
                                           .pick_decode = pick_decode};
