/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input/json_file.h"
#include "input/scenario_reading.h"

void scenario_key_field(const struct scenario_key *key, char *buf, size_t size)
{
    const char *dot = strrchr(key->path, '.');
    int n = key->stands_for_group && dot ? (int)(dot - key->path) : (int)strlen(key->path);
    snprintf(buf, size, "%.*s", n, key->path);
}

struct scenario_origin *scenario_origin_of(struct scenario_reading *r, const char *path)
{
    return &r->values[scenario_key_find(path) - scenario_keys].origin;
}

/* A key that is not in the file is placed at the innermost group around it that is. */
static void place_around(const struct scenario_reading *r, char *path)
{
    unsigned line = 1, column = 1;
    for (char *dot; (dot = strrchr(path, '.'));) {
        *dot = '\0';
        if (json_locate(r->text, r->size, path, &line, &column) == 0) {
            break;
        }
    }
    err_at(r->err, r->source, line, column);
}

int scenario_key_error(struct scenario_reading *r, const struct scenario_key *key, const char *fmt,
                       ...)
{
    const struct scenario_origin *origin = &r->values[key - scenario_keys].origin;
    char text[sizeof(r->err->text)], field[sizeof(r->err->field)], preset[64] = "";
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    scenario_key_field(key, field, sizeof(field));
    if (origin->by == SCENARIO_BY_PRESET) {
        origin = scenario_origin_of(r, "system.preset");
        snprintf(preset, sizeof(preset), " (set by the preset \"%s\")", r->sc.system.preset);
    }
    if (origin->by == SCENARIO_BY_FILE || origin->by == SCENARIO_BY_SET) {
        err_at(r->err, origin->by == SCENARIO_BY_SET ? "--set" : r->source, origin->line,
               origin->column);
    } else {
        char path[128];
        snprintf(path, sizeof(path), "%s", key->path);
        place_around(r, path);
    }
    err_field(r->err, "%s", field);
    return err_set(r->err, -EINVAL, "%s%s", text, preset);
}

/* Appends printf style to a text that may already be full. */
static void append(char *buf, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void append(char *buf, size_t size, const char *fmt, ...)
{
    size_t n = strlen(buf);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(buf + n, size - n, fmt, ap);
    va_end(ap);
}

static void expected_number(const struct scenario_key *key, char *buf, size_t size)
{
    char low[48], high[48];
    bool integer = key->type != KEY_NUMBER;
    quantity_format(key->unit, key->min, low, sizeof(low));
    quantity_format(key->unit, key->max, high, sizeof(high));
    if (key->unit != UNIT_NONE) {
        append(buf, size, "%s, ", units_expected(key->unit));
    }
    append(buf, size, "%s%s%s%s%s",
           integer     ? "a whole number "
           : key->unit ? ""
                       : "a number ",
           key->above_min ? "above " : "from ", low, key->above_min ? " and at most " : " to ",
           high);
}

static int mismatch(struct scenario_reading *r, const struct scenario_key *key, const json_t *json)
{
    char found[128], expected[400] = "";
    json_describe(json, found, sizeof(found));
    switch (key->type) {
    case KEY_NUMBER:
    case KEY_U32:
    case KEY_U64:
        expected_number(key, expected, sizeof(expected));
        break;
    case KEY_BOOL:
        append(expected, sizeof(expected), "true or false");
        break;
    case KEY_STRING:
        append(expected, sizeof(expected), "a string of at most %zu bytes", key->size - 1);
        break;
    case KEY_NAME:
        if (!key->words) {
            append(expected, sizeof(expected), "%s", key->doc);
            break;
        }
        /* fall through */
    case KEY_ENUM:
    case KEY_WORD:
        for (size_t i = 0; key->words[i]; i++) {
            append(expected, sizeof(expected), "%s\"%s\"",
                   i               ? ", "
                   : key->words[1] ? "one of "
                                   : "",
                   key->words[i]);
        }
        break;
    }
    return scenario_key_error(r, key, "found %s, expected %s%s", found, expected,
                              key->stands_for_group ? ", or an object" : "");
}

/* Digits alone, exactly: a double would round integers above 2^53. */
static bool parse_u64(const char *text, uint64_t *ret_value)
{
    char *end;
    if (*text < '0' || *text > '9') {
        return false;
    }
    errno = 0;
    *ret_value = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0';
}

static bool to_double(const struct scenario_key *key, const json_t *json, bool typed,
                      double *ret_value)
{
    if (json_is_number(json)) {
        *ret_value = json_number_value(json);
        return true;
    }
    /* A number without a unit is written as a number; only --set and defaults are text throughout.
     */
    return json_is_string(json) && (key->unit != UNIT_NONE || !typed) &&
           units_parse(key->unit, json_string_value(json), ret_value) == 0;
}

static bool to_u64(const struct scenario_key *key, const json_t *json, bool typed,
                   uint64_t *ret_value)
{
    double value;
    if (json_is_integer(json) && json_integer_value(json) >= 0) {
        *ret_value = (uint64_t)json_integer_value(json);
        return true;
    }
    if (!typed && json_is_string(json) && parse_u64(json_string_value(json), ret_value)) {
        return true;
    }
    if (!to_double(key, json, typed, &value) || value < 0) {
        return false;
    }
    /* 8.2 times 10^9 comes to 8199999999.999999: rounded twice, each time by 2^-53 at most. */
    double whole = round(value);
    if (fabs(value - whole) > value * DBL_EPSILON || whole >= 0x1p64) {
        return false;
    }
    *ret_value = (uint64_t)whole;
    return true;
}

static bool in_range(const struct scenario_key *key, double value)
{
    return value <= key->max && (key->above_min ? value > key->min : value >= key->min);
}

static bool decode_number(const struct scenario_key *key, const json_t *json, bool typed, void *at)
{
    double value;
    uint64_t integer;
    if (key->type == KEY_NUMBER) {
        if (!to_double(key, json, typed, &value) || !in_range(key, value)) {
            return false;
        }
        *(double *)at = value;
        return true;
    }
    if (!to_u64(key, json, typed, &integer) || !in_range(key, (double)integer)) {
        return false;
    }
    if (key->type == KEY_U32) {
        *(uint32_t *)at = (uint32_t)integer;
    } else {
        *(uint64_t *)at = integer;
    }
    return true;
}

static bool decode_bool(const json_t *json, bool typed, bool *at)
{
    const char *text = typed ? NULL : json_string_value(json);
    if (json_is_boolean(json)) {
        *at = json_is_true(json);
    } else if (text && (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)) {
        *at = text[0] == 't';
    } else {
        return false;
    }
    return true;
}

static bool decode_text(const struct scenario_key *key, const json_t *json, void *at)
{
    if (!json_is_string(json)) {
        return false;
    }
    const char *text = json_string_value(json);
    if (key->type == KEY_STRING) {
        return strlen(text) < key->size && snprintf(at, key->size, "%s", text) >= 0;
    }
    for (unsigned i = 0; key->words && key->words[i]; i++) {
        if (strcmp(key->words[i], text) != 0) {
            continue;
        }
        if (key->type == KEY_ENUM) {
            *(unsigned *)at = i;
        } else if (key->type == KEY_WORD) {
            snprintf(at, key->size, "%s", text);
        }
        return true;
    }
    return key->type == KEY_NAME && !key->words && (text[0] != '\0' || !key->stands_for_group);
}

int scenario_decode(struct scenario_reading *r, const struct scenario_key *key,
                    const struct scenario_value *value)
{
    _Static_assert(sizeof(enum path_policy) == sizeof(unsigned), "enums are written as unsigned");
    void *at = (char *)&r->sc + key->offset;
    bool typed = value->origin.by == SCENARIO_BY_FILE, ok = false;
    switch (key->type) {
    case KEY_NUMBER:
    case KEY_U32:
    case KEY_U64:
        ok = decode_number(key, value->json, typed, at);
        break;
    case KEY_BOOL:
        ok = decode_bool(value->json, typed, at);
        break;
    case KEY_STRING:
    case KEY_ENUM:
    case KEY_WORD:
    case KEY_NAME:
        ok = decode_text(key, value->json, at);
        break;
    }
    return ok ? 0 : mismatch(r, key, value->json);
}
