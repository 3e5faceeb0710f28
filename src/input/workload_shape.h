/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The steps of workload_from_trace(): causality, lengths, agents. Private to this room. */
#ifndef DUALPATH_INPUT_WORKLOAD_SHAPE_H
#define DUALPATH_INPUT_WORKLOAD_SHAPE_H

#include "input/workload.h"

/* The most that prompt + gen of a turn may be. */
uint64_t workload_limit_tok(const struct scenario_workload *cfg, uint32_t max_context_tok);

/*
 * After workload_check_causality(). Scales, checks and cuts the turns of t in place (see
 * workload.h) and counts what it changed. A dropped session has n_turns 0 afterwards and no turn
 * waits for it. -EINVAL or -ERANGE with err naming the session, the turn and the limit.
 */
int workload_shape(struct trace *t, const struct scenario_workload *cfg, uint32_t max_context_tok,
                   struct workload_counts *counts, struct err *err);

/*
 * -EINVAL, naming a session, unless every turn can start: parents and waits must be sessions of t
 * and must not form a cycle. For a trace as read, before workload_shape().
 */
int workload_check_causality(const struct trace *t, struct err *err);

/* Sessions that must be replayed together, because one spawns or waits for another. */
struct workload_groups {
    uint32_t n;
    uint32_t *first;   /* [n + 1] into members */
    uint32_t *members; /* trace sessions, each group's in file order; groups in order of arrival */
    uint32_t *place;   /* [trace sessions] place inside its group */
};

int workload_groups_init(struct workload_groups *g, const struct trace *t);
void workload_groups_done(struct workload_groups *g);
/* When the group's earliest root session arrives. */
uint64_t workload_group_arrival_ns(const struct workload_groups *g, const struct trace *t,
                                   uint32_t group);

struct workload_agent {
    uint64_t arrival_ns;
    uint32_t group;
    uint32_t copy;        /* 0: the group itself; k: the k-th copy, with scopes of its own */
    uint32_t first_tok;   /* prompt of the synthetic first round, 0 = none */
    uint32_t first_place; /* into the workload's places */
};

/*
 * Chooses the groups of n agents and when they arrive; sorted by arrival. synthetic: copies get a
 * first round of 1..kv_block_tok tokens.
 */
int workload_agents_draw(const struct workload_groups *g, const struct trace *t,
                         const struct scenario_workload *cfg, uint32_t n, uint32_t kv_block_tok,
                         bool synthetic, uint64_t seed, struct workload_agent *agents);

#endif
