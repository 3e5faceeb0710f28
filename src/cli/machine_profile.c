/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/machine_profile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input/json_file.h"

#define SCHEMA "dualpath/profile/1"

static int add(struct machine_profile *p, const char *path, const char *value, struct err *err)
{
    size_t size = strlen(path) + strlen(value) + 2;
    char *text = malloc(size);
    char **sets = realloc(p->sets, (p->n + 1) * sizeof(*sets));
    p->sets = sets ? sets : p->sets;
    if (!text || !sets) {
        free(text);
        return err_nomem(err);
    }
    snprintf(text, size, "%s=%s", path, value);
    p->sets[p->n++] = text;
    return 0;
}

static int add_value(struct machine_profile *p, const struct json_file *f, const char *path,
                     const json_t *v, struct err *err)
{
    char number[40], what[80];
    if (json_is_string(v)) {
        return add(p, path, json_string_value(v), err);
    }
    if (json_is_boolean(v)) {
        return add(p, path, json_is_true(v) ? "true" : "false", err);
    }
    if (json_is_integer(v)) {
        snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(v));
        return add(p, path, number, err);
    }
    if (json_is_real(v)) {
        snprintf(number, sizeof(number), "%.17g", json_real_value(v));
        return add(p, path, number, err);
    }
    json_describe(v, what, sizeof(what));
    char place[200];
    snprintf(place, sizeof(place), "scenario.%s", path);
    return json_file_error(f, place, err, "found %s, expected a value", what);
}

static int add_object(struct machine_profile *p, const struct json_file *f, const char *prefix,
                      json_t *object, struct err *err)
{
    const char *name;
    json_t *v;
    json_object_foreach(object, name, v)
    {
        char path[160];
        int n = snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "." : "", name);
        if (n < 0 || (size_t)n >= sizeof(path)) {
            return json_file_error(f, "scenario", err, "a key of %zu characters", strlen(name));
        }
        int rc = json_is_object(v) ? add_object(p, f, path, v, err) : add_value(p, f, path, v, err);
        if (rc) {
            return rc;
        }
    }
    return 0;
}

int machine_profile_read(const char *path, struct machine_profile *ret, struct err *err)
{
    struct json_file f;
    *ret = (struct machine_profile){0};
    int rc = json_file_read(path, &f, err);
    if (rc) {
        return rc;
    }
    const json_t *schema = json_object_get(f.root, "schema");
    json_t *scenario = json_object_get(f.root, "scenario");
    if (!json_is_string(schema) || strcmp(json_string_value(schema), SCHEMA) != 0) {
        rc = json_file_error(&f, schema ? "schema" : "", err,
                             "expected a profile: an object with \"schema\": \"" SCHEMA "\"");
    } else if (!json_is_object(scenario)) {
        rc = json_file_error(&f, scenario ? "scenario" : "", err,
                             "expected \"scenario\", an object of scenario keys");
    } else {
        rc = add_object(ret, &f, "", scenario, err);
    }
    json_file_done(&f);
    return rc;
}

void machine_profile_done(struct machine_profile *p)
{
    for (size_t i = 0; i < p->n; i++) {
        free(p->sets[i]);
    }
    free(p->sets);
    *p = (struct machine_profile){0};
}
