/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "plan/calibrate.h"

#include <errno.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_multifit_nlinear.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JACOBIAN_STEP 0.2
#define CONVERGED     1e-3 /* relative change of the constants */
#define FAR           10.0 /* residual outside the range of a constant: no step goes there */
#define SETTING_SIZE  160

/* A row to fit to. */
struct fit_row {
    const struct target *target;
    unsigned seeds;
};

struct fitting {
    const struct calibrate_options *options;
    struct calibrate_fit *fit;
    struct fit_row *rows;
    size_t n_rows, n_runs; /* runs: of all rows, one with each seed */
    char profile_set[512];
    double *x_cached, *r_cached; /* the last point evaluated: the Jacobian starts from it */
    struct err *err;
};

/* Evaluation */

/* The settings of one run; texts holds one SETTING_SIZE piece per key of the constants and one for
 * the seed. */
struct settings {
    const char **sets;
    char *texts;
    size_t n;
};

static size_t count_keys(const struct calibrate_fit *fit)
{
    size_t n = 0;
    for (size_t i = 0; i < fit->n_constants; i++) {
        n += fit->constants[i].n_keys;
    }
    return n;
}

static int settings_init(struct settings *s, const struct fitting *f, const struct target *t,
                         const double *x, unsigned seed)
{
    size_t n_keys = count_keys(f->fit), at = 0;
    *s = (struct settings){0};
    s->sets = calloc(t->n_sets + n_keys + 2, sizeof(*s->sets));
    s->texts = calloc(n_keys + 1, SETTING_SIZE);
    if (!s->sets || !s->texts) {
        return -ENOMEM;
    }
    s->sets[s->n++] = f->profile_set;
    for (size_t i = 0; i < f->fit->n_constants; i++) {
        const struct calibrate_constant *c = &f->fit->constants[i];
        for (size_t k = 0; k < c->n_keys; k++) {
            char *text = s->texts + at++ * SETTING_SIZE;
            snprintf(text, SETTING_SIZE, "%s=%.9g", c->keys[k], exp(x[i]));
            s->sets[s->n++] = text;
        }
    }
    for (size_t i = 0; i < t->n_sets; i++) {
        s->sets[s->n++] = t->sets[i];
    }
    char *text = s->texts + at * SETTING_SIZE;
    snprintf(text, SETTING_SIZE, "seed=%u", seed);
    s->sets[s->n++] = text;
    return 0;
}

static void settings_done(struct settings *s)
{
    free(s->sets);
    free(s->texts);
}

/* Of the mean over the seeds, whose runs' outcomes follow one another. */
static int residual(const struct fitting *f, const struct fit_row *row, const struct run_outcome *o,
                    double *ret)
{
    const struct target *t = row->target;
    double mean = 0, n = 0;
    for (unsigned k = 0; k < row->seeds; k++) {
        double value = 0;
        int rc = target_value(t->metric, &o[k], &value, f->err);
        if (rc) {
            return rc;
        }
        if (target_counts(t, o, row->seeds, k)) {
            mean += (value - mean) / ++n;
        }
    }
    if (!(mean > 0)) {
        return err_set(f->err, -ERANGE, "%s is %g, cannot be fitted", t->metric, mean);
    }
    *ret = log(mean / t->published);
    return 0;
}

/* The runs of one point of the logarithms: those of all rows with all their seeds. */
static int plan_point(const struct fitting *f, const double *x, struct settings *settings,
                      struct run_job *jobs)
{
    size_t n = 0;
    for (size_t i = 0; i < f->n_rows; i++) {
        const struct target *t = f->rows[i].target;
        for (unsigned seed = 1; seed <= f->rows[i].seeds; seed++, n++) {
            if (settings_init(&settings[n], f, t, x, seed)) {
                return err_nomem(f->err);
            }
            jobs[n] =
                (struct run_job){t->scenario, settings[n].sets, settings[n].n, target_is_open(t)};
        }
    }
    return 0;
}

/* Residuals of all rows at n_points points of the logarithms, one after the other. */
static int evaluate(struct fitting *f, const double *xs, size_t n_points, double *ret_residuals)
{
    size_t n = n_points * f->n_runs, p = f->fit->n_constants;
    struct settings *settings = calloc(n, sizeof(*settings));
    struct run_job *jobs = calloc(n, sizeof(*jobs));
    struct run_outcome *outcomes = calloc(n, sizeof(*outcomes));
    int rc = settings && jobs && outcomes ? 0 : err_nomem(f->err);
    for (size_t k = 0; rc == 0 && k < n_points; k++) {
        rc = plan_point(f, xs + k * p, settings + k * f->n_runs, jobs + k * f->n_runs);
    }
    rc = rc ? rc : runs_execute(jobs, n, &f->options->runs, outcomes, f->err);
    const struct run_outcome *o = outcomes;
    for (size_t i = 0; rc == 0 && i < n_points * f->n_rows; i++) {
        const struct fit_row *row = &f->rows[i % f->n_rows];
        rc = residual(f, row, o, &ret_residuals[i]);
        o += row->seeds;
    }
    for (size_t i = 0; settings && i < n; i++) {
        settings_done(&settings[i]);
    }
    free(settings);
    free(jobs);
    free(outcomes);
    f->fit->evaluations += (unsigned)n_points;
    return rc;
}

static bool in_range(const struct calibrate_fit *fit, const double *x)
{
    for (size_t i = 0; i < fit->n_constants; i++) {
        double value = exp(x[i]);
        if (value < fit->constants[i].min || value > fit->constants[i].max) {
            return false;
        }
    }
    return true;
}

/* GSL's callbacks */

static int residuals_at(const gsl_vector *x, void *arg, gsl_vector *ret)
{
    struct fitting *f = arg;
    size_t p = f->fit->n_constants;
    bool inside = in_range(f->fit, x->data);
    if (inside) {
        memcpy(f->x_cached, x->data, p * sizeof(double));
        if (evaluate(f, f->x_cached, 1, f->r_cached)) {
            return GSL_EFAILED;
        }
    }
    for (size_t i = 0; i < f->n_rows; i++) {
        gsl_vector_set(ret, i, inside ? f->r_cached[i] : FAR);
    }
    return GSL_SUCCESS;
}

/* Away from the nearer end of the range. */
static double jacobian_step(const struct calibrate_constant *c, double x)
{
    return exp(x) * (1 + JACOBIAN_STEP) <= c->max ? log1p(JACOBIAN_STEP) : -log1p(JACOBIAN_STEP);
}

static int jacobian_at(const gsl_vector *x, void *arg, gsl_matrix *ret)
{
    struct fitting *f = arg;
    size_t p = f->fit->n_constants;
    if (memcmp(f->x_cached, x->data, p * sizeof(double)) != 0) {
        memcpy(f->x_cached, x->data, p * sizeof(double));
        if (evaluate(f, f->x_cached, 1, f->r_cached)) {
            return GSL_EFAILED;
        }
    }
    double *xs = calloc(p * p, sizeof(*xs)), *r = calloc(p * f->n_rows, sizeof(*r));
    int rc = xs && r ? 0 : err_nomem(f->err);
    for (size_t k = 0; rc == 0 && k < p; k++) {
        memcpy(xs + k * p, x->data, p * sizeof(double));
        xs[k * p + k] += jacobian_step(&f->fit->constants[k], x->data[k]);
    }
    rc = rc ? rc : evaluate(f, xs, p, r);
    for (size_t k = 0; rc == 0 && k < p; k++) {
        double step = xs[k * p + k] - gsl_vector_get(x, k);
        for (size_t i = 0; i < f->n_rows; i++) {
            gsl_matrix_set(ret, i, k, (r[k * f->n_rows + i] - f->r_cached[i]) / step);
        }
    }
    free(xs);
    free(r);
    return rc ? GSL_EFAILED : GSL_SUCCESS;
}

static double rms(const gsl_vector *r)
{
    double sum = 0;
    for (size_t i = 0; i < r->size; i++) {
        sum += gsl_vector_get(r, i) * gsl_vector_get(r, i);
    }
    return sqrt(sum / (double)r->size);
}

static void take_values(struct calibrate_fit *fit, const gsl_vector *x)
{
    for (size_t i = 0; i < fit->n_constants; i++) {
        fit->constants[i].value = exp(gsl_vector_get(x, i));
    }
}

static void stepped(const size_t iteration, void *arg, const gsl_multifit_nlinear_workspace *w)
{
    struct fitting *f = arg;
    f->fit->rms = rms(gsl_multifit_nlinear_residual(w));
    f->fit->start_rms = iteration == 0 ? f->fit->rms : f->fit->start_rms;
    f->fit->steps = (unsigned)iteration;
    take_values(f->fit, gsl_multifit_nlinear_position(w));
    if (f->options->progress) {
        f->options->progress(f->options->progress_arg, f->fit);
    }
}

static int take_confidence(struct fitting *f, const gsl_multifit_nlinear_workspace *w)
{
    size_t p = f->fit->n_constants, n = f->n_rows;
    if (n == p) {
        return 0;
    }
    gsl_matrix *covar = gsl_matrix_alloc(p, p);
    if (!covar) {
        return err_nomem(f->err);
    }
    gsl_multifit_nlinear_covar(gsl_multifit_nlinear_jac(w), 0, covar);
    double variance = f->fit->rms * f->fit->rms * (double)n / (double)(n - p);
    for (size_t i = 0; i < p; i++) {
        f->fit->constants[i].log_std = sqrt(variance * gsl_matrix_get(covar, i, i));
    }
    gsl_matrix_free(covar);
    return 0;
}

static int solve(struct fitting *f)
{
    size_t p = f->fit->n_constants;
    gsl_multifit_nlinear_parameters parameters = gsl_multifit_nlinear_default_parameters();
    gsl_multifit_nlinear_fdf fdf = {
        .f = residuals_at, .df = jacobian_at, .n = f->n_rows, .p = p, .params = f};
    gsl_multifit_nlinear_workspace *w =
        gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &parameters, f->n_rows, p);
    gsl_vector *x = gsl_vector_alloc(p);
    int rc = w && x ? 0 : err_nomem(f->err);
    for (size_t i = 0; rc == 0 && i < p; i++) {
        gsl_vector_set(x, i, log(f->fit->constants[i].value));
    }
    if (rc == 0 && gsl_multifit_nlinear_init(x, &fdf, w)) {
        rc = err_set(f->err, -EIO, "the starting point cannot be evaluated");
    }
    if (rc == 0) {
        int info;
        stepped(0, f, w);
        /* No progress below the noise of the simulations ends it as well as convergence does. */
        gsl_multifit_nlinear_driver(f->options->max_steps, CONVERGED, 1e-3, 0, stepped, f, &info,
                                    w);
        rc = f->err->set ? f->err->code : 0;
    }
    if (rc == 0) {
        stepped(gsl_multifit_nlinear_niter(w), f, w);
        rc = take_confidence(f, w);
    }
    gsl_vector_free(x);
    gsl_multifit_nlinear_free(w);
    return rc;
}

static int take_rows(struct fitting *f, const struct targets *targets, const char *model)
{
    size_t p = f->fit->n_constants;
    f->rows = calloc(targets->n ? targets->n : 1, sizeof(*f->rows));
    f->x_cached = calloc(p, sizeof(*f->x_cached));
    f->r_cached = calloc(targets->n ? targets->n : 1, sizeof(*f->r_cached));
    if (!f->rows || !f->x_cached || !f->r_cached) {
        return err_nomem(f->err);
    }
    for (size_t i = 0; i < targets->n; i++) {
        if (targets->rows[i].fitted && strcmp(targets->rows[i].model, model) == 0) {
            struct fit_row *row = &f->rows[f->n_rows++];
            *row = (struct fit_row){&targets->rows[i], target_seeds(&targets->rows[i])};
            f->n_runs += row->seeds;
        }
    }
    f->fit->n_targets = f->n_rows;
    if (f->n_rows < p) {
        return err_set(f->err, -EINVAL,
                       "%zu targets are marked \"fit\" for the model %s, expected at least the %zu "
                       "constants",
                       f->n_rows, model, p);
    }
    return 0;
}

int calibrate(const struct targets *targets, const char *model, const char *profile,
              const struct calibrate_options *options, struct calibrate_fit *fit, struct err *err)
{
    struct fitting f = {.options = options, .fit = fit, .err = err};
    gsl_set_error_handler_off();
    fit->evaluations = 0;
    int n = snprintf(f.profile_set, sizeof(f.profile_set), "profile=%s", profile);
    int rc = n < 0 || (size_t)n >= sizeof(f.profile_set)
                 ? err_set(err, -ENAMETOOLONG, "%s: the path is too long", profile)
                 : take_rows(&f, targets, model);
    rc = rc ? rc : solve(&f);
    free(f.rows);
    free(f.x_cached);
    free(f.r_cached);
    return rc;
}
