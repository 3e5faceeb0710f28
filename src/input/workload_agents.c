/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "input/workload_shape.h"

#include <errno.h>
#include <stdlib.h>

#include "base/rng.h"
#include "base/units.h"

/* Union-find: the root of a group is its smallest session. */
static uint32_t find_root(uint32_t *up, uint32_t i)
{
    while (up[i] != i) {
        up[i] = up[up[i]];
        i = up[i];
    }
    return i;
}

static void join(uint32_t *up, uint32_t a, uint32_t b)
{
    a = find_root(up, a);
    b = find_root(up, b);
    up[a > b ? a : b] = a > b ? b : a;
}

static void join_linked(uint32_t *up, const struct trace *t)
{
    for (uint32_t i = 0; i < t->n_sessions; i++) {
        up[i] = i;
    }
    for (uint32_t i = 0; i < t->n_sessions; i++) {
        const struct trace_session *s = &t->sessions[i];
        if (s->n_turns > 0 && s->parent != TRACE_NONE) {
            join(up, i, s->parent);
        }
        for (uint32_t k = 0; k < s->n_turns; k++) {
            const struct trace_turn *turn = &t->turns[s->first_turn + k];
            for (uint32_t w = 0; w < turn->n_waits; w++) {
                join(up, i, t->waits[turn->first_wait + w]);
            }
        }
    }
}

struct root {
    uint64_t arrival_ns;
    uint32_t session; /* the group's smallest, so that ties keep file order */
    uint32_t size;
};

static int compare_roots(const void *a, const void *b)
{
    const struct root *x = a, *y = b;
    if (x->arrival_ns != y->arrival_ns) {
        return x->arrival_ns < y->arrival_ns ? -1 : 1;
    }
    return (x->session > y->session) - (x->session < y->session);
}

/* Fills roots with the groups in order of arrival; returns how many. slot is scratch. */
static uint32_t list_roots(const struct trace *t, uint32_t *up, uint32_t *slot, struct root *roots)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n_sessions; i++) {
        const struct trace_session *s = &t->sessions[i];
        if (s->n_turns == 0) {
            continue;
        }
        uint32_t root = find_root(up, i);
        if (root == i) {
            slot[i] = n;
            roots[n++] = (struct root){.arrival_ns = UINT64_MAX, .session = i};
        }
        struct root *r = &roots[slot[root]];
        r->size++;
        if (s->parent == TRACE_NONE && s->arrival_ns < r->arrival_ns) {
            r->arrival_ns = s->arrival_ns;
        }
    }
    qsort(roots, n, sizeof(*roots), compare_roots);
    return n;
}

static void list_members(struct workload_groups *g, const struct trace *t, uint32_t *up,
                         uint32_t *slot, struct root *roots)
{
    for (uint32_t i = 0; i < g->n; i++) {
        slot[roots[i].session] = i;
        g->first[i + 1] = g->first[i] + roots[i].size;
        roots[i].size = 0; /* from here on: members placed so far */
    }
    for (uint32_t i = 0; i < t->n_sessions; i++) {
        if (t->sessions[i].n_turns > 0) {
            uint32_t group = slot[find_root(up, i)];
            g->place[i] = roots[group].size++;
            g->members[g->first[group] + g->place[i]] = i;
        }
    }
}

int workload_groups_init(struct workload_groups *g, const struct trace *t)
{
    *g = (struct workload_groups){
        .first = calloc((size_t)t->n_sessions + 1, sizeof(*g->first)),
        .members = calloc((size_t)t->n_sessions + 1, sizeof(*g->members)),
        .place = calloc((size_t)t->n_sessions + 1, sizeof(*g->place)),
    };
    uint32_t *up = malloc(((size_t)t->n_sessions + 1) * sizeof(*up));
    uint32_t *slot = malloc(((size_t)t->n_sessions + 1) * sizeof(*slot));
    struct root *roots = malloc(((size_t)t->n_sessions + 1) * sizeof(*roots));
    bool ok = g->first && g->members && g->place && up && slot && roots;
    if (ok) {
        join_linked(up, t);
        g->n = list_roots(t, up, slot, roots);
        list_members(g, t, up, slot, roots);
    } else {
        workload_groups_done(g);
    }
    free(up);
    free(slot);
    free(roots);
    return ok ? 0 : -ENOMEM;
}

void workload_groups_done(struct workload_groups *g)
{
    free(g->first);
    free(g->members);
    free(g->place);
    *g = (struct workload_groups){0};
}

uint64_t workload_group_arrival_ns(const struct workload_groups *g, const struct trace *t,
                                   uint32_t group)
{
    uint64_t arrival_ns = UINT64_MAX;
    for (uint32_t i = g->first[group]; i < g->first[group + 1]; i++) {
        const struct trace_session *s = &t->sessions[g->members[i]];
        if (s->parent == TRACE_NONE && s->arrival_ns < arrival_ns) {
            arrival_ns = s->arrival_ns;
        }
    }
    return arrival_ns;
}

static int draw_groups(const struct workload_groups *g, uint32_t n, uint64_t seed,
                       struct workload_agent *agents)
{
    struct rng *r = rng_new(seed, "workload.agents");
    if (!r) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < n; i++) {
        bool copy = i >= g->n;
        agents[i] = (struct workload_agent){.group = copy ? (uint32_t)rng_below(r, g->n) : i,
                                            .copy = copy ? i - g->n + 1 : 0};
    }
    rng_free(r);
    return 0;
}

static int draw_first_rounds(uint32_t n, uint32_t kv_block_tok, uint64_t seed,
                             struct workload_agent *agents)
{
    struct rng *r = rng_new(seed, "workload.first_round");
    if (!r) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (agents[i].copy) {
            agents[i].first_tok = 1 + (uint32_t)rng_below(r, kv_block_tok);
        }
    }
    rng_free(r);
    return 0;
}

static int draw_poisson(double aps, uint32_t n, uint64_t seed, struct workload_agent *agents)
{
    struct rng *r = rng_new(seed, "workload.arrivals");
    if (!r) {
        return -ENOMEM;
    }
    uint64_t t_ns = 0;
    for (uint32_t i = 0; i < n; i++) {
        t_ns += units_s_to_ns(rng_exponential(r, 1 / aps));
        agents[i].arrival_ns = t_ns;
    }
    rng_free(r);
    return 0;
}

static int compare_agents(const void *a, const void *b)
{
    const struct workload_agent *x = a, *y = b;
    if (x->arrival_ns != y->arrival_ns) {
        return x->arrival_ns < y->arrival_ns ? -1 : 1;
    }
    if (x->copy != y->copy) {
        return x->copy < y->copy ? -1 : 1;
    }
    return (x->group > y->group) - (x->group < y->group);
}

int workload_agents_draw(const struct workload_groups *g, const struct trace *t,
                         const struct scenario_workload *cfg, uint32_t n, uint32_t kv_block_tok,
                         bool synthetic, uint64_t seed, struct workload_agent *agents)
{
    int rc = draw_groups(g, n, seed, agents);
    if (rc == 0 && synthetic) {
        rc = draw_first_rounds(n, kv_block_tok, seed, agents);
    }
    if (rc == 0 && cfg->arrival == ARRIVAL_POISSON) {
        rc = draw_poisson(cfg->aps, n, seed, agents);
    }
    for (uint32_t i = 0; rc == 0 && cfg->arrival == ARRIVAL_RECORDED && i < n; i++) {
        agents[i].arrival_ns = workload_group_arrival_ns(g, t, agents[i].group);
    }
    if (rc == 0) {
        qsort(agents, n, sizeof(*agents), compare_agents);
    }
    return rc;
}
