/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/types.h>

#include "input/qos_config.h"

/* Names and defaults of opensm (osm_subnet.c, osm_base.h, QoS_management_in_OpenSM.txt). */
static const struct {
    const char *name, *unset, *fallback;
} fields[OPENSM_FIELDS] = {
    [OPENSM_MAX_VLS] = {"max_vls", "0", "15"},
    [OPENSM_HIGH_LIMIT] = {"high_limit", "-1", "0"},
    [OPENSM_VLARB_HIGH] = {"vlarb_high", "(null)",
                           "0:4,1:0,2:0,3:0,4:0,5:0,6:0,7:0,8:0,9:0,10:0,11:0,12:0,13:0,14:0"},
    [OPENSM_VLARB_LOW] = {"vlarb_low", "(null)",
                          "0:0,1:4,2:4,3:4,4:4,5:4,6:4,7:4,8:4,9:4,10:4,11:4,12:4,13:4,14:4"},
    [OPENSM_SL2VL] = {"sl2vl", "(null)", "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7"},
};

static const char *const sets[] = {"", "ca", "sw0", "swe", "sw2sw", "rtr"};
#define N_SETS (sizeof(sets) / sizeof(sets[0]))

const char *opensm_field_name(enum opensm_field field)
{
    return fields[field].name;
}

const char *opensm_field_default(enum opensm_field field)
{
    return fields[field].fallback;
}

struct value {
    char *text; /* owned; NULL = the file does not set it */
    char name[32];
    unsigned line, column;
};

struct options {
    const char *path;
    struct value value[N_SETS][OPENSM_FIELDS];
    bool enabled;
};

static void options_done(struct options *o)
{
    for (size_t s = 0; s < N_SETS; s++) {
        for (int f = 0; f < OPENSM_FIELDS; f++) {
            free(o->value[s][f].text);
        }
    }
}

static struct value *value_named(struct options *o, const char *key)
{
    for (size_t s = 0; s < N_SETS; s++) {
        for (int f = 0; f < OPENSM_FIELDS; f++) {
            struct value *v = &o->value[s][f];
            snprintf(v->name, sizeof(v->name), "qos_%s%s%s", sets[s], sets[s][0] ? "_" : "",
                     fields[f].name);
            if (strcmp(v->name, key) == 0) {
                return v;
            }
        }
    }
    return NULL;
}

/* Cuts blanks off the end, and quotes around the whole, as opensm does; returns the new start. */
static char *clean(char *text)
{
    size_t n = strlen(text);
    while (n > 0 && isspace((unsigned char)text[n - 1])) {
        text[--n] = '\0';
    }
    if (n >= 2 && (text[0] == '"' || text[0] == '\'') && text[n - 1] == text[0]) {
        text[n - 1] = '\0';
        text++;
    }
    return text;
}

static int set_value(struct options *o, struct value *v, unsigned line, unsigned column,
                     const char *text, struct err *err)
{
    if (v->text) {
        err_at(err, o->path, line, 1);
        err_field(err, "%s", v->name);
        return err_set(err, -EINVAL, "set a second time, expected once (first on line %u)",
                       v->line);
    }
    v->line = line;
    v->column = column;
    v->text = strdup(text);
    return v->text ? 0 : err_nomem(err);
}

static int read_enabled(struct options *o, unsigned line, unsigned column, const char *text,
                        struct err *err)
{
    o->enabled = strcasecmp(text, "TRUE") == 0;
    if (o->enabled || strcasecmp(text, "FALSE") == 0) {
        return 0;
    }
    err_at(err, o->path, line, column);
    err_field(err, "qos");
    return err_set(err, -EINVAL, "found '%.40s', expected TRUE or FALSE", text);
}

static int read_line(struct options *o, char *text, unsigned line, struct err *err)
{
    char *key = text + strspn(text, " \t");
    size_t n = strcspn(key, " \t\r\n");
    char *value = key + n + strspn(key + n, " \t");
    if (n < 3 || strncmp(key, "qos", 3) != 0 || (key[3] != '_' && n != 3)) {
        return 0;
    }
    key[n] = '\0';
    value = clean(value);
    unsigned column = (unsigned)(value - text) + 1;
    if (n == 3) {
        return read_enabled(o, line, column, value, err);
    }
    struct value *v = value_named(o, key);
    if (v) {
        return set_value(o, v, line, column, value, err);
    }
    if (strcmp(key, "qos_policy_file") == 0) {
        return 0;
    }
    err_at(err, o->path, line, (unsigned)(key - text) + 1);
    err_field(err, "%.100s", key);
    return err_set(
        err, -EINVAL,
        "unknown parameter, expected qos_[ca_|sw0_|swe_|sw2sw_|rtr_] followed by max_vls, "
        "high_limit, vlarb_high, vlarb_low or sl2vl");
}

static int read_options(struct options *o, FILE *f, struct err *err)
{
    char *text = NULL;
    size_t size = 0;
    int rc = 0;
    ssize_t length;
    for (unsigned line = 1; rc == 0 && (length = getline(&text, &size, f)) >= 0; line++) {
        if (strlen(text) != (size_t)length) {
            err_at(err, o->path, line, (unsigned)strlen(text) + 1);
            rc = err_set(err, -EINVAL, "found a NUL byte, expected text");
        } else {
            rc = read_line(o, text, line, err);
        }
    }
    free(text);
    if (rc == 0 && ferror(f)) {
        err_at(err, o->path, 0, 0);
        rc = err_set(err, -EIO, "cannot be read");
    }
    return rc;
}

static bool is_unset(const struct value *v, int field)
{
    return !v->text || strcmp(v->text, fields[field].unset) == 0;
}

static int parse_field(struct opensm_qos *q, int field, const struct qos_place *at,
                       const char *text, struct err *err)
{
    switch (field) {
    case OPENSM_MAX_VLS:
        return qos_parse_number(at, text, 1, 15, &q->config.n_vls, err);
    case OPENSM_HIGH_LIMIT:
        return qos_parse_number(at, text, 0, 255, &q->config.high_limit, err);
    case OPENSM_VLARB_HIGH:
        return qos_parse_table(at, text, &q->config.high, err);
    case OPENSM_VLARB_LOW:
        return qos_parse_table(at, text, &q->config.low, err);
    default:
        return qos_parse_sl2vl(at, text, q->sl2vl, err);
    }
}

static int resolve(const struct options *o, size_t set, struct opensm_qos *q, struct err *err)
{
    int rc = 0;
    for (int f = 0; rc == 0 && f < OPENSM_FIELDS; f++) {
        const struct value *v =
            is_unset(&o->value[set][f], f) ? &o->value[0][f] : &o->value[set][f];
        struct qos_place at = {o->path, v->name, v->line, v->column};
        if (is_unset(v, f)) {
            q->defaulted |= 1u << f;
            at = (struct qos_place){"opensm's default", fields[f].name, 1, 1};
            rc = parse_field(q, f, &at, fields[f].fallback, err);
        } else {
            rc = parse_field(q, f, &at, v->text, err);
        }
    }
    return rc;
}

static int find_set(const char *set, size_t *ret_index, struct err *err)
{
    for (size_t s = 0; s < N_SETS; s++) {
        if (strcmp(sets[s], set) == 0) {
            *ret_index = s;
            return 0;
        }
    }
    return err_set(err, -EINVAL, "found '%.40s', expected ca, sw0, swe, sw2sw or rtr", set);
}

int opensm_qos_read(const char *path, const char *set, struct opensm_qos *ret_qos, struct err *err)
{
    size_t index = 0;
    int rc = find_set(set, &index, err);
    if (rc) {
        return rc;
    }
    FILE *f = fopen(path, "r");
    if (!f) {
        rc = -errno;
        err_at(err, path, 0, 0);
        return err_set(err, rc, "cannot be opened: %s", strerror(-rc));
    }
    struct options o = {.path = path};
    struct opensm_qos q = {0};
    rc = read_options(&o, f, err);
    rc = rc ? rc : resolve(&o, index, &q, err);
    q.enabled = o.enabled;
    options_done(&o);
    fclose(f);
    if (rc == 0) {
        *ret_qos = q;
    }
    return rc;
}
