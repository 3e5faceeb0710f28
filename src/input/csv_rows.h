/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A CSV trace as a stream of records (libcsv, strict quoting). Columns are bound by the names in
 * the header line, never by position; LF and CRLF, a missing final newline and a UTF-8 byte order
 * mark are all fine. Memory does not grow with the file.
 */
#ifndef DUALPATH_INPUT_CSV_ROWS_H
#define DUALPATH_INPUT_CSV_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct csv_rows;

/* Opens the file and reads its header. source is kept by reference. Returns 0 or a negative errno.
 */
int csv_rows_open(struct csv_rows **ret_rows, const char *source, struct err *err);
void csv_rows_free(struct csv_rows *rows);

/* The number of the column called name, or -1. */
int csv_rows_column(const struct csv_rows *rows, const char *name);

/* The same; an error (-EINVAL) when there is none. */
int csv_rows_require(const struct csv_rows *rows, const char *name, int *ret_column,
                     struct err *err);

/* The next record: 1, 0 at the end, or a negative errno with err set; -EINVAL is about one record,
 * and the next call goes on after it. */
int csv_rows_next(struct csv_rows *rows, struct err *err);

/* Number of the current record, 1 for the first below the header. */
uint64_t csv_rows_number(const struct csv_rows *rows);

/* The line on which the current record begins. */
unsigned csv_rows_line(const struct csv_rows *rows);

/* A cell of the current record, valid until the next. */
const char *csv_rows_cell(const struct csv_rows *rows, int column);

/* Fills err with the place of a cell: "found "<cell>", expected <what>"; returns -EINVAL. */
int csv_rows_expected(const struct csv_rows *rows, int column, struct err *err,
                      const char *expected);

/* A whole number of tokens, 0..2^32-2. */
int csv_rows_u32(const struct csv_rows *rows, int column, uint32_t *ret, struct err *err);

/* A decimal number in units of unit_ns nanoseconds as integer nanoseconds, computed on the digits;
 * more digits than a nanosecond resolves are rounded to nearest. */
int csv_rows_time(const struct csv_rows *rows, int column, uint64_t unit_ns, int64_t *ret_ns,
                  struct err *err);

#endif
