/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Records between processes of one build: a struct as one flat JSON object whose keys are the paths
 * of its members ("cluster.kv.n_layers"), every one required. Numbers survive exactly: doubles with
 * 17 digits, 64-bit integers as decimal strings.
 */
#ifndef DUALPATH_REAL_FLAT_JSON_H
#define DUALPATH_REAL_FLAT_JSON_H

#include <stddef.h>

#include "base/err.h"

enum flat_type { FLAT_U32, FLAT_U64, FLAT_DOUBLE, FLAT_BOOL, FLAT_TEXT };

struct flat_field {
    const char *key;
    enum flat_type type;
    size_t offset, size;
};

#define FLAT_FIELD(record, kind, member)                                                           \
    {                                                                                              \
#member, kind, offsetof(record, member), sizeof(((record *)0)->member)                     \
    }

/* Returns text to free(), NULL when out of memory. */
char *flat_json_write(const struct flat_field *fields, size_t n, const void *record);

/* 0; -EINVAL with err naming the key, *record then being partly filled. */
int flat_json_read(const struct flat_field *fields, size_t n, const char *text, void *record,
                   struct err *err);

#endif
