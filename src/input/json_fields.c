/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "input/json_fields.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_EXACT_INTEGER 0x1p53

int json_fields_error(const struct json_file *f, const char *key, struct err *err, const char *fmt,
                      ...)
{
    char text[sizeof(err->text)];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (json_object_get(f->root, key)) {
        return json_file_error(f, key, err, "%s", text);
    }
    json_file_error(f, "", err, "%s", text); /* absent: the place is the object that lacks it */
    err_field(err, "%s", key);
    return err->code;
}

/* The type's own limits where the row gives no maximum. */
static double field_max(const struct json_field *field)
{
    if (field->max > 0) {
        return field->max;
    }
    switch (field->type) {
    case FIELD_U32:
        return UINT32_MAX;
    case FIELD_U64:
        return MAX_EXACT_INTEGER;
    default:
        return INFINITY;
    }
}

static void describe_number(const struct json_field *field, char *buf, size_t size)
{
    const char *kind = field->type == FIELD_NUMBER ? "a number" : "a whole number";
    const char *lower = field->above_min ? "above" : "from";
    int n = snprintf(buf, size, "%s %s %g", kind, lower, field->min);
    if (isfinite(field_max(field)) && n > 0 && (size_t)n < size) {
        n += snprintf(buf + n, size - (size_t)n, " to %.17g", field_max(field));
    }
    if (field->unit != UNIT_NONE && n > 0 && (size_t)n < size) {
        snprintf(buf + n, size - (size_t)n, ", in %s", units_expected(field->unit));
    }
}

static void describe_expected(const struct json_field *field, char *buf, size_t size)
{
    size_t n;
    switch (field->type) {
    case FIELD_BOOL:
        snprintf(buf, size, "true or false");
        return;
    case FIELD_STRING:
        snprintf(buf, size, "a string of at most %zu bytes", field->size - 1);
        return;
    case FIELD_WORD:
        n = (size_t)snprintf(buf, size, "one of");
        for (size_t i = 0; field->words[i] && n < size; i++) {
            n += (size_t)snprintf(buf + n, size - n, "%s \"%s\"", i ? "," : "", field->words[i]);
        }
        return;
    default:
        describe_number(field, buf, size);
        return;
    }
}

static int wrong_value(const struct json_file *f, const struct json_field *field,
                       const json_t *value, struct err *err)
{
    char found[128], expected[256];
    json_describe(value, found, sizeof(found));
    describe_expected(field, expected, sizeof(expected));
    return json_fields_error(f, field->key, err, "found %s, expected %s", found, expected);
}

/* {"value": ..., "source": "..."} stands for its value. Returns NULL with err filled otherwise. */
static const json_t *unwrap(const struct json_file *f, const struct json_field *field,
                            const json_t *value, struct err *err)
{
    static const char *const known[] = {"value", "source"};
    if (!json_is_object(value)) {
        return value;
    }
    const char *key;
    json_t *member;
    json_object_foreach((json_t *)value, key, member)
    {
        if (strcmp(key, known[0]) != 0 && strcmp(key, known[1]) != 0) {
            const char *near = nearest_word(key, known, 2);
            json_fields_error(f, field->key, err, "unknown key \"%.60s\"%s%s%s", key,
                              near ? ", did you mean \"" : ", expected \"value\" and \"source\"",
                              near ? near : "", near ? "\"?" : "");
            return NULL;
        }
    }
    const json_t *inner = json_object_get(value, "value");
    if (!inner || !json_is_string(json_object_get(value, "source"))) {
        json_fields_error(f, field->key, err,
                          "found an object, expected \"value\" and a string \"source\" in it");
        return NULL;
    }
    return inner;
}

static int parse_number(const struct json_field *field, const json_t *value, double *ret)
{
    if (json_is_number(value)) {
        *ret = json_number_value(value);
        return 0;
    }
    if (json_is_string(value) && field->unit != UNIT_NONE) {
        return units_parse(field->unit, json_string_value(value), ret);
    }
    return -EINVAL;
}

static int read_number(const struct json_file *f, const struct json_field *field,
                       const json_t *value, void *out, struct err *err)
{
    double number;
    const json_t *plain = unwrap(f, field, value, err);
    if (!plain) {
        return err->code;
    }
    bool fits = parse_number(field, plain, &number) == 0 && number <= field_max(field) &&
                (field->above_min ? number > field->min : number >= field->min) &&
                (field->type == FIELD_NUMBER || number == floor(number));
    if (!fits) {
        return wrong_value(f, field, plain, err);
    }
    if (field->type == FIELD_NUMBER) {
        *(double *)out = number;
    } else if (field->type == FIELD_U32) {
        *(uint32_t *)out = (uint32_t)number;
    } else {
        *(uint64_t *)out = (uint64_t)number;
    }
    return 0;
}

static int read_string(const struct json_file *f, const struct json_field *field,
                       const json_t *value, char *out, struct err *err)
{
    if (!json_is_string(value) || json_string_length(value) >= field->size) {
        return wrong_value(f, field, value, err);
    }
    memcpy(out, json_string_value(value), json_string_length(value) + 1);
    return 0;
}

static int read_word(const struct json_file *f, const struct json_field *field, const json_t *value,
                     unsigned *out, struct err *err)
{
    for (unsigned i = 0; json_is_string(value) && field->words[i]; i++) {
        if (strcmp(json_string_value(value), field->words[i]) == 0) {
            *out = i;
            return 0;
        }
    }
    return wrong_value(f, field, value, err);
}

static int read_field(const struct json_file *f, const struct json_field *field,
                      const json_t *value, void *out, struct err *err)
{
    switch (field->type) {
    case FIELD_BOOL:
        if (!json_is_boolean(value)) {
            return wrong_value(f, field, value, err);
        }
        *(bool *)out = json_is_true(value);
        return 0;
    case FIELD_STRING:
        return read_string(f, field, value, out, err);
    case FIELD_WORD:
        return read_word(f, field, value, out, err);
    case FIELD_IGNORE:
        return 0;
    default:
        return read_number(f, field, value, out, err);
    }
}

int json_fields_read(const struct json_file *f, const struct json_field *fields, size_t n,
                     void *out, struct err *err)
{
    if (!json_is_object(f->root)) {
        char found[128];
        json_describe(f->root, found, sizeof(found));
        return json_file_error(f, "", err, "found %s, expected an object", found);
    }
    for (size_t i = 0; i < n; i++) {
        const struct json_field *field = &fields[i];
        const json_t *value = json_object_get(f->root, field->key);
        if (!value && field->required) {
            char expected[256];
            describe_expected(field, expected, sizeof(expected));
            return json_fields_error(f, field->key, err, "missing, expected %s", expected);
        }
        if (!value || (field->nullable && json_is_null(value))) {
            continue;
        }
        int ret = read_field(f, field, value, (char *)out + field->offset, err);
        if (ret < 0) {
            return ret;
        }
    }
    return 0;
}

static bool is_known(const char *key, const struct json_field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(key, fields[i].key) == 0) {
            return true;
        }
    }
    return false;
}

static int unknown_key(const struct json_file *f, const char *key, const struct json_field *fields,
                       size_t n, struct err *err)
{
    const char **keys = malloc(n * sizeof(*keys));
    if (!keys) {
        return err_nomem(err);
    }
    for (size_t i = 0; i < n; i++) {
        keys[i] = fields[i].key;
    }
    const char *near = nearest_word(key, keys, n);
    free(keys);
    return json_file_error(f, key, err, "unknown key%s%s%s", near ? ", did you mean \"" : "",
                           near ? near : "", near ? "\"?" : "");
}

int json_fields_check_unknown(const struct json_file *f, const struct json_field *fields, size_t n,
                              struct err *err)
{
    const char *key;
    json_t *value;
    json_object_foreach(f->root, key, value)
    {
        if (!is_known(key, fields, n)) {
            return unknown_key(f, key, fields, n, err);
        }
    }
    return 0;
}
