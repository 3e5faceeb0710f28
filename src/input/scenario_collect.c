/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Collects the values of the scenario file and of --set per key; what is no key is an error. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input/json_file.h"
#include "input/scenario_reading.h"

static bool is_below(const char *path, const char *group)
{
    size_t n = strlen(group);
    return n == 0 || (strncmp(path, group, n) == 0 && path[n] == '.');
}

static bool is_group(const char *path)
{
    for (size_t i = 0; i < scenario_n_keys; i++) {
        if (is_below(scenario_keys[i].path, path)) {
            return true;
        }
    }
    return false;
}

/* The key that a string in place of the group sets, or NULL. */
static const struct scenario_key *group_name_key(const char *group)
{
    size_t n = strlen(group);
    for (size_t i = 0; i < scenario_n_keys; i++) {
        const struct scenario_key *key = &scenario_keys[i];
        if (key->stands_for_group && is_below(key->path, group) &&
            !strchr(key->path + n + 1, '.')) {
            return key;
        }
    }
    return NULL;
}

void scenario_clear(struct scenario_reading *r, const char *group)
{
    for (size_t i = 0; i < scenario_n_keys; i++) {
        if (is_below(scenario_keys[i].path, group)) {
            json_decref(r->values[i].json);
            r->values[i] = (struct scenario_value){0};
        }
    }
}

static void locate(const struct scenario_reading *r, const char *path, unsigned *ret_line,
                   unsigned *ret_column)
{
    char whole[256];
    if (r->above) {
        snprintf(whole, sizeof(whole), "%s%s%s", r->above, path[0] ? "." : "", path);
        path = whole;
    }
    json_locate(r->text, r->size, path, ret_line, ret_column);
}

static void place(struct scenario_reading *r, const char *path, enum scenario_by by)
{
    unsigned line = 0, column = 0;
    if (by == SCENARIO_BY_FILE) {
        locate(r, path, &line, &column);
    }
    err_at(r->err, by == SCENARIO_BY_SET ? "--set" : r->source, line, column);
    if (path[0]) {
        err_field(r->err, "%s", path);
    }
}

/* Among the keys with this last part the one in the path's own group is meant, else the first. */
static const char *path_with_tail(const char *tail, const char *path, const char *const *tails)
{
    const char *dot = strrchr(path, '.'), *best = NULL;
    for (size_t i = 0; i < scenario_n_keys; i++) {
        const char *whole = scenario_keys[i].path;
        bool same_group = dot && strncmp(whole, path, (size_t)(dot + 1 - path)) == 0;
        if (strcmp(tails[i], tail) == 0 && (!best || same_group)) {
            best = whole;
        }
    }
    return best;
}

/*
 * The known path that an unknown one was probably meant to be: compared by its last part first
 * ("cnic_Bps" at the wrong level), then as a whole. NULL when none is near (or memory is short).
 */
static const char *nearest_path(const char *path)
{
    size_t n = scenario_n_keys;
    const char **whole = calloc(2 * n, sizeof(*whole)), **tails = whole + n;
    if (!whole) {
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        const char *dot = strrchr(scenario_keys[i].path, '.');
        whole[i] = scenario_keys[i].path;
        tails[i] = dot ? dot + 1 : whole[i];
    }
    const char *dot = strrchr(path, '.');
    const char *tail = nearest_word(dot ? dot + 1 : path, tails, n);
    const char *near = tail ? path_with_tail(tail, path, tails) : nearest_word(path, whole, n);
    free(whole);
    return near;
}

static int unknown_key(struct scenario_reading *r, const char *path, enum scenario_by by)
{
    static const char *const groups[] = {"model", "cluster", "system", "workload",
                                         "slo",   "timing",  "cost",   "seed"};
    const char *near =
        strchr(path, '.') ? NULL : nearest_word(path, groups, sizeof(groups) / sizeof(*groups));
    near = near ? near : nearest_path(path);
    place(r, path, by);
    return err_set(r->err, -EINVAL, near ? "unknown key, did you mean \"%s\"?" : "unknown key",
                   near);
}

static void put(struct scenario_reading *r, const struct scenario_key *key, const char *path,
                json_t *json, enum scenario_by by)
{
    struct scenario_value *v = &r->values[key - scenario_keys];
    json_decref(v->json);
    *v = (struct scenario_value){.json = json_incref(json), .origin.by = by};
    if (by == SCENARIO_BY_FILE) {
        locate(r, path, &v->origin.line, &v->origin.column);
    }
}

static int take(struct scenario_reading *r, const char *path, json_t *json, enum scenario_by by);

static int take_member(struct scenario_reading *r, const char *group, const char *name,
                       json_t *json, enum scenario_by by)
{
    size_t size = strlen(group) + strlen(name) + 2;
    char *path = malloc(size);
    if (!path) {
        return err_nomem(r->err);
    }
    snprintf(path, size, "%s%s%s", group, group[0] ? "." : "", name);
    int ret;
    if (strchr(name, '.')) {
        place(r, path, by);
        ret = err_set(
            r->err, -EINVAL,
            "a key with a dot, expected nested objects: {\"cluster\": {\"cnic_Bps\": ...}}");
    } else {
        ret = take(r, path, json, by);
    }
    free(path);
    return ret;
}

/* Collects the value at path, of a key or of all below it; recursion is as deep as the table. */
static int take(struct scenario_reading *r, const char *path, json_t *json, enum scenario_by by)
{
    const struct scenario_key *key = scenario_key_find(path);
    if (key) {
        put(r, key, path, json, by);
        return 0;
    }
    if (!is_group(path)) {
        return unknown_key(r, path, by);
    }
    const struct scenario_key *name_key = path[0] ? group_name_key(path) : NULL;
    if (name_key && !json_is_object(json)) {
        put(r, name_key, path, json, by);
        return 0;
    }
    if (!json_is_object(json)) {
        char found[128];
        json_describe(json, found, sizeof(found));
        place(r, path, by);
        return err_set(r->err, -EINVAL, "found %s, expected an object", found);
    }
    const char *name;
    json_t *member;
    int ret = 0;
    json_object_foreach(json, name, member)
    {
        ret = take_member(r, path, name, member, by);
        if (ret < 0) {
            break;
        }
    }
    return ret;
}

/* What follows '=' in a --set: JSON where it is an object for a group, else the text itself. */
static int set_value(struct scenario_reading *r, const char *path, const char *text,
                     json_t **ret_json)
{
    json_t *json = NULL;
    if (text[strspn(text, " ")] == '{' && !scenario_key_find(path)) {
        struct json_file f;
        int ret = json_file_parse("--set", text, strlen(text), &f, r->err);
        if (ret < 0) {
            err_field(r->err, "%s", path);
            return ret;
        }
        json = json_incref(f.root);
        json_file_done(&f);
    } else {
        json = json_string(text);
        if (!json) {
            place(r, path, SCENARIO_BY_SET);
            return err_set(r->err, -EINVAL, "the value is not valid UTF-8");
        }
    }
    *ret_json = json;
    return 0;
}

int scenario_collect_set(struct scenario_reading *r, const char *set)
{
    const char *equals = strchr(set, '=');
    if (!equals || equals == set) {
        err_at(r->err, "--set", 0, 0);
        return err_set(r->err, -EINVAL, "found \"%s\", expected PATH=VALUE", set);
    }
    char *path = strndup(set, (size_t)(equals - set));
    if (!path) {
        return err_nomem(r->err);
    }
    json_t *json = NULL;
    int ret = set_value(r, path, equals + 1, &json);
    if (ret == 0) {
        if (!scenario_key_find(path) && is_group(path)) {
            scenario_clear(r, path);
        }
        ret = take(r, path, json, SCENARIO_BY_SET);
        json_decref(json);
    }
    free(path);
    return ret;
}

/* Before any key is looked at: of a file of another kind all of them would be unknown. */
static int check_schema(struct scenario_reading *r, const json_t *root)
{
    const char *expected = scenario_key_find("schema")->words[0];
    const json_t *schema = json_object_get(root, "schema");
    if (!json_is_object(root) ||
        (json_is_string(schema) && strcmp(json_string_value(schema), expected) == 0)) {
        return 0;
    }
    char found[128];
    json_describe(schema, found, sizeof(found));
    place(r, schema ? "schema" : "", SCENARIO_BY_FILE);
    return err_set(r->err, -EINVAL,
                   "not a dualpath scenario: found %s, expected \"schema\": \"%s\"",
                   schema ? found : "no schema", expected);
}

int scenario_collect_below(struct scenario_reading *r, const char *above, json_t *root)
{
    r->above = above;
    return take(r, "", root, SCENARIO_BY_FILE);
}

int scenario_collect(struct scenario_reading *r, json_t *root)
{
    if (check_schema(r, root) < 0) {
        return r->err->code;
    }
    return take(r, "", root, SCENARIO_BY_FILE);
}
