/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Traces made by hand, for the tests of the workload. */
#ifndef DUALPATH_TESTS_WORKLOAD_TEST_H
#define DUALPATH_TESTS_WORKLOAD_TEST_H

#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "input/generator.h"
#include "input/workload.h"

#define ALL 0 /* agents: as many as the trace has */

static inline struct scenario_workload config(uint32_t agents, enum arrival_kind arrival)
{
    struct scenario_workload cfg = {.trace = "by hand",
                                    .agents = agents,
                                    .arrival = arrival,
                                    .append_scale = 1,
                                    .generation_scale = 1,
                                    .tool_latency_scale = 1};
    return cfg;
}

/* A trace of room for a few sessions and turns; sessions must be added one after another. */
static inline struct trace trace_make(uint32_t block_tok)
{
    struct trace t = {.closed_loop = true, .block_tok = block_tok, .n_scopes = 1};
    t.sessions = calloc(8, sizeof(*t.sessions));
    t.turns = calloc(32, sizeof(*t.turns));
    t.ids = calloc(64, sizeof(*t.ids));
    t.waits = calloc(8, sizeof(*t.waits));
    for (uint64_t i = 0; block_tok && i < 64; i++) {
        t.ids[t.n_ids++] = UINT64_MAX - i;
    }
    return t;
}

static inline struct trace_session *add_session(struct trace *t, const char *name,
                                                uint64_t arrival_ns)
{
    struct trace_session *s = &t->sessions[t->n_sessions++];
    *s = (struct trace_session){.arrival_ns = arrival_ns,
                                .first_turn = t->n_turns,
                                .parent = TRACE_NONE,
                                .parent_turn = TRACE_NONE};
    strcpy(s->name, name);
    return s;
}

static inline struct trace_turn *add_turn(struct trace *t, uint32_t prompt_tok, uint32_t gen_tok,
                                          uint64_t delay_ns)
{
    t->sessions[t->n_sessions - 1].n_turns++;
    struct trace_turn *turn = &t->turns[t->n_turns++];
    *turn = (struct trace_turn){.prompt_tok = prompt_tok, .gen_tok = gen_tok, .delay_ns = delay_ns};
    if (t->block_tok) {
        turn->n_ids = prompt_tok / t->block_tok;
        turn->first_id = t->n_turns - 1;
    }
    return turn;
}

static inline void add_wait(struct trace *t, uint32_t session)
{
    struct trace_turn *turn = &t->turns[t->n_turns - 1];
    if (turn->n_waits++ == 0) {
        turn->first_wait = (uint32_t)t->n_waits;
    }
    t->waits[t->n_waits++] = session;
}

static inline struct workload *build(struct trace t, const struct scenario_workload *cfg)
{
    struct workload *w;
    struct err err = ERR_INIT;
    int rc = workload_from_trace(&t, cfg, 0, 64, 1, &w, &err);
    ck_assert_msg(rc == 0, "%s: %s", err.field, err.text);
    ck_assert_ptr_null(t.turns);
    return w;
}

static inline struct workload_session session_at(const struct workload *w, uint32_t session)
{
    struct workload_session s;
    w->ops->session(w, session, &s);
    return s;
}

static inline struct workload_turn turn_at(const struct workload *w, uint32_t session,
                                           uint32_t turn)
{
    struct workload_turn t;
    w->ops->turn(w, session, turn, &t);
    return t;
}

static inline struct workload_counts counts_of(const struct workload *w)
{
    struct workload_info info;
    workload_info(w, &info);
    return info.counts;
}

/* Three sessions without ids; in order of arrival: b, c, a. */
static inline struct trace three_chains(void)
{
    struct trace t = trace_make(0);
    add_session(&t, "a", 900);
    add_turn(&t, 100, 10, 0);
    add_turn(&t, 150, 1, 2000);
    add_session(&t, "b", 300);
    add_turn(&t, 200, 20, 5);
    add_session(&t, "c", 300);
    add_turn(&t, 300, 30, 0);
    add_turn(&t, 330, 3, 0);
    add_turn(&t, 1000, 7, 0);
    return t;
}

#endif
