/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The loops that the readers of row formats share: open the file, add each row, skip bad ones when
 * reading is tolerant. */
#ifndef DUALPATH_INPUT_TRACE_ROWS_H
#define DUALPATH_INPUT_TRACE_ROWS_H

#include "input/csv_rows.h"
#include "input/json_rows.h"
#include "input/trace_build.h"

/* Adds what one row says; row counts from 1 within the file. Must leave the trace alone on -EINVAL.
 */
typedef int trace_json_row_fn(struct trace_build *b, const struct json_at *at, uint64_t row,
                              void *arg, struct err *err);
typedef int trace_csv_row_fn(struct trace_build *b, const struct csv_rows *rows, void *arg,
                             struct err *err);

int trace_read_json_lines(struct trace_build *b, const char *path, trace_json_row_fn *add,
                          void *arg, struct err *err);

/* bind finds the columns, before the first row. */
int trace_read_csv(struct trace_build *b, const char *path, trace_csv_row_fn *bind,
                   trace_csv_row_fn *add, void *arg, struct err *err);

/*
 * Compares the number of ids of a prompt with what its length implies (the partial last block
 * included): fewer is an error at hash_ids, since the block size is then not what was assumed; more
 * is counted.
 */
int trace_check_block_count(struct trace_build *b, const struct json_at *at, uint32_t prompt_tok,
                            uint32_t n_ids, struct err *err);

/* Whether drop_zero_output drops a request with this output; counts it when so. */
bool trace_drops_output(struct trace_build *b, uint32_t gen_tok);

#endif
