/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A calibration profile: {"schema": "dualpath/profile/1", "name", "source", "fit": how it came
 * about, "scenario": {keys as in a scenario file}}. Its keys stand between the explicit ones, which
 * win, and the preset and the defaults. A group that the scenario names itself ("cluster.storage":
 * "local-nvme") takes nothing from the profile: what was fitted holds for the default only.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input/cards_find.h"
#include "input/json_file.h"
#include "input/scenario_reading.h"

#define SCHEMA "dualpath/profile/1"

static struct scenario_value *value_of(struct scenario_value *values, const char *path)
{
    return &values[scenario_key_find(path) - scenario_keys];
}

/* The scenario's or --set's value names the profile; "" = none. */
static const char *name_of(struct scenario_reading *r)
{
    const struct scenario_value *v = value_of(r->values, "profile");
    return v->json && json_is_string(v->json) ? json_string_value(v->json) : "";
}

static int find(struct scenario_reading *r, const char *name, char *path, size_t size)
{
    size_t n = strlen(name);
    bool is_file = strchr(name, '/') || (n > 5 && strcmp(name + n - 5, ".json") == 0);
    int ret = is_file ? scenario_find_file(r->source, name, path, size)
                      : cards_find("profiles", name, path, size, r->err);
    if (ret == 0) {
        return 0;
    }
    const struct scenario_origin *o = scenario_origin_of(r, "profile");
    r->err->source[0] = '\0';
    err_at(r->err, o->by == SCENARIO_BY_SET ? "--set" : r->source, o->line, o->column);
    err_field(r->err, "profile");
    return err_set(r->err, ret, "\"%s\": %s", name, strerror(-ret));
}

static int check(const struct json_file *f, struct err *err)
{
    static const char *const known[] = {"schema", "name", "source", "fit", "scenario"};
    const json_t *schema = json_object_get(f->root, "schema");
    if (!json_is_string(schema) || strcmp(json_string_value(schema), SCHEMA) != 0) {
        return json_file_error(f, schema ? "schema" : "", err,
                               "expected an object with \"schema\": \"" SCHEMA "\"");
    }
    const char *name;
    json_t *member;
    json_object_foreach(f->root, name, member)
    {
        size_t i = 0;
        while (i < sizeof(known) / sizeof(known[0]) && strcmp(name, known[i]) != 0) {
            i++;
        }
        if (i == sizeof(known) / sizeof(known[0])) {
            return json_file_error(f, name, err,
                                   "unknown key, expected schema, name, source, fit or scenario");
        }
    }
    if (!json_is_object(json_object_get(f->root, "scenario"))) {
        return json_file_error(f, "scenario", err, "missing, expected an object of scenario keys");
    }
    return 0;
}

/* A key of the profile counts unless it, or the name of its group, was given explicitly. */
static bool is_free(const struct scenario_reading *r, size_t i)
{
    const char *path = scenario_keys[i].path;
    if (r->values[i].json) {
        return false;
    }
    for (size_t k = 0; k < scenario_n_keys; k++) {
        const char *base = scenario_keys[k].path;
        const char *dot = strrchr(base, '.');
        if (scenario_keys[k].stands_for_group && dot && r->values[k].json &&
            strncmp(path, base, (size_t)(dot + 1 - base)) == 0) {
            return false;
        }
    }
    return true;
}

/* Every value must be good by itself, so that what is wrong is told of the profile's own file. */
static int check_values(struct scenario_reading *profile)
{
    for (size_t i = 0; i < scenario_n_keys; i++) {
        if (profile->values[i].json && scenario_keys[i].type != KEY_NAME &&
            scenario_decode(profile, &scenario_keys[i], &profile->values[i]) < 0) {
            return profile->err->code;
        }
    }
    return 0;
}

static void merge(struct scenario_reading *r, struct scenario_reading *profile)
{
    for (size_t i = 0; i < scenario_n_keys; i++) {
        struct scenario_value *v = &profile->values[i];
        v->origin.by = SCENARIO_BY_CALIBRATION;
        if (v->json && is_free(r, i)) {
            r->values[i] = *v;
            *v = (struct scenario_value){0};
        }
    }
}

static int collect(struct scenario_reading *r, const char *path, const struct json_file *f)
{
    json_t *root = json_object_get(f->root, "scenario");
    struct scenario_reading profile = {
        .source = path, .text = f->text, .size = f->size, .err = r->err};
    profile.values = calloc(scenario_n_keys, sizeof(*profile.values));
    if (!profile.values) {
        return err_nomem(r->err);
    }
    int ret = scenario_collect_below(&profile, "scenario", root);
    ret = ret < 0 ? ret : check_values(&profile);
    if (ret == 0) {
        merge(r, &profile);
    }
    scenario_clear(&profile, "");
    free(profile.values);
    return ret;
}

int scenario_take_profile(struct scenario_reading *r)
{
    const char *name = name_of(r);
    char path[1024];
    if (!name[0]) {
        return 0;
    }
    int ret = find(r, name, path, sizeof(path));
    if (ret < 0) {
        return ret;
    }
    struct json_file file;
    ret = json_file_read(path, &file, r->err);
    if (ret < 0) {
        return ret;
    }
    ret = check(&file, r->err);
    ret = ret < 0 ? ret : collect(r, path, &file);
    json_file_done(&file);
    return ret;
}
