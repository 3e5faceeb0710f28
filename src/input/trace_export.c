/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The writer of the format that trace_dualpath.c reads and describes. */
#include <errno.h>
#include <inttypes.h>

#include "input/workload.h"

static void write_ids(FILE *out, const struct workload_turn *turn)
{
    fputs(",\"hash_ids\":[", out);
    for (uint32_t i = 0; i < turn->n_blocks; i++) {
        fprintf(out, "%s%" PRIu64, i ? "," : "", turn->block_ids[i]);
    }
    putc(']', out);
}

static void write_waits(FILE *out, const struct workload_turn *turn)
{
    fputs(",\"waits\":[", out);
    for (uint32_t i = 0; i < turn->n_waits; i++) {
        fprintf(out, "%s%" PRIu32, i ? "," : "", turn->waits[i]);
    }
    putc(']', out);
}

static void write_turn(FILE *out, const struct workload_turn *turn)
{
    fprintf(out, "{\"prompt_tok\":%" PRIu32 ",\"gen_tok\":%" PRIu32, turn->prompt_tok,
            turn->gen_tok);
    if (turn->delay_ns) {
        fprintf(out, ",\"delay_ns\":%" PRIu64, turn->delay_ns);
    }
    if (turn->block_ids) {
        write_ids(out, turn);
    }
    if (turn->n_waits) {
        write_waits(out, turn);
    }
    putc('}', out);
}

static void write_start(FILE *out, const struct workload_session *s, bool has_ids)
{
    if (s->parent == WORKLOAD_NONE) {
        fprintf(out, "{\"arrival_ns\":%" PRIu64, s->arrival_ns);
    } else {
        fprintf(out, "{\"parent\":%" PRIu32, s->parent);
        if (s->parent_turn != WORKLOAD_NONE) {
            fprintf(out, ",\"parent_turn\":%" PRIu32, s->parent_turn);
        }
        fprintf(out, ",\"spawn_delay_ns\":%" PRIu64, s->spawn_delay_ns);
    }
    if (has_ids) {
        fprintf(out, ",\"scope\":%" PRIu32, s->scope);
    }
}

static int write_session(FILE *out, const struct workload *w, uint32_t session, bool has_ids,
                         struct err *err)
{
    struct workload_session s;
    w->ops->session(w, session, &s);
    write_start(out, &s, has_ids);
    for (uint32_t k = 0; k < s.n_turns; k++) {
        struct workload_turn turn;
        w->ops->turn(w, session, k, &turn);
        if ((turn.block_ids != NULL) != has_ids) {
            err_field(err, "session %" PRIu32 " turn %" PRIu32, session, k);
            return err_set(err, -EINVAL, "found a turn %s block ids, unlike the first one",
                           has_ids ? "without" : "with");
        }
        fputs(k ? "," : ",\"turns\":[", out);
        write_turn(out, &turn);
    }
    fputs("]}\n", out);
    return 0;
}

static bool first_turn_has_ids(const struct workload *w)
{
    struct workload_turn turn;
    w->ops->turn(w, 0, 0, &turn);
    return turn.block_ids != NULL;
}

int workload_export(const struct workload *w, FILE *out, struct err *err)
{
    bool has_ids = w->n_sessions > 0 && first_turn_has_ids(w);
    fprintf(out,
            "{\"schema\":\"dualpath/trace/1\",\"block_tok\":%" PRIu32 ",\"sessions\":%" PRIu32
            "}\n",
            has_ids ? w->block_tok : 0, w->n_sessions);
    for (uint32_t i = 0; i < w->n_sessions; i++) {
        int rc = write_session(out, w, i, has_ids, err);
        if (rc) {
            return rc;
        }
        if (ferror(out)) {
            return err_set(err, -EIO, "cannot write the trace");
        }
    }
    return fflush(out) ? err_set(err, -EIO, "cannot write the trace") : 0;
}
