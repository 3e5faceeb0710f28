/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "input/trace_build.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int trace_grow(void *array, size_t *capacity, size_t need, size_t elem_size)
{
    if (need <= *capacity) {
        return 0;
    }
    size_t n = *capacity < 16 ? 16 : *capacity;
    while (n < need) {
        if (n > SIZE_MAX / 2 / elem_size) {
            return -ENOMEM;
        }
        n *= 2;
    }
    void *data;
    memcpy(&data, array, sizeof(data)); /* array points to a pointer of any type */
    data = realloc(data, n * elem_size);
    if (!data) {
        return -ENOMEM;
    }
    memcpy(array, &data, sizeof(data));
    *capacity = n;
    return 0;
}

int trace_add_session(struct trace_build *b, const char *name, uint32_t scope,
                      uint32_t *ret_session)
{
    struct trace *t = b->t;
    if (t->n_sessions == TRACE_NONE - 1) {
        return -EOVERFLOW;
    }
    if (trace_grow(&t->sessions, &b->capacity_sessions, t->n_sessions + 1u, sizeof(*t->sessions)) <
        0) {
        return -ENOMEM;
    }
    struct trace_session *s = &t->sessions[t->n_sessions];
    *s = (struct trace_session){
        .first_turn = t->n_turns, .scope = scope, .parent = TRACE_NONE, .parent_turn = TRACE_NONE};
    if (snprintf(s->name, sizeof(s->name), "%s", name) >= (int)sizeof(s->name)) {
        trace_note_repair(t, "session name shortened", "%s", s->name);
    }
    *ret_session = t->n_sessions++;
    return 0;
}

int trace_add_turn(struct trace_build *b, const struct trace_turn *turn, const uint64_t *ids,
                   uint32_t n_ids)
{
    struct trace *t = b->t;
    if (trace_grow(&t->turns, &b->capacity_turns, t->n_turns + 1, sizeof(*t->turns)) < 0 ||
        trace_grow(&t->ids, &b->capacity_ids, t->n_ids + n_ids, sizeof(*t->ids)) < 0) {
        return -ENOMEM;
    }
    if (n_ids > 0) {
        memcpy(t->ids + t->n_ids, ids, n_ids * sizeof(*ids));
    }
    struct trace_turn *copy = &t->turns[t->n_turns++];
    *copy = *turn;
    copy->first_id = t->n_ids;
    copy->n_ids = n_ids;
    copy->line = b->line;
    t->n_ids += n_ids;
    return 0;
}

int trace_add_wait(struct trace_build *b, uint32_t session)
{
    struct trace *t = b->t;
    if (t->n_waits == UINT32_MAX) {
        return -EOVERFLOW;
    }
    if (trace_grow(&t->waits, &b->capacity_waits, t->n_waits + 1, sizeof(*t->waits)) < 0) {
        return -ENOMEM;
    }
    t->waits[t->n_waits++] = session;
    return 0;
}

/* The order has one entry per turn, but a turn may be placed before a later one is added. */
int trace_add_order(struct trace_build *b, uint64_t turn)
{
    struct trace *t = b->t;
    if (trace_grow(&t->file_order, &b->capacity_order, b->n_order + 1, sizeof(*t->file_order)) <
        0) {
        return -ENOMEM;
    }
    t->file_order[b->n_order++] = turn;
    return 0;
}

int trace_add_request(struct trace_build *b, uint64_t row, uint32_t scope,
                      const struct trace_turn *turn, const uint64_t *ids, uint32_t n_ids)
{
    char name[32];
    uint32_t session;
    snprintf(name, sizeof(name), "row %" PRIu64, row);
    int rc = trace_add_session(b, name, scope, &session);
    rc = rc < 0 ? rc : trace_add_turn(b, turn, ids, n_ids);
    rc = rc < 0 ? rc : trace_add_order(b, b->t->n_turns - 1);
    if (rc == 0) {
        b->t->sessions[session].n_turns = 1;
        b->t->sessions[session].arrival_ns = turn->t_ns;
    }
    return rc;
}

int trace_group_turns(struct trace_build *b, uint64_t first_turn, const uint32_t *session_of)
{
    struct trace *t = b->t;
    uint64_t n = t->n_turns - first_turn, next = first_turn;
    if (n == 0) {
        return 0;
    }
    struct trace_turn *sorted = malloc(n * sizeof(*sorted));
    if (!sorted) {
        return -ENOMEM;
    }
    uint32_t first_session = UINT32_MAX;
    for (uint64_t i = 0; i < n; i++) {
        t->sessions[session_of[i]].n_turns++;
        first_session = session_of[i] < first_session ? session_of[i] : first_session;
    }
    for (uint32_t s = first_session; s < t->n_sessions; s++) {
        t->sessions[s].first_turn = next;
        next += t->sessions[s].n_turns;
        t->sessions[s].n_turns = 0;
    }
    int rc = 0;
    for (uint64_t i = 0; i < n && rc == 0; i++) {
        struct trace_session *s = &t->sessions[session_of[i]];
        uint64_t to = s->first_turn + s->n_turns++;
        sorted[to - first_turn] = t->turns[first_turn + i];
        rc = trace_add_order(b, to);
    }
    if (rc == 0) {
        memcpy(t->turns + first_turn, sorted, n * sizeof(*sorted));
    }
    free(sorted);
    return rc;
}

int trace_set_block_tok(struct trace_build *b, uint32_t block_tok, struct err *err)
{
    if (b->t->block_tok && b->t->block_tok != block_tok) {
        return err_set(err, -EINVAL, "blocks of %u tokens, expected %u as in the traces before it",
                       block_tok, b->t->block_tok);
    }
    b->t->block_tok = block_tok;
    return 0;
}

bool trace_skip_bad_row(struct trace_build *b, int code, struct err *err)
{
    if (!b->options->tolerant || code != -EINVAL) {
        return false;
    }
    char text[1200];
    err_format(err, text, sizeof(text));
    trace_note_repair(b->t, "bad row skipped", "%s", text);
    *err = ERR_INIT;
    return true;
}
