/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "plan/beyond.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "input/csv_rows.h"
#include "input/scenario_keys.h"
#include "plan/target.h"

#define SEARCH_TABLE "tool-latency"

/* Of 27B with 32K: it carries about 2 agents per second, each for 2 minutes. */
static const struct capacity_options search_options = {
    .step_aps = 0.2, .first_aps = 1.6, .most_aps = 20, .span_s = 1800};

enum column { TABLE, WORKLOAD, SCENARIO, COMMON, OPTION, SET, NEEDS, N_COLUMNS };

static int find_columns(const struct csv_rows *rows, int *columns, struct err *err)
{
    static const char *const names[N_COLUMNS] = {"table",  "workload", "scenario", "common",
                                                 "option", "set",      "needs"};
    int rc = 0;
    for (unsigned i = 0; i < N_COLUMNS && rc == 0; i++) {
        rc = csv_rows_require(rows, names[i], &columns[i], err);
    }
    return rc;
}

static bool knows_word(const struct scenario_key *key, const char *word)
{
    for (const char *const *w = key->words; w && *w; w++) {
        if (strcmp(*w, word) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether this program knows the key, or the word of it. */
static bool is_known(const char *needs)
{
    char path[128];
    size_t n = strcspn(needs, "=");
    snprintf(path, sizeof(path), "%.*s", (int)n, needs);
    const struct scenario_key *key = scenario_key_find(path);
    return key && (!needs[n] || knows_word(key, needs + n + 1));
}

static int fill_row(const struct csv_rows *rows, const int *columns, struct beyond_row *r,
                    struct err *err)
{
    r->table = strdup(csv_rows_cell(rows, columns[TABLE]));
    r->workload = strdup(csv_rows_cell(rows, columns[WORKLOAD]));
    r->scenario = strdup(csv_rows_cell(rows, columns[SCENARIO]));
    r->option = strdup(csv_rows_cell(rows, columns[OPTION]));
    r->needs = strdup(csv_rows_cell(rows, columns[NEEDS]));
    if (!r->table || !r->workload || !r->scenario || !r->option || !r->needs ||
        target_split_sets(csv_rows_cell(rows, columns[COMMON]), &r->sets, &r->n_sets) ||
        target_split_sets(csv_rows_cell(rows, columns[SET]), &r->sets, &r->n_sets)) {
        return err_nomem(err);
    }
    r->left_out = r->needs[0] && !is_known(r->needs);
    r->is_search = strcmp(r->table, SEARCH_TABLE) == 0;
    return 0;
}

static int add_row(struct beyond_rows *b, const struct csv_rows *rows, const int *columns,
                   struct err *err)
{
    if ((b->n & (b->n - 1)) == 0) {
        size_t capacity = b->n ? 2 * b->n : 1;
        struct beyond_row *more = realloc(b->rows, capacity * sizeof(*more));
        if (!more) {
            return err_nomem(err);
        }
        b->rows = more;
    }
    struct beyond_row *r = &b->rows[b->n++];
    memset(r, 0, sizeof(*r));
    return fill_row(rows, columns, r, err);
}

static int read_rows(struct beyond_rows *b, struct csv_rows *rows, const char *table,
                     struct err *err)
{
    int columns[N_COLUMNS];
    int rc = find_columns(rows, columns, err);
    while (rc == 0 && (rc = csv_rows_next(rows, err)) == 1) {
        bool wanted = !table || strcmp(table, csv_rows_cell(rows, columns[TABLE])) == 0;
        rc = wanted ? add_row(b, rows, columns, err) : 0;
    }
    return rc;
}

int beyond_read(const char *path, const char *table, struct beyond_rows *ret, struct err *err)
{
    struct csv_rows *rows;
    struct beyond_rows b = {0};
    int rc = csv_rows_open(&rows, path, err);
    if (rc) {
        return rc;
    }
    rc = read_rows(&b, rows, table, err);
    csv_rows_free(rows);
    if (rc == 0 && b.n == 0) {
        rc = err_set(err, -EINVAL, "%s has no table \"%s\"", path, table ? table : "");
    }
    if (rc) {
        beyond_done(&b);
        return rc;
    }
    *ret = b;
    return 0;
}

void beyond_done(struct beyond_rows *b)
{
    for (size_t i = 0; i < b->n; i++) {
        struct beyond_row *r = &b->rows[i];
        for (size_t k = 0; k < r->n_sets; k++) {
            free(r->sets[k]);
        }
        free(r->sets);
        free(r->table);
        free(r->workload);
        free(r->scenario);
        free(r->option);
        free(r->needs);
    }
    free(b->rows);
    *b = (struct beyond_rows){0};
}

static bool is_run(const struct beyond_row *r)
{
    return !r->left_out && !r->is_search;
}

static struct run_job job_of(const struct beyond_row *r)
{
    return (struct run_job){
        .scenario = r->scenario, .sets = (const char *const *)r->sets, .n_sets = r->n_sets};
}

static int run_rows(struct beyond_rows *b, const struct runs_options *options, struct err *err)
{
    struct run_job *jobs = calloc(b->n + 1, sizeof(*jobs));
    struct run_outcome *outcomes = calloc(b->n + 1, sizeof(*outcomes));
    size_t n = 0;
    int rc = jobs && outcomes ? 0 : err_nomem(err);
    for (size_t i = 0; rc == 0 && i < b->n; i++) {
        if (is_run(&b->rows[i])) {
            jobs[n++] = job_of(&b->rows[i]);
        }
    }
    rc = rc ? rc : runs_execute(jobs, n, options, outcomes, err);
    n = 0;
    for (size_t i = 0; rc == 0 && i < b->n; i++) {
        if (is_run(&b->rows[i])) {
            b->rows[i].outcome = outcomes[n++];
        }
    }
    free(jobs);
    free(outcomes);
    return rc;
}

int beyond_run(struct beyond_rows *b, const struct runs_options *options, struct err *err)
{
    int rc = run_rows(b, options, err);
    struct capacity_options search = search_options;
    search.runs =
        (struct runs_options){.workers = options->workers, .interrupted = options->interrupted};
    for (size_t i = 0; rc == 0 && i < b->n; i++) {
        struct beyond_row *r = &b->rows[i];
        const struct run_job job = job_of(r);
        if (r->left_out || !r->is_search) {
            continue;
        }
        if (tool_latency_run(&job, &search, r->points, &r->outcome.err) == -ECANCELED) {
            rc = err_set(err, -ECANCELED, "interrupted");
        }
    }
    return rc;
}

double beyond_figure(const struct beyond_row *row)
{
    const struct run_outcome *o = &row->outcome;
    bool open = o->steady.end_s > o->steady.start_s;
    return open ? o->result.ttft_s.mean : o->result.jct_s;
}

const struct beyond_row *beyond_reference(const struct beyond_rows *b, const struct beyond_row *row,
                                          const char *option)
{
    for (size_t i = 0; i < b->n; i++) {
        const struct beyond_row *r = &b->rows[i];
        if (strcmp(r->table, row->table) == 0 && strcmp(r->workload, row->workload) == 0 &&
            strcmp(r->option, option) == 0) {
            return r->left_out || r->outcome.err.code ? NULL : r;
        }
    }
    return NULL;
}

double beyond_against(const struct beyond_rows *b, const struct beyond_row *row, const char *option)
{
    const struct beyond_row *reference = beyond_reference(b, row, option);
    bool ran = is_run(row) && !row->outcome.err.code;
    return reference && ran ? beyond_figure(row) / beyond_figure(reference) - 1 : NAN;
}
