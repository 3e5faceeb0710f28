/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The ablation "without scheduling": engines in turn, nodes alternating, whichever is less loaded. A
 * request waits for its engine's turn to have room (prefill: beta; decode: HBM), and those behind it
 * with it: the published Basic waits in the scheduler, not for buffers.
 */
#include "sched/policy.h"

/* Tickets go to the nodes of a kind in turn, and within a node to its engines in turn. */
static uint32_t engine_in_turn(const struct cluster *c, uint64_t ticket, uint32_t n_nodes)
{
    uint32_t node = (uint32_t)(ticket % n_nodes);
    return node * c->gpus_per_node + (uint32_t)(ticket / n_nodes % c->gpus_per_node);
}

static uint32_t place_prefill(const struct policy_view *v, const struct policy_request *r)
{
    const struct cluster *c = v->cluster;
    return (uint32_t)(r->ticket % c->prefill_nodes) / c->prefill_group_nodes;
}

static uint32_t pick_prefill(const struct policy_view *v, const struct policy_group *g,
                             const struct policy_request *r)
{
    (void)g;
    uint32_t e = engine_in_turn(v->cluster, r->ticket, v->cluster->prefill_nodes);
    return v->prefill[e].tok > v->cluster->beta_tok ? POLICY_WAIT : e;
}

static uint32_t place_decode(const struct policy_view *v, const struct policy_request *r)
{
    const struct cluster *c = v->cluster;
    return (uint32_t)(r->ticket % c->decode_nodes) / c->decode_group_nodes;
}

static struct policy_decode_plan plan_decode(const struct policy_view *v,
                                             const struct policy_group *g, uint64_t fitting_tok)
{
    (void)v;
    (void)g;
    (void)fitting_tok;
    return (struct policy_decode_plan){0};
}

static uint32_t pick_decode(const struct policy_view *v, const struct policy_group *g,
                            const struct policy_request *r, const struct policy_decode_plan *plan)
{
    (void)g;
    (void)plan;
    uint32_t e = engine_in_turn(v->cluster, r->ticket, v->cluster->decode_nodes);
    return v->decode[e].free_blocks < r->blocks ? POLICY_WAIT : e;
}

const struct policy_ops policy_round_robin = {.name = "round_robin",
                                              .place_prefill = place_prefill,
                                              .pick_prefill = pick_prefill,
                                              .place_decode = place_decode,
                                              .plan_decode = plan_decode,
                                              .pick_decode = pick_decode};
