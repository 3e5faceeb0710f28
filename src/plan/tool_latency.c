/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "plan/tool_latency.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/card.h"

static const double stretches[TOOL_LATENCY_POINTS] = {1, 2, 4};

struct search_sets {
    const char **sets;
    size_t n;
    char pause[48], kind[40], aps[48], agents[40];
};

static int sets_init(struct search_sets *s, const struct run_job *base, double pause_s)
{
    s->sets = calloc(base->n_sets + 4, sizeof(*s->sets));
    if (!s->sets) {
        return -ENOMEM;
    }
    memcpy(s->sets, base->sets, base->n_sets * sizeof(*s->sets));
    snprintf(s->pause, sizeof(s->pause), "workload.tool_latency_s=%.9g", pause_s);
    s->sets[base->n_sets] = s->pause;
    s->n = base->n_sets + 1;
    return 0;
}

/* Adds the load of a run. */
static void sets_load(struct search_sets *s, double aps, double span_s)
{
    snprintf(s->kind, sizeof(s->kind), "workload.arrival.kind=poisson");
    snprintf(s->aps, sizeof(s->aps), "workload.arrival.aps=%.9g", aps);
    snprintf(s->agents, sizeof(s->agents), "workload.agents=%.0f", ceil(aps * span_s));
    s->sets[s->n++] = s->kind;
    s->sets[s->n++] = s->aps;
    s->sets[s->n++] = s->agents;
}

static double kv_bytes_per_tok(const struct run_job *base)
{
    struct scenario sc;
    struct scenario_notes notes;
    struct err err = ERR_INIT;
    if (scenario_read(base->scenario, base->sets, base->n_sets, &sc, &notes, &err)) {
        return 0;
    }
    scenario_notes_done(&notes);
    return (double)card_kv_bytes_per_tok(&sc.model);
}

static int find_point(const struct run_job *base, const struct capacity_options *options,
                      struct tool_latency_point *p, struct err *err)
{
    struct search_sets s = {0};
    struct capacity found = {0};
    if (sets_init(&s, base, p->pause_s)) {
        return err_nomem(err);
    }
    const struct run_job job = {base->scenario, s.sets, s.n, false};
    int rc = capacity_search(&job, options, &found, err);
    free(s.sets);
    if (rc == 0 && !(found.aps > 0)) {
        rc = err_set(err, -ERANGE, "not even %g agents per second meet the SLO", options->step_aps);
    }
    if (rc) {
        return rc;
    }
    p->aps = found.aps;
    p->lifetime_s = found.steady.agent_jct_s;
    p->agents = p->aps * p->lifetime_s;
    p->working_set_bytes = found.steady.working_set.simulated_tok * kv_bytes_per_tok(base);
    p->held_byte_s = p->working_set_bytes * p->lifetime_s;
    return 0;
}

/* Tries little beyond the load that r = 1 carries, which pauses do not change by much, before it
 * looks at the whole range. */
static int find_near(const struct run_job *base, const struct capacity_options *options,
                     double near_aps, struct tool_latency_point *p, struct err *err)
{
    struct capacity_options co = *options;
    co.first_aps = near_aps;
    co.most_aps = near_aps + 2 * options->step_aps;
    int rc = find_point(base, &co, p, err);
    if (rc == 0 && p->aps > co.most_aps - options->step_aps / 2) {
        co.first_aps = p->aps;
        co.most_aps = options->most_aps;
        rc = find_point(base, &co, p, err);
    }
    return rc;
}

/* Pauses of an agent: its turns but the first. */
static int count_pauses(const struct run_job *base, const struct capacity_options *options,
                        double aps, double *ret, struct err *err)
{
    struct search_sets s = {0};
    struct run_outcome *o = calloc(1, sizeof(*o));
    int rc = o && sets_init(&s, base, 0) == 0 ? 0 : err_nomem(err);
    if (rc == 0) {
        sets_load(&s, aps, options->span_s);
        const struct run_job job = {base->scenario, s.sets, s.n, false};
        rc = runs_execute(&job, 1, &options->runs, o, err);
    }
    if (rc == 0 && o->err.code) {
        *err = o->err;
        rc = err->code;
    }
    if (rc == 0) {
        *ret = (double)o->result.requests / (double)o->result.agents - 1;
    }
    free(s.sets);
    free(o);
    return rc;
}

int tool_latency_run(const struct run_job *base, const struct capacity_options *options,
                     struct tool_latency_point *ret_points, struct err *err)
{
    struct tool_latency_point points[TOOL_LATENCY_POINTS] = {{0}};
    double pauses = 0;
    int rc = 0;
    for (unsigned i = 0; i < TOOL_LATENCY_POINTS && rc == 0; i++) {
        points[i].wanted_r = stretches[i];
        if (i > 0) {
            points[i].pause_s = (stretches[i] - 1) * points[0].lifetime_s / pauses;
            rc = find_near(base, options, points[0].aps, &points[i], err);
            continue;
        }
        rc = find_point(base, options, &points[i], err);
        rc = rc ? rc : count_pauses(base, options, points[0].aps, &pauses, err);
    }
    if (rc == 0) {
        memcpy(ret_points, points, sizeof(points));
    }
    return rc;
}

double tool_latency_factor(const struct tool_latency_point *points, unsigned i, unsigned power)
{
    const struct tool_latency_point *p = &points[i], *one = &points[0];
    return power == 1   ? p->agents / one->agents
           : power == 2 ? p->working_set_bytes / one->working_set_bytes
                        : p->held_byte_s / one->held_byte_s;
}

int tool_latency_write_text(const struct tool_latency_point *points, const char *workload,
                            FILE *out)
{
    fprintf(out, "  %s\n    %3s %9s %8s %11s %9s %13s %12s %13s %10s %13s\n", workload, "r",
            "pause, s", "APS", "lifetime, s", "agents", "x (rule: r)", "KV held, GB",
            "x (rule: r^2)", "TB s held", "x (rule: r^3)");
    for (unsigned i = 0; i < TOOL_LATENCY_POINTS; i++) {
        const struct tool_latency_point *p = &points[i];
        double r = p->lifetime_s / points[0].lifetime_s;
        fprintf(out,
                "    %3g %9.3f %8.2f %11.1f %9.0f %5.2f (%5.2f) %12.1f %5.2f (%5.2f) %10.1f %5.2f "
                "(%5.2f)\n",
                p->wanted_r, p->pause_s, p->aps, p->lifetime_s, p->agents,
                tool_latency_factor(points, i, 1), r, p->working_set_bytes * 1e-9,
                tool_latency_factor(points, i, 2), r * r, p->held_byte_s * 1e-12,
                tool_latency_factor(points, i, 3), r * r * r);
    }
    return ferror(out) ? -EIO : 0;
}

int tool_latency_write_csv(const struct tool_latency_point *points, const char *workload, FILE *out)
{
    fprintf(out,
            "table,workload,r,pause_s,capacity_aps,lifetime_s,agents,agents_factor,working_set_"
            "bytes,working_set_factor,held_byte_s,held_factor\n");
    for (unsigned i = 0; i < TOOL_LATENCY_POINTS; i++) {
        const struct tool_latency_point *p = &points[i];
        fprintf(out, "tool-latency,\"%s\",%g,%.9g,%.9g,%.9g,%.9g,%.6g,%.9g,%.6g,%.9g,%.6g\n",
                workload, p->wanted_r, p->pause_s, p->aps, p->lifetime_s, p->agents,
                tool_latency_factor(points, i, 1), p->working_set_bytes,
                tool_latency_factor(points, i, 2), p->held_byte_s,
                tool_latency_factor(points, i, 3));
    }
    return ferror(out) ? -EIO : 0;
}
