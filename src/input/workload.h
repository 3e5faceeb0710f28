/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * From a trace to the agents of a run: the implementation of the workload port (sched/workload.h).
 *
 * An agent replays one group of the trace's sessions: a session with those it spawns and waits for,
 * usually one session. Groups stand in order of arrival (ties: file order). With N agents
 *   - N = 0 or as many as groups: each group once;
 *   - fewer: the first N (a generated trace is shuffled, so its first N are a random sample);
 *   - more: each group once, then groups drawn with replacement. Such a copy shares no prefix with
 *     any other agent: its block ids are in scopes of its own. Without block ids every session is a
 *     chain of its own anyhow; there, in a closed-loop trace, the copy of a lone session begins
 *     with a synthetic round, as in the paper: a random prompt, here of 1..kv_block_tok tokens,
 *     that generates 1.
 * Copies are not made: an agent costs a few words, its turns are computed from the trace on demand.
 *
 * Lengths: append_scale multiplies what each turn appends (the first prompt included) and
 * generation_scale what it generates, rounded to nearest but at least 1. That needs prompts which
 * extend the session's own context, so a trace with block ids cannot be scaled. max_len_tok then
 * ends a session before its first turn with prompt + gen beyond it; sessions that lose their first
 * turn, or the turn that spawns them, are dropped. That is done only where it was asked for, by a
 * max_len_tok below the model's context limit: a recorded turn beyond the model's own limit is an
 * error. A generated trajectory is always cut at its max_len_tok (0: the model's limit, but at most
 * 64K). tool_latency_scale multiplies the delays between turns and before a spawned session, not
 * arrivals; tool_latency_s is then added to those between turns of the trace.
 */
#ifndef DUALPATH_INPUT_WORKLOAD_H
#define DUALPATH_INPUT_WORKLOAD_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "input/scenario.h"
#include "input/trace.h"
#include "sched/workload.h"

/* What was changed to fit; every one of these belongs in the run's report. */
struct workload_counts {
    uint64_t turns_cut;        /* turns of the trace not replayed, because of max_len_tok */
    uint64_t agent_turns_cut;  /* turns of copies not replayed, because of their first round */
    uint64_t sessions_dropped; /* first turn beyond max_len_tok, or spawned by a cut turn */
    uint64_t waits_dropped;    /* on dropped sessions */
    uint64_t copies;           /* agents beyond the trace's groups of sessions, which repeat one */
    uint64_t lengths_raised;   /* appends and generations that a scale would have rounded to 0 */
};

struct workload_info {
    uint32_t n_agents;
    uint64_t n_turns;          /* over all sessions of all agents */
    const struct trace *trace; /* format, repairs, sha256; owned by the workload */
    struct workload_counts counts;
};

/*
 * Reads (from cfg->trace_path, or cfg->trace where that is empty) or generates the trace that cfg
 * names and builds the workload. model_max_context_tok 0: unlimited. kv_block_tok (>= 1): the run's
 * KV block, which is the trie's granularity where the trace has no block ids. Random: the
 * generator, which groups are copied, synthetic rounds and Poisson gaps each have a stream of their
 * own. Returns 0 and *ret_workload (freed with workload_free()), or a negative errno with err
 * filled.
 */
int workload_build(const struct scenario_workload *cfg, uint32_t model_max_context_tok,
                   uint32_t kv_block_tok, uint64_t seed, struct workload **ret_workload,
                   struct err *err);

/*
 * The same from a trace in memory. Takes over *trace, which is left empty, whether or not it
 * succeeds; cfg->trace names it in errors.
 */
int workload_from_trace(struct trace *trace, const struct scenario_workload *cfg,
                        uint32_t model_max_context_tok, uint32_t kv_block_tok, uint64_t seed,
                        struct workload **ret_workload, struct err *err);

void workload_free(struct workload *w);

/* Of a workload made by the functions above. */
void workload_info(const struct workload *w, struct workload_info *ret_info);

/*
 * Writes any workload in the project's own trace format (trace_dualpath.c says what it holds), one
 * session at a time. Replayed with recorded arrivals it is the same workload, to the nanosecond.
 * -EIO when a write fails, -EINVAL when only some of its turns have block ids.
 */
int workload_export(const struct workload *w, FILE *out, struct err *err);

#endif
