/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * RAGPulse (flashserve/RAGPulse, 0_trace.jsonl). A row: timestamp (a string, whole seconds,
 * starting over after seven days), input_length, output_length, hash_ids: an object of lists, the
 * pieces of text that the prompt is made of, in the order of piece_lists below. A piece has any
 * length (other files of the data set hold them), so its hits count pieces; the size of a block in
 * tokens is an assumption. Open loop.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/units.h"
#include "input/trace_formats.h"
#include "input/trace_rows.h"

#define DEFAULT_BLOCK_TOK 512
#define WRAP_S            (7 * 86400)

static const char *const piece_lists[] = {"sys_prompt", "passages_ids", "history", "web_search",
                                          "user_input"};
#define N_LISTS (sizeof(piece_lists) / sizeof(piece_lists[0]))

struct reader {
    uint32_t scope;
    uint64_t *ids; /* of the current row */
    uint32_t n_ids;
    size_t capacity;
    int64_t last_s, wrapped_s; /* last recorded time, and what the wraps so far add */
};

static int add_list(struct reader *r, const struct json_at *at, const char *name, struct err *err)
{
    const json_t *list = json_object_get(at->object, name);
    if (!json_is_array(list)) {
        return json_at_expected(at, name, err, "an array of ids");
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *id = json_array_get(list, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0) {
            return json_at_error(at, name, err,
                                 "element %zu is not an id, expected an integer below 2^63", i);
        }
        if (trace_grow(&r->ids, &r->capacity, r->n_ids + (size_t)1, sizeof(*r->ids)) < 0) {
            return -ENOMEM;
        }
        r->ids[r->n_ids++] = (uint64_t)json_integer_value(id);
    }
    return 0;
}

static int parse_ids(struct reader *r, const struct json_at *row, struct err *err)
{
    struct json_at at = {row->rows, json_object_get(row->object, "hash_ids"), "hash_ids"};
    if (!json_is_object(at.object)) {
        return json_at_expected(row, "hash_ids", err, "an object of lists");
    }
    int rc = 0;
    r->n_ids = 0;
    for (size_t i = 0; rc == 0 && i < N_LISTS; i++) {
        rc = add_list(r, &at, piece_lists[i], err);
    }
    return rc;
}

static int parse_seconds(const struct json_at *at, int64_t *ret_s, struct err *err)
{
    const char *text = json_string_value(json_object_get(at->object, "timestamp"));
    int64_t s = 0;
    const char *c = text;
    for (; c && *c >= '0' && *c <= '9' && s < WRAP_S; c++) {
        s = 10 * s + (*c - '0');
    }
    if (!c || c == text || *c) {
        return json_at_expected(at, "timestamp", err,
                                "a string of whole seconds within some seven days");
    }
    *ret_s = s;
    return 0;
}

static int add_row(struct trace_build *b, const struct json_at *at, uint64_t row, void *arg,
                   struct err *err)
{
    struct reader *r = arg;
    struct trace_turn turn = {0};
    int64_t s = 0;
    int rc = parse_seconds(at, &s, err);
    rc = rc < 0 ? rc : json_at_u32(at, "input_length", &turn.prompt_tok, err);
    rc = rc < 0 ? rc : json_at_u32(at, "output_length", &turn.gen_tok, err);
    rc = rc < 0 ? rc : parse_ids(r, at, err);
    if (rc < 0 || trace_drops_output(b, turn.gen_tok)) {
        return rc;
    }
    if (s < r->last_s - WRAP_S / 2) { /* rows are nearly in order: a step back by days is a wrap */
        r->wrapped_s += WRAP_S;
        trace_note_repair(b->t, "timestamp started over after seven days: unwrapped", "%s:%u",
                          at->rows->source, at->rows->row_line);
    }
    r->last_s = s;
    turn.t_ns = (uint64_t)(s + r->wrapped_s) * NS_PER_S;
    trace_count_repair(b->t, "hash_ids are pieces of unknown length: a block size is assumed", 1);
    return trace_add_request(b, row, r->scope, &turn, r->ids, r->n_ids);
}

int trace_read_ragpulse(struct trace_build *b, const char *path, struct err *err)
{
    struct reader r = {.scope = b->t->n_scopes++};
    int rc = trace_set_block_tok(
        b, b->options->block_tok ? b->options->block_tok : DEFAULT_BLOCK_TOK, err);
    rc = rc < 0 ? rc : trace_read_json_lines(b, path, add_row, &r, err);
    free(r.ids);
    return rc;
}
