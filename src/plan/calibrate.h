/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Fits a few constants of the time model to published figures: nonlinear least squares
 * (Levenberg-Marquardt) on r_i = ln(ours / published), in the logarithms of the constants, with a
 * Jacobian from simulations at a 20 % step of each constant (a step that the simulated scheduling
 * decisions do not drown in). A row with several seeds (target_seeds()) counts with their mean;
 * runs with open arrivals stop as the paper's do. All runs of a step are independent and run in
 * parallel; with fixed seeds a calibration is repeatable to the bit.
 *
 * The confidence of a constant is the standard deviation of its logarithm, sqrt(s^2 (J^T J)^-1)
 * with s^2 the sum of squares per degree of freedom: it says how well these figures determine it,
 * given the model, not whether the model is right. With as many constants as figures there is none:
 * whatever they are, they fit.
 */
#ifndef DUALPATH_PLAN_CALIBRATE_H
#define DUALPATH_PLAN_CALIBRATE_H

#include <jansson.h>

#include "base/err.h"
#include "plan/runs.h"
#include "plan/target.h"

/* More would not be a calibration but a table of corrections. */
#define CALIBRATE_MAX_CONSTANTS 6
#define CALIBRATE_MAX_KEYS      3

struct calibrate_constant {
    const char *keys[CALIBRATE_MAX_KEYS]; /* scenario keys that take the value together */
    size_t n_keys;
    const char *reading; /* what it means physically */
    double value;
    double min, max; /* where it makes sense; a fit that leaves them fails */
    double log_std;  /* standard deviation of ln value; 0: nothing is left to judge it by */
};

struct calibrate_fit {
    struct calibrate_constant constants[CALIBRATE_MAX_CONSTANTS];
    size_t n_constants;
    size_t n_targets;
    double start_rms, rms; /* of the log ratios */
    unsigned steps, evaluations;
};

struct calibrate_options {
    unsigned max_steps; /* of the fit */
    struct runs_options runs;
    /* NULL, or after every step of the fit. */
    void (*progress)(void *arg, const struct calibrate_fit *fit);
    void *progress_arg;
};

/*
 * The fit that a profile asks for: its constants with keys, reading, range and starting value, from
 * its "fit" member. The strings belong to profile. -EINVAL with err naming the field.
 */
int calibrate_fit_read(const json_t *profile, const char *path, struct calibrate_fit *ret,
                       struct err *err);

/* Fits to the rows marked "fit" of a model. profile: "NAME" or a file, whose other keys hold. */
int calibrate(const struct targets *targets, const char *model, const char *profile,
              const struct calibrate_options *options, struct calibrate_fit *fit, struct err *err);

/* Puts the fit's values and confidence into the profile. 0 or -ENOMEM. */
int calibrate_fit_write(json_t *profile, const struct calibrate_fit *fit);

#endif
