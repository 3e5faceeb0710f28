/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "plan/paper.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "input/cards.h"
#include "model/card.h"
#include "plan/capacity.h"

/* Of table 1, and of figure 3: "each request has 30K context with 300 tokens appended". */
#define APPEND_TOK        429.0
#define BATCH_CONTEXT_TOK 30000.0
#define BATCH_APPEND_TOK  300.0

#define FAST_AGENTS    1024
#define CAPACITY_STEP  0.025
#define CAPACITY_FIRST 0.1
#define CAPACITY_MOST  2.0
#define ARRIVALS_S     7200
#define SEARCH_SEEDS   3u

double paper_error(const struct paper_row *row)
{
    return row->ours / row->published - 1;
}

struct paper_row *paper_add_row(struct paper_report *report)
{
    if ((report->n_rows & (report->n_rows - 1)) == 0) {
        size_t capacity = report->n_rows ? 2 * report->n_rows : 1;
        struct paper_row *more = realloc(report->rows, capacity * sizeof(*more));
        if (!more) {
            return NULL;
        }
        report->rows = more;
    }
    struct paper_row *row = &report->rows[report->n_rows++];
    *row = (struct paper_row){.seeds = 1};
    return row;
}

/* What kind of work a row needs */

static bool is_metric(const struct target *t, const char *metric)
{
    return strncmp(t->metric, metric, strlen(metric)) == 0;
}

static bool is_search(const struct target *t)
{
    return is_metric(t, "capacity_aps");
}

static bool is_arithmetic(const struct target *t)
{
    return is_metric(t, "cache_gb_per_pflop") || is_metric(t, "batch_efficiency");
}

/* Balance with so many agents: with fewer it takes several seeds. */
static bool is_fast(const struct target *t)
{
    const char *len = target_setting(t, "workload.max_len_tok");
    bool small = !target_is_open(t) && !is_search(t) && target_agents(t) <= FAST_AGENTS && len &&
                 strcmp(len, "64K") != 0;
    bool balance = strcmp(t->experiment, "attention-balance") == 0 ||
                   strcmp(t->experiment, "snic-balance") == 0;
    return is_arithmetic(t) || (small && (strcmp(t->experiment, "fig7") == 0 ||
                                          (balance && target_agents(t) == FAST_AGENTS)));
}

static bool wanted(const struct target *t, const struct paper_options *o)
{
    return (!o->only || strcmp(o->only, t->experiment) == 0) && (!o->fast || is_fast(t));
}

/* Arithmetic */

static double after_at(const char *metric)
{
    const char *at = strchr(metric, '@');
    return at ? strtod(at + 1, NULL) : 0;
}

static int cache_compute(const struct target *t, double *ret, struct err *err)
{
    struct model_card card;
    int rc = card_read(t->model, &card, err);
    if (rc == 0) {
        *ret = 1e6 * card_cache_compute_ratio(&card, after_at(t->metric), APPEND_TOK);
    }
    return rc;
}

/* Time of a forward of n requests on every GPU of an EP group, as in the right half of figure 3. */
static double forward_ns(const struct scenario *sc, double n)
{
    const struct timing_model tm = {
        .card = sc->model, .gpu = sc->cluster.gpu, .config = sc->timing, .tp = sc->system.tp_gpus};
    double busy_ns =
        timing_alike_ns(&tm, n, BATCH_CONTEXT_TOK, BATCH_APPEND_TOK, sc->system.prefill_ep_gpus);
    return timing_forward_fixed_ns(&tm) + timing_forward_ns(&tm, busy_ns);
}

static int batch_efficiency(const struct target *t, double *ret, struct err *err)
{
    struct scenario sc;
    struct scenario_notes notes;
    int rc = scenario_read(t->scenario, (const char *const *)t->sets, t->n_sets, &sc, &notes, err);
    if (rc == 0) {
        scenario_notes_done(&notes);
        double n = after_at(t->metric);
        *ret = n * forward_ns(&sc, 1) / forward_ns(&sc, n);
    }
    return rc;
}

static void compute(struct paper_row *row)
{
    const struct target *t = row->target;
    if (is_metric(t, "cache_gb_per_pflop")) {
        cache_compute(t, &row->ours, &row->err);
    } else {
        batch_efficiency(t, &row->ours, &row->err);
    }
    row->low = row->high = row->ours;
}

/* Seeds */

#define SEED_SIZE 16

static unsigned seeds_of(const struct target *t, const struct paper_options *o)
{
    return o->fast ? 1 : is_search(t) ? SEARCH_SEEDS : target_seeds(t);
}

/* The target's settings and one more, the seed, whose text goes to text[SEED_SIZE]. NULL without
 * memory; the caller frees it. */
static const char **with_seed(const struct target *t, unsigned seed, char *text)
{
    const char **sets = calloc(t->n_sets + 1, sizeof(*sets));
    if (!sets) {
        return NULL;
    }
    for (size_t k = 0; k < t->n_sets; k++) {
        sets[k] = t->sets[k];
    }
    snprintf(text, SEED_SIZE, "seed=%u", seed);
    sets[t->n_sets] = text;
    return sets;
}

static void add_value(struct paper_row *row, double value)
{
    bool first = row->n_values == 0;
    row->low = first || value < row->low ? value : row->low;
    row->high = first || value > row->high ? value : row->high;
    row->ours += (value - row->ours) / ++row->n_values;
}

/* Searches */

static void search(struct paper_row *row, const struct paper_options *options)
{
    const struct target *t = row->target;
    const struct capacity_options co = {
        .step_aps = CAPACITY_STEP,
        .first_aps = CAPACITY_FIRST,
        .most_aps = CAPACITY_MOST,
        .span_s = ARRIVALS_S,
        .runs = {.workers = options->runs.workers, .interrupted = options->runs.interrupted}};
    if (options->searching) {
        options->searching(options->runs.progress_arg, t);
    }
    for (unsigned seed = 1; seed <= row->seeds && !row->err.code; seed++) {
        char text[SEED_SIZE];
        const char **sets = with_seed(t, seed, text);
        const struct run_job base = {t->scenario, sets, t->n_sets + 1, true};
        struct capacity found = {0};
        if (!sets) {
            err_nomem(&row->err);
        } else if (capacity_search(&base, &co, &found, &row->err) == 0) {
            add_value(row, found.aps);
        }
        free(sets);
    }
}

/* Runs */

struct paper_run {
    size_t row;
    const char **sets;
    char seed[SEED_SIZE];
};

static int plan_runs(const struct paper_report *report, struct paper_run *runs,
                     struct run_job *jobs, size_t *ret_n)
{
    size_t n = 0;
    for (size_t i = 0; i < report->n_rows; i++) {
        const struct target *t = report->rows[i].target;
        if (is_search(t) || is_arithmetic(t)) {
            continue;
        }
        for (unsigned seed = 1; seed <= report->rows[i].seeds; seed++, n++) {
            struct paper_run *r = &runs[n];
            r->row = i;
            r->sets = with_seed(t, seed, r->seed);
            if (!r->sets) {
                return -ENOMEM;
            }
            jobs[n] = (struct run_job){t->scenario, r->sets, t->n_sets + 1, target_is_open(t)};
        }
    }
    *ret_n = n;
    return 0;
}

/* Bytes of KV behind the agents in the system, what a cache would have to hold: tok tokens. */
static double working_set(const struct target *t, double tok)
{
    struct scenario sc;
    struct scenario_notes notes;
    struct err err = ERR_INIT;
    if (scenario_read(t->scenario, (const char *const *)t->sets, t->n_sets, &sc, &notes, &err)) {
        return 0;
    }
    scenario_notes_done(&notes);
    return tok * (double)card_kv_bytes_per_tok(&sc.model);
}

static void add_outcome(struct paper_row *row, const struct run_outcome *o)
{
    double value = 0;
    if (row->err.code || o->err.code) {
        row->err = row->err.code ? row->err : o->err;
        return;
    }
    if (is_metric(row->target, "working_set_bytes")) {
        value = working_set(row->target, o->steady.working_set.simulated_tok);
    } else if (is_metric(row->target, "working_set_model_bytes")) {
        value = working_set(row->target, o->steady.working_set.model_tok);
    } else if (target_value(row->metric, o, &value, &row->err)) {
        return;
    }
    add_value(row, value);
}

/* The outcomes of a row's runs follow one another. */
static void add_outcomes(struct paper_row *row, const struct run_outcome *o)
{
    for (unsigned i = 0; i < row->seeds; i++) {
        row->n_unsteady += target_is_open(row->target) && !o[i].err.code && !o[i].steady.reached;
        if (target_counts(row->target, o, row->seeds, i)) {
            add_outcome(row, &o[i]);
        }
    }
}

static int run_rows(struct paper_report *report, const struct paper_options *options,
                    struct err *err)
{
    size_t n = 0, most = report->n_rows * TARGET_MANY_SEEDS;
    struct paper_run *runs = calloc(most + 1, sizeof(*runs));
    struct run_job *jobs = calloc(most + 1, sizeof(*jobs));
    struct run_outcome *outcomes = calloc(most + 1, sizeof(*outcomes));
    int rc =
        runs && jobs && outcomes && plan_runs(report, runs, jobs, &n) == 0 ? 0 : err_nomem(err);
    rc = rc ? rc : runs_execute(jobs, n, &options->runs, outcomes, err);
    for (size_t i = 0; rc == 0 && i < n; i += report->rows[runs[i].row].seeds) {
        add_outcomes(&report->rows[runs[i].row], &outcomes[i]);
    }
    for (size_t i = 0; runs && i < most; i++) {
        free(runs[i].sets);
    }
    free(runs);
    free(jobs);
    free(outcomes);
    return rc;
}

static int take_rows(const struct targets *targets, const struct paper_options *options,
                     struct paper_report *report, struct err *err)
{
    for (size_t i = 0; i < targets->n; i++) {
        const struct target *t = &targets->rows[i];
        if (!wanted(t, options)) {
            continue;
        }
        struct paper_row *row = paper_add_row(report);
        if (!row) {
            return err_nomem(err);
        }
        snprintf(row->experiment, sizeof(row->experiment), "%s", t->experiment);
        snprintf(row->model, sizeof(row->model), "%s", t->model);
        snprintf(row->metric, sizeof(row->metric), "%s", t->metric);
        row->target = t;
        row->published = t->published;
        row->fitted = t->fitted;
        row->seeds = seeds_of(t, options);
    }
    if (report->n_rows == 0) {
        return err_set(err, -EINVAL, "no experiment is called \"%s\"",
                       options->only ? options->only : "");
    }
    return 0;
}

int paper_run(const struct targets *targets, const struct paper_options *options,
              struct paper_report *ret, struct err *err)
{
    struct paper_report report = {0};
    int rc = take_rows(targets, options, &report, err);
    rc = rc ? rc : run_rows(&report, options, err);
    for (size_t i = 0; rc == 0 && i < report.n_rows; i++) {
        struct paper_row *row = &report.rows[i];
        if (is_arithmetic(row->target)) {
            compute(row);
        } else if (is_search(row->target)) {
            search(row, options);
            rc = row->err.code == -ECANCELED ? err_set(err, -ECANCELED, "interrupted") : 0;
        }
    }
    rc = rc ? rc : paper_derive(&report) ? err_nomem(err) : 0;
    if (rc) {
        paper_done(&report);
        return rc;
    }
    *ret = report;
    return 0;
}

void paper_done(struct paper_report *report)
{
    free(report->rows);
    free(report->bars);
    *report = (struct paper_report){0};
}
