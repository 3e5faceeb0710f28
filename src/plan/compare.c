/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "plan/compare.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input/json_file.h"

#define SCHEMA "dualpath/result/1"

/* The numbers of one result. */
struct leaf {
    char path[96];
    double value;
};

struct leaves {
    struct leaf *leaves;
    uint32_t n, capacity;
};

static int add_leaf(struct leaves *l, const char *path, double value, struct err *err)
{
    if (l->n == l->capacity) {
        uint32_t capacity = l->capacity ? 2 * l->capacity : 64;
        struct leaf *leaves = realloc(l->leaves, capacity * sizeof(*leaves));
        if (!leaves) {
            return err_nomem(err);
        }
        l->leaves = leaves;
        l->capacity = capacity;
    }
    struct leaf *leaf = &l->leaves[l->n++];
    snprintf(leaf->path, sizeof(leaf->path), "%s", path);
    leaf->value = value;
    return 0;
}

static bool is_text(const char *path)
{
    return strcmp(path, "schema") == 0 || strcmp(path, "bottleneck.resource") == 0;
}

static int collect(const struct json_file *f, const json_t *object, const char *prefix,
                   struct leaves *l, struct err *err);

static int collect_one(const struct json_file *f, const char *path, const json_t *v,
                       struct leaves *l, struct err *err)
{
    if (json_is_object(v)) {
        return collect(f, v, path, l, err);
    }
    if (json_is_number(v) || json_is_boolean(v)) {
        return add_leaf(l, path, json_is_number(v) ? json_number_value(v) : json_is_true(v), err);
    }
    if (json_is_string(v) && is_text(path)) {
        return 0;
    }
    char what[80];
    json_describe(v, what, sizeof(what));
    return json_file_error(f, path, err, "found %s, expected a number or an object of numbers",
                           what);
}

static int collect(const struct json_file *f, const json_t *object, const char *prefix,
                   struct leaves *l, struct err *err)
{
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)object, name, v)
    {
        char path[sizeof(l->leaves->path)];
        int n = snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "." : "", name);
        if (n < 0 || (size_t)n >= sizeof(path)) {
            return json_file_error(f, prefix, err, "found a name of %zu characters", strlen(name));
        }
        int rc = strcmp(path, "run") == 0 ? 0 : collect_one(f, path, v, l, err);
        if (rc) {
            return rc;
        }
    }
    return 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct leaf *)a)->path, ((const struct leaf *)b)->path);
}

static int read_result(const char *path, struct json_file *f, struct leaves *l, struct err *err)
{
    int rc = json_file_read(path, f, err);
    if (rc) {
        return rc;
    }
    const json_t *schema = json_object_get(f->root, "schema");
    if (!json_is_string(schema) || strcmp(json_string_value(schema), SCHEMA) != 0) {
        return json_file_error(f, schema ? "schema" : "", err,
                               "expected a result: an object with \"schema\": \"" SCHEMA "\"");
    }
    rc = collect(f, f->root, "", l, err);
    if (rc == 0 && l->n > 0) {
        qsort(l->leaves, l->n, sizeof(*l->leaves), by_path);
    }
    return rc;
}

static void set_error(struct compare_figure *f, double tolerance)
{
    if (!f->in_a || !f->in_b) {
        f->beyond = true;
        return;
    }
    f->error = f->b - f->a;
    if (f->error != 0) {
        f->error_frac = f->a != 0 ? f->error / fabs(f->a) : copysign(INFINITY, f->error);
    }
    f->beyond = fabs(f->error_frac) > tolerance;
}

static int merge(const struct leaves *a, const struct leaves *b, double tolerance,
                 struct compare_results *ret, struct err *err)
{
    ret->figures = calloc((size_t)a->n + b->n + 1, sizeof(*ret->figures));
    if (!ret->figures) {
        return err_nomem(err);
    }
    for (uint32_t i = 0, k = 0; i < a->n || k < b->n;) {
        int order = i == a->n ? 1 : k == b->n ? -1 : strcmp(a->leaves[i].path, b->leaves[k].path);
        struct compare_figure *f = &ret->figures[ret->n++];
        *f = (struct compare_figure){.in_a = order <= 0, .in_b = order >= 0};
        memcpy(f->path, order <= 0 ? a->leaves[i].path : b->leaves[k].path, sizeof(f->path));
        f->a = order <= 0 ? a->leaves[i++].value : 0;
        f->b = order >= 0 ? b->leaves[k++].value : 0;
        set_error(f, tolerance);
        ret->n_beyond += f->beyond;
    }
    return 0;
}

static const char *run_text(const struct json_file *f, const char *name)
{
    const char *text = json_string_value(json_object_get(json_object_get(f->root, "run"), name));
    return text ? text : "";
}

static bool same_text(const struct json_file *a, const struct json_file *b, const char *name)
{
    return *run_text(a, name) && strcmp(run_text(a, name), run_text(b, name)) == 0;
}

int compare_results(const char *path_a, const char *path_b, double tolerance,
                    struct compare_results *ret, struct err *err)
{
    struct json_file a = {0}, b = {0};
    struct leaves leaves_a = {0}, leaves_b = {0};
    struct compare_results r = {0};
    int rc = read_result(path_a, &a, &leaves_a, err);
    rc = rc ? rc : read_result(path_b, &b, &leaves_b, err);
    rc = rc ? rc : merge(&leaves_a, &leaves_b, tolerance, &r, err);
    if (rc == 0) {
        snprintf(r.backend_a, sizeof(r.backend_a), "%s", run_text(&a, "backend"));
        snprintf(r.backend_b, sizeof(r.backend_b), "%s", run_text(&b, "backend"));
        r.same_scenario = same_text(&a, &b, "scenario_sha256");
        r.same_trace = same_text(&a, &b, "trace_sha256");
        *ret = r;
    }
    free(leaves_a.leaves);
    free(leaves_b.leaves);
    json_file_done(&a);
    json_file_done(&b);
    return rc;
}

void compare_results_done(struct compare_results *r)
{
    free(r->figures);
    *r = (struct compare_results){0};
}
