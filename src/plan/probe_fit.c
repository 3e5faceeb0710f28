/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "plan/probe_fit.h"

#include <errno.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_multifit.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

/* A rate that is nowhere the limit; within what the scenario keys allow. */
#define NO_LIMIT_FLOPS 1e18
#define NO_LIMIT_BPS   1e14

/* Share of the best throughput from which on more ops in flight are taken as waiting. */
#define SATURATED_FRAC 0.9

#define MAX_COLUMNS 5

/* Rows of y = sum x_c beta_c, divided by y: least squares of relative errors. */
struct system {
    uint32_t n, n_columns;
    double (*x)[MAX_COLUMNS];
    double *y;
};

static int solve_columns(const struct system *s, const bool used[], double beta[])
{
    uint32_t n_used = 0, columns[MAX_COLUMNS];
    for (uint32_t c = 0; c < s->n_columns; c++) {
        beta[c] = 0;
        if (used[c]) {
            columns[n_used++] = c;
        }
    }
    if (n_used == 0 || s->n < n_used) {
        return -EIO;
    }
    gsl_matrix *x = gsl_matrix_alloc(s->n, n_used), *cov = gsl_matrix_alloc(n_used, n_used);
    gsl_vector *y = gsl_vector_alloc(s->n), *b = gsl_vector_alloc(n_used);
    gsl_multifit_linear_workspace *w = gsl_multifit_linear_alloc(s->n, n_used);
    int rc = x && cov && y && b && w ? 0 : -ENOMEM;
    for (uint32_t i = 0; rc == 0 && i < s->n; i++) {
        gsl_vector_set(y, i, 1);
        for (uint32_t k = 0; k < n_used; k++) {
            gsl_matrix_set(x, i, k, s->x[i][columns[k]] / s->y[i]);
        }
    }
    double chisq;
    if (rc == 0 && gsl_multifit_linear(x, y, b, cov, &chisq, w) != GSL_SUCCESS) {
        rc = -EIO;
    }
    for (uint32_t k = 0; rc == 0 && k < n_used; k++) {
        beta[columns[k]] = gsl_vector_get(b, k);
    }
    gsl_multifit_linear_free(w);
    gsl_vector_free(b);
    gsl_vector_free(y);
    gsl_matrix_free(cov);
    gsl_matrix_free(x);
    return rc;
}

/* Least squares without negative coefficients: the most negative one is left out, and again. Not
 * the optimum of the constrained problem in every case, but costs that hardly matter are what it
 * leaves out. */
static int solve(const struct system *s, double beta[MAX_COLUMNS], struct err *err)
{
    bool used[MAX_COLUMNS];
    for (uint32_t c = 0; c < MAX_COLUMNS; c++) {
        used[c] = c < s->n_columns;
    }
    gsl_error_handler_t *before = gsl_set_error_handler_off();
    uint32_t worst;
    int rc;
    do {
        rc = solve_columns(s, used, beta);
        worst = MAX_COLUMNS;
        for (uint32_t c = 0; rc == 0 && c < s->n_columns; c++) {
            if (beta[c] < 0 && (worst == MAX_COLUMNS || beta[c] < beta[worst])) {
                worst = c;
            }
        }
        if (worst < MAX_COLUMNS) {
            used[worst] = false;
        }
    } while (worst < MAX_COLUMNS);
    gsl_set_error_handler(before);
    return rc ? err_set(err, rc, "the measurements do not determine the model's constants") : 0;
}

static struct probe_fit_error error_of(const struct system *s, const double beta[])
{
    struct probe_fit_error e = {.n_points = s->n};
    for (uint32_t i = 0; i < s->n; i++) {
        double predicted = 0;
        for (uint32_t c = 0; c < s->n_columns; c++) {
            predicted += beta[c] * s->x[i][c];
        }
        double frac = fabs(predicted - s->y[i]) / s->y[i];
        e.mean_frac += frac / s->n;
        e.max_frac = fmax(e.max_frac, frac);
    }
    return e;
}

static int system_new(uint32_t most, struct system *ret, struct err *err)
{
    *ret = (struct system){.x = calloc(most, sizeof(*ret->x)), .y = calloc(most, sizeof(double))};
    return ret->x && ret->y ? 0 : err_nomem(err);
}

static void system_free(struct system *s)
{
    free(s->x);
    free(s->y);
}

/* Computation */

enum { ATTENTION, LINEAR, DECODE, FORWARD_FIXED, DECODE_FIXED };

/* Every rate 1 FLOP/s, memory without limit: times of it are FLOPs. */
static struct timing_model unit_timing(const struct model_card *card)
{
    struct probe_fit one = {.attention_flops = 1, .linear_flops = 1, .decode_flops = 1};
    return probe_fit_timing(&one, card);
}

static void forward_row(const struct timing_model *unit, const struct probe_point *p, double x[])
{
    x[ATTENTION] = timing_attention_ns(unit, p->cached_tok, p->new_tok) / NS_PER_S;
    x[LINEAR] = timing_linear_ns(unit, p->new_tok) / NS_PER_S;
    x[FORWARD_FIXED] = 1;
}

static void decode_row(const struct timing_model *unit, const struct probe_point *p, double x[])
{
    double linear_ns = timing_decode_gpu_ns(unit, p->batch, 0);
    x[LINEAR] = linear_ns / NS_PER_S;
    x[DECODE] =
        (timing_decode_gpu_ns(unit, p->batch, p->batch * p->cached_tok) - linear_ns) / NS_PER_S;
    x[DECODE_FIXED] = 1;
}

static void take_compute(const struct probe_points *ps, const struct timing_model *unit,
                         struct system *forwards, struct system *decodes, struct system *all)
{
    for (uint32_t i = 0; i < ps->n; i++) {
        const struct probe_point *p = &ps->points[i];
        if (p->what != PROBE_FORWARD && p->what != PROBE_DECODE) {
            continue;
        }
        double x[MAX_COLUMNS] = {0};
        bool forward = p->what == PROBE_FORWARD;
        (forward ? forward_row : decode_row)(unit, p, x);
        struct system *const into[] = {forward ? forwards : decodes, all};
        for (unsigned k = 0; k < 2; k++) {
            memcpy(into[k]->x[into[k]->n], x, sizeof(x));
            into[k]->y[into[k]->n++] = p->cpu_ns.median / NS_PER_S;
        }
    }
    forwards->n_columns = decodes->n_columns = all->n_columns = MAX_COLUMNS;
}

static double rate_of(double inverse)
{
    return inverse > 1 / NO_LIMIT_FLOPS ? 1 / inverse : NO_LIMIT_FLOPS;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Never below 1: an engine has a thread, so less is an error of the clocks. */
static int slowdown_of(const struct probe_points *ps, double *ret, struct err *err)
{
    double *ratios = calloc(ps->n, sizeof(*ratios));
    uint32_t n = 0;
    if (!ratios) {
        return err_nomem(err);
    }
    for (uint32_t i = 0; i < ps->n; i++) {
        const struct probe_point *p = &ps->points[i];
        if (p->what == PROBE_FORWARD || p->what == PROBE_DECODE) {
            ratios[n++] = p->time_ns.median / p->cpu_ns.median;
        }
    }
    qsort(ratios, n, sizeof(*ratios), ascending);
    *ret = fmax(1, (ratios[(n - 1) / 2] + ratios[n / 2]) / 2);
    free(ratios);
    return 0;
}

static int fit_compute(const struct probe_points *ps, const struct model_card *card,
                       struct probe_fit *f, struct err *err)
{
    struct timing_model unit = unit_timing(card);
    struct system forwards, decodes, all;
    double beta[MAX_COLUMNS];
    int rc = system_new(ps->n, &forwards, err);
    int rc2 = system_new(ps->n, &decodes, err), rc3 = system_new(ps->n, &all, err);
    rc = rc ? rc : rc2 ? rc2 : rc3;
    if (rc == 0) {
        take_compute(ps, &unit, &forwards, &decodes, &all);
        rc = forwards.n && decodes.n
                 ? solve(&all, beta, err)
                 : err_set(err, -EINVAL, "no forward or no decode step was measured");
    }
    rc = rc ? rc : slowdown_of(ps, &f->slowdown, err);
    if (rc == 0) {
        f->forward_error = error_of(&forwards, beta);
        f->decode_error = error_of(&decodes, beta);
        f->attention_flops = rate_of(beta[ATTENTION] * f->slowdown);
        f->linear_flops = rate_of(beta[LINEAR] * f->slowdown);
        f->decode_flops = rate_of(beta[DECODE] * f->slowdown);
        f->forward_fixed_s = beta[FORWARD_FIXED] * f->slowdown;
        f->decode_fixed_s = beta[DECODE_FIXED] * f->slowdown;
    }
    system_free(&all);
    system_free(&decodes);
    system_free(&forwards);
    return rc;
}

struct timing_model probe_fit_timing(const struct probe_fit *f, const struct model_card *card)
{
    double peak = fmax(f->attention_flops, fmax(f->linear_flops, f->decode_flops));
    return (struct timing_model){.card = *card,
                                 .gpu = {.name = "measured",
                                         .bf16_flops = peak,
                                         .fp8_flops = peak,
                                         .fp4_flops = peak,
                                         .hbm_Bps = NO_LIMIT_BPS,
                                         .hbm_efficiency = 1,
                                         .mfu_attention_prefill = f->attention_flops / peak,
                                         .mfu_indexer_prefill = 1,
                                         .mfu_sparse_prefill = 1,
                                         .mfu_gemm = f->linear_flops / peak,
                                         .mfu_grouped_gemm = 1,
                                         .mfu_attention_decode = f->decode_flops / peak,
                                         .mfu_sparse_decode = 1,
                                         .nvlink_gpus = 1},
                                 .config = {.attention_efficiency = 1,
                                            .linear_efficiency = 1,
                                            .decode_efficiency = 1,
                                            .forward_fixed_s = f->forward_fixed_s,
                                            .decode_fixed_s = f->decode_fixed_s}};
}

/* Storage */

static bool is_storage(const struct probe_point *p, enum probe_what what, uint64_t block_bytes)
{
    return p->what == what && p->size_bytes == block_bytes && p->nodes == 1;
}

static uint32_t deepest(const struct probe_points *ps)
{
    uint32_t depth = 0;
    for (uint32_t i = 0; i < ps->n; i++) {
        if (ps->points[i].what == PROBE_STORAGE_READ && ps->points[i].depth > depth) {
            depth = ps->points[i].depth;
        }
    }
    return depth;
}

static int fit_rate(const struct probe_points *ps, struct probe_fit *f, struct err *err)
{
    struct system s;
    double beta[MAX_COLUMNS];
    uint32_t depth = deepest(ps);
    int rc = system_new(ps->n, &s, err);
    s.n_columns = 2;
    for (uint32_t i = 0; rc == 0 && i < ps->n; i++) {
        const struct probe_point *p = &ps->points[i];
        if (p->what == PROBE_STORAGE_READ && p->nodes == 1 && p->depth == depth) {
            s.x[s.n][0] = 1;
            s.x[s.n][1] = (double)p->size_bytes;
            s.y[s.n++] = (double)p->size_bytes / p->Bps.median;
        }
    }
    rc = rc ? rc : solve(&s, beta, err);
    if (rc == 0 && beta[1] <= 0) {
        rc = err_set(err, -EIO, "storage reads of all sizes take the same time: no rate");
    }
    if (rc == 0) {
        f->snic_Bps = 1 / beta[1];
        f->half_size_bytes = beta[0] / beta[1];
        f->storage_error = error_of(&s, beta);
    }
    system_free(&s);
    return rc;
}

/* Smallest depth that nearly saturates. */
static uint32_t in_service(const struct probe_points *ps, enum probe_what what,
                           uint64_t block_bytes)
{
    double best = 0;
    uint32_t depth = UINT32_MAX;
    for (uint32_t i = 0; i < ps->n; i++) {
        if (is_storage(&ps->points[i], what, block_bytes)) {
            best = fmax(best, ps->points[i].Bps.median);
        }
    }
    for (uint32_t i = 0; i < ps->n; i++) {
        const struct probe_point *p = &ps->points[i];
        if (is_storage(p, what, block_bytes) && p->Bps.median >= SATURATED_FRAC * best &&
            p->depth < depth) {
            depth = p->depth;
        }
    }
    return depth;
}

static void fit_latency(const struct probe_point *alone, double service_s, struct probe_fit *f)
{
    double mean_s = fmax(0, alone->time_ns.median / NS_PER_S - service_s);
    f->storage_latency_sigma = alone->time_sigma;
    f->storage_latency_median_s = mean_s * exp(-alone->time_sigma * alone->time_sigma / 2);
}

static int fit_storage(const struct probe_points *ps, uint64_t block_bytes, struct probe_fit *f,
                       struct err *err)
{
    int rc = fit_rate(ps, f, err);
    if (rc) {
        return rc;
    }
    double work_bytes = (double)block_bytes + f->half_size_bytes;
    bool found = false;
    for (uint32_t i = 0; i < ps->n; i++) {
        const struct probe_point *p = &ps->points[i];
        if (p->what != PROBE_STORAGE_READ || p->size_bytes != block_bytes) {
            continue;
        }
        if (p->nodes == 1 && p->depth == 1) {
            found = true;
            fit_latency(p, work_bytes / f->snic_Bps, f);
        } else if (p->nodes > 1) {
            double all_Bps = p->Bps.median * p->nodes * work_bytes / (double)block_bytes;
            f->storage_cluster_Bps = all_Bps < p->nodes * f->snic_Bps ? all_Bps : 0;
        }
    }
    f->reads_in_service = in_service(ps, PROBE_STORAGE_READ, block_bytes);
    f->writes_in_service = in_service(ps, PROBE_STORAGE_WRITE, block_bytes);
    return found && f->writes_in_service != UINT32_MAX
               ? 0
               : err_set(err, -EINVAL, "storage was not measured at a run's block, %llu bytes",
                         (unsigned long long)block_bytes);
}

/* Copies and messages */

static double best_Bps(const struct probe_points *ps, enum probe_what what)
{
    double best = 0;
    for (uint32_t i = 0; i < ps->n; i++) {
        if (ps->points[i].what == what) {
            best = fmax(best, ps->points[i].Bps.median);
        }
    }
    return best;
}

static const struct probe_point *smallest_alone(const struct probe_points *ps, enum probe_what what)
{
    const struct probe_point *best = NULL;
    for (uint32_t i = 0; i < ps->n; i++) {
        const struct probe_point *p = &ps->points[i];
        if (p->what == what && p->depth == 1 && (!best || p->size_bytes < best->size_bytes)) {
            best = p;
        }
    }
    return best;
}

static int fit_copies(const struct probe_points *ps, enum probe_what transport, struct probe_fit *f,
                      struct err *err)
{
    const struct probe_point *copy = smallest_alone(ps, transport);
    const struct probe_point *message = smallest_alone(ps, PROBE_MESSAGE);
    f->cnic_Bps = best_Bps(ps, transport);
    f->dram_Bps = 2 * best_Bps(ps, PROBE_COPY_MEM);
    if (!copy || !message || f->dram_Bps <= 0) {
        return err_set(err, -EINVAL, "no %s was measured",
                       probe_what_name(!copy      ? transport
                                       : !message ? PROBE_MESSAGE
                                                  : PROBE_COPY_MEM));
    }
    f->transfer_latency_s =
        fmax(0, copy->time_ns.median / NS_PER_S - (double)copy->size_bytes / f->cnic_Bps);
    f->message_latency_s = message->time_ns.median / NS_PER_S;
    return 0;
}

static int check_card(const struct model_card *card, struct err *err)
{
    if (card_moe_layers(card) > 0 || card->attention == ATTENTION_DSA || card->n_window_layers) {
        err_field(err, "model");
        return err_set(err, -EINVAL,
                       "found experts, sparse attention or window layers, expected a dense model "
                       "with full attention: what this machine computes has none of them");
    }
    return 0;
}

int probe_fit(const struct probe_points *ps, const struct model_card *card, uint64_t block_bytes,
              enum probe_what transport, struct probe_fit *ret, struct err *err)
{
    struct probe_fit f = {0};
    int rc = check_card(card, err);
    rc = rc ? rc : fit_compute(ps, card, &f, err);
    rc = rc ? rc : fit_storage(ps, block_bytes, &f, err);
    rc = rc ? rc : fit_copies(ps, transport, &f, err);
    if (rc == 0) {
        *ret = f;
    }
    return rc;
}
