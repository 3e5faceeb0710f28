/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * LLMServingSim workloads (casys-kaist/LLMServingSim), JSON lines, times in ns. A row is a request
 * (input_toks, output_toks, arrival_time_ns) or a session (arrival_time_ns, sub_requests[]), whose
 * requests follow each other: the next starts tool_duration_ns after the end of the one before it.
 * Token ids, where given, are not read. A session id that comes twice names two sessions.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "input/trace_formats.h"
#include "input/trace_rows.h"

struct reader {
    uint32_t scope;
    json_t *names;
};

static int parse_request(const struct json_at *at, struct trace_turn *turn, int64_t *ret_tool_ns,
                         bool *ret_has_tool, struct err *err)
{
    *ret_tool_ns = 0;
    int rc = json_at_u32(at, "input_toks", &turn->prompt_tok, err);
    rc = rc < 0 ? rc : json_at_u32(at, "output_toks", &turn->gen_tok, err);
    rc = rc < 0 ? rc : json_at_time(at, "tool_duration_ns", 1, ret_tool_ns, ret_has_tool, err);
    return rc == 0 && *ret_tool_ns < 0
               ? json_at_expected(at, "tool_duration_ns", err, "0 ns or more")
               : rc;
}

/* One of the list, checked (when session is TRACE_NONE) or added. *t_ns moves by the tool's time.
 */
static int take_request(struct trace_build *b, const struct json_at *row, size_t i, bool add,
                        int64_t *t_ns, int64_t *delay_ns, struct err *err)
{
    const json_t *list = json_object_get(row->object, "sub_requests");
    char path[48];
    snprintf(path, sizeof(path), "sub_requests[%zu]", i);
    struct json_at at = {row->rows, json_array_get(list, i), path};
    struct trace_turn turn = {.t_ns = (uint64_t)*t_ns, .delay_ns = (uint64_t)*delay_ns};
    bool has_tool;
    int rc = parse_request(&at, &turn, delay_ns, &has_tool, err);
    if (rc == 0 && __builtin_add_overflow(*t_ns, *delay_ns, t_ns)) {
        return json_at_expected(&at, "tool_duration_ns", err, "a time below 2^63 ns");
    }
    if (rc < 0 || !add) {
        return rc;
    }
    if (!has_tool && i + 1 < json_array_size(list)) {
        trace_count_repair(b->t, "missing tool_duration_ns taken as 0", 1);
    }
    rc = trace_add_turn(b, &turn, NULL, 0);
    return rc < 0 ? rc : trace_add_order(b, b->t->n_turns - 1);
}

static int take_list(struct trace_build *b, const struct json_at *row, bool add, int64_t t_ns,
                     struct err *err)
{
    size_t n = json_array_size(json_object_get(row->object, "sub_requests"));
    int64_t delay_ns = 0;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = take_request(b, row, i, add, &t_ns, &delay_ns, err);
    }
    return rc;
}

static int add_session(struct trace_build *b, struct reader *r, const struct json_at *at,
                       uint64_t row, int64_t t_ns, struct err *err)
{
    char fallback[32];
    uint32_t session;
    const char *name = json_string_value(json_object_get(at->object, "session_id"));
    snprintf(fallback, sizeof(fallback), "row %" PRIu64, row);
    name = name ? name : fallback;
    int rc = take_list(b, at, false, t_ns, err); /* all of them are good before one is added */
    if (rc == 0 && json_object_get(r->names, name)) {
        trace_note_repair(b->t, "session id used again: kept as another session", "%s:%u: \"%s\"",
                          at->rows->source, at->rows->row_line, name);
    }
    if (rc == 0 && json_object_set_new_nocheck(r->names, name, json_true()) < 0) {
        rc = -ENOMEM;
    }
    rc = rc < 0 ? rc : trace_add_session(b, name, r->scope, &session);
    rc = rc < 0 ? rc : take_list(b, at, true, t_ns, err);
    if (rc == 0) {
        struct trace_session *s = &b->t->sessions[session];
        s->arrival_ns = (uint64_t)t_ns;
        s->n_turns = (uint32_t)(b->t->n_turns - s->first_turn);
        b->t->closed_loop |= s->n_turns > 1;
    }
    return rc;
}

static int add_row(struct trace_build *b, const struct json_at *at, uint64_t row, void *arg,
                   struct err *err)
{
    const json_t *list = json_object_get(at->object, "sub_requests");
    struct trace_turn turn = {0};
    int64_t t_ns = 0, tool_ns;
    bool has_tool;
    int rc = json_at_time(at, "arrival_time_ns", 1, &t_ns, NULL, err);
    if (rc < 0) {
        return rc;
    }
    if (list && !json_is_array(list)) {
        return json_at_expected(at, "sub_requests", err, "an array of requests");
    }
    if (list && json_array_size(list) == 0) {
        trace_note_repair(b->t, "session without requests skipped", "%s:%u", at->rows->source,
                          at->rows->row_line);
        return 0;
    }
    if (list) {
        return add_session(b, arg, at, row, t_ns, err);
    }
    rc = parse_request(at, &turn, &tool_ns, &has_tool, err);
    if (rc < 0 || trace_drops_output(b, turn.gen_tok)) {
        return rc;
    }
    turn.t_ns = (uint64_t)t_ns;
    return trace_add_request(b, row, ((struct reader *)arg)->scope, &turn, NULL, 0);
}

int trace_read_llmservingsim(struct trace_build *b, const char *path, struct err *err)
{
    struct reader r = {.scope = b->t->n_scopes++, .names = json_object()};
    int rc = r.names ? trace_read_json_lines(b, path, add_row, &r, err) : -ENOMEM;
    json_decref(r.names);
    return rc;
}
