/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A recorded trace in memory: sessions of turns, the block ids of every prompt, and what the reader
 * repaired. Readers (one file per format, registered in trace_formats.c) fill it; workload.c turns
 * it into the agents of a run.
 */
#ifndef DUALPATH_INPUT_TRACE_H
#define DUALPATH_INPUT_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define TRACE_NONE UINT32_MAX

struct trace_turn {
    /* Recorded start, rebased to the trace's smallest time; order key for statistics. */
    uint64_t t_ns;
    /* Closed loop: from the later of the previous turn's end and the waits' ends. */
    uint64_t delay_ns;
    uint32_t prompt_tok; /* whole prompt, cached prefix included */
    uint32_t gen_tok;
    uint64_t first_id; /* into trace.ids */
    uint32_t n_ids;
    uint32_t first_wait; /* into trace.waits: sessions that must be over before this turn starts */
    uint32_t n_waits;
    uint32_t line; /* of its row; 0 when not known, or when the trace is several files */
};

struct trace_session {
    char name[96];
    uint64_t arrival_ns; /* root sessions: start of turn 0, rebased */
    uint64_t first_turn; /* into trace.turns; the turns of a session are contiguous */
    uint32_t n_turns;
    uint32_t scope;  /* block ids are comparable inside a scope only */
    uint32_t parent; /* TRACE_NONE, or the session whose turn parent_turn spawned this one... */
    uint32_t parent_turn;    /* ...TRACE_NONE: together with the parent's turn 0... */
    uint64_t spawn_delay_ns; /* ...this long after that turn's end (or the parent's start) */
};

/* Something odd that the reader accepted, changed or skipped. */
struct trace_repair {
    const char *reason; /* static string, e.g. "negative think_time set to 0" */
    uint64_t count;
    char first[160]; /* where and what it was the first time; "" when not known */
};

#define TRACE_MAX_REPAIRS 32

struct trace {
    char format[32];    /* "mooncake", "weka", "azure", ... */
    bool closed_loop;   /* sessions of several turns that wait for each other; false: recorded
                           arrivals only */
    uint32_t block_tok; /* tokens per block id; 0 when the trace has no ids */
    struct trace_session *sessions;
    uint32_t n_sessions;
    struct trace_turn *turns;
    uint64_t n_turns;
    uint64_t *ids; /* unsigned 64-bit, as in the file */
    uint64_t n_ids;
    uint32_t *waits;
    uint64_t n_waits;
    uint32_t n_scopes;
    uint64_t *file_order; /* turn indexes in file order (a subagent's turns stand where its marker
                             stands) */
    struct trace_repair repairs[TRACE_MAX_REPAIRS];
    uint32_t n_repairs;
    char sha256[65]; /* of the input files' bytes, in order */
    int64_t base_ns; /* the smallest recorded time, in the file's own epoch; subtracted from every
                        time */
};

/* The block ids of a turn, NULL when it has none. */
static inline const uint64_t *trace_turn_ids(const struct trace *t, const struct trace_turn *turn)
{
    return turn->n_ids ? t->ids + turn->first_id : NULL;
}

struct trace_options {
    const char *format; /* NULL: detect */
    uint32_t block_tok; /* 0: the format's own default (Mooncake 512, Bailian 16) or the file's */
    bool tolerant;      /* skip bad rows, count them */
    bool dedupe;        /* drop byte-identical consecutive requests, count them (Mooncake, WEKA) */
    bool drop_zero_output; /* and count them; not inside TraceLab's and LLMServingSim's sessions */
    const char *weka_dialect; /* NULL: detect where unambiguous; "v7", "v8" */
};

/*
 * Reads one file, or a directory of files of one format (read in name order). Returns 0 and fills
 * *ret_trace (freed with trace_done()), or a negative errno with err naming file, line and field.
 */
int trace_read(const char *path, const struct trace_options *options, struct trace *ret_trace,
               struct err *err);
void trace_done(struct trace *t);

/* How many turns have nothing to compute or to say, which no run replays; *ret_first, the first of
 * them, is set when there is one. */
uint64_t trace_empty_turns(const struct trace *t, const struct trace_turn **ret_first);

/* Counts n repairs; reason must be a static string. */
void trace_count_repair(struct trace *t, const char *reason, uint64_t n);

/* Counts one repair and remembers the text of the first one of its reason. */
void trace_note_repair(struct trace *t, const char *reason, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
