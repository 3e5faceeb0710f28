/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * TraceLab replay CSV (uw-syfi/TraceLab): session_id, arrival_time (ms, of the session; may be
 * absent: 0), round_idx, prefix_len, input_len, output_len, tool_wait_after_ms. Closed loop: a
 * round starts tool_wait_after_ms after the end of the one before it. The prompt is prefix_len +
 * input_len; there are no block ids, so a prefix that is not the whole previous context is only
 * counted.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/units.h"
#include "input/trace_formats.h"
#include "input/trace_rows.h"

/* The last round of a session so far. */
struct last_round {
    uint32_t number, context_tok;
    int64_t start_ns, wait_after_ns;
};

struct reader {
    int session, arrival, round, prefix, input, output, wait;
    uint32_t scope, first_session;
    uint64_t first_turn;
    json_t *sessions; /* session_id -> session */
    struct last_round *last;
    uint32_t *session_of; /* by turn of this file */
    size_t capacity_last, capacity_of;
};

struct round {
    struct trace_turn turn;
    uint32_t number, prefix_tok;
    int64_t arrival_ns, wait_ns;
};

static int bind(struct trace_build *b, const struct csv_rows *rows, void *arg, struct err *err)
{
    struct reader *r = arg;
    const struct {
        const char *name;
        int *column;
    } required[] = {{"session_id", &r->session}, {"round_idx", &r->round},
                    {"prefix_len", &r->prefix},  {"input_len", &r->input},
                    {"output_len", &r->output},  {"tool_wait_after_ms", &r->wait}};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof(required) / sizeof(required[0]); i++) {
        rc = csv_rows_require(rows, required[i].name, required[i].column, err);
    }
    r->arrival = csv_rows_column(rows, "arrival_time");
    r->scope = b->t->n_scopes++;
    return rc;
}

static int parse_ms(const struct csv_rows *rows, int column, int64_t *ret_ns, struct err *err)
{
    int rc = csv_rows_time(rows, column, NS_PER_MS, ret_ns, err);
    return rc == 0 && *ret_ns < 0 ? csv_rows_expected(rows, column, err, "0 or more milliseconds")
                                  : rc;
}

static int parse_round(const struct reader *r, const struct csv_rows *rows, struct round *round,
                       struct err *err)
{
    uint32_t input = 0;
    *round = (struct round){0};
    int rc = csv_rows_u32(rows, r->round, &round->number, err);
    rc = rc < 0 ? rc : csv_rows_u32(rows, r->prefix, &round->prefix_tok, err);
    rc = rc < 0 ? rc : csv_rows_u32(rows, r->input, &input, err);
    rc = rc < 0 ? rc : csv_rows_u32(rows, r->output, &round->turn.gen_tok, err);
    rc = rc < 0 ? rc : parse_ms(rows, r->wait, &round->wait_ns, err);
    rc = rc < 0 || r->arrival < 0 ? rc : parse_ms(rows, r->arrival, &round->arrival_ns, err);
    if (rc == 0 && __builtin_add_overflow(round->prefix_tok, input, &round->turn.prompt_tok)) {
        return csv_rows_expected(rows, r->input, err, "a prompt below 2^32 tokens");
    }
    return rc;
}

static int start_session(struct trace_build *b, struct reader *r, const char *name,
                         uint32_t *session)
{
    int rc = trace_add_session(b, name, r->scope, session);
    if (rc == 0 && (trace_grow(&r->last, &r->capacity_last, *session - r->first_session + 1u,
                               sizeof(*r->last)) < 0 ||
                    json_object_set_new_nocheck(r->sessions, name, json_integer(*session)) < 0)) {
        rc = -ENOMEM;
    }
    return rc;
}

static int follow(struct trace_build *b, const struct reader *r, const struct csv_rows *rows,
                  struct round *round, const struct last_round *last, struct err *err)
{
    int64_t start_ns;
    if (round->number != last->number + 1) {
        return csv_rows_expected(rows, r->round, err, "the round after the session's previous one");
    }
    if (__builtin_add_overflow(last->start_ns, last->wait_after_ns, &start_ns)) {
        return csv_rows_expected(rows, r->wait, err, "a time below 2^63 ns");
    }
    if (round->prefix_tok != last->context_tok) {
        trace_note_repair(b->t, "prefix_len is not the previous context (the prompt is kept)",
                          "row %llu: %u tokens, the context has %u",
                          (unsigned long long)csv_rows_number(rows), round->prefix_tok,
                          last->context_tok);
    }
    round->turn.t_ns = (uint64_t)start_ns;
    round->turn.delay_ns = (uint64_t)last->wait_after_ns;
    return 0;
}

static int add_row(struct trace_build *b, const struct csv_rows *rows, void *arg, struct err *err)
{
    struct reader *r = arg;
    struct round round;
    const char *name = csv_rows_cell(rows, r->session);
    const json_t *known = json_object_get(r->sessions, name);
    uint32_t session = known ? (uint32_t)json_integer_value(known) : 0;
    int rc = parse_round(r, rows, &round, err);
    if (rc < 0) {
        return rc;
    }
    if (known) {
        rc = follow(b, r, rows, &round, &r->last[session - r->first_session], err);
    } else if (round.number != 0) {
        rc = csv_rows_expected(rows, r->round, err, "0, the first round of the session");
    } else {
        round.turn.t_ns = (uint64_t)round.arrival_ns;
        rc = start_session(b, r, name, &session);
    }
    if (rc < 0) {
        return rc;
    }
    uint64_t turn = b->t->n_turns - r->first_turn;
    if (trace_grow(&r->session_of, &r->capacity_of, turn + 1, sizeof(*r->session_of)) < 0) {
        return -ENOMEM;
    }
    r->session_of[turn] = session;
    b->t->sessions[session].arrival_ns =
        known ? b->t->sessions[session].arrival_ns : round.turn.t_ns;
    r->last[session - r->first_session] =
        (struct last_round){.number = round.number,
                            .context_tok = round.turn.prompt_tok + round.turn.gen_tok,
                            .start_ns = (int64_t)round.turn.t_ns,
                            .wait_after_ns = round.wait_ns};
    return trace_add_turn(b, &round.turn, NULL, 0);
}

int trace_read_tracelab(struct trace_build *b, const char *path, struct err *err)
{
    struct reader r = {
        .sessions = json_object(), .first_session = b->t->n_sessions, .first_turn = b->t->n_turns};
    int rc = r.sessions ? trace_read_csv(b, path, bind, add_row, &r, err) : -ENOMEM;
    rc = rc < 0 ? rc : trace_group_turns(b, r.first_turn, r.session_of);
    b->t->closed_loop = true;
    json_decref(r.sessions);
    free(r.last);
    free(r.session_of);
    return rc;
}
