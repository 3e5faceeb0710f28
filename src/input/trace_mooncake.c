/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Mooncake traces (kvcache-ai/Mooncake, FAST'25) and the extensions in use (AI-Dynamo's
 * documentation). A row: timestamp (ms), input_length, output_length, hash_ids: one id per block,
 * the partial last one included, chained and comparable within the file. Rows without session_id
 * are open loop, one session each. Rows of one session_id (a string or a number) are its turns in
 * file order; `delay` (ms) counts from the end of the previous turn. Agentic rows: `wait_for` names
 * requests (request_id) that must be over; delay + tool_wait_ms then passes. `branches` and
 * `prefix_reset` say nothing that the ids do not. Aliases: created_time, input_tokens,
 * output_tokens, delay_ms.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "input/trace_formats.h"
#include "input/trace_rows.h"

#define DEFAULT_BLOCK_TOK 512

/* What grouping needs to know of a turn, in file order. */
struct place {
    uint32_t session, number; /* the turn's number in its session */
};

struct reader {
    struct trace_build *b;
    const char *source;
    unsigned line;       /* of the current row */
    uint64_t first_turn; /* of this file */
    uint32_t scope, first_session;
    struct place *places; /* of every turn of this file */
    uint64_t *last_turn;  /* of every session of this file */
    size_t capacity_places, capacity_last;
    json_t *sessions, *requests; /* session_id -> session, request_id -> turn, in this file */
    uint64_t *awaited;           /* turns that must turn out to be the last of their sessions */
    unsigned *awaited_lines;
    size_t n_awaited, capacity_awaited, capacity_lines;
};

/* A row, parsed. */
struct row {
    struct json_at at;
    struct trace_turn turn;
    const uint64_t *ids;
    uint32_t n_ids;
    int64_t t_ns, delay_ns;
    bool has_time, has_delay;
    const json_t *wait_for; /* a non-empty array, or NULL */
    char session_id[32];    /* when it is a number */
    const char *session;    /* NULL: none */
};

/* The one of two names (they may be the same) that the row uses. */
static int pick(const struct json_at *at, const char *name, const char *alias,
                const char **ret_name, struct err *err)
{
    bool has_alias = strcmp(name, alias) != 0 && json_object_get(at->object, alias);
    if (has_alias && json_object_get(at->object, name)) {
        return json_at_error(at, alias, err, "found both %s and its alias %s, expected one", name,
                             alias);
    }
    *ret_name = has_alias ? alias : name;
    return 0;
}

static int get_u32(const struct json_at *at, const char *name, const char *alias, uint32_t *ret,
                   struct err *err)
{
    int rc = pick(at, name, alias, &name, err);
    return rc < 0 ? rc : json_at_u32(at, name, ret, err);
}

static int get_ms(const struct json_at *at, const char *name, const char *alias, int64_t *ret_ns,
                  bool *ret_present, struct err *err)
{
    int rc = pick(at, name, alias, &name, err);
    rc = rc < 0 ? rc : json_at_time(at, name, NS_PER_MS, ret_ns, ret_present, err);
    if (rc == 0 && *ret_present && *ret_ns < 0) {
        return json_at_expected(at, name, err, "0 or more milliseconds");
    }
    return rc;
}

static int parse_session(struct row *row, struct err *err)
{
    const json_t *id = json_object_get(row->at.object, "session_id");
    if (!id || json_is_null(id)) {
        row->session = NULL;
        return 0;
    }
    if (json_is_integer(id)) { /* 7 and "7" are the same session */
        snprintf(row->session_id, sizeof(row->session_id), "%" JSON_INTEGER_FORMAT,
                 json_integer_value(id));
        row->session = row->session_id;
        return 0;
    }
    row->session = json_string_value(id);
    return row->session
               ? 0
               : json_at_expected(&row->at, "session_id", err, "a string or a whole number");
}

static int parse_waits(struct row *row, struct err *err)
{
    const json_t *waits = json_object_get(row->at.object, "wait_for");
    row->wait_for = NULL;
    if (!waits || json_is_null(waits)) {
        return 0;
    }
    if (!json_is_array(waits)) {
        return json_at_expected(&row->at, "wait_for", err, "an array of request ids");
    }
    for (size_t i = 0; i < json_array_size(waits); i++) {
        if (!json_is_string(json_array_get(waits, i))) {
            return json_at_error(&row->at, "wait_for", err,
                                 "element %zu is not a string, expected a "
                                 "request id",
                                 i);
        }
    }
    row->wait_for = json_array_size(waits) ? waits : NULL;
    return 0;
}

static int parse_row(struct row *row, struct err *err)
{
    const struct json_at *at = &row->at;
    int64_t tool_ns = 0;
    bool has_tool = false;
    row->t_ns = row->delay_ns = 0;
    int rc = get_ms(at, "timestamp", "created_time", &row->t_ns, &row->has_time, err);
    rc = rc < 0 ? rc : get_ms(at, "delay", "delay_ms", &row->delay_ns, &row->has_delay, err);
    rc = rc < 0 ? rc : get_ms(at, "tool_wait_ms", "tool_wait_ms", &tool_ns, &has_tool, err);
    rc = rc < 0 ? rc : get_u32(at, "input_length", "input_tokens", &row->turn.prompt_tok, err);
    rc = rc < 0 ? rc : get_u32(at, "output_length", "output_tokens", &row->turn.gen_tok, err);
    rc = rc < 0 ? rc : json_at_ids(at, &row->ids, &row->n_ids, err);
    rc = rc < 0 ? rc : parse_session(row, err);
    rc = rc < 0 ? rc : parse_waits(row, err);
    if (rc == 0 && __builtin_add_overflow(row->delay_ns, tool_ns, &row->delay_ns)) {
        return json_at_expected(at, "tool_wait_ms", err, "a time below 2^63 ns");
    }
    row->has_delay |= has_tool;
    return rc;
}

static const struct trace_turn *turn_at(const struct reader *r, uint64_t turn)
{
    return &r->b->t->turns[turn];
}

static uint64_t last_turn(const struct reader *r, uint32_t session)
{
    return r->last_turn[session - r->first_session];
}

/* Whether the row repeats the one before it in everything that is read. */
static bool repeats_previous(const struct reader *r, const struct row *row, bool known,
                             uint32_t session)
{
    const struct trace *t = r->b->t;
    if (t->n_turns == r->first_turn) {
        return false;
    }
    const struct trace_turn *prev = &t->turns[t->n_turns - 1];
    bool same_session =
        known ? session == r->places[t->n_turns - 1 - r->first_turn].session : row->session == NULL;
    return same_session && row->has_time && prev->t_ns == (uint64_t)row->t_ns &&
           prev->prompt_tok == row->turn.prompt_tok && prev->gen_tok == row->turn.gen_tok &&
           prev->n_ids == row->n_ids && !row->wait_for &&
           (row->n_ids == 0 ||
            memcmp(t->ids + prev->first_id, row->ids, row->n_ids * sizeof(*row->ids)) == 0);
}

static bool drops(struct reader *r, const struct row *row, bool known, uint32_t session)
{
    const struct trace_options *o = r->b->options;
    if (trace_drops_output(r->b, row->turn.gen_tok)) {
        return true;
    }
    if (!repeats_previous(r, row, known, session)) {
        return false;
    }
    trace_count_repair(r->b->t,
                       o->dedupe ? "exact repetition of the previous request dropped"
                                 : "exact repetition of the previous request kept",
                       1);
    return o->dedupe;
}

/* A later turn's prompt should begin with the blocks that the previous one filled. */
static void check_extension(struct reader *r, const struct row *row, const struct trace_turn *prev)
{
    const uint64_t *old = trace_turn_ids(r->b->t, prev);
    uint32_t full = prev->prompt_tok / r->b->t->block_tok, i = 0;
    full = full < prev->n_ids ? full : prev->n_ids;
    while (i < full && i < row->n_ids && old[i] == row->ids[i]) {
        i++;
    }
    if (i < full) {
        trace_note_repair(r->b->t, "turn does not extend the previous one (read as a whole prompt)",
                          "%s:%u: %u of the previous turn's %u full blocks are there", r->source,
                          r->line, i, full);
    }
}

/* Start and delay of a turn that follows turn prev of its session. */
static int follow(struct reader *r, struct row *row, uint64_t prev_turn, struct err *err)
{
    const struct trace_turn *prev = turn_at(r, prev_turn);
    check_extension(r, row, prev);
    if (!row->has_delay && !row->has_time && !row->wait_for) {
        return json_at_expected(&row->at, "delay", err, "a delay or a timestamp");
    }
    if (!row->has_delay && row->has_time && !row->wait_for) {
        /* Only starts are recorded: the gap between them stands in for the gap after the end. */
        row->delay_ns = row->t_ns - (int64_t)prev->t_ns;
        trace_count_repair(r->b->t, "delay taken from the gap between recorded starts", 1);
        if (row->delay_ns < 0) {
            row->delay_ns = 0;
            trace_count_repair(r->b->t, "turn recorded before the previous one: delay set to 0", 1);
        }
    }
    if (!row->has_time && __builtin_add_overflow((int64_t)prev->t_ns, row->delay_ns, &row->t_ns)) {
        return json_at_expected(&row->at, "delay", err, "a time below 2^63 ns");
    }
    return 0;
}

static int find_awaited(const struct reader *r, const struct row *row, size_t i, uint64_t *ret_turn,
                        struct err *err)
{
    const char *id = json_string_value(json_array_get(row->wait_for, i));
    const json_t *turn = json_object_get(r->requests, id);
    if (!turn) {
        return json_at_error(&row->at, "wait_for", err,
                             "found \"%.64s\", expected the request_id of a row before this one",
                             id);
    }
    *ret_turn = (uint64_t)json_integer_value(turn);
    return 0;
}

static int await(struct reader *r, struct row *row, uint64_t turn, uint32_t session)
{
    if (row->turn.n_waits == 0) {
        row->turn.first_wait = (uint32_t)r->b->t->n_waits;
    }
    row->turn.n_waits++;
    if (trace_grow(&r->awaited, &r->capacity_awaited, r->n_awaited + 1, sizeof(*r->awaited)) < 0 ||
        trace_grow(&r->awaited_lines, &r->capacity_lines, r->n_awaited + 1,
                   sizeof(*r->awaited_lines)) < 0) {
        return -ENOMEM;
    }
    r->awaited[r->n_awaited] = turn;
    r->awaited_lines[r->n_awaited++] = r->line;
    return trace_add_wait(r->b, session);
}

/*
 * Turns wait_for into the session's parent (for its first turn: the session of the last request
 * named) and waits for other sessions. Every request named is known to exist.
 */
static int link_waits(struct reader *r, struct row *row, uint32_t session, bool first,
                      struct err *err)
{
    struct trace_session *own = &r->b->t->sessions[session];
    int rc = 0;
    for (size_t i = json_array_size(row->wait_for); rc == 0 && i-- > 0;) {
        uint64_t turn = 0;
        rc = find_awaited(r, row, i, &turn, err);
        if (rc < 0) {
            break;
        }
        struct place place = r->places[turn - r->first_turn];
        bool of_parent = own->parent == place.session;
        if (first && own->parent == TRACE_NONE) {
            own->parent = place.session;
            own->parent_turn = place.number;
        } else if (first && of_parent && place.number > own->parent_turn) {
            own->parent_turn = place.number;
        } else if (place.session != session && !(of_parent && place.number <= own->parent_turn)) {
            rc = await(r, row, turn, place.session);
        } /* else: what came before this session or turn is over anyway */
    }
    return rc;
}

/* Start of a session's first turn: recorded, or after the last request it waits for. */
static int start(const struct reader *r, struct row *row, struct err *err)
{
    uint64_t turn = 0;
    if (row->has_time) {
        return 0;
    }
    if (!row->wait_for) {
        return json_at_expected(&row->at, "timestamp", err,
                                "the time of the session's first request");
    }
    int rc = find_awaited(r, row, json_array_size(row->wait_for) - 1, &turn, err);
    if (rc == 0 &&
        __builtin_add_overflow((int64_t)turn_at(r, turn)->t_ns, row->delay_ns, &row->t_ns)) {
        rc = json_at_expected(&row->at, "delay", err, "a time below 2^63 ns");
    }
    return rc;
}

static int find_session(struct reader *r, const struct row *row, bool known, uint32_t *session)
{
    char name[32];
    if (known) {
        return 0;
    }
    snprintf(name, sizeof(name), "row %" PRIu64, r->b->t->n_turns - r->first_turn + 1);
    int rc = trace_add_session(r->b, row->session ? row->session : name, r->scope, session);
    if (rc == 0) {
        r->b->t->sessions[*session].arrival_ns = (uint64_t)row->t_ns;
    }
    if (rc == 0 && trace_grow(&r->last_turn, &r->capacity_last, *session - r->first_session + 1u,
                              sizeof(*r->last_turn)) < 0) {
        rc = -ENOMEM;
    }
    if (rc == 0 && row->session &&
        json_object_set_new(r->sessions, row->session, json_integer(*session)) < 0) {
        rc = -ENOMEM;
    }
    return rc;
}

static int remember_request(struct reader *r, const struct row *row, uint64_t turn, struct err *err)
{
    const json_t *id = json_object_get(row->at.object, "request_id");
    if (!json_is_string(id)) {
        return id && !json_is_null(id) ? json_at_expected(&row->at, "request_id", err, "a string")
                                       : 0;
    }
    if (json_object_get(r->requests, json_string_value(id))) {
        return json_at_error(&row->at, "request_id", err, "found \"%.64s\" a second time",
                             json_string_value(id));
    }
    return json_object_set_new(r->requests, json_string_value(id), json_integer((json_int_t)turn)) <
                   0
               ? -ENOMEM
               : 0;
}

static int add_turn(struct reader *r, struct row *row, uint32_t session, uint32_t number)
{
    uint64_t turn = r->b->t->n_turns;
    if (trace_grow(&r->places, &r->capacity_places, turn - r->first_turn + 1, sizeof(*r->places)) <
        0) {
        return -ENOMEM;
    }
    row->turn.t_ns = (uint64_t)row->t_ns;
    /* Turn 0 of a session that arrives by the clock starts at its arrival. */
    bool by_clock = number == 0 && r->b->t->sessions[session].parent == TRACE_NONE;
    row->turn.delay_ns = by_clock ? 0 : (uint64_t)row->delay_ns;
    int rc = trace_add_turn(r->b, &row->turn, row->ids, row->n_ids);
    if (rc == 0) {
        r->places[turn - r->first_turn] = (struct place){session, number};
        r->last_turn[session - r->first_session] = turn;
    }
    return rc;
}

/* Everything that can fail on the row's account comes before the row leaves a trace. */
static int add_row(struct trace_build *b, const struct json_at *at, uint64_t n, void *arg,
                   struct err *err)
{
    (void)b, (void)n;
    struct reader *r = arg;
    struct row row = {.at = *at};
    r->line = at->rows->row_line;
    uint32_t session = 0, number = 0;
    int rc = parse_row(&row, err);
    rc = rc < 0 ? rc : trace_check_block_count(r->b, &row.at, row.turn.prompt_tok, row.n_ids, err);
    if (rc < 0) {
        return rc;
    }
    const json_t *known = row.session ? json_object_get(r->sessions, row.session) : NULL;
    if (known) {
        session = (uint32_t)json_integer_value(known);
        number = r->places[last_turn(r, session) - r->first_turn].number + 1;
    }
    if (drops(r, &row, known, session)) {
        return 0;
    }
    rc = known ? follow(r, &row, last_turn(r, session), err) : start(r, &row, err);
    for (size_t i = 0; rc == 0 && i < json_array_size(row.wait_for); i++) {
        uint64_t turn;
        rc = find_awaited(r, &row, i, &turn, err);
    }
    rc = rc < 0 ? rc : remember_request(r, &row, r->b->t->n_turns, err);
    rc = rc < 0 ? rc : find_session(r, &row, known, &session);
    rc = rc < 0 ? rc : link_waits(r, &row, session, !known, err);
    return rc < 0 ? rc : add_turn(r, &row, session, number);
}

/* A wait is for the end of a session; one for a request in its middle cannot be told to the
 * workload. */
static int check_awaited(const struct reader *r, struct err *err)
{
    for (size_t i = 0; i < r->n_awaited; i++) {
        struct place place = r->places[r->awaited[i] - r->first_turn];
        if (last_turn(r, place.session) != r->awaited[i]) {
            err_at(err, r->source, r->awaited_lines[i], 0);
            err_field(err, "wait_for");
            return err_set(err, -EINVAL,
                           "waits for a request in the middle of session \"%s\", expected "
                           "the session's last one",
                           r->b->t->sessions[place.session].name);
        }
    }
    return 0;
}

static int group(struct reader *r)
{
    struct trace *t = r->b->t;
    uint64_t n = t->n_turns - r->first_turn;
    uint32_t *session_of = malloc((n + 1) * sizeof(*session_of));
    if (!session_of) {
        return -ENOMEM;
    }
    for (uint64_t i = 0; i < n; i++) {
        session_of[i] = r->places[i].session;
        t->closed_loop |=
            r->places[i].number > 0 || t->sessions[session_of[i]].parent != TRACE_NONE;
    }
    int rc = trace_group_turns(r->b, r->first_turn, session_of);
    free(session_of);
    return rc;
}

static int read_file(struct reader *r, struct err *err)
{
    uint32_t block = r->b->options->block_tok ? r->b->options->block_tok : DEFAULT_BLOCK_TOK;
    int rc = trace_set_block_tok(r->b, block, err);
    rc = rc < 0 ? rc : trace_read_json_lines(r->b, r->source, add_row, r, err);
    rc = rc < 0 ? rc : check_awaited(r, err);
    return rc < 0 ? rc : group(r);
}

int trace_read_mooncake(struct trace_build *b, const char *path, struct err *err)
{
    struct reader r = {.b = b,
                       .source = path,
                       .first_turn = b->t->n_turns,
                       .first_session = b->t->n_sessions,
                       .scope = b->t->n_scopes++,
                       .sessions = json_object(),
                       .requests = json_object()};
    int rc = r.sessions && r.requests ? read_file(&r, err) : -ENOMEM;
    json_decref(r.sessions);
    json_decref(r.requests);
    free(r.places);
    free(r.last_turn);
    free(r.awaited);
    free(r.awaited_lines);
    return rc;
}
