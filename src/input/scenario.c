/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * From JSON to a resolved scenario: first every value of the file and of --set is collected per key
 * (later wins), then profiles, defaults, preset and values are laid over each other in this order,
 * then what depends on several keys is settled and checked.
 */
#include "input/scenario.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "input/cards.h"
#include "input/json_file.h"
#include "input/scenario_reading.h"

/* Gives every key without a value the text of the table's default. */
static int take_defaults(struct scenario_reading *r)
{
    for (size_t i = 0; i < scenario_n_keys; i++) {
        const struct scenario_key *key = &scenario_keys[i];
        struct scenario_value *v = &r->values[i];
        if (v->json) {
            continue;
        }
        if (key->fallback) {
            v->json = json_string(key->fallback);
            if (!v->json) {
                return err_nomem(r->err);
            }
        } else if (key->from_profile) {
            v->origin.by = SCENARIO_BY_PROFILE;
        } else {
            char field[128];
            scenario_key_field(key, field, sizeof(field));
            err_at(r->err, r->source, 1, 1);
            err_field(r->err, "%s", field);
            return key->words ? err_set(r->err, -EINVAL, "missing, expected \"%s\"", key->words[0])
                              : err_set(r->err, -EINVAL, "missing, expected %s", key->doc);
        }
    }
    return 0;
}

static struct scenario_value *value_of(struct scenario_reading *r, const char *path)
{
    return &r->values[scenario_key_find(path) - scenario_keys];
}

/* The preset's switches, where they are not set explicitly. */
static int take_preset(struct scenario_reading *r)
{
    const struct scenario_key *key = scenario_key_find("system.preset");
    struct scenario_value *preset = value_of(r, "system.preset");
    if (preset->json && scenario_decode(r, key, preset) < 0) {
        return r->err->code;
    }
    const char *name = preset->json ? r->sc.system.preset : key->fallback;
    for (size_t p = 0; p < scenario_n_presets; p++) {
        for (size_t k = 0; k < PRESET_N_KEYS && strcmp(scenario_presets[p].name, name) == 0; k++) {
            struct scenario_value *v = value_of(r, scenario_preset_keys[k]);
            if (v->json || !scenario_presets[p].values[k]) {
                continue;
            }
            v->json = json_string(scenario_presets[p].values[k]);
            v->origin.by = SCENARIO_BY_PRESET;
            if (!v->json) {
                return err_nomem(r->err);
            }
        }
    }
    return 0;
}

int scenario_find_file(const char *scenario_path, const char *name, char *buf, size_t size)
{
    const char *slash = strrchr(scenario_path, '/');
    int n = 0;
    if (slash && name[0] != '/') {
        n = snprintf(buf, size, "%.*s/%s", (int)(slash - scenario_path), scenario_path, name);
        if (n >= 0 && (size_t)n < size && access(buf, F_OK) == 0) {
            return 0;
        }
    }
    n = snprintf(buf, size, "%s", name);
    if (n < 0 || (size_t)n >= size) {
        return -ENAMETOOLONG;
    }
    return access(buf, F_OK) == 0 ? 0 : -ENOENT;
}

static bool is_file_name(const char *name)
{
    size_t n = strlen(name);
    return strchr(name, '/') || (n > 5 && strcmp(name + n - 5, ".json") == 0);
}

/* What to give to card_read() and its like: the name, or the file where it was found. */
static int profile_name(struct scenario_reading *r, const char *path, char *buf, size_t size)
{
    const struct scenario_key *key = scenario_key_find(path);
    const struct scenario_value *v = value_of(r, path);
    int ret = scenario_decode(r, key, v);
    if (ret < 0) {
        return ret;
    }
    const char *name = json_string_value(v->json);
    if (is_file_name(name)) {
        ret = scenario_find_file(r->source, name, buf, size);
    } else {
        ret = (size_t)snprintf(buf, size, "%s", name) < size ? 0 : -ENAMETOOLONG;
    }
    return ret == 0 ? 0 : scenario_key_error(r, key, "\"%s\": %s", name, strerror(-ret));
}

/* An error inside a card's file keeps its place; one about its name gets the scenario's. */
static int profile_error(struct scenario_reading *r, const char *path)
{
    if (r->err->line == 0) {
        const struct scenario_origin *o = scenario_origin_of(r, path);
        char field[128];
        scenario_key_field(scenario_key_find(path), field, sizeof(field));
        r->err->source[0] = '\0';
        err_at(r->err, o->by == SCENARIO_BY_SET ? "--set" : r->source, o->line, o->column);
        err_field(r->err, "%s", field);
    }
    return r->err->code;
}

static int read_profiles(struct scenario_reading *r)
{
    char name[1024];
    r->sc.timing = timing_config_defaults();
    if (profile_name(r, "model.base", name, sizeof(name)) < 0) {
        return r->err->code;
    }
    if (card_read(name, &r->sc.model, r->err) < 0) {
        return profile_error(r, "model.base");
    }
    if (profile_name(r, "cluster.gpu.base", name, sizeof(name)) < 0) {
        return r->err->code;
    }
    if (gpu_read(name, &r->sc.cluster.gpu, r->err) < 0) {
        return profile_error(r, "cluster.gpu.base");
    }
    if (profile_name(r, "cluster.storage.base", name, sizeof(name)) < 0) {
        return r->err->code;
    }
    if (storage_read(name, &r->sc.cluster.storage, r->err) < 0) {
        return profile_error(r, "cluster.storage.base");
    }
    return 0;
}

static int decode_all(struct scenario_reading *r)
{
    for (size_t i = 0; i < scenario_n_keys; i++) {
        if (!r->values[i].json) {
            continue;
        }
        int ret = scenario_decode(r, &scenario_keys[i], &r->values[i]);
        if (ret < 0) {
            return ret;
        }
    }
    return 0;
}

static int finish(struct scenario_reading *r)
{
    int ret = scenario_resolve(r);
    if (ret == 0) {
        ret = scenario_check(r);
    }
    if (ret == 0) {
        ret = scenario_check_units(r);
    }
    if (ret == 0) {
        ret = scenario_check_unused(r);
    }
    if (ret == 0) {
        ret = scenario_check_fit(r);
    }
    char *canonical = ret == 0 ? scenario_canonical(&r->sc) : NULL;
    r->notes.origins = calloc(scenario_n_keys, sizeof(*r->notes.origins));
    if (ret == 0 && (!canonical || !r->notes.origins)) {
        ret = err_nomem(r->err);
    }
    if (ret == 0) {
        scenario_sha256(canonical, r->sc.sha256);
        for (size_t i = 0; i < scenario_n_keys; i++) {
            r->notes.origins[i] = r->values[i].origin;
        }
    }
    free(canonical);
    return ret;
}

static int read_all(struct scenario_reading *r, json_t *root, const char *const *sets,
                    size_t n_sets)
{
    int ret = scenario_collect(r, root);
    for (size_t i = 0; ret == 0 && i < n_sets; i++) {
        ret = scenario_collect_set(r, sets[i]);
    }
    if (ret == 0) {
        ret = scenario_take_profile(r);
    }
    if (ret == 0) {
        ret = take_preset(r);
    }
    if (ret == 0) {
        ret = take_defaults(r);
    }
    if (ret == 0) {
        ret = read_profiles(r);
    }
    if (ret == 0) {
        ret = decode_all(r);
    }
    return ret == 0 ? finish(r) : ret;
}

static int from_json(const struct json_file *file, const char *source, const char *const *sets,
                     size_t n_sets, struct scenario *ret_scenario, struct scenario_notes *ret_notes,
                     struct err *err)
{
    struct scenario_reading r = {
        .source = source, .text = file->text, .size = file->size, .err = err};
    r.values = calloc(scenario_n_keys, sizeof(*r.values));
    if (!r.values) {
        return err_nomem(err);
    }
    snprintf(r.sc.path, sizeof(r.sc.path), "%s", source);
    int ret = read_all(&r, file->root, sets, n_sets);
    scenario_clear(&r, "");
    free(r.values);
    if (ret < 0) {
        scenario_notes_done(&r.notes);
        return ret;
    }
    *ret_scenario = r.sc;
    *ret_notes = r.notes;
    return 0;
}

int scenario_parse(const char *source, const char *text, size_t size, const char *const *sets,
                   size_t n_sets, struct scenario *ret_scenario, struct scenario_notes *ret_notes,
                   struct err *err)
{
    struct json_file file;
    int ret = json_file_parse(source, text, size, &file, err);
    if (ret < 0) {
        return ret;
    }
    ret = from_json(&file, source, sets, n_sets, ret_scenario, ret_notes, err);
    json_file_done(&file);
    return ret;
}

/* A name without '/' and ".json" is a shipped scenario's. */
static int shipped_path(const char *name, char *buf, size_t size, struct err *err)
{
    const char *dir = cards_data_dir();
    int n = dir ? snprintf(buf, size, "%s/%s.json", dir, name) : -1;
    if (n >= 0 && (size_t)n < size && access(buf, F_OK) == 0) {
        return 0;
    }
    char **names;
    const char *near = NULL;
    size_t n_names = 0;
    if (dir && cards_names("", &names, err) == 0) {
        while (names[n_names]) {
            n_names++;
        }
        near = nearest_word(name, (const char *const *)names, n_names);
        if (near) {
            err_set(err, -ENOENT, "no such scenario, did you mean \"%s\"?", near);
        }
        cards_names_free(names);
    }
    err_at(err, name, 0, 0);
    return err_set(err, -ENOENT,
                   "no such scenario, expected a file or the name of a shipped one ('dualpath list "
                   "scenarios')");
}

int scenario_read(const char *path, const char *const *sets, size_t n_sets,
                  struct scenario *ret_scenario, struct scenario_notes *ret_notes, struct err *err)
{
    struct json_file file;
    char shipped[1024];
    if (!is_file_name(path) && access(path, F_OK) != 0) {
        int ret = shipped_path(path, shipped, sizeof(shipped), err);
        if (ret < 0) {
            return ret;
        }
        path = shipped;
    }
    int ret = json_file_read(path, &file, err);
    if (ret < 0) {
        return ret;
    }
    ret = from_json(&file, path, sets, n_sets, ret_scenario, ret_notes, err);
    json_file_done(&file);
    return ret;
}

void scenario_notes_done(struct scenario_notes *notes)
{
    for (size_t i = 0; i < notes->n_warnings; i++) {
        free(notes->warnings[i]);
    }
    free(notes->warnings);
    free(notes->origins);
    *notes = (struct scenario_notes){0};
}
