/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The workload port: what the client replays. Sessions (agents) of turns; a turn starts delay_ns
 * after the end of the previous turn, so that latency feeds back (closed loop); open-loop arrivals
 * are sessions of one turn. Implemented by input/workload.c; tests bring their own table.
 */
#ifndef DUALPATH_SCHED_WORKLOAD_H
#define DUALPATH_SCHED_WORKLOAD_H

#include <stdint.h>

#define WORKLOAD_NONE UINT32_MAX

struct workload_session {
    uint64_t arrival_ns;  /* absolute start of turn 0's delay; only when parent == WORKLOAD_NONE */
    uint32_t n_turns;     /* >= 1 */
    uint32_t scope;       /* block ids of different scopes never match */
    uint32_t parent;      /* WORKLOAD_NONE, or the session that spawns this one... */
    uint32_t parent_turn; /* ...at the end of this turn (WORKLOAD_NONE: at the parent's start)... */
    uint64_t spawn_delay_ns; /* ...after this long */
};

struct workload_turn {
    uint32_t prompt_tok; /* whole prompt, >= 1 */
    uint32_t gen_tok;    /* >= 1 */
    uint64_t delay_ns;   /* from the end of the previous turn and of every session waited for */
    const uint64_t *block_ids; /* NULL: the prompt extends this session's own previous context
                                  (private chain) */
    uint32_t n_blocks;
    const uint32_t *waits; /* sessions that must be over first */
    uint32_t n_waits;
};

struct workload;

struct workload_ops {
    /* Fills *ret for session index 0..n_sessions-1. Root sessions are in order of arrival_ns. */
    void (*session)(const struct workload *w, uint32_t session, struct workload_session *ret);
    /* Fills *ret for a turn; the pointers inside stay valid as long as the workload. */
    void (*turn)(const struct workload *w, uint32_t session, uint32_t turn,
                 struct workload_turn *ret);
};

struct workload {
    const struct workload_ops *ops;
    uint32_t n_sessions;
    uint32_t block_tok; /* tokens per trace block id (trie granularity); equals the KV block size
                           for private chains */
};

#endif
