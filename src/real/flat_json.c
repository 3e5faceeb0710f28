/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "real/flat_json.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static json_t *value_of(const struct flat_field *f, const void *record)
{
    const void *at = (const char *)record + f->offset;
    char digits[24];
    switch (f->type) {
    case FLAT_U32:
        return json_integer(*(const uint32_t *)at);
    case FLAT_U64:
        snprintf(digits, sizeof(digits), "%" PRIu64, *(const uint64_t *)at);
        return json_string(digits);
    case FLAT_DOUBLE:
        return json_real(*(const double *)at);
    case FLAT_BOOL:
        return json_boolean(*(const bool *)at);
    case FLAT_TEXT:
        break;
    }
    return json_string(at);
}

char *flat_json_write(const struct flat_field *fields, size_t n, const void *record)
{
    json_t *all = json_object();
    for (size_t i = 0; i < n; i++) {
        if (json_object_set_new(all, fields[i].key, value_of(&fields[i], record))) {
            json_decref(all);
            return NULL;
        }
    }
    char *text = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(all);
    return text;
}

static bool read_u64(const json_t *v, uint64_t *ret)
{
    const char *text = json_string_value(v);
    char *end;
    if (!text || text[0] < '0' || text[0] > '9') {
        return false;
    }
    errno = 0;
    *ret = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0';
}

/* NULL, or what was expected. */
static const char *read_value(const struct flat_field *f, const json_t *v, void *record)
{
    void *at = (char *)record + f->offset;
    switch (f->type) {
    case FLAT_U32:
        if (!json_is_integer(v) || json_integer_value(v) < 0 ||
            json_integer_value(v) > UINT32_MAX) {
            return "a 32-bit integer";
        }
        *(uint32_t *)at = (uint32_t)json_integer_value(v);
        return NULL;
    case FLAT_U64:
        return read_u64(v, at) ? NULL : "a 64-bit integer as a string";
    case FLAT_DOUBLE:
        if (!json_is_number(v)) {
            return "a number";
        }
        *(double *)at = json_number_value(v);
        return NULL;
    case FLAT_BOOL:
        if (!json_is_boolean(v)) {
            return "true or false";
        }
        *(bool *)at = json_is_true(v);
        return NULL;
    case FLAT_TEXT:
        break;
    }
    if (!json_is_string(v) || json_string_length(v) >= f->size ||
        strlen(json_string_value(v)) != json_string_length(v)) {
        return "a shorter text";
    }
    memcpy(at, json_string_value(v), json_string_length(v) + 1);
    return NULL;
}

static int read_all(const struct flat_field *fields, size_t n, const json_t *root, void *record,
                    struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_object_get(root, fields[i].key);
        const char *expected = v ? read_value(&fields[i], v, record) : "a value";
        if (expected) {
            err_field(err, "%s", fields[i].key);
            return err_set(err, -EINVAL, "found %s, expected %s", v ? "something else" : "nothing",
                           expected);
        }
    }
    if (json_object_size(root) != n) {
        return err_set(err, -EINVAL, "found %zu keys, expected %zu", json_object_size(root), n);
    }
    return 0;
}

int flat_json_read(const struct flat_field *fields, size_t n, const char *text, void *record,
                   struct err *err)
{
    json_error_t e;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &e);
    if (!root) {
        return err_set(err, -EINVAL, "not JSON: %s", e.text);
    }
    int rc = read_all(fields, n, root, record, err);
    json_decref(root);
    return rc;
}
