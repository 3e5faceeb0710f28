/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "input/csv_rows.h"

#include <csv.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input/trace_build.h"

#define CSV_OPTIONS (CSV_STRICT | CSV_STRICT_FINI | CSV_APPEND_NULL)

/* One record: NUL-terminated cells one after another. */
struct record {
    char *text;
    size_t n_text, capacity_text;
    size_t *starts;
    size_t n, capacity_starts;
};

struct csv_rows {
    const char *source;
    FILE *fp;
    struct csv_parser parser;
    char *line; /* the last line fed to the parser */
    size_t capacity_line;
    ssize_t n_line;
    unsigned line_no, record_line;
    struct record header, record;
    uint64_t number;
    bool record_ready, no_memory;
};

static void take_cell(void *data, size_t n, void *arg)
{
    struct csv_rows *rows = arg;
    struct record *r = &rows->record;
    if (trace_grow(&r->text, &r->capacity_text, r->n_text + n + 1, 1) < 0 ||
        trace_grow(&r->starts, &r->capacity_starts, r->n + 1, sizeof(*r->starts)) < 0) {
        rows->no_memory = true;
        return;
    }
    r->starts[r->n++] = r->n_text;
    if (n > 0) {
        memcpy(r->text + r->n_text, data, n);
    }
    r->text[r->n_text + n] = '\0';
    r->n_text += n + 1;
}

static void take_record(int end, void *arg)
{
    (void)end;
    ((struct csv_rows *)arg)->record_ready = true;
}

/* Feeds the next line, or the end of the file. Returns 1 when there may be more, 0 at the end, or a
 * negative errno. */
static int feed(struct csv_rows *rows, struct err *err)
{
    bool more = false;
    int failed = 0;
    errno = 0;
    rows->n_line = getline(&rows->line, &rows->capacity_line, rows->fp);
    if (rows->n_line >= 0) {
        size_t n = (size_t)rows->n_line;
        size_t skip =
            rows->line_no == 0 && n >= 3 && memcmp(rows->line, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
        rows->line_no++;
        more = true;
        failed = csv_parse(&rows->parser, rows->line + skip, n - skip, take_cell, take_record,
                           rows) != n - skip;
    } else if (ferror(rows->fp) || !feof(rows->fp)) {
        return err_set(err, errno ? -errno : -EIO, "cannot read the file: %s", strerror(errno));
    } else {
        failed = csv_fini(&rows->parser, take_cell, take_record, rows) != 0;
    }
    if (rows->no_memory) {
        return err_nomem(err);
    }
    if (failed) {
        int code = csv_error(&rows->parser);
        csv_free(&rows->parser);
        csv_init(&rows->parser, CSV_OPTIONS);
        err_at(err, rows->source, rows->line_no, 0);
        return code == CSV_ENOMEM ? err_nomem(err)
                                  : err_set(err, -EINVAL, "not valid CSV: %s", csv_strerror(code));
    }
    return more;
}

/* Reads one record, whole or not at all. */
static int read_record(struct csv_rows *rows, struct err *err)
{
    rows->record.n = rows->record.n_text = 0;
    rows->record_ready = false;
    int rc = 1;
    while (!rows->record_ready && rc == 1) {
        bool begins = rows->record.n == 0; /* blank lines may come before the record */
        rc = feed(rows, err);
        rows->record_line = begins ? rows->line_no : rows->record_line;
    }
    if (rc < 0) {
        return rc;
    }
    return rows->record_ready;
}

int csv_rows_open(struct csv_rows **ret_rows, const char *source, struct err *err)
{
    struct csv_rows *rows = calloc(1, sizeof(*rows));
    if (!rows) {
        return err_nomem(err);
    }
    rows->source = source;
    err_at(err, source, 0, 0);
    csv_init(&rows->parser, CSV_OPTIONS);
    rows->fp = fopen(source, "rb");
    int rc = rows->fp ? read_record(rows, err) : -errno;
    if (rc == 0) {
        rc = err_set(err, -EINVAL, "the file is empty, expected a header line");
    }
    if (rc < 0) {
        csv_rows_free(rows);
        return err_set(err, rc, "cannot read the file: %s", strerror(-rc));
    }
    rows->header = rows->record;
    rows->record = (struct record){0};
    *err = ERR_INIT;
    *ret_rows = rows;
    return 0;
}

void csv_rows_free(struct csv_rows *rows)
{
    if (!rows) {
        return;
    }
    if (rows->fp) {
        fclose(rows->fp);
    }
    csv_free(&rows->parser);
    free(rows->line);
    free(rows->header.text);
    free(rows->header.starts);
    free(rows->record.text);
    free(rows->record.starts);
    free(rows);
}

int csv_rows_column(const struct csv_rows *rows, const char *name)
{
    for (size_t i = 0; i < rows->header.n; i++) {
        if (strcmp(rows->header.text + rows->header.starts[i], name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

int csv_rows_require(const struct csv_rows *rows, const char *name, int *ret_column,
                     struct err *err)
{
    int column = csv_rows_column(rows, name);
    if (column < 0) {
        err_at(err, rows->source, 1, 1);
        err_field(err, "%s", name);
        return err_set(err, -EINVAL, "found no such column, expected it in the header line");
    }
    *ret_column = column;
    return 0;
}

int csv_rows_next(struct csv_rows *rows, struct err *err)
{
    int rc = read_record(rows, err);
    if (rc <= 0) {
        return rc;
    }
    rows->number++;
    if (rows->record.n != rows->header.n) {
        err_at(err, rows->source, rows->record_line, 0);
        return err_set(err, -EINVAL, "found %zu fields, expected %zu as in the header line",
                       rows->record.n, rows->header.n);
    }
    return 1;
}

uint64_t csv_rows_number(const struct csv_rows *rows)
{
    return rows->number;
}

unsigned csv_rows_line(const struct csv_rows *rows)
{
    return rows->record_line;
}

const char *csv_rows_cell(const struct csv_rows *rows, int column)
{
    return rows->record.text + rows->record.starts[column];
}

/* Where the cell starts in the line; 0 when the record spans several lines. */
static unsigned cell_column(const struct csv_rows *rows, int column)
{
    bool quoted = false;
    unsigned at = 1;
    if (rows->record_line != rows->line_no) {
        return 0;
    }
    for (ssize_t i = 0; i < rows->n_line && column > 0; i++, at++) {
        quoted ^= rows->line[i] == '"';
        column -= rows->line[i] == ',' && !quoted;
    }
    return column == 0 ? at : 0;
}

int csv_rows_expected(const struct csv_rows *rows, int column, struct err *err,
                      const char *expected)
{
    err_at(err, rows->source, rows->record_line, cell_column(rows, column));
    err_field(err, "%s", rows->header.text + rows->header.starts[column]);
    return err_set(err, -EINVAL, "found \"%.64s\", expected %s", csv_rows_cell(rows, column),
                   expected);
}

int csv_rows_u32(const struct csv_rows *rows, int column, uint32_t *ret, struct err *err)
{
    const char *cell = csv_rows_cell(rows, column);
    uint32_t n = 0;
    bool ok = *cell != '\0';
    for (const char *c = cell; ok && *c; c++) {
        ok = *c >= '0' && *c <= '9' && !__builtin_mul_overflow(n, 10u, &n) &&
             !__builtin_add_overflow(n, (uint32_t)(*c - '0'), &n);
    }
    if (!ok || n == UINT32_MAX) {
        return csv_rows_expected(rows, column, err,
                                 "a whole number of tokens, 0 or more and below 2^32-1");
    }
    *ret = n;
    return 0;
}

/* Digits of a decimal number, scaled to ns. Returns what follows it, or NULL. */
static const char *scan_decimal(const char *c, uint64_t unit_ns, int64_t *ret_ns)
{
    bool negative = *c == '-', digits = false;
    int64_t whole = 0;
    for (c += negative; *c >= '0' && *c <= '9'; c++) {
        digits = true;
        if (__builtin_mul_overflow(whole, 10, &whole) ||
            __builtin_add_overflow(whole, *c - '0', &whole)) {
            return NULL;
        }
    }
    /* One digit beyond the finest unit decides the rounding; 10 digits times 1e9 ns fit 64 bits. */
    uint64_t fraction = 0, scale = 1;
    for (c += digits && *c == '.'; digits && *c >= '0' && *c <= '9'; c++) {
        if (scale < 10000000000ull) {
            fraction = 10 * fraction + (uint64_t)(*c - '0');
            scale *= 10;
        }
    }
    int64_t ns;
    if (!digits || __builtin_mul_overflow(whole, (int64_t)unit_ns, &ns) ||
        __builtin_add_overflow(ns, (int64_t)((fraction * unit_ns + scale / 2) / scale), &ns)) {
        return NULL;
    }
    *ret_ns = negative ? -ns : ns;
    return c;
}

int csv_rows_time(const struct csv_rows *rows, int column, uint64_t unit_ns, int64_t *ret_ns,
                  struct err *err)
{
    const char *end = scan_decimal(csv_rows_cell(rows, column), unit_ns, ret_ns);
    if (!end || *end) {
        return csv_rows_expected(rows, column, err, "a decimal number of a time below 2^63 ns");
    }
    return 0;
}
