/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "input/workload.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "input/generator.h"
#include "input/workload_shape.h"

/* One session of one agent. */
struct placed {
    uint64_t arrival_ns;
    uint64_t first_wait; /* into trace_workload.waits */
    uint32_t agent;
    uint32_t session; /* of the trace */
    uint32_t n_turns;
};

struct trace_workload {
    struct workload base;
    struct trace trace;
    struct workload_groups groups;
    struct workload_agent *agents;
    uint32_t n_agents;
    struct placed *sessions; /* [base.n_sessions] */
    uint32_t *slots;         /* [base.n_sessions] first_place + place in the group -> session */
    uint64_t *wait_offset;   /* [trace.n_turns] where the turn's waits begin in its session's */
    uint32_t *waits;         /* of every session, in terms of this workload's sessions */
    uint32_t n_scopes;
    uint64_t limit_tok;
    uint64_t n_turns;
    struct workload_counts counts;
};

static const struct trace_workload *of(const struct workload *w)
{
    return container_of(w, const struct trace_workload, base);
}

/* The session that plays trace session `session` for an agent. */
static uint32_t session_of(const struct trace_workload *tw, const struct workload_agent *agent,
                           uint32_t session)
{
    return tw->slots[agent->first_place + tw->groups.place[session]];
}

static bool has_ids(const struct trace_workload *tw)
{
    return tw->trace.block_tok != 0;
}

static void get_session(const struct workload *w, uint32_t session, struct workload_session *ret)
{
    const struct trace_workload *tw = of(w);
    const struct placed *p = &tw->sessions[session];
    const struct workload_agent *agent = &tw->agents[p->agent];
    const struct trace_session *s = &tw->trace.sessions[p->session];
    bool root = s->parent == TRACE_NONE;
    *ret = (struct workload_session){
        .arrival_ns = root ? p->arrival_ns : 0,
        .n_turns = p->n_turns,
        .scope = has_ids(tw) ? s->scope + agent->copy * tw->n_scopes : session,
        .parent = root ? WORKLOAD_NONE : session_of(tw, agent, s->parent),
        .parent_turn = root || s->parent_turn == TRACE_NONE ? WORKLOAD_NONE : s->parent_turn,
        .spawn_delay_ns = root ? 0 : s->spawn_delay_ns,
    };
}

static void get_turn(const struct workload *w, uint32_t session, uint32_t turn,
                     struct workload_turn *ret)
{
    static const uint64_t no_ids[1];
    const struct trace_workload *tw = of(w);
    const struct placed *p = &tw->sessions[session];
    uint32_t first_tok = tw->agents[p->agent].first_tok;
    const struct trace_turn *turns = &tw->trace.turns[tw->trace.sessions[p->session].first_turn];
    if (first_tok && turn == 0) {
        *ret = (struct workload_turn){
            .prompt_tok = first_tok, .gen_tok = 1, .delay_ns = turns[0].delay_ns};
        return;
    }
    const struct trace_turn *t = &turns[turn - (first_tok != 0)];
    *ret = (struct workload_turn){
        .prompt_tok = t->prompt_tok + (first_tok ? first_tok + 1 : 0),
        .gen_tok = t->gen_tok,
        .delay_ns = first_tok && turn == 1 ? 0 : t->delay_ns,
    };
    if (has_ids(tw)) {
        ret->block_ids = t->n_ids ? tw->trace.ids + t->first_id : no_ids;
        ret->n_blocks = t->n_ids;
    }
    if (t->n_waits) {
        ret->waits = tw->waits + p->first_wait + tw->wait_offset[t - tw->trace.turns];
        ret->n_waits = t->n_waits;
    }
}

static const struct workload_ops trace_workload_ops = {.session = get_session, .turn = get_turn};

static int check_arrival(const struct trace_workload *tw, const struct scenario_workload *cfg,
                         struct err *err)
{
    if (cfg->arrival == ARRIVAL_POISSON &&
        !(isfinite(cfg->aps) && cfg->aps > 0 && tw->n_agents / cfg->aps < 1e8)) {
        err_field(err, "workload.arrival.aps");
        return err_set(err, -EINVAL,
                       "found %g agents per second, expected a number above 0 with which %u agents "
                       "arrive within 1e8 s",
                       cfg->aps, tw->n_agents);
    }
    return 0;
}

static int count_scopes(struct trace_workload *tw, struct err *err)
{
    uint64_t n_scopes = 0;
    for (uint32_t i = 0; i < tw->trace.n_sessions; i++) {
        uint64_t scope = tw->trace.sessions[i].scope;
        n_scopes = scope >= n_scopes ? scope + 1 : n_scopes;
    }
    uint64_t copies = tw->n_agents > tw->groups.n ? tw->n_agents - tw->groups.n : 0;
    if (has_ids(tw) && (copies + 1) * n_scopes > UINT32_MAX) {
        err_field(err, "workload.agents");
        return err_set(err, -ERANGE, "found %u: the copies need more than 2^32 scopes of block ids",
                       tw->n_agents);
    }
    tw->n_scopes = (uint32_t)n_scopes;
    return 0;
}

static int choose_agents(struct trace_workload *tw, const struct scenario_workload *cfg,
                         uint32_t kv_block_tok, uint64_t seed, struct err *err)
{
    if (tw->groups.n == 0) {
        err_at(err, cfg->trace, 0, 0);
        return err_set(err, -EINVAL, "no session has a turn within the limit of %llu tokens",
                       (unsigned long long)tw->limit_tok);
    }
    tw->n_agents = cfg->agents ? cfg->agents : tw->groups.n;
    tw->counts.copies = tw->n_agents > tw->groups.n ? tw->n_agents - tw->groups.n : 0;
    int rc = check_arrival(tw, cfg, err);
    rc = rc ? rc : count_scopes(tw, err);
    if (rc) {
        return rc;
    }
    bool synthetic = !has_ids(tw) && tw->trace.closed_loop;
    if (synthetic && tw->n_agents > tw->groups.n && tw->limit_tok <= kv_block_tok) {
        err_field(err, "workload.max_len_tok");
        return err_set(err, -ERANGE, "found %llu, too short for a first round of up to %u tokens",
                       (unsigned long long)tw->limit_tok, kv_block_tok);
    }
    tw->agents = calloc(tw->n_agents, sizeof(*tw->agents));
    if (!tw->agents || workload_agents_draw(&tw->groups, &tw->trace, cfg, tw->n_agents,
                                            kv_block_tok, synthetic, seed, tw->agents)) {
        return err_nomem(err);
    }
    return 0;
}

/* Turns of an agent's session, the synthetic round included: what still ends within the limit. */
static uint32_t turns_of(struct trace_workload *tw, const struct workload_agent *agent,
                         const struct trace_session *s)
{
    if (!agent->first_tok) {
        return s->n_turns;
    }
    uint64_t before = agent->first_tok + 1ull;
    uint32_t fit = 0, beyond = s->n_turns;
    while (fit < beyond) {
        uint32_t k = fit + (beyond - fit) / 2;
        const struct trace_turn *t = &tw->trace.turns[s->first_turn + k];
        if (before + t->prompt_tok + t->gen_tok <= tw->limit_tok) {
            fit = k + 1;
        } else {
            beyond = k;
        }
    }
    tw->counts.agent_turns_cut += s->n_turns - fit;
    return fit + 1;
}

static int compare_placed(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    if (x->arrival_ns != y->arrival_ns) {
        return x->arrival_ns < y->arrival_ns ? -1 : 1;
    }
    if (x->agent != y->agent) {
        return x->agent < y->agent ? -1 : 1;
    }
    return (x->session > y->session) - (x->session < y->session);
}

static uint32_t place_agent(struct trace_workload *tw, uint32_t a, uint32_t first_place)
{
    struct workload_agent *agent = &tw->agents[a];
    const struct workload_groups *g = &tw->groups;
    uint64_t group_ns = workload_group_arrival_ns(g, &tw->trace, agent->group);
    uint32_t n = g->first[agent->group + 1] - g->first[agent->group];
    agent->first_place = first_place;
    if (n > 1) {
        agent->first_tok = 0; /* a round more would shift the turns that spawn and wait */
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t session = g->members[g->first[agent->group] + i];
        const struct trace_session *s = &tw->trace.sessions[session];
        bool root = s->parent == TRACE_NONE;
        struct placed *p = &tw->sessions[first_place + i];
        *p = (struct placed){.agent = a, .session = session, .n_turns = turns_of(tw, agent, s)};
        p->arrival_ns = agent->arrival_ns + (root ? s->arrival_ns - group_ns : 0);
        tw->n_turns += p->n_turns;
    }
    return first_place + n;
}

static int place_sessions(struct trace_workload *tw, struct err *err)
{
    uint64_t n = 0;
    for (uint32_t a = 0; a < tw->n_agents; a++) {
        uint32_t group = tw->agents[a].group;
        n += tw->groups.first[group + 1] - tw->groups.first[group];
    }
    if (n >= WORKLOAD_NONE) {
        err_field(err, "workload.agents");
        return err_set(err, -ERANGE, "found %u, which makes more than 2^32 - 2 sessions",
                       tw->n_agents);
    }
    tw->base.n_sessions = (uint32_t)n;
    tw->sessions = calloc(n, sizeof(*tw->sessions));
    tw->slots = calloc(n, sizeof(*tw->slots));
    if (!tw->sessions || !tw->slots) {
        return err_nomem(err);
    }
    uint32_t first_place = 0;
    for (uint32_t a = 0; a < tw->n_agents; a++) {
        first_place = place_agent(tw, a, first_place);
    }
    qsort(tw->sessions, n, sizeof(*tw->sessions), compare_placed);
    for (uint32_t i = 0; i < tw->base.n_sessions; i++) {
        const struct placed *p = &tw->sessions[i];
        tw->slots[tw->agents[p->agent].first_place + tw->groups.place[p->session]] = i;
    }
    return 0;
}

/* The waits of one trace session, turn after turn; returns how many. */
static uint64_t offset_waits(struct trace_workload *tw, const struct trace_session *s)
{
    uint64_t n = 0;
    for (uint32_t k = 0; k < s->n_turns; k++) {
        tw->wait_offset[s->first_turn + k] = n;
        n += tw->trace.turns[s->first_turn + k].n_waits;
    }
    return n;
}

static void copy_waits(struct trace_workload *tw, const struct placed *p)
{
    const struct trace_session *s = &tw->trace.sessions[p->session];
    uint32_t *to = tw->waits + p->first_wait;
    for (uint32_t k = 0; k < s->n_turns; k++) {
        const struct trace_turn *t = &tw->trace.turns[s->first_turn + k];
        for (uint32_t i = 0; i < t->n_waits; i++) {
            *to++ = session_of(tw, &tw->agents[p->agent], tw->trace.waits[t->first_wait + i]);
        }
    }
}

static int place_waits(struct trace_workload *tw, struct err *err)
{
    if (tw->trace.n_waits == 0) {
        return 0;
    }
    tw->wait_offset = calloc(tw->trace.n_turns, sizeof(*tw->wait_offset));
    if (!tw->wait_offset) {
        return err_nomem(err);
    }
    uint64_t n = 0;
    for (uint32_t i = 0; i < tw->base.n_sessions; i++) {
        tw->sessions[i].first_wait = n;
        n += offset_waits(tw, &tw->trace.sessions[tw->sessions[i].session]);
    }
    tw->waits = calloc(n + 1, sizeof(*tw->waits));
    if (!tw->waits) {
        return err_nomem(err);
    }
    for (uint32_t i = 0; i < tw->base.n_sessions; i++) {
        copy_waits(tw, &tw->sessions[i]);
    }
    return 0;
}

static int fill(struct trace_workload *tw, const struct scenario_workload *cfg,
                uint32_t model_max_context_tok, uint32_t kv_block_tok, uint64_t seed,
                struct err *err)
{
    int rc = workload_check_causality(&tw->trace, err);
    if (rc) {
        err_at(err, cfg->trace, 0, 0);
        return rc;
    }
    rc = workload_shape(&tw->trace, cfg, model_max_context_tok, &tw->counts, err);
    if (rc) {
        return rc;
    }
    tw->limit_tok = workload_limit_tok(cfg, model_max_context_tok);
    tw->base.ops = &trace_workload_ops;
    tw->base.block_tok = has_ids(tw) ? tw->trace.block_tok : kv_block_tok;
    if (workload_groups_init(&tw->groups, &tw->trace)) {
        return err_nomem(err);
    }
    rc = choose_agents(tw, cfg, kv_block_tok, seed, err);
    rc = rc ? rc : place_sessions(tw, err);
    return rc ? rc : place_waits(tw, err);
}

int workload_from_trace(struct trace *trace, const struct scenario_workload *cfg,
                        uint32_t model_max_context_tok, uint32_t kv_block_tok, uint64_t seed,
                        struct workload **ret_workload, struct err *err)
{
    struct trace_workload *tw = calloc(1, sizeof(*tw));
    if (!tw) {
        trace_done(trace);
        return err_nomem(err);
    }
    tw->trace = *trace;
    *trace = (struct trace){0};
    int rc = fill(tw, cfg, model_max_context_tok, kv_block_tok, seed, err);
    if (rc) {
        workload_free(&tw->base);
        return rc;
    }
    *ret_workload = &tw->base;
    return 0;
}

static int check_generated(const struct scenario_workload *cfg, uint32_t model_max_context_tok,
                           struct err *err)
{
    if (cfg->arrival == ARRIVAL_RECORDED) {
        err_field(err, "workload.arrival.kind");
        return err_set(err, -EINVAL,
                       "found \"recorded\", but a generated trace has no arrivals; "
                       "expected \"offline\" or \"poisson\"");
    }
    if (model_max_context_tok && cfg->max_len_tok > model_max_context_tok) {
        err_field(err, "workload.max_len_tok");
        return err_set(err, -ERANGE, "found %llu, beyond the model's context limit of %u tokens",
                       (unsigned long long)cfg->max_len_tok, model_max_context_tok);
    }
    return 0;
}

static int build_generated(const struct scenario_workload *cfg, uint32_t model_max_context_tok,
                           uint32_t kv_block_tok, uint64_t seed, struct workload **ret_workload,
                           struct err *err)
{
    int rc = check_generated(cfg, model_max_context_tok, err);
    if (rc) {
        return rc;
    }
    struct scenario_workload own = *cfg;
    if (own.max_len_tok == 0) {
        bool shorter = model_max_context_tok && model_max_context_tok < GENERATOR_MAX_LEN_TOK;
        own.max_len_tok = shorter ? model_max_context_tok : GENERATOR_MAX_LEN_TOK;
    }
    struct trace trace;
    rc = generator_make(own.max_len_tok, GENERATOR_TRAJECTORIES, seed, &trace, err);
    if (rc) {
        err_field(err, "workload.max_len_tok");
        return rc;
    }
    /* Turns are cut at max_len_tok from here on, which the model's limit is not below. */
    return workload_from_trace(&trace, &own, 0, kv_block_tok, seed, ret_workload, err);
}

int workload_build(const struct scenario_workload *cfg, uint32_t model_max_context_tok,
                   uint32_t kv_block_tok, uint64_t seed, struct workload **ret_workload,
                   struct err *err)
{
    if (strcmp(cfg->trace, GENERATOR_NAME) == 0) {
        return build_generated(cfg, model_max_context_tok, kv_block_tok, seed, ret_workload, err);
    }
    const struct trace_options options = {
        .format = cfg->format[0] ? cfg->format : NULL,
        .block_tok = cfg->trace_block_tok,
        .tolerant = cfg->tolerant,
        .drop_zero_output = cfg->tolerant,
    };
    struct trace trace;
    int rc = trace_read(cfg->trace_path[0] ? cfg->trace_path : cfg->trace, &options, &trace, err);
    if (rc) {
        return rc;
    }
    return workload_from_trace(&trace, cfg, model_max_context_tok, kv_block_tok, seed, ret_workload,
                               err);
}

void workload_free(struct workload *w)
{
    if (!w) {
        return;
    }
    struct trace_workload *tw = container_of(w, struct trace_workload, base);
    trace_done(&tw->trace);
    workload_groups_done(&tw->groups);
    free(tw->agents);
    free(tw->sessions);
    free(tw->slots);
    free(tw->wait_offset);
    free(tw->waits);
    free(tw);
}

void workload_info(const struct workload *w, struct workload_info *ret_info)
{
    const struct trace_workload *tw = of(w);
    *ret_info = (struct workload_info){
        .n_agents = tw->n_agents,
        .n_turns = tw->n_turns,
        .trace = &tw->trace,
        .counts = tw->counts,
    };
}
