/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "input/json_rows.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input/json_file.h"
#include "input/json_rows_scan.h"
#include "input/trace_build.h"

#define BOM "\xef\xbb\xbf"

static int read_text(struct json_rows *rows, FILE *fp)
{
    size_t capacity = 0;
    for (;;) {
        if (trace_grow(&rows->text, &capacity, rows->size + (1 << 16), 1) < 0) {
            return -ENOMEM;
        }
        size_t n = fread(rows->text + rows->size, 1, capacity - rows->size - 1, fp);
        if (n == 0) {
            rows->text[rows->size] = '\0';
            return ferror(fp) ? -EIO : 0;
        }
        rows->size += n;
    }
}

int json_rows_open(struct json_rows *rows, const char *source, enum json_rows_layout layout,
                   struct err *err)
{
    *rows = (struct json_rows){.source = source, .layout = layout, .pos_line = 1, .pos_column = 1};
    FILE *fp = fopen(source, "rb");
    int rc = fp ? read_text(rows, fp) : -errno;
    if (fp) {
        fclose(fp);
    }
    if (rc < 0) {
        json_rows_done(rows);
        err_at(err, source, 0, 0);
        return err_set(err, rc, "cannot read the file: %s", strerror(-rc));
    }
    if (rows->size >= 3 && memcmp(rows->text, BOM, 3) == 0) {
        rows->pos = 3;
    }
    return 0;
}

void json_rows_done(struct json_rows *rows)
{
    free(rows->text);
    free(rows->scratch);
    free(rows->ids);
    free(rows->lists);
    *rows = (struct json_rows){0};
}

static void advance(struct json_rows *rows, size_t to)
{
    for (; rows->pos < to; rows->pos++) {
        unsigned char c = (unsigned char)rows->text[rows->pos];
        if (c == '\n') {
            rows->pos_line++;
            rows->pos_column = 1;
        } else if ((c & 0xc0) != 0x80) { /* characters, not bytes */
            rows->pos_column++;
        }
    }
}

static void skip_blank(struct json_rows *rows)
{
    size_t at = rows->pos;
    while (at < rows->size && memchr(" \t\r\n", rows->text[at], 4)) {
        at++;
    }
    advance(rows, at);
}

/* jansson's own place in the row, in the file's lines and columns. */
static void syntax_place(const struct json_rows *rows, const json_error_t *e, struct err *err)
{
    unsigned line = e->line > 0 ? (unsigned)e->line : 1;
    unsigned column = e->column > 0 ? (unsigned)e->column : 1;
    err_at(err, rows->source, rows->row_line + line - 1,
           line == 1 ? rows->row_column + column - 1 : column);
}

static int syntax_error(const struct json_rows *rows, const json_error_t *in_scratch,
                        struct err *err)
{
    /* The scratch text may have shifted columns; the original has them right, unless what jansson
     * stumbles over there is an unsigned id. */
    json_error_t e;
    json_t *again =
        json_loadb(rows->text + rows->row_start, rows->row_size, JSON_REJECT_DUPLICATES, &e);
    if (again || json_error_code(&e) == json_error_numeric_overflow) {
        e = *in_scratch;
    }
    json_decref(again);
    syntax_place(rows, &e, err);
    return err_set(err, -EINVAL, "not valid JSON: %s", e.text);
}

int json_rows_next(struct json_rows *rows, json_t **ret_row, struct err *err)
{
    skip_blank(rows);
    if (rows->pos == rows->size) {
        return 0;
    }
    rows->row_start = rows->pos;
    rows->row_line = rows->pos_line;
    rows->row_column = rows->pos_column;
    size_t end = rows->size;
    if (rows->layout == JSON_ROWS_LINES) {
        const char *eol = memchr(rows->text + rows->pos, '\n', rows->size - rows->pos);
        end = eol ? (size_t)(eol - rows->text) : rows->size;
    }
    int rc = json_rows_scan(rows, end, err);
    if (rc < 0) {
        advance(rows, end);
        return rc;
    }
    advance(rows, rows->layout == JSON_ROWS_LINES ? end : rows->row_start + rows->row_size);
    json_error_t e;
    json_t *row = json_loadb(rows->scratch, rows->n_scratch, JSON_REJECT_DUPLICATES, &e);
    if (!row) {
        return syntax_error(rows, &e, err);
    }
    if (!json_is_object(row)) {
        json_decref(row);
        err_at(err, rows->source, rows->row_line, rows->row_column);
        return err_set(err, -EINVAL, "found an array, expected an object");
    }
    *ret_row = row;
    return 1;
}

/* Fills in source, line, column and field of the member key of at. */
static void locate(const struct json_at *at, const char *key, struct err *err)
{
    const struct json_rows *rows = at->rows;
    char path[256];
    int n = snprintf(path, sizeof(path), "%s%s%s", at->path, key && *at->path ? "." : "",
                     key ? key : "");
    err_field(err, "%s", path);
    unsigned line = 1, column = 1;
    const char *text = rows->text + rows->row_start;
    /* A missing member has no place of its own: point at the object then. */
    if (n >= (int)sizeof(path) ||
        (json_locate(text, rows->row_size, path, &line, &column) < 0 &&
         json_locate(text, rows->row_size, at->path, &line, &column) < 0)) {
        line = column = 1;
    }
    err_at(err, rows->source, rows->row_line + line - 1,
           line == 1 ? rows->row_column + column - 1 : column);
}

int json_at_error(const struct json_at *at, const char *key, struct err *err, const char *fmt, ...)
{
    char text[sizeof(err->text)];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    locate(at, key, err);
    return err_set(err, -EINVAL, "%s", text);
}

int json_at_expected(const struct json_at *at, const char *key, struct err *err,
                     const char *expected)
{
    const json_t *value = json_object_get(at->object, key);
    if (!value) {
        return json_at_error(at, key, err, "missing, expected %s", expected);
    }
    char found[128];
    json_describe(value, found, sizeof(found));
    return json_at_error(at, key, err, "found %s, expected %s", found, expected);
}

int json_at_u32(const struct json_at *at, const char *key, uint32_t *ret, struct err *err)
{
    const json_t *value = json_object_get(at->object, key);
    double n = json_number_value(value); /* 64.0 is 64; exact up to 2^53 */
    if (!json_is_number(value) || !(n >= 0 && n < (double)UINT32_MAX) || n != floor(n)) {
        return json_at_expected(at, key, err,
                                "a whole number of tokens, 0 or more and below 2^32-1");
    }
    *ret = (uint32_t)n;
    return 0;
}

int json_at_time(const struct json_at *at, const char *key, uint64_t unit_ns, int64_t *ret_ns,
                 bool *ret_present, struct err *err)
{
    const json_t *value = json_object_get(at->object, key);
    bool present = value && !json_is_null(value);
    if (ret_present) {
        *ret_present = present;
        if (!present) {
            return 0;
        }
    }
    int64_t ns;
    if (json_is_integer(value)) {
        if (__builtin_mul_overflow((int64_t)json_integer_value(value), (int64_t)unit_ns, &ns)) {
            return json_at_expected(at, key, err, "a time below 2^63 ns");
        }
    } else if (json_is_real(value)) {
        double d = json_real_value(value) * (double)unit_ns;
        if (!(fabs(d) < 9.2e18)) {
            return json_at_expected(at, key, err, "a time below 2^63 ns");
        }
        ns = llround(d);
    } else {
        return json_at_expected(at, key, err, "a number");
    }
    *ret_ns = ns;
    return 0;
}

int json_at_ids(const struct json_at *at, const uint64_t **ret_ids, uint32_t *ret_n,
                struct err *err)
{
    const char *key = "hash_ids";
    const json_t *value = json_object_get(at->object, key);
    if (!json_is_array(value)) {
        return json_at_expected(at, key, err, "an array of block ids");
    }
    const struct json_rows *rows = at->rows;
    const struct json_rows_list *list = &rows->lists[json_integer_value(json_array_get(value, 0))];
    if (list->n >= UINT32_MAX) {
        return json_at_error(at, key, err, "%zu ids, expected fewer than 2^32-1", list->n);
    }
    *ret_ids = list->n ? rows->ids + list->first : NULL;
    *ret_n = (uint32_t)list->n;
    return 0;
}
