/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "input/trace_rows.h"

static int json_lines(struct trace_build *b, struct json_rows *rows, trace_json_row_fn *add,
                      void *arg, struct err *err)
{
    json_t *object;
    uint64_t row = 0;
    int rc;
    while ((rc = json_rows_next(rows, &object, err)) != 0) {
        row++;
        if (rc > 0) {
            struct json_at at = {rows, object, ""};
            b->line = rows->row_line;
            rc = add(b, &at, row, arg, err);
            json_decref(object);
        }
        if (rc < 0 && !trace_skip_bad_row(b, rc, err)) {
            return rc;
        }
    }
    return 0;
}

int trace_read_json_lines(struct trace_build *b, const char *path, trace_json_row_fn *add,
                          void *arg, struct err *err)
{
    struct json_rows rows;
    int rc = json_rows_open(&rows, path, JSON_ROWS_LINES, err);
    if (rc == 0) {
        rc = json_lines(b, &rows, add, arg, err);
        json_rows_done(&rows);
    }
    return rc;
}

int trace_read_csv(struct trace_build *b, const char *path, trace_csv_row_fn *bind,
                   trace_csv_row_fn *add, void *arg, struct err *err)
{
    struct csv_rows *rows;
    int rc = csv_rows_open(&rows, path, err);
    if (rc < 0) {
        return rc;
    }
    rc = bind(b, rows, arg, err);
    while (rc == 0) {
        int next = csv_rows_next(rows, err);
        if (next == 0) {
            break;
        }
        b->line = csv_rows_line(rows);
        rc = next < 0 ? next : add(b, rows, arg, err);
        if (rc < 0 && trace_skip_bad_row(b, rc, err)) {
            rc = 0;
        }
    }
    csv_rows_free(rows);
    return rc;
}

int trace_check_block_count(struct trace_build *b, const struct json_at *at, uint32_t prompt_tok,
                            uint32_t n_ids, struct err *err)
{
    uint32_t block = b->t->block_tok;
    uint32_t implied = prompt_tok / block + (prompt_tok % block != 0);
    if (n_ids == 0 && implied > 0) {
        return json_at_error(at, "hash_ids", err, "no ids, but %u tokens in blocks of %u imply %u",
                             prompt_tok, block, implied);
    }
    if (n_ids < implied) {
        return json_at_error(
            at, "hash_ids", err,
            "%u ids, but %u tokens in blocks of %u imply %u; a block size of at least %u "
            "would do (workload.trace_block_tok; of dualpath trace: --block-size)",
            n_ids, prompt_tok, block, implied, (prompt_tok - 1) / n_ids + 1);
    }
    if (n_ids > implied) {
        trace_note_repair(b->t, "more block ids than the length implies",
                          "%s:%u: %u ids, length implies %u", at->rows->source, at->rows->row_line,
                          n_ids, implied);
    }
    return 0;
}

bool trace_drops_output(struct trace_build *b, uint32_t gen_tok)
{
    if (gen_tok > 0 || !b->options->drop_zero_output) {
        return false;
    }
    trace_count_repair(b->t, "request without output dropped", 1);
    return true;
}
