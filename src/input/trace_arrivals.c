/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * CSV traces whose rows are an arrival in seconds and two lengths: BurstGPT (HPMLL/BurstGPT), Vidur
 * (microsoft/vidur) and splitwise-sim. Open loop, no block ids; other columns (BurstGPT's session
 * id is often blank and says nothing of ends) are not read.
 */
#include "base/units.h"
#include "input/trace_formats.h"
#include "input/trace_rows.h"

struct arrivals {
    const char *time_name, *in_name, *out_name;
    int time, in, out;
    uint32_t scope;
};

static int bind(struct trace_build *b, const struct csv_rows *rows, void *arg, struct err *err)
{
    struct arrivals *a = arg;
    int rc = csv_rows_require(rows, a->time_name, &a->time, err);
    rc = rc < 0 ? rc : csv_rows_require(rows, a->in_name, &a->in, err);
    rc = rc < 0 ? rc : csv_rows_require(rows, a->out_name, &a->out, err);
    if (rc == 0) {
        a->scope = b->t->n_scopes++;
    }
    return rc;
}

static int add_row(struct trace_build *b, const struct csv_rows *rows, void *arg, struct err *err)
{
    const struct arrivals *a = arg;
    struct trace_turn turn = {0};
    int64_t t_ns = 0;
    int rc = csv_rows_time(rows, a->time, NS_PER_S, &t_ns, err);
    rc = rc < 0 ? rc : csv_rows_u32(rows, a->in, &turn.prompt_tok, err);
    rc = rc < 0 ? rc : csv_rows_u32(rows, a->out, &turn.gen_tok, err);
    if (rc < 0 || trace_drops_output(b, turn.gen_tok)) {
        return rc;
    }
    turn.t_ns = (uint64_t)t_ns;
    return trace_add_request(b, csv_rows_number(rows), a->scope, &turn, NULL, 0);
}

int trace_read_burstgpt(struct trace_build *b, const char *path, struct err *err)
{
    struct arrivals a = {
        .time_name = "Timestamp", .in_name = "Request tokens", .out_name = "Response tokens"};
    return trace_read_csv(b, path, bind, add_row, &a, err);
}

int trace_read_vidur(struct trace_build *b, const char *path, struct err *err)
{
    struct arrivals a = {.time_name = "arrived_at",
                         .in_name = "num_prefill_tokens",
                         .out_name = "num_decode_tokens"};
    return trace_read_csv(b, path, bind, add_row, &a, err);
}

int trace_read_splitwise(struct trace_build *b, const char *path, struct err *err)
{
    struct arrivals a = {
        .time_name = "arrival_timestamp", .in_name = "prompt_size", .out_name = "token_size"};
    return trace_read_csv(b, path, bind, add_row, &a, err);
}
