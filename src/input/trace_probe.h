/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The beginning of a trace file, as far as it tells the formats apart. */
#ifndef DUALPATH_INPUT_TRACE_PROBE_H
#define DUALPATH_INPUT_TRACE_PROBE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum trace_probe_kind {
    TRACE_PROBE_EMPTY,
    TRACE_PROBE_GIT_LFS, /* a git-lfs pointer */
    TRACE_PROBE_JSON,    /* the first value is an object: fields are its own keys */
    TRACE_PROBE_TEXT,    /* anything else: fields are the comma-separated cells of the first line */
};

struct trace_probe_field {
    char name[64];  /* longer ones are cut; no format has such a key */
    char value[32]; /* JSON: how the value begins, from its first character */
};

struct trace_probe {
    enum trace_probe_kind kind;
    struct trace_probe_field *fields;
    size_t n_fields;
};

/* Reads no further than the first value or line. Returns 0 or a negative errno with err set. */
int trace_probe_open(struct trace_probe *probe, const char *path, struct err *err);
void trace_probe_done(struct trace_probe *probe);

/* The field called name, or NULL. */
const struct trace_probe_field *trace_probe_field(const struct trace_probe *probe,
                                                  const char *name);

/* Whether the file is of the kind and has all of the names (NULL-terminated list). */
bool trace_probe_has(const struct trace_probe *probe, enum trace_probe_kind kind,
                     const char *const *names);

#endif
