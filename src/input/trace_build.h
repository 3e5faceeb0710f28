/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * How the readers fill a struct trace. Times go in as recorded, as int64_t ns in the unsigned
 * fields; trace_read() rebases them when every file is read. All functions return 0, or -ENOMEM /
 * -EOVERFLOW.
 */
#ifndef DUALPATH_INPUT_TRACE_BUILD_H
#define DUALPATH_INPUT_TRACE_BUILD_H

#include "base/err.h"
#include "input/trace.h"

struct trace_build {
    struct trace *t;
    const struct trace_options *options; /* never NULL */
    size_t capacity_sessions, capacity_turns, capacity_ids, capacity_waits, capacity_order;
    uint64_t n_order; /* entries of file_order so far */
    uint32_t line;    /* of the row being read, for its turns; 0: not known */
    bool keep_times;  /* set by a reader whose times count from the start of the run: no rebasing */
};

/* Makes room for need elements of elem_size bytes in the array whose pointer array points to. */
int trace_grow(void *array, size_t *capacity, size_t need, size_t elem_size);

/* A session without turns, its first turn being the next one added; the name is cut to fit
 * (counted). parent and parent_turn are TRACE_NONE. */
int trace_add_session(struct trace_build *b, const char *name, uint32_t scope,
                      uint32_t *ret_session);

/* Copies *turn, with first_id and n_ids set from ids. Neither the session's n_turns nor the file
 * order are touched: a reader knows when the turns of a session are together. */
int trace_add_turn(struct trace_build *b, const struct trace_turn *turn, const uint64_t *ids,
                   uint32_t n_ids);
int trace_add_wait(struct trace_build *b, uint32_t session);
int trace_add_order(struct trace_build *b, uint64_t turn);

/* An open-loop request: a session of one turn, named after its row. */
int trace_add_request(struct trace_build *b, uint64_t row, uint32_t scope,
                      const struct trace_turn *turn, const uint64_t *ids, uint32_t n_ids);

/*
 * For readers whose rows of different sessions interleave: turns first_turn.. (to the end) stand in
 * file order and turn first_turn + i belongs to session_of[i], a session made since. Brings each
 * session's turns together, sets first_turn and n_turns, and adds the file order.
 */
int trace_group_turns(struct trace_build *b, uint64_t first_turn, const uint32_t *session_of);

/* Sets the trace's block size; an error when an earlier file had another one. */
int trace_set_block_tok(struct trace_build *b, uint32_t block_tok, struct err *err);

/* Tolerant reading: counts the bad row that err tells of, clears err, and returns true; false when
 * the row's error must stand (not tolerant, or not the row's fault). */
bool trace_skip_bad_row(struct trace_build *b, int code, struct err *err);

#endif
