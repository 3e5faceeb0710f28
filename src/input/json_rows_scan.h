/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The lexical pass of json_rows: finds the end of a row and takes the id lists out of it. */
#ifndef DUALPATH_INPUT_JSON_ROWS_SCAN_H
#define DUALPATH_INPUT_JSON_ROWS_SCAN_H

#include "input/json_rows.h"

struct json_rows_list {
    size_t first, n; /* into json_rows.ids */
};

/*
 * Scans the row that starts at rows->row_start and ends at `end` at the latest: with
 * JSON_ROWS_STREAM at the end of its first value. Sets rows->row_size, scratch, ids and lists. Text
 * that is not JSON passes through for jansson to complain about; only a "hash_ids" array that is
 * not a list of unsigned 64-bit integers is an error here. Returns 0 or a negative errno with err
 * set.
 */
int json_rows_scan(struct json_rows *rows, size_t end, struct err *err);

#endif
