/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The objects of a JSON trace, one after another: one per line (JSON lines) or a stream of values
 * laid out in any way. Strict JSON; a UTF-8 byte order mark is skipped.
 *
 * Block ids are unsigned 64-bit and jansson's integers are signed, so every array under a key
 * "hash_ids", at any depth, is read from the text itself; in the parsed value the array holds one
 * integer, the number of its list here. This is also what keeps a 4 MB row of ids from becoming a
 * million JSON values.
 */
#ifndef DUALPATH_INPUT_JSON_ROWS_H
#define DUALPATH_INPUT_JSON_ROWS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum json_rows_layout { JSON_ROWS_LINES, JSON_ROWS_STREAM };

struct json_rows_list;

struct json_rows {
    const char *source; /* borrowed */
    enum json_rows_layout layout;
    char *text; /* the whole file */
    size_t size, pos;
    unsigned pos_line, pos_column; /* of pos, 1-based */
    size_t row_start, row_size;    /* the current row in text... */
    unsigned row_line, row_column; /* ...and where it stands */
    char *scratch;                 /* the row without its id lists */
    size_t n_scratch, capacity_scratch;
    uint64_t *ids; /* of the current row's lists */
    size_t n_ids, capacity_ids;
    struct json_rows_list *lists;
    size_t n_lists, capacity_lists;
};

/* source is kept by reference. Returns 0 or a negative errno with err set. */
int json_rows_open(struct json_rows *rows, const char *source, enum json_rows_layout layout,
                   struct err *err);
void json_rows_done(struct json_rows *rows);

/*
 * The next object. Returns 1 with *ret_row owned by the caller, 0 at the end, or a negative errno
 * with err naming the place; with JSON_ROWS_LINES the next call then goes on with the next line.
 */
int json_rows_next(struct json_rows *rows, json_t **ret_row, struct err *err);

/* The values below read members of an object of the current row. path is the object's own path in
 * the row ("" for the row itself) and serves errors only. */
struct json_at {
    const struct json_rows *rows;
    const json_t *object;
    const char *path;
};

/* Fills err with the place of the object's member key (NULL: the object) and returns -EINVAL. */
int json_at_error(const struct json_at *at, const char *key, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* The same: "found <value>, expected <what>"; a missing value reads "missing". */
int json_at_expected(const struct json_at *at, const char *key, struct err *err,
                     const char *expected);

/* A whole number of tokens, 0..2^32-2. */
int json_at_u32(const struct json_at *at, const char *key, uint32_t *ret, struct err *err);

/* A number in units of unit_ns nanoseconds (fractions allowed), as integer nanoseconds, rounded to
 * nearest. Absent or null: *ret_present = false where ret_present is given, else an error. */
int json_at_time(const struct json_at *at, const char *key, uint64_t unit_ns, int64_t *ret_ns,
                 bool *ret_present, struct err *err);

/* The block ids under key "hash_ids", valid until the next row. */
int json_at_ids(const struct json_at *at, const uint64_t **ret_ids, uint32_t *ret_n,
                struct err *err);

#endif
