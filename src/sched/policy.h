/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Scheduling policies: pure functions of what the central scheduler knows. One file per policy; the
 * registry is policy.c. Mechanism (queues, messages, accounts) is in central.c.
 */
#ifndef DUALPATH_SCHED_POLICY_H
#define DUALPATH_SCHED_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/cluster.h"

#define POLICY_GLOBAL UINT32_MAX /* keep in the global queue of all groups */
#define POLICY_WAIT   UINT32_MAX /* nobody can take it now */

/* An engine, as of the last report and the assignments since. */
struct policy_engine {
    uint64_t tok;         /* tok_e: total tokens of assigned, unfinished requests */
    uint32_t requests;    /* seq_e: their number */
    uint64_t free_blocks; /* decode engines: HBM not promised to anybody */
};

struct policy_node {
    uint64_t read_queue_tok; /* read_q: tokens of reads assigned and not done */
    bool dead;               /* its engines get no work */
};

struct policy_view {
    const struct cluster *cluster;
    const struct policy_engine *prefill, *decode; /* by engine */
    const struct policy_node *nodes;              /* by node */
    bool any_dead;
    const uint64_t *decode_queued_tok; /* by decode group: tokens in its private queue */
};

/* The engines of a scheduling group, numbered within their kind. */
struct policy_group {
    uint32_t id, first_engine, n_engines;
};

struct policy_request {
    uint64_t ticket; /* number of requests that came before it */
    uint32_t prompt_tok, hit_tok, gen_tok;
    uint32_t blocks; /* HBM it will need on a decode engine */
    /* Leading tokens whose KV is still with decode engines kept_first .. + kept_engines; 0:
     * none. */
    uint32_t kept_tok, kept_first, kept_engines;
};

/* Where the hits of a request come from: token 0 .. decode_tok by way of the decode node, the
 * others by way of the prefill node. */
struct policy_read {
    bool on_decode;      /* the decode node has a part in it; it may even if there is no hit */
    uint32_t decode_tok; /* whole KV blocks */
};

/* What a decode fetch computes once: phase 2 of the paper's scheduler. */
struct policy_decode_plan {
    double level_tok; /* Z */
};

struct policy_ops {
    const char *name;
    /* The prefill engine in whose queue a new request waits, or POLICY_GLOBAL. */
    uint32_t (*place_prefill)(const struct policy_view *v, const struct policy_request *r);
    /* The prefill engine of the group for the request at the head of its queue, or POLICY_WAIT. */
    uint32_t (*pick_prefill)(const struct policy_view *v, const struct policy_group *g,
                             const struct policy_request *r);
    /* The decode group in whose queue a new request waits. */
    uint32_t (*place_decode)(const struct policy_view *v, const struct policy_request *r);
    /* Before the picks of one fetch; fitting_tok: tokens of the longest prefix of the group's queue
     * that fits the free HBM of its engines. */
    struct policy_decode_plan (*plan_decode)(const struct policy_view *v,
                                             const struct policy_group *g, uint64_t fitting_tok);
    /* The decode engine of the group for the request at the head, or POLICY_WAIT. */
    uint32_t (*pick_decode)(const struct policy_view *v, const struct policy_group *g,
                            const struct policy_request *r, const struct policy_decode_plan *plan);
};

extern const struct policy_ops policy_adaptive;
extern const struct policy_ops policy_round_robin;

const struct policy_ops *policy_of(enum cluster_scheduler scheduler);

/* Whether an engine's node lives. */
static inline bool policy_node_lives(const struct policy_view *v, uint32_t node)
{
    return !v->any_dead || !v->nodes[node].dead;
}

/*
 * Whether a prefill engine may take the request: not above beta, and with room in HBM for it beside
 * what is assigned, if whole prompts lie there and room is promised with the assignment.
 */
static inline bool policy_prefill_has_room(const struct policy_view *v, uint32_t engine,
                                           const struct policy_request *r)
{
    const struct cluster *c = v->cluster;
    uint64_t tok = v->prefill[engine].tok;
    bool promised = c->promise_prefill_hbm && !c->layerwise;
    return tok <= c->beta_tok &&
           (!promised || cluster_prefill_hbm_bytes(c, tok + r->prompt_tok) <= c->prefill_hbm_bytes);
}

/* Which side reads a request whose engines are chosen. */
struct policy_read policy_read(const struct policy_view *v, const struct policy_request *r,
                               uint32_t prefill_node, uint32_t decode_node);

/* policy_split.c: the hit tokens that the decode node reads. */
uint32_t policy_split_tok(const struct policy_view *v, const struct policy_request *r,
                          uint32_t prefill_node, uint32_t decode_node);

/* Scheduling groups and the nodes of engines. */
static inline struct policy_group policy_prefill_group(const struct cluster *c, uint32_t group)
{
    uint32_t n = c->prefill_group_nodes * c->gpus_per_node;
    return (struct policy_group){.id = group, .first_engine = group * n, .n_engines = n};
}

static inline struct policy_group policy_decode_group(const struct cluster *c, uint32_t group)
{
    uint32_t n = c->decode_group_nodes * c->gpus_per_node;
    return (struct policy_group){.id = group, .first_engine = group * n, .n_engines = n};
}

static inline uint32_t policy_prefill_node(const struct cluster *c, uint32_t engine)
{
    return engine / c->gpus_per_node;
}

static inline uint32_t policy_decode_node(const struct cluster *c, uint32_t engine)
{
    return c->prefill_nodes + engine / c->gpus_per_node;
}

#endif
