/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "plan/target.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input/csv_rows.h"

#define AROUND_S 50.0

/* Reading */

struct columns {
    int experiment, model, scenario, set, metric, published, fit;
};

static int find_columns(const struct csv_rows *rows, struct columns *c, struct err *err)
{
    int rc = csv_rows_require(rows, "experiment", &c->experiment, err);
    rc = rc ? rc : csv_rows_require(rows, "model", &c->model, err);
    rc = rc ? rc : csv_rows_require(rows, "scenario", &c->scenario, err);
    rc = rc ? rc : csv_rows_require(rows, "set", &c->set, err);
    rc = rc ? rc : csv_rows_require(rows, "metric", &c->metric, err);
    rc = rc ? rc : csv_rows_require(rows, "published", &c->published, err);
    return rc ? rc : csv_rows_require(rows, "fit", &c->fit, err);
}

int target_split_sets(const char *text, char ***sets, size_t *n_sets)
{
    char *copy = strdup(text), *rest = copy, *word;
    char **more = realloc(*sets, (*n_sets + strlen(text) / 2 + 1) * sizeof(char *));
    *sets = more ? more : *sets;
    if (!copy || !more) {
        free(copy);
        return -ENOMEM;
    }
    while ((word = strtok_r(rest, " ", &rest))) {
        more[*n_sets] = strdup(word);
        if (!more[*n_sets]) {
            free(copy);
            return -ENOMEM;
        }
        ++*n_sets;
    }
    free(copy);
    return 0;
}

static int read_row(const struct csv_rows *rows, const struct columns *c, struct target *t,
                    struct err *err)
{
    char *end;
    const char *published = csv_rows_cell(rows, c->published), *fit = csv_rows_cell(rows, c->fit);
    t->experiment = strdup(csv_rows_cell(rows, c->experiment));
    t->model = strdup(csv_rows_cell(rows, c->model));
    t->scenario = strdup(csv_rows_cell(rows, c->scenario));
    t->metric = strdup(csv_rows_cell(rows, c->metric));
    if (!t->experiment || !t->model || !t->scenario || !t->metric ||
        target_split_sets(csv_rows_cell(rows, c->set), &t->sets, &t->n_sets)) {
        return err_nomem(err);
    }
    t->published = strtod(published, &end);
    if (end == published || *end || !(t->published > 0)) {
        return csv_rows_expected(rows, c->published, err, "a number above 0");
    }
    if (strcmp(fit, "0") != 0 && strcmp(fit, "1") != 0) {
        return csv_rows_expected(rows, c->fit, err, "0 or 1");
    }
    t->fitted = fit[0] == '1';
    return 0;
}

static int add_row(struct targets *t, const struct csv_rows *rows, const struct columns *c,
                   struct err *err)
{
    if ((t->n & (t->n - 1)) == 0) {
        size_t capacity = t->n ? 2 * t->n : 1;
        struct target *more = realloc(t->rows, capacity * sizeof(*more));
        if (!more) {
            return err_nomem(err);
        }
        t->rows = more;
    }
    struct target *row = &t->rows[t->n++];
    *row = (struct target){0};
    return read_row(rows, c, row, err);
}

int targets_read(const char *path, struct targets *ret, struct err *err)
{
    struct csv_rows *rows;
    struct columns c;
    struct targets t = {0};
    int rc = csv_rows_open(&rows, path, err);
    if (rc) {
        return rc;
    }
    rc = find_columns(rows, &c, err);
    while (rc == 0 && (rc = csv_rows_next(rows, err)) == 1) {
        rc = add_row(&t, rows, &c, err);
    }
    csv_rows_free(rows);
    if (rc) {
        targets_done(&t);
        return rc;
    }
    *ret = t;
    return 0;
}

void targets_done(struct targets *t)
{
    for (size_t i = 0; i < t->n; i++) {
        struct target *row = &t->rows[i];
        for (size_t k = 0; k < row->n_sets; k++) {
            free(row->sets[k]);
        }
        free(row->sets);
        free(row->experiment);
        free(row->model);
        free(row->scenario);
        free(row->metric);
    }
    free(t->rows);
    *t = (struct targets){0};
}

const char *target_setting(const struct target *t, const char *path)
{
    size_t n = strlen(path);
    const char *value = NULL;
    for (size_t i = 0; i < t->n_sets; i++) {
        if (strncmp(t->sets[i], path, n) == 0 && t->sets[i][n] == '=') {
            value = t->sets[i] + n + 1;
        }
    }
    return value;
}

/* Values */

/* Mean of a member of the points in (from, to], those at 0 left out (nothing happened there). */
static double mean_between(const struct run_outcome *o, size_t member, double from_s, double to_s)
{
    double sum = 0, n = 0;
    for (size_t i = 0; i < o->n_points; i++) {
        const char *point = (const char *)&o->points[i];
        double v = *(const double *)(const void *)(point + member);
        if (o->points[i].t_s > from_s && o->points[i].t_s <= to_s && v > 0) {
            sum += v;
            n++;
        }
    }
    return n > 0 ? sum / n : 0;
}

/* Of the forwards in (from, to]. */
static double attention_between(const struct run_outcome *o, double from_s, double to_s)
{
    double max_avg_s = 0, forward_s = 0;
    for (size_t i = 0; i < o->n_points; i++) {
        const struct run_point *p = &o->points[i];
        if (p->t_s > from_s && p->t_s <= to_s) {
            max_avg_s += p->forward_max_avg_s;
            forward_s += p->forward_s;
        }
    }
    return forward_s > 0 ? max_avg_s / forward_s : 0;
}

static double agents_at(const struct run_outcome *o, double t_s)
{
    size_t i = 0;
    while (i + 1 < o->n_points && o->points[i].t_s < t_s) {
        i++;
    }
    return o->n_points ? o->points[i].agents : 0;
}

static int value_at(const char *metric, const struct run_outcome *o, double *ret)
{
    const char *sign = strchr(metric, '@');
    char *end;
    double at = strtod(sign + 1, &end), last = o->result.jct_s / 100;
    size_t n = (size_t)(sign - metric);
    if (end == sign + 1 || *end) {
        return -EINVAL;
    }
    if (strncmp(metric, "attention_max_avg", n) == 0) {
        *ret = attention_between(o, last * (at - 5), last * at);
    } else if (strncmp(metric, "snic_max_avg", n) == 0) {
        *ret =
            mean_between(o, offsetof(struct run_point, snic_max_avg), last * (at - 5), last * at);
    } else if (strncmp(metric, "agents", n) == 0) {
        *ret = agents_at(o, at);
    } else if (strncmp(metric, "prompt_tok_per_s", n) == 0) {
        *ret = mean_between(o, offsetof(struct run_point, prompt_tok_per_s), at - AROUND_S,
                            at + AROUND_S);
    } else if (strncmp(metric, "ttft_s", n) == 0) {
        *ret = mean_between(o, offsetof(struct run_point, ttft_s), at - AROUND_S, at + AROUND_S);
    } else {
        return -EINVAL;
    }
    return 0;
}

/* Up to so many agents, and up to so many that come over time, one seed is not enough. */
#define FEW_AGENTS    512
#define MANY_ARRIVALS 8192
#define FEW_SEEDS     3u

double target_agents(const struct target *t)
{
    const char *agents = target_setting(t, "workload.agents");
    return agents ? strtod(agents, NULL) : 0;
}

bool target_is_open(const struct target *t)
{
    const char *kind = target_setting(t, "workload.arrival.kind");
    return kind && strcmp(kind, "offline") != 0;
}

unsigned target_seeds(const struct target *t)
{
    double agents = target_agents(t);
    if (target_is_open(t)) {
        return agents <= MANY_ARRIVALS ? TARGET_MANY_SEEDS : 1;
    }
    return agents > 0 && agents <= FEW_AGENTS ? FEW_SEEDS : 1;
}

bool target_counts(const struct target *t, const struct run_outcome *o, unsigned n, unsigned i)
{
    bool any = false;
    for (unsigned k = 0; k < n; k++) {
        any |= !o[k].err.code && o[k].steady.reached;
    }
    return !target_is_open(t) || !any || o[i].err.code || o[i].steady.reached;
}

static int value_of(const char *metric, const struct run_outcome *o, double *ret)
{
    const struct result *r = &o->result;
    const struct run_steady *s = &o->steady;
    bool open = s->end_s > s->start_s;
    double sched_s = open ? s->sched_s : r->sched_s, alloc_s = open ? s->alloc_s : r->alloc_s;
    double read_s = open ? s->read_s : r->read_s, prefill_s = open ? s->prefill_s : r->prefill_s;
    double queue_s = open ? s->prefill_queue_s : r->prefill_queue_s;
    double ttft_s = sched_s + alloc_s + read_s + prefill_s;
    const struct {
        const char *name;
        double value;
    } values[] = {
        {"jct_s", r->jct_s},
        {"ttft_s", open ? s->ttft_s : r->ttft_s.mean},
        {"ttst_s", open ? s->ttst_s : r->ttst_s.mean},
        {"tpot_s", open ? s->tpot_s : r->tpot_s.mean},
        {"agent_jct_s", open ? s->agent_jct_s : r->agent_jct_s.mean},
        {"agents", open ? s->agents : r->steady_in_system},
        {"sched_frac", sched_s / ttft_s},
        {"alloc_frac", alloc_s / ttft_s},
        /* Our reading of the published shares: DualPath's are near 1 : 2 : 2 for scheduling, alloc
         * and read together, and prefill, as when half a forward is waited for the next fetch, one
         * for the running one, and one is taken. So "read" is until a forward takes the request. */
        {"read_frac", (read_s + queue_s) / ttft_s},
        {"prefill_frac", (prefill_s - queue_s) / ttft_s},
        {"snic_max_avg", r->snic_max_avg},
        {"attention_max_avg", r->attention_max_avg},
    };
    if (strchr(metric, '@')) {
        return value_at(metric, o, ret);
    }
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        if (strcmp(metric, values[i].name) == 0) {
            *ret = values[i].value;
            return 0;
        }
    }
    return -EINVAL;
}

int target_value(const char *metric, const struct run_outcome *o, double *ret, struct err *err)
{
    if (o->err.code) {
        *err = o->err;
        return err->code;
    }
    return value_of(metric, o, ret) ? err_set(err, -EINVAL, "unknown metric \"%s\"", metric) : 0;
}
