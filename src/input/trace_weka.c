/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * WEKA coding-agent sessions, JSON: a stream of values, each a trace: an agent with the subagents
 * it spawned. The agent is a session; a subagent is a session whose parent is the turn before its
 * marker; the turn after a completed subagent's marker waits for it. Closed loop: think_time counts
 * from the end of the previous turn. Block ids of a trace are its own scope, or shared
 * ("hash_id_scope": "global").
 */
#include "input/trace_weka.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/units.h"
#include "input/trace_formats.h"
#include "input/trace_rows.h"

#define MAX_NS (INT64_C(1) << 61)

struct reader {
    struct trace_build *b;
    struct json_rows rows;
    bool has_global_scope; /* the scope of all traces that share ids */
    uint32_t global_scope;
};

/* One trace of the file. */
struct agent_trace {
    struct reader *r;
    enum weka_dialect dialect;
    uint32_t scope, block_tok;
};

struct request {
    int64_t t_ns, api_ns, think_ns;
    bool has_api, has_think;
    size_t index;   /* in the list */
    int64_t end_ns; /* recorded, or estimated when api_time is missing */
};

/* One list of requests: the agent's, or a subagent's. */
struct level {
    struct agent_trace *trace;
    const json_t *list;
    const char *path; /* of the object that holds the list */
    const char *name; /* of the session */
    int64_t base_ns;  /* added to the recorded times */
    int64_t start_ns; /* of the session: its spawn, or its arrival */
    bool spawned;
    uint32_t session; /* TRACE_NONE: no requests of its own */
    uint64_t first_turn;
    struct request *requests; /* one per turn */
    size_t n_requests, capacity_requests;
    size_t last_index; /* of the last request kept, or of its last repetition */
    uint32_t *pending; /* subagents that the next turn waits for... */
    size_t n_pending, capacity_pending;
    int64_t pending_end_ns; /* ...and the last of their recorded ends */
};

struct marker {
    int64_t t_ns, spawn_ns, end_ns;
    bool awaited;
};

static struct trace *trace_of(const struct level *l)
{
    return l->trace->r->b->t;
}

static void element_path(const struct level *l, size_t i, char *buf, size_t size)
{
    snprintf(buf, size, "%s%srequests[%zu]", l->path, *l->path ? "." : "", i);
}

/* Sums of recorded times; all stay below MAX_NS, so that two more steps cannot overflow. */
static int add_ns(const struct json_at *at, const char *key, int64_t a, int64_t b, int64_t *ret,
                  struct err *err)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum) || sum >= MAX_NS || sum <= -MAX_NS) {
        return json_at_error(at, key, err, "the time is beyond 2^61 ns (73 years)");
    }
    *ret = sum;
    return 0;
}

/* A duration; a negative one is set to 0 and counted. */
static int get_duration(const struct level *l, const struct json_at *at, const char *key,
                        const char *reason, int64_t *ret_ns, bool *ret_present, struct err *err)
{
    *ret_ns = 0;
    int rc = json_at_time(at, key, NS_PER_S, ret_ns, ret_present, err);
    rc = rc < 0 ? rc : add_ns(at, key, *ret_ns, 0, ret_ns, err);
    if (rc == 0 && *ret_ns < 0) {
        trace_note_repair(trace_of(l), reason, "%s:%u: %s", at->rows->source, at->rows->row_line,
                          at->path);
        *ret_ns = 0;
    }
    return rc;
}

static int parse_times(const struct level *l, const struct json_at *at, struct request *req,
                       struct err *err)
{
    int rc = json_at_time(at, "t", NS_PER_S, &req->t_ns, NULL, err);
    rc = rc < 0 ? rc : add_ns(at, "t", req->t_ns, l->base_ns, &req->t_ns, err);
    rc = rc < 0 ? rc
                : get_duration(l, at, "api_time", "negative api_time set to 0", &req->api_ns,
                               &req->has_api, err);
    return rc < 0 ? rc
                  : get_duration(l, at, "think_time", "negative think_time set to 0",
                                 &req->think_ns, &req->has_think, err);
}

static void check_blocks(const struct level *l, const struct json_at *at,
                         const struct trace_turn *turn, uint32_t n_ids)
{
    uint32_t full = turn->prompt_tok / l->trace->block_tok;
    uint32_t all = full + (turn->prompt_tok % l->trace->block_tok != 0);
    if (n_ids != full && n_ids != all) {
        trace_note_repair(trace_of(l), "number of block ids does not follow from the length",
                          "%s:%u: %s: %u ids, %u tokens", at->rows->source, at->rows->row_line,
                          at->path, n_ids, turn->prompt_tok);
    }
}

/* Whether the turn just added, of request req, repeats the one before it in its session. */
static bool repeats_previous(const struct level *l, const struct request *req)
{
    const struct trace *t = trace_of(l);
    if (l->n_requests == 0) {
        return false;
    }
    const struct request *prev = &l->requests[l->n_requests - 1];
    const struct trace_turn *a = &t->turns[t->n_turns - 2], *b = &t->turns[t->n_turns - 1];
    return l->last_index + 1 == req->index && prev->has_api == req->has_api &&
           prev->api_ns == req->api_ns && prev->has_think == req->has_think &&
           prev->think_ns == req->think_ns && a->t_ns == b->t_ns &&
           a->prompt_tok == b->prompt_tok && a->gen_tok == b->gen_tok && a->n_ids == b->n_ids &&
           (a->n_ids == 0 ||
            memcmp(t->ids + a->first_id, t->ids + b->first_id, a->n_ids * sizeof(*t->ids)) == 0);
}

static bool is_dropped(struct level *l, const struct request *req)
{
    const struct trace_options *o = l->trace->r->b->options;
    struct trace *t = trace_of(l);
    if (trace_drops_output(l->trace->r->b, t->turns[t->n_turns - 1].gen_tok)) {
        return true;
    }
    bool repeats = repeats_previous(l, req);
    l->last_index = req->index;
    if (!repeats) {
        return false;
    }
    trace_count_repair(t,
                       o->dedupe ? "exact repetition of the previous request dropped"
                                 : "exact repetition of the previous request kept",
                       1);
    return o->dedupe;
}

/* Adds request i of the list as a turn, unless an option drops it. */
static int add_turn(struct level *l, size_t i, struct err *err)
{
    struct trace *t = trace_of(l);
    struct trace_turn turn = {0};
    struct request req = {.index = i};
    char path[256];
    const uint64_t *ids;
    uint32_t n_ids;
    element_path(l, i, path, sizeof(path));
    struct json_at at = {&l->trace->r->rows, json_array_get(l->list, i), path};
    int rc = parse_times(l, &at, &req, err);
    rc = rc < 0 ? rc : json_at_u32(&at, "in", &turn.prompt_tok, err);
    rc = rc < 0 ? rc : json_at_u32(&at, "out", &turn.gen_tok, err);
    rc = rc < 0 ? rc : json_at_ids(&at, &ids, &n_ids, err);
    if (rc < 0) {
        return rc;
    }
    turn.t_ns = (uint64_t)req.t_ns;
    if (trace_grow(&l->requests, &l->capacity_requests, l->n_requests + 1, sizeof(req)) < 0 ||
        trace_add_turn(l->trace->r->b, &turn, ids, n_ids) < 0) {
        return -ENOMEM;
    }
    if (is_dropped(l, &req)) {
        t->n_turns--;
        t->n_ids -= n_ids;
        return 0;
    }
    l->requests[l->n_requests++] = req;
    check_blocks(l, &at, &turn, n_ids);
    return 0;
}

/* Recorded ends; a missing api_time is estimated from where the next turn's thinking began. */
static void find_ends(struct level *l)
{
    for (size_t k = 0; k < l->n_requests; k++) {
        struct request *req = &l->requests[k];
        const struct request *next = k + 1 < l->n_requests ? req + 1 : NULL;
        req->end_ns = req->t_ns;
        if (req->has_api) {
            req->end_ns += req->api_ns;
            continue;
        }
        trace_count_repair(trace_of(l),
                           "missing api_time: end taken from the next think_time, or 0 long", 1);
        if (next && next->has_think && next->t_ns - next->think_ns > req->t_ns) {
            req->end_ns = next->t_ns - next->think_ns;
        }
    }
}

/* The list's own requests, all of them before any subagent's, so that they stand together. */
static int add_turns(struct level *l, struct err *err)
{
    l->first_turn = trace_of(l)->n_turns;
    l->session = TRACE_NONE;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < json_array_size(l->list); i++) {
        if (!weka_is_subagent(json_array_get(l->list, i))) {
            rc = add_turn(l, i, err);
        }
    }
    find_ends(l);
    if (rc == 0 && l->n_requests > 0) {
        rc = trace_add_session(l->trace->r->b, l->name, l->trace->scope, &l->session);
        if (rc == 0) {
            struct trace_session *s = &trace_of(l)->sessions[l->session];
            s->first_turn = l->first_turn;
            s->n_turns = (uint32_t)l->n_requests;
        }
    }
    return rc;
}

static uint64_t clamped_gap(const struct level *l, int64_t from_ns, int64_t to_ns,
                            const char *reason)
{
    if (to_ns < from_ns) {
        trace_note_repair(trace_of(l), reason, "%s: %s: by %lld ms", l->trace->r->rows.source,
                          l->name, (long long)((from_ns - to_ns) / (int64_t)NS_PER_MS));
        return 0;
    }
    return (uint64_t)(to_ns - from_ns);
}

/* Delay of turn k, and the waits that have gathered for it. */
static int time_turn(struct level *l, size_t k)
{
    const struct request *req = &l->requests[k];
    struct trace_turn *turn = &trace_of(l)->turns[l->first_turn + k];
    int64_t from_ns = k > 0 ? req[-1].end_ns : l->start_ns;
    turn->first_wait = (uint32_t)trace_of(l)->n_waits;
    turn->n_waits = (uint32_t)l->n_pending;
    for (size_t i = 0; i < l->n_pending; i++) {
        int rc = trace_add_wait(l->trace->r->b, l->pending[i]);
        if (rc < 0) {
            return rc;
        }
    }
    if (l->n_pending > 0) {
        from_ns = l->pending_end_ns > from_ns ? l->pending_end_ns : from_ns;
        l->n_pending = 0;
        turn->delay_ns =
            clamped_gap(l, from_ns, req->t_ns,
                        "turn recorded before the end of what it waits for: delay set to 0");
    } else if (k > 0 && req->has_think) {
        turn->delay_ns = (uint64_t)req->think_ns;
    } else {
        if (k > 0) {
            trace_count_repair(trace_of(l), "missing think_time: taken from the gap between turns",
                               1);
        }
        turn->delay_ns =
            clamped_gap(l, from_ns, req->t_ns,
                        "turn recorded before the end of the previous one: delay set to 0");
    }
    return 0;
}

static int parse_marker(const struct level *l, const struct json_at *at, struct marker *m,
                        struct err *err)
{
    const json_t *status = json_object_get(at->object, "status");
    const char *text = json_string_value(status);
    int64_t duration_ns = 0;
    bool known = false;
    if (!text || (strcmp(text, "completed") != 0 && strcmp(text, "async_launched") != 0)) {
        return json_at_expected(at, "status", err, "\"completed\" or \"async_launched\"");
    }
    m->awaited = strcmp(text, "completed") == 0;
    int rc = json_at_time(at, "t", NS_PER_S, &m->t_ns, NULL, err);
    rc = rc < 0 ? rc : add_ns(at, "t", m->t_ns, l->base_ns, &m->t_ns, err);
    rc = rc < 0 ? rc : json_at_time(at, "duration_ms", NS_PER_MS, &duration_ns, &known, err);
    if (rc < 0) {
        return rc;
    }
    if (m->awaited && (!known || duration_ns < 0)) {
        return json_at_expected(at, "duration_ms", err, "the duration of a completed subagent");
    }
    bool ends_at_marker = m->awaited && l->trace->dialect != WEKA_V7;
    m->spawn_ns = m->end_ns = m->t_ns;
    return ends_at_marker ? add_ns(at, "duration_ms", m->t_ns, -duration_ns, &m->spawn_ns, err)
           : m->awaited   ? add_ns(at, "duration_ms", m->t_ns, duration_ns, &m->end_ns, err)
                          : 0;
}

/* Hangs the subagent below the turn before its marker; k is the number of turns before it. */
static void set_parent(struct level *l, size_t k, const struct level *child)
{
    struct trace_session *s = &trace_of(l)->sessions[child->session];
    if (l->session == TRACE_NONE) {
        trace_count_repair(trace_of(l), "subagent of an agent without requests starts by the clock",
                           1);
        s->arrival_ns = (uint64_t)child->start_ns;
        return;
    }
    s->parent = l->session;
    s->parent_turn = k > 0 ? (uint32_t)(k - 1) : TRACE_NONE;
    s->spawn_delay_ns =
        clamped_gap(l, k > 0 ? l->requests[k - 1].end_ns : l->start_ns, child->start_ns,
                    "subagent spawned before the end of the previous turn: delay set to 0");
}

static int add_pending(struct level *l, uint32_t session, int64_t end_ns)
{
    if (trace_grow(&l->pending, &l->capacity_pending, l->n_pending + 1, sizeof(*l->pending)) < 0) {
        return -ENOMEM;
    }
    l->pending_end_ns = l->n_pending > 0 && l->pending_end_ns > end_ns ? l->pending_end_ns : end_ns;
    l->pending[l->n_pending++] = session;
    return 0;
}

static int read_level(struct level *l, struct err *err);

static int add_subagent(struct level *l, size_t i, size_t k, struct err *err)
{
    char path[256], name[512];
    struct marker m;
    const json_t *object = json_array_get(l->list, i);
    element_path(l, i, path, sizeof(path));
    struct json_at at = {&l->trace->r->rows, object, path};
    int rc = parse_marker(l, &at, &m, err);
    if (rc < 0) {
        return rc;
    }
    const json_t *list = json_object_get(object, "requests");
    if (!json_is_array(list)) {
        return json_at_expected(&at, "requests", err, "an array of requests");
    }
    const char *id = json_string_value(json_object_get(object, "agent_id"));
    snprintf(name, sizeof(name), "%s/%s", l->name, id ? id : path);
    struct level child = {.trace = l->trace,
                          .list = list,
                          .path = path,
                          .name = name,
                          .spawned = true,
                          .start_ns = m.spawn_ns,
                          .base_ns = l->trace->dialect == WEKA_V7 ? l->base_ns : m.spawn_ns};
    rc = read_level(&child, err);
    if (rc == 0 && child.session == TRACE_NONE) {
        trace_note_repair(trace_of(l), "subagent without requests skipped", "%s", name);
    } else if (rc == 0) {
        set_parent(l, k, &child);
        rc = m.awaited ? add_pending(l, child.session, m.end_ns) : 0;
    }
    return rc;
}

/* An agent arrives with its first turn, or with a subagent that it spawned even before that. */
static int find_start(struct level *l, struct err *err)
{
    if (l->spawned || l->n_requests == 0) {
        return 0;
    }
    l->start_ns = l->requests[0].t_ns;
    for (size_t i = 0; i < l->requests[0].index; i++) {
        struct marker m;
        char path[256];
        element_path(l, i, path, sizeof(path));
        struct json_at at = {&l->trace->r->rows, json_array_get(l->list, i), path};
        if (!weka_is_subagent(at.object)) {
            continue; /* a dropped request */
        }
        int rc = parse_marker(l, &at, &m, err);
        if (rc < 0) {
            return rc;
        }
        l->start_ns = m.spawn_ns < l->start_ns ? m.spawn_ns : l->start_ns;
    }
    trace_of(l)->sessions[l->session].arrival_ns = (uint64_t)l->start_ns;
    return 0;
}

/* The list in file order: turns get their times, markers become sessions. */
static int walk(struct level *l, struct err *err)
{
    size_t k = 0;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < json_array_size(l->list); i++) {
        if (weka_is_subagent(json_array_get(l->list, i))) {
            rc = add_subagent(l, i, k, err);
        } else if (k < l->n_requests && l->requests[k].index == i) {
            rc = time_turn(l, k);
            rc = rc < 0 ? rc : trace_add_order(l->trace->r->b, l->first_turn + k);
            k++;
        }
    }
    return rc;
}

static int read_level(struct level *l, struct err *err)
{
    int rc = add_turns(l, err);
    rc = rc < 0 ? rc : find_start(l, err);
    rc = rc < 0 ? rc : walk(l, err);
    free(l->requests);
    free(l->pending);
    return rc;
}

static int find_scope(struct reader *r, const struct json_at *at, uint32_t *ret_scope,
                      struct err *err)
{
    const json_t *value = json_object_get(at->object, "hash_id_scope");
    const char *text = value ? json_string_value(value) : "local";
    if (!text || (strcmp(text, "local") != 0 && strcmp(text, "global") != 0)) {
        return json_at_expected(at, "hash_id_scope", err, "\"local\" or \"global\"");
    }
    bool global = strcmp(text, "global") == 0;
    if (global && r->has_global_scope) {
        *ret_scope = r->global_scope;
        return 0;
    }
    *ret_scope = r->b->t->n_scopes++;
    if (global) {
        r->has_global_scope = true;
        r->global_scope = *ret_scope;
    }
    return 0;
}

static int read_head(struct agent_trace *a, const struct json_at *at, struct err *err)
{
    struct reader *r = a->r;
    if (!json_is_array(json_object_get(at->object, "requests"))) {
        return json_at_expected(at, "requests", err, "an array of requests");
    }
    int rc = json_at_u32(at, "block_size", &a->block_tok, err);
    if (rc == 0 && a->block_tok == 0) {
        return json_at_expected(at, "block_size", err, "1 token or more");
    }
    a->block_tok = r->b->options->block_tok ? r->b->options->block_tok : a->block_tok;
    rc = rc < 0 ? rc : find_scope(r, at, &a->scope, err);
    return rc < 0
               ? rc
               : weka_find_dialect(at, r->b->options->weka_dialect, a->block_tok, &a->dialect, err);
}

static int read_trace(struct reader *r, const json_t *object, struct err *err)
{
    struct json_at at = {&r->rows, object, ""};
    struct agent_trace a = {.r = r};
    char name[256];
    int rc = read_head(&a, &at, err);
    if (rc < 0) {
        return rc;
    }
    const char *id = json_string_value(json_object_get(object, "id"));
    snprintf(name, sizeof(name), "%s", id ? id : "trace");
    struct level top = {
        .trace = &a, .list = json_object_get(object, "requests"), .path = "", .name = name};
    uint64_t turns = r->b->t->n_turns;
    rc = read_level(&top, err);
    rc = rc < 0 ? rc : trace_set_block_tok(r->b, a.block_tok, err);
    if (rc == 0 && r->b->t->n_turns == turns) {
        trace_note_repair(r->b->t, "trace without requests skipped", "%s", name);
    }
    return rc;
}

/* A trace is read whole or not at all. */
static int read_or_undo(struct reader *r, const json_t *object, struct err *err)
{
    struct trace *t = r->b->t;
    const struct trace before = *t;
    uint64_t n_order = r->b->n_order;
    int rc = read_trace(r, object, err);
    if (rc < 0) {
        err_at(err, r->rows.source, r->rows.row_line, r->rows.row_column);
        t->n_sessions = before.n_sessions;
        t->n_turns = before.n_turns;
        t->n_ids = before.n_ids;
        t->n_waits = before.n_waits;
        r->b->n_order = n_order;
    }
    return rc < 0 && trace_skip_bad_row(r->b, rc, err) ? 0 : rc;
}

int trace_read_weka(struct trace_build *b, const char *path, struct err *err)
{
    struct reader r = {.b = b};
    int rc = json_rows_open(&r.rows, path, JSON_ROWS_STREAM, err);
    if (rc < 0) {
        return rc;
    }
    json_t *object;
    while ((rc = json_rows_next(&r.rows, &object, err)) > 0) {
        rc = read_or_undo(&r, object, err);
        json_decref(object);
        if (rc < 0) {
            break;
        }
    }
    json_rows_done(&r.rows);
    b->t->closed_loop = true;
    return rc;
}
