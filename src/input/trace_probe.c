/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "input/trace_probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input/trace_build.h"

#define LFS_MAGIC "version https://git-lfs"

struct reader {
    struct trace_probe *probe;
    FILE *fp;
    size_t capacity;
};

static int next_solid(FILE *fp)
{
    int c;
    do {
        c = getc(fp);
    } while (c == ' ' || c == '\t' || c == '\r' || c == '\n');
    return c;
}

/* Stands behind the opening quote; reads up to the closing one, keeping what fits. */
static void read_string(FILE *fp, char *buf, size_t size)
{
    size_t n = 0;
    for (int c = getc(fp); c != EOF && c != '"'; c = getc(fp)) {
        if (c == '\\') {
            c = getc(fp);
        }
        if (n + 1 < size && c != EOF) {
            buf[n++] = (char)c;
        }
    }
    buf[n] = '\0';
}

static int add_field(struct reader *r, const char *name)
{
    struct trace_probe *probe = r->probe;
    if (trace_grow(&probe->fields, &r->capacity, probe->n_fields + 1, sizeof(*probe->fields)) < 0) {
        return -ENOMEM;
    }
    struct trace_probe_field *field = &probe->fields[probe->n_fields++];
    *field = (struct trace_probe_field){0};
    snprintf(field->name, sizeof(field->name), "%s", name);
    return 0;
}

/* Reads one value, whose first character is c, keeping its beginning. Returns what follows it. */
static int read_value(FILE *fp, int c, char *buf, size_t size)
{
    size_t depth = 0, n = 0;
    char string[32];
    while (c != EOF && (depth > 0 || (c != ',' && c != '}' && c != ']'))) {
        if (n + 1 < size) {
            buf[n++] = (char)c;
        }
        depth += c == '{' || c == '[';
        depth -= (c == '}' || c == ']') && depth > 0;
        if (c == '"') {
            read_string(fp, string, sizeof(string));
            for (size_t i = 0; string[i] && n + 1 < size; i++) {
                buf[n++] = string[i];
            }
        }
        c = next_solid(fp);
    }
    buf[n] = '\0';
    return c;
}

/* Stands behind '{'. Whatever is not JSON simply ends the probe: the reader will complain. */
static int probe_object(struct reader *r)
{
    char name[64];
    int c = next_solid(r->fp);
    while (c == '"') {
        read_string(r->fp, name, sizeof(name));
        if (next_solid(r->fp) != ':') {
            return 0;
        }
        if (add_field(r, name) < 0) {
            return -ENOMEM;
        }
        struct trace_probe_field *field = &r->probe->fields[r->probe->n_fields - 1];
        c = read_value(r->fp, next_solid(r->fp), field->value, sizeof(field->value));
        if (c == ',') {
            c = next_solid(r->fp);
        }
    }
    return 0;
}

static int probe_line(struct reader *r, int c)
{
    char cell[64];
    size_t n = 0;
    int rc = 0;
    for (; rc == 0; c = getc(r->fp)) {
        /* A NUL byte is no text, and a device may go on with them for ever. */
        bool end = c == EOF || c == '\n' || c == '\r' || c == '\0';
        if (c == ',' || end) {
            cell[n] = '\0';
            n = 0;
            rc = add_field(r, cell);
        } else if (c != '"' && n + 1 < sizeof(cell)) {
            cell[n++] = (char)c;
        }
        if (end) {
            break;
        }
    }
    return rc;
}

static int probe_file(struct reader *r)
{
    int c = next_solid(r->fp);
    if (c == 0xef) { /* a byte order mark */
        c = getc(r->fp) == 0xbb && getc(r->fp) == 0xbf ? next_solid(r->fp) : EOF;
    }
    if (c == EOF) {
        return 0;
    }
    if (c == '{') {
        r->probe->kind = TRACE_PROBE_JSON;
        return probe_object(r);
    }
    r->probe->kind = TRACE_PROBE_TEXT;
    int rc = probe_line(r, c);
    if (rc == 0 && strncmp(r->probe->fields[0].name, LFS_MAGIC, sizeof(LFS_MAGIC) - 1) == 0) {
        r->probe->kind = TRACE_PROBE_GIT_LFS;
    }
    return rc;
}

int trace_probe_open(struct trace_probe *probe, const char *path, struct err *err)
{
    *probe = (struct trace_probe){0};
    struct reader r = {.probe = probe, .fp = fopen(path, "rb")};
    err_at(err, path, 0, 0);
    if (!r.fp) {
        int rc = -errno;
        return err_set(err, rc, "cannot open the file: %s", strerror(-rc));
    }
    int rc = probe_file(&r);
    if (rc == 0 && ferror(r.fp)) {
        rc = -EIO;
    }
    fclose(r.fp);
    if (rc < 0) {
        trace_probe_done(probe);
        return err_set(err, rc, "cannot read the file: %s", strerror(-rc));
    }
    return 0;
}

void trace_probe_done(struct trace_probe *probe)
{
    free(probe->fields);
    *probe = (struct trace_probe){0};
}

const struct trace_probe_field *trace_probe_field(const struct trace_probe *probe, const char *name)
{
    for (size_t i = 0; i < probe->n_fields; i++) {
        if (strcmp(probe->fields[i].name, name) == 0) {
            return &probe->fields[i];
        }
    }
    return NULL;
}

bool trace_probe_has(const struct trace_probe *probe, enum trace_probe_kind kind,
                     const char *const *names)
{
    for (; probe->kind == kind && *names; names++) {
        if (!trace_probe_field(probe, *names)) {
            return false;
        }
    }
    return probe->kind == kind;
}
