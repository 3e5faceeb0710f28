/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Reads the members of a JSON file's root object into a struct, by a table. Every complaint names
 * file, line, column and field, what was found and what was expected.
 *
 * Numbers may be written plainly, as a string with a unit where the row has one ("3.35TB/s"), or
 * with their origin: {"value": 989e12, "source": "..."}.
 */
#ifndef DUALPATH_INPUT_JSON_FIELDS_H
#define DUALPATH_INPUT_JSON_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/units.h"
#include "input/json_file.h"

enum json_field_type {
    FIELD_NUMBER, /* double */
    FIELD_U32,    /* uint32_t */
    FIELD_U64,    /* uint64_t, at most 2^53 */
    FIELD_BOOL,   /* bool */
    FIELD_STRING, /* char[size], NUL-terminated */
    FIELD_WORD,   /* unsigned-sized enum: the index into words */
    FIELD_IGNORE, /* any value, not stored */
};

struct json_field {
    const char *key;
    enum json_field_type type;
    size_t offset, size; /* in the struct; size of FIELD_STRING only */
    bool required;       /* otherwise the struct keeps what it held */
    bool nullable;       /* null stands for "not given" */
    bool above_min;      /* min itself is not allowed */
    double min, max;     /* FIELD_NUMBER, FIELD_U32, FIELD_U64; max 0 = the type's own */
    enum unit_kind unit;
    const char *const *words; /* FIELD_WORD: NULL-terminated */
};

/* Stores the members of f's root that the table knows into *out. Other members are left alone.
 * Returns 0, or -EINVAL with err filled; *out may then be partly filled. */
int json_fields_read(const struct json_file *f, const struct json_field *fields, size_t n,
                     void *out, struct err *err);

/* Complains about the first member of f's root that the table does not know, suggesting the
 * nearest. */
int json_fields_check_unknown(const struct json_file *f, const struct json_field *fields, size_t n,
                              struct err *err);

/* Fills err about the member of f's root (which may be absent) with the message; returns -EINVAL.
 */
int json_fields_error(const struct json_file *f, const char *key, struct err *err, const char *fmt,
                      ...) __attribute__((format(printf, 4, 5)));

#endif
