/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "plan/beyond.h"

#define OPTION_WIDTH 42

static bool same_workload(const struct beyond_row *a, const struct beyond_row *b)
{
    return strcmp(a->table, b->table) == 0 && strcmp(a->workload, b->workload) == 0;
}

static bool ran(const struct beyond_row *r)
{
    return !r->left_out && !r->outcome.err.code;
}

static bool is_open(const struct beyond_row *r)
{
    return r->outcome.steady.end_s > r->outcome.steady.start_s;
}

/* The largest part of the mean TTFT: what a request waits for. */
static const char *longest_wait(const struct result *r, double *ret_frac)
{
    static const char *const names[] = {"sched", "alloc", "read", "prefill"};
    const double parts[] = {r->sched_s, r->alloc_s, r->read_s, r->prefill_s};
    unsigned most = 0;
    for (unsigned i = 1; i < 4; i++) {
        most = parts[i] > parts[most] ? i : most;
    }
    *ret_frac = r->ttft_s.mean > 0 ? parts[most] / r->ttft_s.mean : 0;
    return names[most];
}

static void percent(double frac, char *buf, size_t size)
{
    snprintf(buf, size, "%s", "");
    if (!isnan(frac)) {
        snprintf(buf, size, "%+.1f %%", 100 * frac);
    }
}

static void write_row(const struct beyond_rows *b, const struct beyond_row *r, FILE *out)
{
    char dualpath[24], basic[24], text[320];
    const struct result *o = &r->outcome.result;
    if (r->left_out) {
        fprintf(out, "    %-*s left out: this program has no %s\n", OPTION_WIDTH, r->option,
                r->needs);
        return;
    }
    if (r->outcome.err.code) {
        err_format(&r->outcome.err, text, sizeof(text));
        fprintf(out, "    %-*s failed: %s\n", OPTION_WIDTH, r->option, text);
        return;
    }
    percent(beyond_against(b, r, "dualpath"), dualpath, sizeof(dualpath));
    percent(beyond_against(b, r, "basic"), basic, sizeof(basic));
    double wait_frac;
    const char *wait = longest_wait(o, &wait_frac);
    fprintf(out,
            "    %-*s %9.0f %10s %10s %9.3f  %-7s %4.0f %% %8.2f  %-13s %4.0f %% %5.0f %% %5.0f %% "
            "%9.2f\n",
            OPTION_WIDTH, r->option, o->jct_s, dualpath, basic, o->ttft_s.mean, wait,
            100 * wait_frac, 1e3 * o->tpot_s.mean, result_resource_name(o->bottleneck),
            100 * o->bottleneck_frac, 100 * o->utilization[RESULT_PE_SNIC],
            100 * o->utilization[RESULT_DE_SNIC], o->usd);
}

/* Who wins, the oracle apart, and by how much. */
static void write_winner(const struct beyond_rows *b, size_t first, FILE *out)
{
    const struct beyond_row *best = NULL, *next = NULL;
    for (size_t i = first; i < b->n; i++) {
        const struct beyond_row *r = &b->rows[i];
        if (!same_workload(r, &b->rows[first]) || !ran(r) || strcmp(r->option, "oracle") == 0) {
            continue;
        }
        if (!best || beyond_figure(r) < beyond_figure(best)) {
            next = best;
            best = r;
        } else if (!next || beyond_figure(r) < beyond_figure(next)) {
            next = r;
        }
    }
    if (best && next) {
        fprintf(out, "    fastest by %s: %s; next %s, %+.1f %%\n",
                is_open(best) ? "mean TTFT" : "JCT", best->option, next->option,
                100 * (beyond_figure(next) / beyond_figure(best) - 1));
    }
}

static bool seen_before(const struct beyond_rows *b, size_t i, bool whole_table)
{
    for (size_t k = 0; k < i; k++) {
        if (whole_table ? strcmp(b->rows[k].table, b->rows[i].table) == 0
                        : same_workload(&b->rows[k], &b->rows[i])) {
            return true;
        }
    }
    return false;
}

int beyond_write_text(const struct beyond_rows *b, FILE *out)
{
    for (size_t i = 0; i < b->n; i++) {
        if (!seen_before(b, i, true)) {
            fprintf(out, "%sbeyond: %s\n", i ? "\n" : "", b->rows[i].table);
        }
        if (seen_before(b, i, false)) {
            continue;
        }
        if (b->rows[i].is_search && ran(&b->rows[i])) {
            tool_latency_write_text(b->rows[i].points, b->rows[i].workload, out);
            continue;
        }
        fprintf(out, "  %s\n    %-*s %9s %10s %10s %9s  %-14s %8s  %-20s %7s %7s %9s\n",
                b->rows[i].workload, OPTION_WIDTH, "option", "JCT, s", "/dualpath", "/basic",
                "TTFT, s", "most of it", "TPOT, ms", "bottleneck", "PE SNIC", "DE SNIC", "USD");
        for (size_t k = i; k < b->n; k++) {
            if (same_workload(&b->rows[k], &b->rows[i])) {
                write_row(b, &b->rows[k], out);
            }
        }
        write_winner(b, i, out);
    }
    return ferror(out) ? -EIO : 0;
}

static json_t *cell_json(const struct beyond_row *r)
{
    json_t *sets = json_array();
    for (size_t i = 0; i < r->n_sets; i++) {
        json_array_append_new(sets, json_string(r->sets[i]));
    }
    return json_pack("{s:s, s:s, s:s, s:o}", "workload", r->workload, "option", r->option,
                     "scenario", r->scenario, "set", sets);
}

static void add_ratio(json_t *o, const char *key, double frac)
{
    json_object_set_new(o, key, isnan(frac) ? json_null() : json_real(frac));
}

static json_t *points_json(const struct tool_latency_point *points)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < TOOL_LATENCY_POINTS; i++) {
        const struct tool_latency_point *p = &points[i];
        json_array_append_new(
            list,
            json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "r", p->wanted_r,
                      "pause_s", p->pause_s, "capacity_aps", p->aps, "lifetime_s", p->lifetime_s,
                      "agents", p->agents, "agents_factor", tool_latency_factor(points, i, 1),
                      "working_set_bytes", p->working_set_bytes, "working_set_factor",
                      tool_latency_factor(points, i, 2), "held_byte_s", p->held_byte_s,
                      "held_factor", tool_latency_factor(points, i, 3)));
    }
    return list;
}

static json_t *row_json(const struct beyond_rows *b, const struct beyond_row *r)
{
    const struct result *res = &r->outcome.result;
    char text[512];
    json_t *o = json_pack("{s:s, s:s, s:o}", "experiment", "beyond", "table", r->table, "cell",
                          cell_json(r));
    if (r->left_out) {
        json_object_set_new(o, "left_out", json_string(r->needs));
        return o;
    }
    if (r->outcome.err.code) {
        err_format(&r->outcome.err, text, sizeof(text));
        json_object_set_new(o, "failed", json_string(text));
        return o;
    }
    if (r->is_search) {
        json_object_set_new(o, "points", points_json(r->points));
        return o;
    }
    json_object_set_new(o, "jct_s", json_real(res->jct_s));
    json_object_set_new(o, "ttft_s", json_real(res->ttft_s.mean));
    json_object_set_new(o, "ttft_breakdown_s",
                        json_pack("{s:f, s:f, s:f, s:f}", "sched", res->sched_s, "alloc",
                                  res->alloc_s, "read", res->read_s, "prefill", res->prefill_s));
    json_object_set_new(o, "tpot_s", json_real(res->tpot_s.mean));
    json_object_set_new(o, "gpu_hours", json_real(res->gpu_hours));
    json_object_set_new(o, "usd", json_real(res->usd));
    json_object_set_new(o, "pe_snic_frac", json_real(res->utilization[RESULT_PE_SNIC]));
    json_object_set_new(o, "de_snic_frac", json_real(res->utilization[RESULT_DE_SNIC]));
    json_object_set_new(o, "bottleneck",
                        json_pack("{s:s, s:f}", "resource", result_resource_name(res->bottleneck),
                                  "utilization_frac", res->bottleneck_frac));
    json_object_set_new(o, "compared_by", json_string(is_open(r) ? "ttft_s" : "jct_s"));
    add_ratio(o, "against_dualpath_frac", beyond_against(b, r, "dualpath"));
    add_ratio(o, "against_basic_frac", beyond_against(b, r, "basic"));
    return o;
}

int beyond_write_json(const struct beyond_rows *b, FILE *out)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < b->n; i++) {
        json_array_append_new(list, row_json(b, &b->rows[i]));
    }
    int rc =
        list ? json_dumpf(list, out, JSON_SORT_KEYS | JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : -1;
    json_decref(list);
    fprintf(out, "\n");
    return rc || ferror(out) ? -EIO : 0;
}

static void csv_number(double v, FILE *out)
{
    if (!isnan(v)) {
        fprintf(out, "%.9g", v);
    }
}

static void write_csv_row(const struct beyond_rows *b, const struct beyond_row *r, FILE *out)
{
    const struct result *o = &r->outcome.result;
    fprintf(out, "%s,\"%s\",\"%s\",", r->table, r->workload, r->option);
    if (!ran(r)) {
        fprintf(out, ",,,,,,,,,,,,,%s\n", r->left_out ? "left out" : "failed");
        return;
    }
    double wait_frac;
    const char *wait = longest_wait(o, &wait_frac);
    fprintf(out, "%.9g,%.9g,%s,%.6g,%.9g,", o->jct_s, o->ttft_s.mean, wait, wait_frac,
            o->tpot_s.mean);
    csv_number(beyond_against(b, r, "dualpath"), out);
    fprintf(out, ",");
    csv_number(beyond_against(b, r, "basic"), out);
    fprintf(out, ",%s,%.6g,%.6g,%.6g,%.9g,%.9g,\n", result_resource_name(o->bottleneck),
            o->bottleneck_frac, o->utilization[RESULT_PE_SNIC], o->utilization[RESULT_DE_SNIC],
            o->gpu_hours, o->usd);
}

int beyond_write_csv(const struct beyond_rows *b, FILE *out)
{
    fprintf(out, "table,workload,option,jct_s,ttft_s,longest_wait,longest_wait_frac,tpot_s,against_"
                 "dualpath_frac,against_basic_"
                 "frac,bottleneck,bottleneck_frac,pe_snic_frac,de_snic_frac,gpu_hours,usd,note\n");
    for (size_t i = 0; i < b->n; i++) {
        if (!b->rows[i].is_search) {
            write_csv_row(b, &b->rows[i], out);
        }
    }
    for (size_t i = 0; i < b->n; i++) {
        if (b->rows[i].is_search && ran(&b->rows[i])) {
            fprintf(out, "\n");
            tool_latency_write_csv(b->rows[i].points, b->rows[i].workload, out);
        }
    }
    return ferror(out) ? -EIO : 0;
}
