/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What options beyond the published system are worth: runs of the same workload and seed that
 * differ in the option alone, beside plain DualPath and Basic. The rows are a CSV file
 * (scenarios/paper/beyond.csv) with the columns
 *   table     what the row belongs to: restore, hardware, ...
 *   workload  name of the workload, for a person; rows of one table and workload are compared
 *   scenario  a shipped scenario's name or a file
 *   common    PATH=VALUE settings of the workload, separated by spaces
 *   option    the row's name; "dualpath" and "basic" are what the others are compared with
 *   set       PATH=VALUE settings of the option, after the common ones
 *   needs     empty, or a scenario key (or KEY=WORD, a word it takes): without it the row is left
 *             out
 * A row of the table "tool-latency" is three searches for the largest load, see
 * plan/tool_latency.h.
 */
#ifndef DUALPATH_PLAN_BEYOND_H
#define DUALPATH_PLAN_BEYOND_H

#include <stdio.h>

#include "plan/runs.h"
#include "plan/tool_latency.h"

struct beyond_row {
    char *table, *workload, *scenario, *option, *needs;
    char **sets;
    size_t n_sets;
    bool left_out;  /* for want of what it needs */
    bool is_search; /* its outcome is in points, but for an error */
    struct run_outcome outcome;
    struct tool_latency_point points[TOOL_LATENCY_POINTS];
};

struct beyond_rows {
    struct beyond_row *rows;
    size_t n;
};

/* Reads the rows of one table, or of all (table NULL). Returns 0; a negative errno with err naming
 * file, line and column; -EINVAL when there is no such table. Freed with beyond_done(). */
int beyond_read(const char *path, const char *table, struct beyond_rows *ret, struct err *err);
void beyond_done(struct beyond_rows *b);

/* Runs every row that is not left out. A run that fails is a row with outcome.err; the function
 * fails as runs_execute() does. */
int beyond_run(struct beyond_rows *b, const struct runs_options *options, struct err *err);

/* What decides between options of a workload: the JCT where all agents start at 0, else the mean
 * TTFT (arrivals set the length of the run then). */
double beyond_figure(const struct beyond_row *row);

/* The row of the same table and workload with that option, NULL if it is not there or failed. */
const struct beyond_row *beyond_reference(const struct beyond_rows *b, const struct beyond_row *row,
                                          const char *option);

/* Relative difference of beyond_figure() to that reference; NAN where there is none. */
double beyond_against(const struct beyond_rows *b, const struct beyond_row *row,
                      const char *option);

/* For a person, as a JSON array, as CSV (searches in a table of their own behind an empty line). 0
 * or -EIO. */
int beyond_write_text(const struct beyond_rows *b, FILE *out);
int beyond_write_json(const struct beyond_rows *b, FILE *out);
int beyond_write_csv(const struct beyond_rows *b, FILE *out);

#endif
