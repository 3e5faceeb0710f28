/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The project's own trace format, "dualpath/trace/1": JSON lines that hold a workload exactly.
 * Written by workload_export(). All times are whole ns and count from the start of the run, so they
 * are not rebased. Sessions refer to each other by number, so none can be skipped: tolerant reading
 * is as strict as any.
 *
 * Line 1:
 *   {"schema": "dualpath/trace/1", "block_tok": 64, "sessions": 2}
 *     block_tok   tokens per block id; 0: without ids, prompts extend their session's own context
 *     sessions    how many lines follow, so that a shortened file is noticed
 *
 * Then a session per line, numbered from 0. The first kind starts by itself, the second after the
 * end of a turn of its parent (without parent_turn: after the parent's start):
 *   {"arrival_ns": 0, "scope": 0, "turns": [...]}
 *   {"parent": 0, "parent_turn": 3, "spawn_delay_ns": 0, "scope": 0, "turns": [...]}
 *     scope       block ids match inside a scope only; absent where block_tok is 0
 *
 * A turn:
 *   {"prompt_tok": 130, "gen_tok": 20, "delay_ns": 5, "hash_ids": [1, 2], "waits": [1]}
 *     delay_ns    from the end of the previous turn and of the sessions in waits; absent: 0
 *     hash_ids    unsigned 64-bit, present if and only if block_tok is not 0
 *     waits       sessions that must be over first; absent: none
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "input/json_rows.h"
#include "input/trace_formats.h"

#define SCHEMA "dualpath/trace/1"

struct reader {
    struct trace_build *b;
    struct json_rows rows;
    uint32_t block_tok, n_sessions;      /* what line 1 says */
    uint32_t first_session, first_scope; /* of this file: others may have been read before it */
    uint32_t session;                    /* the one being read, numbered as in this file */
};

static int check_keys(const struct json_at *at, const char *const *known, struct err *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)at->object, key, value)
    {
        const char *const *k = known;
        while (*k && strcmp(*k, key) != 0) {
            k++;
        }
        if (!*k) {
            return json_at_error(at, key, err, "unknown key in a trace of schema " SCHEMA);
        }
    }
    return 0;
}

static int get_count(const struct json_at *at, const char *key, uint32_t *ret, struct err *err)
{
    const json_t *value = json_object_get(at->object, key);
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < 0 || n >= (json_int_t)TRACE_NONE) {
        return json_at_expected(at, key, err, "a whole number, 0 or more and below 2^32-1");
    }
    *ret = (uint32_t)n;
    return 0;
}

static int get_ns(const struct json_at *at, const char *key, uint64_t *ret_ns, struct err *err)
{
    const json_t *value = json_object_get(at->object, key);
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        return json_at_expected(at, key, err, "whole nanoseconds, 0 or more");
    }
    *ret_ns = (uint64_t)json_integer_value(value);
    return 0;
}

/* The number of a session of this file. */
static int get_session(const struct reader *r, const struct json_at *at, const char *key,
                       uint32_t *ret_session, struct err *err)
{
    uint32_t n = 0;
    int rc = get_count(at, key, &n, err);
    if (rc == 0 && n >= r->n_sessions) {
        rc = json_at_error(at, key, err, "found session %" PRIu32 " of %" PRIu32, n, r->n_sessions);
    }
    if (rc == 0) {
        *ret_session = r->first_session + n;
    }
    return rc;
}

static int read_header(struct reader *r, const json_t *row, struct err *err)
{
    static const char *const known[] = {"schema", "block_tok", "sessions", NULL};
    const struct json_at at = {.rows = &r->rows, .object = row, .path = ""};
    const char *schema = json_string_value(json_object_get(row, "schema"));
    if (!schema || strcmp(schema, SCHEMA) != 0) {
        return json_at_expected(&at, "schema", err, "\"" SCHEMA "\"");
    }
    int rc = check_keys(&at, known, err);
    rc = rc ? rc : get_count(&at, "block_tok", &r->block_tok, err);
    rc = rc ? rc : get_count(&at, "sessions", &r->n_sessions, err);
    if (rc) {
        return rc;
    }
    uint32_t asked = r->b->options->block_tok;
    if (asked && asked != r->block_tok) {
        return json_at_error(&at, "block_tok", err,
                             "found blocks of %" PRIu32 " tokens, but %" PRIu32 " were asked for",
                             r->block_tok, asked);
    }
    if (r->first_session > 0 && r->b->t->block_tok != r->block_tok) {
        return json_at_error(&at, "block_tok", err,
                             "found blocks of %" PRIu32 " tokens, expected %" PRIu32
                             " as in the files before",
                             r->block_tok, r->b->t->block_tok);
    }
    r->b->t->block_tok = r->block_tok;
    return 0;
}

static int read_ids(const struct reader *r, const struct json_at *at, const uint64_t **ret_ids,
                    uint32_t *ret_n, struct err *err)
{
    *ret_ids = NULL;
    *ret_n = 0;
    if (r->block_tok) {
        return json_at_ids(at, ret_ids, ret_n, err);
    }
    if (json_object_get(at->object, "hash_ids")) {
        return json_at_error(at, "hash_ids", err, "found block ids in a trace with block_tok 0");
    }
    return 0;
}

static int read_waits(struct reader *r, const struct json_at *at, struct trace_turn *turn,
                      struct err *err)
{
    const json_t *waits = json_object_get(at->object, "waits");
    turn->first_wait = (uint32_t)r->b->t->n_waits;
    turn->n_waits = (uint32_t)json_array_size(waits);
    if (waits && !json_is_array(waits)) {
        return json_at_expected(at, "waits", err, "an array of session numbers");
    }
    for (uint32_t i = 0; i < turn->n_waits; i++) {
        const json_t *value = json_array_get(waits, i);
        json_int_t n = json_integer_value(value);
        if (!json_is_integer(value) || n < 0 || n >= (json_int_t)r->n_sessions) {
            return json_at_error(at, "waits", err,
                                 "element %" PRIu32 " is no session number below %" PRIu32, i,
                                 r->n_sessions);
        }
        int rc = trace_add_wait(r->b, r->first_session + (uint32_t)n);
        if (rc) {
            return rc;
        }
    }
    return 0;
}

/* earliest_ns: when the turn can start at best; such times order the turns for statistics. */
static int read_turn(struct reader *r, const struct json_at *at, uint64_t *earliest_ns,
                     struct err *err)
{
    static const char *const known[] = {"prompt_tok", "gen_tok", "delay_ns",
                                        "hash_ids",   "waits",   NULL};
    struct trace_turn turn = {0};
    const uint64_t *ids;
    uint32_t n_ids;
    if (!json_is_object(at->object)) {
        return json_at_error(at, NULL, err, "expected an object, a turn");
    }
    int rc = check_keys(at, known, err);
    rc = rc ? rc : get_count(at, "prompt_tok", &turn.prompt_tok, err);
    rc = rc ? rc : get_count(at, "gen_tok", &turn.gen_tok, err);
    if (rc == 0 && json_object_get(at->object, "delay_ns")) {
        rc = get_ns(at, "delay_ns", &turn.delay_ns, err);
    }
    rc = rc ? rc : read_ids(r, at, &ids, &n_ids, err);
    rc = rc ? rc : read_waits(r, at, &turn, err);
    if (rc) {
        return rc;
    }
    if (turn.delay_ns > INT64_MAX - *earliest_ns) {
        return json_at_error(at, "delay_ns", err, "the delays of the session exceed 2^63 ns");
    }
    *earliest_ns += turn.delay_ns;
    turn.t_ns = *earliest_ns;
    rc = trace_add_turn(r->b, &turn, ids, n_ids);
    return rc ? rc : trace_add_order(r->b, r->b->t->n_turns - 1);
}

static int read_turns(struct reader *r, const struct json_at *at, uint32_t session,
                      uint64_t earliest_ns, struct err *err)
{
    const json_t *turns = json_object_get(at->object, "turns");
    if (!json_is_array(turns) || json_array_size(turns) == 0) {
        return json_at_expected(at, "turns", err, "an array of one or more turns");
    }
    for (size_t k = 0; k < json_array_size(turns); k++) {
        char path[40];
        snprintf(path, sizeof(path), "turns[%zu]", k);
        const struct json_at turn = {
            .rows = at->rows, .object = json_array_get(turns, k), .path = path};
        int rc = read_turn(r, &turn, &earliest_ns, err);
        if (rc) {
            return rc;
        }
    }
    r->b->t->sessions[session].n_turns = (uint32_t)json_array_size(turns);
    return 0;
}

static int read_start(struct reader *r, const struct json_at *at, struct trace_session *s,
                      uint64_t *ret_earliest_ns, struct err *err)
{
    if (!json_object_get(at->object, "parent")) {
        static const char *const known[] = {"arrival_ns", "scope", "turns", NULL};
        int rc = check_keys(at, known, err);
        rc = rc ? rc : get_ns(at, "arrival_ns", &s->arrival_ns, err);
        *ret_earliest_ns = s->arrival_ns;
        return rc;
    }
    static const char *const known[] = {"parent", "parent_turn", "spawn_delay_ns",
                                        "scope",  "turns",       NULL};
    int rc = check_keys(at, known, err);
    rc = rc ? rc : get_session(r, at, "parent", &s->parent, err);
    rc = rc ? rc : get_ns(at, "spawn_delay_ns", &s->spawn_delay_ns, err);
    if (rc == 0 && json_object_get(at->object, "parent_turn")) {
        rc = get_count(at, "parent_turn", &s->parent_turn, err);
    }
    *ret_earliest_ns = s->spawn_delay_ns;
    return rc;
}

static int read_scope(const struct reader *r, const struct json_at *at, struct trace *t,
                      uint32_t *ret_scope, struct err *err)
{
    uint32_t scope = r->session;
    if (r->block_tok) {
        int rc = get_count(at, "scope", &scope, err);
        if (rc) {
            return rc;
        }
    } else if (json_object_get(at->object, "scope")) {
        return json_at_error(at, "scope", err, "found a scope in a trace with block_tok 0");
    }
    if (scope >= TRACE_NONE - 1 - r->first_scope) {
        return json_at_error(at, "scope", err, "more scopes than 32 bits count");
    }
    scope += r->first_scope;
    t->n_scopes = scope >= t->n_scopes ? scope + 1 : t->n_scopes;
    *ret_scope = scope;
    return 0;
}

static int read_session(struct reader *r, const json_t *row, struct err *err)
{
    const struct json_at at = {.rows = &r->rows, .object = row, .path = ""};
    if (r->session == r->n_sessions) {
        return json_at_error(&at, NULL, err, "found more sessions than the %" PRIu32 " of line 1",
                             r->n_sessions);
    }
    struct trace *t = r->b->t;
    char name[16];
    uint32_t session, scope = 0;
    snprintf(name, sizeof(name), "%" PRIu32, r->session);
    int rc = read_scope(r, &at, t, &scope, err);
    rc = rc ? rc : trace_add_session(r->b, name, scope, &session);
    uint64_t earliest_ns = 0;
    rc = rc ? rc : read_start(r, &at, &t->sessions[session], &earliest_ns, err);
    rc = rc ? rc : read_turns(r, &at, session, earliest_ns, err);
    if (rc == 0) {
        t->closed_loop |=
            t->sessions[session].n_turns > 1 || t->sessions[session].parent != TRACE_NONE;
        r->session++;
    }
    return rc;
}

static int read_rows(struct reader *r, struct err *err)
{
    bool first = true;
    json_t *row;
    int rc;
    while ((rc = json_rows_next(&r->rows, &row, err)) > 0) {
        rc = first ? read_header(r, row, err) : read_session(r, row, err);
        json_decref(row);
        if (rc) {
            return rc;
        }
        first = false;
    }
    if (rc == 0 && r->session < r->n_sessions) {
        err_at(err, r->rows.source, r->rows.pos_line, 0);
        return err_set(err, -EINVAL,
                       "the file ends after %" PRIu32 " sessions, expected the %" PRIu32
                       " of line 1",
                       r->session, r->n_sessions);
    }
    return rc;
}

int trace_read_dualpath(struct trace_build *b, const char *path, struct err *err)
{
    struct reader r = {.b = b, .first_session = b->t->n_sessions, .first_scope = b->t->n_scopes};
    int rc = json_rows_open(&r.rows, path, JSON_ROWS_LINES, err);
    if (rc) {
        return rc;
    }
    b->keep_times = true;
    rc = read_rows(&r, err);
    json_rows_done(&r.rows);
    return rc;
}
