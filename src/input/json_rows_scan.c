/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "input/json_rows_scan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input/json_file.h"
#include "input/trace_build.h"

#define IDS_KEY "hash_ids"

struct scan {
    struct json_rows *rows;
    const char *text;
    size_t at, end;
    size_t depth;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int peek(const struct scan *s)
{
    return s->at < s->end ? (unsigned char)s->text[s->at] : -1;
}

static void skip_space(struct scan *s)
{
    while (s->at < s->end && is_space(s->text[s->at])) {
        s->at++;
    }
}

static int copy(struct scan *s, const char *text, size_t n)
{
    struct json_rows *rows = s->rows;
    if (trace_grow(&rows->scratch, &rows->capacity_scratch, rows->n_scratch + n, 1) < 0) {
        return -ENOMEM;
    }
    memcpy(rows->scratch + rows->n_scratch, text, n);
    rows->n_scratch += n;
    return 0;
}

/* Stands on '"'; leaves behind the closing quote, or at the end. */
static void skip_string(struct scan *s)
{
    for (s->at++; s->at < s->end && s->text[s->at] != '"'; s->at++) {
        s->at += s->text[s->at] == '\\';
    }
    s->at = s->at < s->end ? s->at + 1 : s->end;
}

/* Whether the quoted string text[0..n) is the key of id lists, also when written with escapes. */
static bool is_ids_key(const char *text, size_t n)
{
    if (!memchr(text, '\\', n)) {
        return n == sizeof(IDS_KEY) + 1 && memcmp(text + 1, IDS_KEY, sizeof(IDS_KEY) - 1) == 0;
    }
    json_t *key = json_loadb(text, n, JSON_DECODE_ANY, NULL);
    bool match = key && strcmp(json_string_value(key), IDS_KEY) == 0;
    json_decref(key);
    return match;
}

/* An error at the list element where s stands. */
static int bad_id(const struct scan *s, size_t index, struct err *err)
{
    const struct json_rows *rows = s->rows;
    size_t n = s->at;
    while (n < s->end && n < s->at + 24 && !is_space(s->text[n]) && !strchr(",]}", s->text[n])) {
        n++;
    }
    unsigned line, column;
    json_place(rows->text + rows->row_start, s->at - rows->row_start, &line, &column);
    err_at(err, rows->source, rows->row_line + line - 1,
           line == 1 ? rows->row_column + column - 1 : column);
    err_field(err, IDS_KEY "[%zu]", index);
    if (n == s->at) {
        return err_set(err, -EINVAL, "found %s, expected an unsigned 64-bit integer",
                       s->at < s->end ? "nothing" : "the end of the row");
    }
    return err_set(err, -EINVAL, "found %.*s, expected an unsigned 64-bit integer",
                   (int)(n - s->at), s->text + s->at);
}

/* One unsigned integer as JSON writes it: no sign, no leading zero, no fraction. */
static bool scan_id(struct scan *s, uint64_t *ret_id)
{
    size_t at = s->at;
    uint64_t id = 0;
    while (at < s->end && is_digit(s->text[at])) {
        if (__builtin_mul_overflow(id, 10u, &id) ||
            __builtin_add_overflow(id, (uint64_t)(s->text[at] - '0'), &id)) {
            return false;
        }
        at++;
    }
    size_t n = at - s->at;
    if (n == 0 || (n > 1 && s->text[s->at] == '0') ||
        (at < s->end && !is_space(s->text[at]) && s->text[at] != ',' && s->text[at] != ']')) {
        return false;
    }
    s->at = at;
    *ret_id = id;
    return true;
}

static int push_id(struct json_rows *rows, uint64_t id)
{
    if (trace_grow(&rows->ids, &rows->capacity_ids, rows->n_ids + 1, sizeof(id)) < 0) {
        return -ENOMEM;
    }
    rows->ids[rows->n_ids++] = id;
    return 0;
}

/* Stands on '['; leaves behind ']'. */
static int scan_list(struct scan *s, struct err *err)
{
    struct json_rows *rows = s->rows;
    size_t first = rows->n_ids;
    s->at++;
    skip_space(s);
    bool more = peek(s) != ']';
    while (more) {
        uint64_t id;
        skip_space(s);
        if (!scan_id(s, &id)) {
            return bad_id(s, rows->n_ids - first, err);
        }
        if (push_id(rows, id) < 0) {
            return err_nomem(err);
        }
        skip_space(s);
        more = peek(s) == ',';
        s->at += more;
    }
    if (peek(s) != ']') {
        return bad_id(s, rows->n_ids - first, err);
    }
    s->at++;
    if (trace_grow(&rows->lists, &rows->capacity_lists, rows->n_lists + 1, sizeof(*rows->lists)) <
        0) {
        return err_nomem(err);
    }
    rows->lists[rows->n_lists++] = (struct json_rows_list){first, rows->n_ids - first};
    return 0;
}

/* Stands behind a string. When it was the key of a list, copies the colon and takes the list out.
 */
static int take_list(struct scan *s, size_t key, struct err *err)
{
    struct scan ahead = *s;
    skip_space(&ahead);
    if (peek(&ahead) != ':') {
        return 0;
    }
    ahead.at++;
    skip_space(&ahead);
    if (peek(&ahead) != '[' || !is_ids_key(s->text + key, s->at - key)) {
        return 0;
    }
    size_t list = ahead.at;
    int rc = scan_list(&ahead, err);
    if (rc < 0) {
        return rc;
    }
    /* Padded to the length it replaces, where it fits, so that columns stay true. */
    char number[32];
    int n = snprintf(number, sizeof(number), "[%zu]", s->rows->n_lists - 1);
    rc = copy(s, s->text + s->at, list - s->at);
    rc = rc < 0 ? rc : copy(s, number, (size_t)n);
    for (size_t i = (size_t)n; rc == 0 && i < ahead.at - list; i++) {
        rc = copy(s, " ", 1);
    }
    s->at = ahead.at;
    return rc < 0 ? err_nomem(err) : 0;
}

static bool exceeds_int64(const char *text, size_t n)
{
    int64_t value = 0;
    for (size_t i = text[0] == '-'; i < n; i++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, text[i] - '0', &value)) { /* negative: the larger half */
            return true;
        }
    }
    return text[0] != '-' && value == INT64_MIN;
}

/* A number token; an integer beyond 64 bits becomes a real, since only id lists need it exact. */
static int scan_number(struct scan *s)
{
    size_t start = s->at;
    bool integer = true;
    for (s->at++; s->at < s->end; s->at++) {
        char c = s->text[s->at];
        if (c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-') {
            integer = false;
        } else if (!is_digit(c)) {
            break;
        }
    }
    int rc = copy(s, s->text + start, s->at - start);
    return rc == 0 && integer && exceeds_int64(s->text + start, s->at - start) ? copy(s, "e0", 2)
                                                                               : rc;
}

/* Any other text up to the next delimiter. */
static int scan_word(struct scan *s)
{
    size_t start = s->at;
    for (s->at++; s->at < s->end && !is_space(s->text[s->at]); s->at++) {
        if (memchr("\"{}[],:", s->text[s->at], 7)) {
            break;
        }
    }
    return copy(s, s->text + start, s->at - start);
}

static int scan_token(struct scan *s, struct err *err)
{
    char c = s->text[s->at];
    int rc;
    if (c == '"') {
        size_t start = s->at;
        skip_string(s);
        rc = copy(s, s->text + start, s->at - start);
        return rc < 0 ? err_nomem(err) : take_list(s, start, err);
    }
    if (memchr("{}[],:", c, 6)) {
        s->depth += c == '{' || c == '[';
        s->depth -= (c == '}' || c == ']') && s->depth > 0;
        rc = copy(s, &c, 1);
        s->at++;
    } else if (is_space(c)) {
        rc = copy(s, &c, 1);
        s->at++;
    } else {
        rc = is_digit(c) || c == '-' ? scan_number(s) : scan_word(s);
    }
    return rc < 0 ? err_nomem(err) : 0;
}

int json_rows_scan(struct json_rows *rows, size_t end, struct err *err)
{
    struct scan s = {.rows = rows, .text = rows->text, .at = rows->row_start, .end = end};
    rows->n_scratch = rows->n_ids = rows->n_lists = 0;
    rows->row_size = end - rows->row_start;
    do {
        int rc = scan_token(&s, err);
        if (rc < 0) {
            return rc;
        }
    } while (s.at < end && (rows->layout == JSON_ROWS_LINES || s.depth > 0));
    rows->row_size = s.at - rows->row_start;
    return 0;
}
