/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Can every turn of a trace start? A topological order of session starts and turns tells: a start
 * enables its turn 0, a turn the next one, the sessions it spawns, and, if it is the last, whoever
 * waits for its session.
 */
#include "input/workload_shape.h"

#include <errno.h>
#include <stdlib.h>

#define NO_EDGE UINT64_MAX

/* Nodes 0..n_sessions-1 are starts, the turns follow. Only edges between sessions are stored. */
struct order {
    const struct trace *t;
    uint64_t n_nodes;
    uint32_t *session;  /* [n_turns] whose turn it is */
    uint32_t *blockers; /* [n_nodes] edges into the node that are not yet passed */
    uint64_t *first;    /* [n_nodes] its first edge */
    uint64_t *next;     /* [edges] the next edge of the same node */
    uint64_t *to;       /* [edges] */
    uint64_t n_edges;
    uint64_t *ready; /* stack of nodes */
    uint64_t n_ready;
};

static uint64_t turn_node(const struct order *o, uint32_t session, uint32_t turn)
{
    return o->t->n_sessions + o->t->sessions[session].first_turn + turn;
}

static void add_edge(struct order *o, uint64_t from, uint64_t to)
{
    uint64_t e = o->n_edges++;
    o->to[e] = to;
    o->next[e] = o->first[from];
    o->first[from] = e;
    o->blockers[to]++;
}

static int order_alloc(struct order *o, const struct trace *t)
{
    uint64_t most_edges = t->n_sessions + t->n_waits;
    *o = (struct order){.t = t, .n_nodes = t->n_sessions + t->n_turns};
    o->session = calloc(t->n_turns, sizeof(*o->session));
    o->blockers = calloc(o->n_nodes, sizeof(*o->blockers));
    o->first = malloc(o->n_nodes * sizeof(*o->first));
    o->next = malloc(most_edges * sizeof(*o->next));
    o->to = malloc(most_edges * sizeof(*o->to));
    o->ready = malloc(o->n_nodes * sizeof(*o->ready));
    if (!o->session || !o->blockers || !o->first || !o->next || !o->to || !o->ready) {
        return -ENOMEM;
    }
    for (uint64_t i = 0; i < o->n_nodes; i++) {
        o->first[i] = NO_EDGE;
    }
    return 0;
}

static void order_done(struct order *o)
{
    free(o->session);
    free(o->blockers);
    free(o->first);
    free(o->next);
    free(o->to);
    free(o->ready);
}

static void add_session(struct order *o, uint32_t i)
{
    const struct trace *t = o->t;
    const struct trace_session *s = &t->sessions[i];
    if (s->parent != TRACE_NONE) {
        uint64_t spawner =
            s->parent_turn == TRACE_NONE ? s->parent : turn_node(o, s->parent, s->parent_turn);
        add_edge(o, spawner, i);
    }
    for (uint32_t k = 0; k < s->n_turns; k++) {
        const struct trace_turn *turn = &t->turns[s->first_turn + k];
        o->session[s->first_turn + k] = i;
        o->blockers[turn_node(o, i, k)]++; /* the turn before it, or the start */
        for (uint32_t w = 0; w < turn->n_waits; w++) {
            uint32_t other = t->waits[turn->first_wait + w];
            add_edge(o, turn_node(o, other, t->sessions[other].n_turns - 1), turn_node(o, i, k));
        }
    }
}

static void unblock(struct order *o, uint64_t node)
{
    if (--o->blockers[node] == 0) {
        o->ready[o->n_ready++] = node;
    }
}

static void pass(struct order *o, uint64_t node)
{
    const struct trace *t = o->t;
    for (uint64_t e = o->first[node]; e != NO_EDGE; e = o->next[e]) {
        unblock(o, o->to[e]);
    }
    if (node < t->n_sessions) {
        unblock(o, turn_node(o, (uint32_t)node, 0));
        return;
    }
    uint32_t session = o->session[node - t->n_sessions];
    if (node + 1 < turn_node(o, session, t->sessions[session].n_turns)) {
        unblock(o, node + 1);
    }
}

/* The first turn that never gets its start, or NULL. */
static const struct trace_session *find_stuck(struct order *o, uint32_t *ret_turn)
{
    const struct trace *t = o->t;
    for (uint32_t i = 0; i < t->n_sessions; i++) {
        add_session(o, i);
    }
    for (uint64_t i = 0; i < t->n_sessions; i++) {
        if (o->blockers[i] == 0) {
            o->ready[o->n_ready++] = i;
        }
    }
    while (o->n_ready > 0) {
        pass(o, o->ready[--o->n_ready]);
    }
    for (uint32_t i = 0; i < t->n_sessions; i++) {
        for (uint32_t k = 0; k < t->sessions[i].n_turns; k++) {
            if (o->blockers[turn_node(o, i, k)] > 0) {
                *ret_turn = k;
                return &t->sessions[i];
            }
        }
    }
    return NULL;
}

static int check_turn(const struct trace *t, const struct trace_session *s, uint32_t k,
                      struct err *err)
{
    const struct trace_turn *turn = &t->turns[s->first_turn + k];
    int rc = 0;
    if (turn->n_ids > t->n_ids || turn->first_id > t->n_ids - turn->n_ids) {
        rc = err_set(err, -EINVAL, "has block ids outside of the trace");
    }
    if (turn->n_waits > t->n_waits || turn->first_wait > t->n_waits - turn->n_waits) {
        rc = err_set(err, -EINVAL, "has waits outside of the trace");
    }
    for (uint32_t w = 0; rc == 0 && w < turn->n_waits; w++) {
        if (t->waits[turn->first_wait + w] >= t->n_sessions) {
            rc = err_set(err, -EINVAL, "waits for a session that does not exist");
        }
    }
    if (rc) {
        err_field(err, "session %s turn %u", s->name, k);
    }
    return rc;
}

static int check_session(const struct trace *t, const struct trace_session *s, struct err *err)
{
    int rc = 0;
    if (s->n_turns < 1) {
        rc = err_set(err, -EINVAL, "has no turn");
    } else if (s->parent != TRACE_NONE &&
               (s->parent >= t->n_sessions || (s->parent_turn != TRACE_NONE &&
                                               s->parent_turn >= t->sessions[s->parent].n_turns))) {
        rc = err_set(err, -EINVAL, "is spawned by a session or turn that does not exist");
    }
    if (rc) {
        err_field(err, "session %s", s->name);
    }
    for (uint32_t k = 0; rc == 0 && k < s->n_turns; k++) {
        rc = check_turn(t, s, k, err);
    }
    return rc;
}

int workload_check_causality(const struct trace *t, struct err *err)
{
    bool linked = t->n_waits > 0;
    for (uint32_t i = 0; i < t->n_sessions; i++) {
        int rc = check_session(t, &t->sessions[i], err);
        if (rc) {
            return rc;
        }
        linked = linked || t->sessions[i].parent != TRACE_NONE;
    }
    if (!linked) {
        return 0;
    }
    struct order o;
    int rc = order_alloc(&o, t);
    if (rc) {
        err_nomem(err);
    } else {
        uint32_t turn;
        const struct trace_session *stuck = find_stuck(&o, &turn);
        if (stuck) {
            err_field(err, "session %s turn %u", stuck->name, turn);
            rc = err_set(err, -EINVAL, "can never start: what it waits for waits for it");
        }
    }
    order_done(&o);
    return rc;
}
