/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The ablation "without scheduling": engines in turn, nodes alternating, whichever is less loaded.
 * A request waits for its engine to have room: the published Basic waits in the scheduler, not for
 * buffers. On the prefill side (beta, HBM) each engine has a queue; on the decode side (HBM) those
 * behind it in its group's queue wait with it, as in the paper's phase 2.
 */
#include "sched/policy.h"

/* Nodes of one kind; the first has id first. */
struct side {
    uint32_t first, n;
};

static struct side prefill_side(const struct cluster *c)
{
    return (struct side){0, c->prefill_nodes};
}

static struct side decode_side(const struct cluster *c)
{
    return (struct side){c->prefill_nodes, c->decode_nodes};
}

static uint32_t n_alive(const struct policy_view *v, struct side s)
{
    uint32_t n = v->any_dead ? 0 : s.n;
    for (uint32_t i = 0; v->any_dead && i < s.n; i++) {
        n += !v->nodes[s.first + i].dead;
    }
    return n;
}

/* The k-th node of the side, from 0, among those that live. */
static uint32_t living_node(const struct policy_view *v, struct side s, uint32_t k)
{
    uint32_t i = v->any_dead ? 0 : k;
    for (; v->any_dead && (v->nodes[s.first + i].dead || k > 0); i++) {
        k -= !v->nodes[s.first + i].dead;
    }
    return i;
}

/* Tickets go to the living nodes of a kind in turn, and within a node to its engines in turn. The
 * node is counted within its kind. A kind without a living node ends the run: any node will do. */
static uint32_t node_in_turn(const struct policy_view *v, uint64_t ticket, struct side s)
{
    uint32_t n = n_alive(v, s);
    return n > 0 ? living_node(v, s, (uint32_t)(ticket % n)) : 0;
}

static uint32_t engine_in_turn(const struct policy_view *v, uint64_t ticket, struct side s)
{
    uint32_t gpus = v->cluster->gpus_per_node, n = n_alive(v, s);
    return node_in_turn(v, ticket, s) * gpus + (uint32_t)(ticket / (n > 0 ? n : 1) % gpus);
}

static uint32_t place_prefill(const struct policy_view *v, const struct policy_request *r)
{
    return engine_in_turn(v, r->ticket, prefill_side(v->cluster));
}

static uint32_t pick_prefill(const struct policy_view *v, const struct policy_group *g,
                             const struct policy_request *r)
{
    (void)g;
    uint32_t e = engine_in_turn(v, r->ticket, prefill_side(v->cluster));
    return policy_prefill_has_room(v, e, r) ? e : POLICY_WAIT;
}

static uint32_t place_decode(const struct policy_view *v, const struct policy_request *r)
{
    const struct cluster *c = v->cluster;
    return node_in_turn(v, r->ticket, decode_side(c)) / c->decode_group_nodes;
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
    uint32_t e = engine_in_turn(v, r->ticket, decode_side(v->cluster));
    return v->decode[e].free_blocks < r->blocks ? POLICY_WAIT : e;
}

const struct policy_ops policy_round_robin = {.name = "round_robin",
                                              .place_prefill = place_prefill,
                                              .pick_prefill = pick_prefill,
                                              .place_decode = place_decode,
                                              .plan_decode = plan_decode,
                                              .pick_decode = pick_decode};
