/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "input/workload_shape.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/units.h"

struct shape {
    struct trace *t;
    const struct scenario_workload *cfg;
    uint64_t limit_tok;
    bool may_cut; /* false: the limit is the model's own, and a turn beyond it an error */
    struct workload_counts *counts;
    struct err *err;
};

static int at_turn(const struct shape *sh, const struct trace_session *s, uint32_t turn, int rc)
{
    err_at(sh->err, sh->cfg->trace, sh->t->turns[s->first_turn + turn].line, 0);
    err_field(sh->err, "session %s turn %u", s->name, turn);
    return rc;
}

static uint64_t scale_length(const struct shape *sh, uint64_t tok, double factor)
{
    if (factor == 1 || tok == 0) {
        return tok;
    }
    double scaled = round((double)tok * factor);
    if (scaled < 1) {
        sh->counts->lengths_raised++;
        return 1;
    }
    /* Anything this long is beyond every limit and will be cut or refused. */
    return scaled > UINT32_MAX ? UINT32_MAX : (uint64_t)scaled;
}

static int scale_ns(const struct shape *sh, uint64_t *ns)
{
    double factor = sh->cfg->tool_latency_scale;
    if (factor == 1 || *ns == 0) {
        return 0;
    }
    double scaled = round((double)*ns * factor);
    if (scaled >= 0x1p63) {
        return err_set(sh->err, -ERANGE, "found a delay of %llu ns, too long to multiply by %g",
                       (unsigned long long)*ns, factor);
    }
    *ns = (uint64_t)scaled;
    return 0;
}

static int check_lengths(const struct shape *sh, const struct trace_turn *turn,
                         uint64_t context_tok)
{
    if (turn->gen_tok < 1) {
        return err_set(sh->err, -EINVAL, "found 0 generated tokens, expected 1 or more (%s)",
                       strcmp(sh->t->format, "tracelab") == 0
                           ? "a turn inside a session cannot be dropped"
                           : "workload.tolerant=true drops such requests");
    }
    if (turn->prompt_tok < 1) {
        return err_set(sh->err, -EINVAL, "found a prompt of 0 tokens, expected 1 or more");
    }
    if (sh->t->block_tok == 0 && turn->prompt_tok < context_tok) {
        return err_set(
            sh->err, -EINVAL,
            "found a prompt of %u tokens after a context of %llu; without block ids a prompt "
            "can only extend the context",
            turn->prompt_tok, (unsigned long long)context_tok);
    }
    return 0;
}

/* Ends s before turn, or refuses. */
static int beyond_limit(const struct shape *sh, struct trace_session *s, uint32_t turn,
                        uint64_t need_tok)
{
    if (!sh->may_cut) {
        return err_set(
            sh->err, -ERANGE,
            "found prompt + generation of %llu tokens, beyond the model's context limit of %llu; "
            "a smaller workload.max_len_tok cuts sessions there",
            (unsigned long long)need_tok, (unsigned long long)sh->limit_tok);
    }
    sh->counts->turns_cut += s->n_turns - turn;
    sh->counts->sessions_dropped += turn == 0;
    s->n_turns = turn;
    return 0;
}

static int shape_turn(const struct shape *sh, struct trace_session *s, uint32_t i,
                      uint64_t *context_tok, uint64_t *scaled_tok)
{
    struct trace_turn *turn = &sh->t->turns[s->first_turn + i];
    int rc = check_lengths(sh, turn, *context_tok);
    if (rc) {
        return rc;
    }
    uint64_t prompt_tok = turn->prompt_tok;
    if (sh->t->block_tok == 0) {
        prompt_tok =
            *scaled_tok + scale_length(sh, turn->prompt_tok - *context_tok, sh->cfg->append_scale);
    }
    uint64_t gen_tok = scale_length(sh, turn->gen_tok, sh->cfg->generation_scale);
    if (prompt_tok + gen_tok > sh->limit_tok) {
        return beyond_limit(sh, s, i, prompt_tok + gen_tok);
    }
    *context_tok = (uint64_t)turn->prompt_tok + turn->gen_tok;
    *scaled_tok = prompt_tok + gen_tok;
    turn->prompt_tok = (uint32_t)prompt_tok;
    turn->gen_tok = (uint32_t)gen_tok;
    rc = scale_ns(sh, &turn->delay_ns);
    if (rc == 0 && i > 0) {
        turn->delay_ns += units_s_to_ns(sh->cfg->tool_latency_s);
    }
    return rc;
}

static int shape_session(const struct shape *sh, struct trace_session *s)
{
    if (!sh->t->closed_loop && s->n_turns > 1) {
        return at_turn(sh, s, 1,
                       err_set(sh->err, -EINVAL, "found a second turn in an open-loop trace"));
    }
    uint64_t context_tok = 0, scaled_tok = 0;
    for (uint32_t i = 0; i < s->n_turns; i++) {
        int rc = shape_turn(sh, s, i, &context_tok, &scaled_tok);
        if (rc) {
            return at_turn(sh, s, i, rc);
        }
    }
    return scale_ns(sh, &s->spawn_delay_ns);
}

static bool lost_its_parent(const struct trace *t, const struct trace_session *s)
{
    if (s->parent == TRACE_NONE) {
        return false;
    }
    const struct trace_session *parent = &t->sessions[s->parent];
    return parent->n_turns == 0 ||
           (s->parent_turn != TRACE_NONE && s->parent_turn >= parent->n_turns);
}

static void drop_orphans(const struct shape *sh)
{
    bool again = sh->counts->turns_cut > 0;
    while (again) {
        again = false;
        for (uint32_t i = 0; i < sh->t->n_sessions; i++) {
            struct trace_session *s = &sh->t->sessions[i];
            if (s->n_turns > 0 && lost_its_parent(sh->t, s)) {
                sh->counts->turns_cut += s->n_turns;
                sh->counts->sessions_dropped++;
                s->n_turns = 0;
                again = true;
            }
        }
    }
}

static void drop_waits(const struct shape *sh, struct trace_turn *turn)
{
    uint32_t kept = 0;
    uint32_t *waits = turn->n_waits ? sh->t->waits + turn->first_wait : NULL;
    for (uint32_t i = 0; i < turn->n_waits; i++) {
        if (sh->t->sessions[waits[i]].n_turns > 0) {
            waits[kept++] = waits[i];
        }
    }
    sh->counts->waits_dropped += turn->n_waits - kept;
    turn->n_waits = kept;
}

static int check_factor(struct err *err, const char *key, double value, bool zero_ok)
{
    if (isfinite(value) && (value > 0 || (zero_ok && value == 0))) {
        return 0;
    }
    err_field(err, "workload.%s", key);
    return err_set(err, -EINVAL, "found %g, expected a number %s 0", value,
                   zero_ok ? "not below" : "above");
}

static int check_factors(const struct trace *t, const struct scenario_workload *cfg,
                         struct err *err)
{
    int rc = check_factor(err, "append_scale", cfg->append_scale, false);
    rc = rc ? rc : check_factor(err, "generation_scale", cfg->generation_scale, false);
    rc = rc ? rc : check_factor(err, "tool_latency_scale", cfg->tool_latency_scale, true);
    if (rc || t->block_tok == 0 || (cfg->append_scale == 1 && cfg->generation_scale == 1)) {
        return rc;
    }
    err_field(err, "workload.%s", cfg->append_scale != 1 ? "append_scale" : "generation_scale");
    return err_set(err, -EINVAL,
                   "found a factor other than 1 for the trace %s; a trace with block ids "
                   "cannot be scaled",
                   cfg->trace);
}

uint64_t workload_limit_tok(const struct scenario_workload *cfg, uint32_t max_context_tok)
{
    uint64_t model_tok = max_context_tok ? max_context_tok : UINT32_MAX;
    return cfg->max_len_tok && cfg->max_len_tok < model_tok ? cfg->max_len_tok : model_tok;
}

int workload_shape(struct trace *t, const struct scenario_workload *cfg, uint32_t max_context_tok,
                   struct workload_counts *counts, struct err *err)
{
    int rc = check_factors(t, cfg, err);
    if (rc) {
        return rc;
    }
    struct shape sh = {.t = t, .cfg = cfg, .counts = counts, .err = err};
    sh.limit_tok = workload_limit_tok(cfg, max_context_tok);
    sh.may_cut = max_context_tok == 0 || sh.limit_tok < max_context_tok;
    for (uint32_t i = 0; i < t->n_sessions; i++) {
        rc = shape_session(&sh, &t->sessions[i]);
        if (rc) {
            err_at(err, cfg->trace, 0, 0);
            return rc;
        }
    }
    drop_orphans(&sh);
    for (uint64_t i = 0; t->n_waits > 0 && i < t->n_turns; i++) {
        drop_waits(&sh, &t->turns[i]);
    }
    return 0;
}
