/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sched/policy.h"

static uint64_t gcd(uint64_t a, uint64_t b)
{
    return b == 0 ? a : gcd(b, a % b);
}

/*
 * The sides take turns by rounds over all nodes of both kinds: with sides alternating request by
 * request, and nodes too (policy_round_robin.c), one half of the nodes would do all the reading. An
 * even number of engines per node would meet the same side every time; they change over after each
 * round over all of them.
 */
static bool round_is_odd(const struct cluster *c, uint64_t ticket)
{
    uint64_t nodes = c->prefill_nodes / gcd(c->prefill_nodes, c->decode_nodes) * c->decode_nodes;
    uint64_t round = ticket / nodes, over_engines = round / c->gpus_per_node;
    return (round + (c->gpus_per_node % 2 == 0 ? over_engines : 0)) % 2 == 1;
}

const struct policy_ops *policy_of(enum cluster_scheduler scheduler)
{
    return scheduler == CLUSTER_ADAPTIVE ? &policy_adaptive : &policy_round_robin;
}

static struct policy_read one_side(const struct policy_request *r, bool on_decode)
{
    return (struct policy_read){on_decode, on_decode ? r->hit_tok : 0};
}

struct policy_read policy_read(const struct policy_view *v, const struct policy_request *r,
                               uint32_t prefill_node, uint32_t decode_node)
{
    uint32_t tok;
    switch (v->cluster->path) {
    case CLUSTER_PREFILL:
        return one_side(r, false);
    case CLUSTER_DECODE:
        return one_side(r, true);
    case CLUSTER_PATH_ROUND_ROBIN:
        return one_side(r, round_is_odd(v->cluster, r->ticket));
    case CLUSTER_SPLIT:
        tok = policy_split_tok(v, r, prefill_node, decode_node);
        return (struct policy_read){tok > 0, tok};
    case CLUSTER_SHORTER_QUEUE:
        break;
    }
    return one_side(r,
                    v->nodes[decode_node].read_queue_tok < v->nodes[prefill_node].read_queue_tok);
}
