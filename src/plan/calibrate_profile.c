/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The "fit" member of a calibration profile. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "input/scenario_keys.h"
#include "plan/calibrate.h"

static int bad(const char *path, size_t i, const char *member, struct err *err,
               const char *expected)
{
    err_at(err, path, 0, 0);
    err_field(err, "fit.constants[%zu].%s", i, member);
    return err_set(err, -EINVAL, "expected %s", expected);
}

static int read_keys(const json_t *keys, const char *path, size_t i, struct calibrate_constant *c,
                     struct err *err)
{
    c->n_keys = json_array_size(keys);
    if (c->n_keys < 1 || c->n_keys > CALIBRATE_MAX_KEYS) {
        return bad(path, i, "keys", err, "an array of one to three scenario keys");
    }
    for (size_t k = 0; k < c->n_keys; k++) {
        const json_t *key = json_array_get(keys, k);
        c->keys[k] = json_is_string(key) ? json_string_value(key) : "";
        const struct scenario_key *row = scenario_key_find(c->keys[k]);
        if (!row || row->type != KEY_NUMBER) {
            return bad(path, i, "keys", err, "scenario keys that take a number");
        }
    }
    return 0;
}

static int read_constant(const json_t *from, const char *path, size_t i,
                         struct calibrate_constant *c, struct err *err)
{
    const json_t *reading = json_object_get(from, "reading");
    int rc = read_keys(json_object_get(from, "keys"), path, i, c, err);
    if (rc) {
        return rc;
    }
    if (!json_is_string(reading)) {
        return bad(path, i, "reading", err, "what the constant means physically, as text");
    }
    c->reading = json_string_value(reading);
    c->value = json_number_value(json_object_get(from, "value"));
    c->min = json_number_value(json_object_get(from, "min"));
    c->max = json_number_value(json_object_get(from, "max"));
    if (!(c->min > 0 && c->min <= c->value && c->value <= c->max)) {
        return bad(path, i, "value", err, "numbers 0 < min <= value <= max");
    }
    return 0;
}

int calibrate_fit_read(const json_t *profile, const char *path, struct calibrate_fit *ret,
                       struct err *err)
{
    const json_t *constants = json_object_get(json_object_get(profile, "fit"), "constants");
    struct calibrate_fit fit = {.n_constants = json_array_size(constants)};
    if (fit.n_constants < 1 || fit.n_constants > CALIBRATE_MAX_CONSTANTS) {
        err_at(err, path, 0, 0);
        err_field(err, "fit.constants");
        return err_set(err, -EINVAL, "found %zu, expected an array of 1 to %d constants",
                       fit.n_constants, CALIBRATE_MAX_CONSTANTS);
    }
    for (size_t i = 0; i < fit.n_constants; i++) {
        int rc = read_constant(json_array_get(constants, i), path, i, &fit.constants[i], err);
        if (rc) {
            return rc;
        }
    }
    *ret = fit;
    return 0;
}

/* A constant is known to a few digits: no more are written. */
static json_t *rounded(double value, int digits)
{
    char text[32];
    double v = 0;
    snprintf(text, sizeof(text), "%.*g", digits, value);
    sscanf(text, "%lf", &v);
    return json_real(v);
}

static int set_path(json_t *object, const char *path, json_t *value)
{
    char part[128];
    const char *dot;
    while ((dot = strchr(path, '.'))) {
        snprintf(part, sizeof(part), "%.*s", (int)(dot - path), path);
        json_t *below = json_object_get(object, part);
        if (!below) {
            json_object_set_new(object, part, json_object());
            below = json_object_get(object, part);
        }
        object = below;
        path = dot + 1;
    }
    return json_object_set_new(object, path, value);
}

static int write_constant(json_t *profile, json_t *constant, const struct calibrate_constant *c)
{
    json_t *scenario = json_object_get(profile, "scenario");
    int rc = json_object_set_new(constant, "value", rounded(c->value, 4));
    if (c->log_std > 0) {
        rc |= json_object_set_new(constant, "confidence_frac", rounded(c->log_std, 2));
    } else {
        json_object_del(constant, "confidence_frac");
    }
    for (size_t k = 0; k < c->n_keys; k++) {
        rc |= set_path(scenario, c->keys[k], rounded(c->value, 4));
    }
    return rc;
}

int calibrate_fit_write(json_t *profile, const struct calibrate_fit *fit)
{
    json_t *f = json_object_get(profile, "fit"), *constants = json_object_get(f, "constants");
    int rc = json_object_set_new(f, "n_targets", json_integer((json_int_t)fit->n_targets));
    rc |= json_object_set_new(f, "rms_log_error", rounded(fit->rms, 3));
    for (size_t i = 0; i < fit->n_constants; i++) {
        rc |= write_constant(profile, json_array_get(constants, i), &fit->constants[i]);
    }
    return rc ? -ENOMEM : 0;
}
