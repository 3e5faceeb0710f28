/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/paper.h"

/* Settings in the order and under the names of a cell. */
static const struct {
    const char *path, *name;
} parts[] = {
    {"cluster.prefill_nodes", "prefill_nodes"},
    {"cluster.decode_nodes", "decode_nodes"},
    {"workload.max_len_tok", "max_len"},
    {"workload.agents", "agents"},
    {"workload.arrival.aps", "aps"},
    {"workload.append_scale", "append_scale"},
    {"workload.generation_scale", "generation_scale"},
    {"system.preset", "system"},
};
#define N_PARTS (sizeof(parts) / sizeof(parts[0]))

static void cell_text(const struct paper_row *row, char *buf, size_t size)
{
    size_t at = 0;
    snprintf(buf, size, "%s", row->cell);
    for (size_t i = 0; row->target && i < N_PARTS && at < size; i++) {
        const char *value = target_setting(row->target, parts[i].path);
        bool agents_of_rate = strcmp(parts[i].name, "agents") == 0 &&
                              target_setting(row->target, "workload.arrival.aps");
        if (value && !agents_of_rate) {
            at += (size_t)snprintf(buf + at, size - at, "%s%s %s", at ? ", " : "", parts[i].name,
                                   value);
        }
    }
}

static void figure(double v, char *buf, size_t size)
{
    snprintf(buf, size, "%.4g", v);
    if (fabs(v) >= 1000 && fabs(v) < 1e6) {
        snprintf(buf, size, "%.0f", v);
    }
}

static void write_row(const struct paper_row *row, FILE *out)
{
    char cell[256], published[32], ours[32], low[32], high[32];
    cell_text(row, cell, sizeof(cell));
    figure(row->published, published, sizeof(published));
    if (row->err.code) {
        char text[256];
        err_format(&row->err, text, sizeof(text));
        fprintf(out, "  %-9s %-62s %-24s %10s  %s\n", row->model, cell, row->metric, published,
                text);
        return;
    }
    figure(row->ours, ours, sizeof(ours));
    fprintf(out, "  %-9s %-62s %-24s %10s %10s %+7.1f %%  %s", row->model, cell, row->metric,
            published, ours, 100 * paper_error(row), row->fitted ? "fitted" : "predicted");
    if (row->seeds > 1) {
        figure(row->low, low, sizeof(low));
        figure(row->high, high, sizeof(high));
        fprintf(out, ", %u seeds: %s to %s", row->n_values, low, high);
    }
    if (row->n_unsteady > 0) {
        fprintf(out, " (%u%s not steady within the SLO)", row->n_unsteady,
                row->n_values < row->seeds ? " more" : "");
    }
    fprintf(out, "\n");
}

/* Mean absolute error of an experiment's rows, predicted or fitted. */
static void write_mean(const struct paper_report *report, const char *experiment, bool fitted,
                       FILE *out)
{
    double sum = 0;
    unsigned n = 0;
    for (size_t i = 0; i < report->n_rows; i++) {
        const struct paper_row *row = &report->rows[i];
        if (strcmp(row->experiment, experiment) == 0 && row->fitted == fitted && !row->err.code) {
            sum += fabs(paper_error(row));
            n++;
        }
    }
    if (n) {
        fprintf(out, "  mean absolute error of %u %s: %.1f %%\n", n,
                fitted ? "fitted" : "predictions", 100 * sum / n);
    }
}

static bool seen_before(const struct paper_report *report, size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (strcmp(report->rows[k].experiment, report->rows[i].experiment) == 0) {
            return true;
        }
    }
    return false;
}

int paper_write_text(const struct paper_report *report, FILE *out)
{
    for (size_t i = 0; i < report->n_rows; i++) {
        const char *experiment = report->rows[i].experiment;
        if (seen_before(report, i)) {
            continue;
        }
        fprintf(out, "%s\n  %-9s %-62s %-24s %10s %10s %9s\n", experiment, "model", "cell",
                "metric", "published", "ours", "error");
        for (size_t k = i; k < report->n_rows; k++) {
            if (strcmp(report->rows[k].experiment, experiment) == 0) {
                write_row(&report->rows[k], out);
            }
        }
        write_mean(report, experiment, false, out);
        write_mean(report, experiment, true, out);
        fprintf(out, "\n");
    }
    fprintf(out, "Bars (predictions only)\n");
    for (size_t i = 0; i < report->n_bars; i++) {
        const struct paper_bar *b = &report->bars[i];
        fprintf(out, "  %-6s %-58s %8.4g of %.4g%s%s\n", b->holds ? "holds" : "MISSED", b->what,
                b->value, b->limit, b->holds || !b->missed ? "" : ": ",
                b->holds || !b->missed ? "" : b->missed);
    }
    return ferror(out) ? -EIO : 0;
}

static json_t *cell_json(const struct paper_row *row)
{
    json_t *cell = json_pack("{s:s}", "model", row->model);
    if (row->cell[0]) {
        json_object_set_new(cell, "what", json_string(row->cell));
    }
    for (size_t i = 0; row->target && i < N_PARTS; i++) {
        const char *value = target_setting(row->target, parts[i].path);
        char *end = NULL;
        double number = value ? strtod(value, &end) : 0;
        if (value) {
            json_object_set_new(cell, parts[i].name, *end ? json_string(value) : json_real(number));
        }
    }
    if (row->target && row->target->scenario[0]) {
        json_object_set_new(cell, "scenario", json_string(row->target->scenario));
    }
    return cell;
}

static json_t *row_json(const struct paper_row *row)
{
    json_t *o = json_pack("{s:s, s:o, s:s, s:f, s:b, s:i}", "experiment", row->experiment, "cell",
                          cell_json(row), "metric", row->metric, "published", row->published,
                          "fitted", row->fitted, "seeds", (int)row->seeds);
    if (row->err.code) {
        char text[512];
        err_format(&row->err, text, sizeof(text));
        json_object_set_new(o, "failed", json_string(text));
        return o;
    }
    json_object_set_new(o, "ours", json_real(row->ours));
    json_object_set_new(o, "low", json_real(row->low));
    json_object_set_new(o, "high", json_real(row->high));
    json_object_set_new(o, "seeds_not_steady", json_integer(row->n_unsteady));
    json_object_set_new(o, "error_frac", json_real(paper_error(row)));
    return o;
}

int paper_write_json(const struct paper_report *report, FILE *out)
{
    json_t *list = json_array();
    for (size_t i = 0; i < report->n_rows; i++) {
        json_array_append_new(list, row_json(&report->rows[i]));
    }
    for (size_t i = 0; i < report->n_bars; i++) {
        const struct paper_bar *b = &report->bars[i];
        json_array_append_new(
            list, json_pack("{s:s, s:{s:s}, s:s, s:f, s:f, s:b, s:s?}", "experiment", "bar", "cell",
                            "what", b->what, "metric", "error", "ours", b->value, "limit", b->limit,
                            "holds", b->holds, "missed", b->holds ? NULL : b->missed));
    }
    int rc =
        list ? json_dumpf(list, out, JSON_SORT_KEYS | JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : -1;
    json_decref(list);
    fprintf(out, "\n");
    return rc || ferror(out) ? -EIO : 0;
}

int paper_write_csv(const struct paper_report *report, FILE *out)
{
    fprintf(out, "experiment,model,cell,metric,published,ours,error_frac,fitted,seeds,low,high,"
                 "seeds_not_steady\n");
    for (size_t i = 0; i < report->n_rows; i++) {
        const struct paper_row *row = &report->rows[i];
        char cell[256];
        cell_text(row, cell, sizeof(cell));
        fprintf(out, "%s,%s,\"%s\",%s,%.9g,", row->experiment, row->model, cell, row->metric,
                row->published);
        if (row->err.code) {
            fprintf(out, ",,%d,%u,,,\n", row->fitted, row->seeds);
        } else {
            fprintf(out, "%.9g,%.6g,%d,%u,%.9g,%.9g,%u\n", row->ours, paper_error(row), row->fitted,
                    row->seeds, row->low, row->high, row->n_unsteady);
        }
    }
    return ferror(out) ? -EIO : 0;
}
