/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "input/csv_rows.h"
#include "plan/compare.h"

struct decisions {
    struct compare_decision *rows;
    uint64_t n, capacity;
};

enum { SESSION, TURN, PREFILL_ENGINE, DECODE_ENGINE, PATH, N_COLUMNS };

static const char *const column_names[N_COLUMNS] = {"session", "turn", "prefill_engine",
                                                    "decode_engine", "path"};

const char *compare_path_name(enum compare_path path)
{
    static const char *const names[COMPARE_N_PATHS] = {"prefill", "decode", "split", "kept"};
    return names[path];
}

static int read_path(const struct csv_rows *rows, int column, enum compare_path *ret,
                     struct err *err)
{
    const char *cell = csv_rows_cell(rows, column);
    for (enum compare_path p = 0; p < COMPARE_N_PATHS; p++) {
        if (strcmp(cell, compare_path_name(p)) == 0) {
            *ret = p;
            return 0;
        }
    }
    return csv_rows_expected(rows, column, err, "prefill, decode, split or kept");
}

static int read_row(const struct csv_rows *rows, const int columns[], struct compare_decision *d,
                    struct err *err)
{
    int rc = csv_rows_u32(rows, columns[SESSION], &d->session, err);
    rc = rc ? rc : csv_rows_u32(rows, columns[TURN], &d->turn, err);
    rc = rc ? rc : csv_rows_u32(rows, columns[PREFILL_ENGINE], &d->prefill_engine, err);
    rc = rc ? rc : csv_rows_u32(rows, columns[DECODE_ENGINE], &d->decode_engine, err);
    return rc ? rc : read_path(rows, columns[PATH], &d->path, err);
}

static int add_row(struct decisions *d, const struct compare_decision *row, struct err *err)
{
    if (d->n == d->capacity) {
        uint64_t capacity = d->capacity ? 2 * d->capacity : 256;
        struct compare_decision *rows = realloc(d->rows, capacity * sizeof(*rows));
        if (!rows) {
            return err_nomem(err);
        }
        d->rows = rows;
        d->capacity = capacity;
    }
    d->rows[d->n++] = *row;
    return 0;
}

static int read_rows(struct csv_rows *rows, struct decisions *ret, struct err *err)
{
    int columns[N_COLUMNS], rc = 0, more = 0;
    for (unsigned c = 0; c < N_COLUMNS && rc == 0; c++) {
        rc = csv_rows_require(rows, column_names[c], &columns[c], err);
    }
    while (rc == 0 && (more = csv_rows_next(rows, err)) > 0) {
        struct compare_decision row;
        rc = read_row(rows, columns, &row, err);
        rc = rc ? rc : add_row(ret, &row, err);
    }
    return rc ? rc : more;
}

static int read_decisions(const char *path, struct decisions *ret, struct err *err)
{
    struct csv_rows *rows;
    int rc = csv_rows_open(&rows, path, err);
    if (rc == 0) {
        rc = read_rows(rows, ret, err);
        csv_rows_free(rows);
    }
    return rc;
}

static bool same(const struct compare_decision *a, const struct compare_decision *b)
{
    return a->session == b->session && a->turn == b->turn &&
           a->prefill_engine == b->prefill_engine && a->decode_engine == b->decode_engine &&
           a->path == b->path;
}

static void compare_in_order(const struct decisions *a, const struct decisions *b,
                             struct compare_decisions *ret)
{
    uint64_t most = a->n > b->n ? a->n : b->n;
    for (uint64_t i = 0; i < most; i++) {
        bool has_a = i < a->n, has_b = i < b->n;
        if (has_a && has_b && same(&a->rows[i], &b->rows[i])) {
            continue;
        }
        if (ret->n_rows_differ++ == 0) {
            ret->first = i + 1;
            ret->has_a = has_a;
            ret->has_b = has_b;
            ret->a = has_a ? a->rows[i] : ret->a;
            ret->b = has_b ? b->rows[i] : ret->b;
        }
    }
}

static int by_request(const void *va, const void *vb)
{
    const struct compare_decision *a = va, *b = vb;
    if (a->session != b->session) {
        return a->session < b->session ? -1 : 1;
    }
    return (a->turn > b->turn) - (a->turn < b->turn);
}

static void compare_requests(struct decisions *a, struct decisions *b,
                             struct compare_decisions *ret)
{
    if (a->n > 0) {
        qsort(a->rows, a->n, sizeof(*a->rows), by_request);
    }
    if (b->n > 0) {
        qsort(b->rows, b->n, sizeof(*b->rows), by_request);
    }
    for (uint64_t i = 0, k = 0; i < a->n || k < b->n;) {
        int order = i == a->n ? 1 : k == b->n ? -1 : by_request(&a->rows[i], &b->rows[k]);
        ret->n_only_a += order < 0;
        ret->n_only_b += order > 0;
        ret->n_decided_otherwise += order == 0 && !same(&a->rows[i], &b->rows[k]);
        i += order <= 0;
        k += order >= 0;
    }
}

int compare_decisions(const char *path_a, const char *path_b, struct compare_decisions *ret,
                      struct err *err)
{
    struct decisions a = {0}, b = {0};
    int rc = read_decisions(path_a, &a, err);
    rc = rc ? rc : read_decisions(path_b, &b, err);
    if (rc == 0) {
        *ret = (struct compare_decisions){.n_a = a.n, .n_b = b.n};
        compare_in_order(&a, &b, ret);
        compare_requests(&a, &b, ret);
    }
    free(a.rows);
    free(b.rows);
    return rc;
}
