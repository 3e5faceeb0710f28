/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Runs of whole scenarios inside a test, with their result as JSON. */
#ifndef DUALPATH_TESTS_SCENARIO_RUN_H
#define DUALPATH_TESTS_SCENARIO_RUN_H

#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "input/scenario.h"
#include "plan/simulate.h"

/* Settings end with NULL. */
#define SETS(...) ((const char *const[]){__VA_ARGS__, NULL})

static inline size_t count_sets(const char *const *sets)
{
    size_t n = 0;
    while (sets && sets[n]) {
        n++;
    }
    return n;
}

static inline void must_read_scenario(const char *name, const char *const *sets,
                                      struct scenario *ret)
{
    struct scenario_notes notes;
    struct err err = ERR_INIT;
    int rc = scenario_read(name, sets, count_sets(sets), ret, &notes, &err);
    ck_assert_msg(rc == 0, "%s: %s: %s", name, err.field, err.text);
    scenario_notes_done(&notes);
}

/* Builds and runs it; must succeed. The caller frees *ret_simulation. */
static inline void must_run(const struct scenario *sc, struct simulation **ret_simulation,
                            struct result *ret)
{
    const struct simulation_options options = {0};
    struct err err = ERR_INIT;
    int rc = simulation_new(sc, &options, ret_simulation, &err);
    ck_assert_msg(rc == 0, "%s: %s: %s", err.source, err.field, err.text);
    rc = simulation_run(*ret_simulation, ret, &err);
    ck_assert_msg(rc == 0, "%s: %s", err.field, err.text);
}

/* Replays a trace's text, as recorded, on the scenario; must succeed. Returns the requests' CSV, to
 * be freed. */
static inline char *replayed_requests(struct scenario *sc, const char *trace)
{
    char path[] = "/tmp/dualpath-replay-XXXXXX", *csv = NULL;
    size_t size = 0;
    struct simulation *s;
    struct result r;
    struct err err = ERR_INIT;
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, trace, strlen(trace)), (ssize_t)strlen(trace));
    close(fd);
    snprintf(sc->workload.trace, sizeof(sc->workload.trace), "%s", path);
    snprintf(sc->workload.trace_path, sizeof(sc->workload.trace_path), "%s", path);
    sc->workload.arrival = ARRIVAL_RECORDED;
    sc->workload.agents = 0;
    struct simulation_options options = {.requests_csv = open_memstream(&csv, &size)};
    int rc = simulation_new(sc, &options, &s, &err);
    unlink(path);
    ck_assert_msg(rc == 0, "%s: %s: %s", err.source, err.field, err.text);
    ck_assert_int_eq(simulation_run(s, &r, &err), 0);
    simulation_free(s);
    fclose(options.requests_csv);
    return csv;
}

static inline json_t *result_json(const struct result *r)
{
    char *text = NULL;
    size_t size = 0;
    struct err err = ERR_INIT;
    FILE *out = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(out);
    ck_assert_int_eq(result_write_json(r, out, &err), 0);
    fclose(out);
    json_t *o = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
    free(text);
    ck_assert_ptr_nonnull(o);
    return o;
}

static inline json_t *run_json(const char *name, const char *const *sets)
{
    struct scenario sc;
    struct simulation *s;
    struct result r;
    must_read_scenario(name, sets, &sc);
    must_run(&sc, &s, &r);
    simulation_free(s);
    return result_json(&r);
}

/* A number by its path: "tokens.prompt". */
static inline double number(const json_t *o, const char *path)
{
    char part[64];
    const json_t *at = o;
    while (*path) {
        size_t n = strcspn(path, ".");
        ck_assert_uint_lt(n, sizeof(part));
        memcpy(part, path, n);
        part[n] = 0;
        at = json_object_get(at, part);
        path += n + (path[n] == '.');
    }
    ck_assert_msg(json_is_number(at) || json_is_boolean(at), "no number at %s", part);
    return json_is_boolean(at) ? json_is_true(at) : json_number_value(at);
}

/* The result without what says when, where and from which files it was made. */
static inline char *text_without_run(json_t *o)
{
    json_object_del(o, "run");
    char *text = json_dumps(o, JSON_SORT_KEYS | JSON_INDENT(1));
    ck_assert_ptr_nonnull(text);
    json_decref(o);
    return text;
}

#endif
