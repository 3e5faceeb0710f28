/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The table of trace formats. A new one is a file trace_<name>.c and a row in trace_formats.c. */
#ifndef DUALPATH_INPUT_TRACE_FORMATS_H
#define DUALPATH_INPUT_TRACE_FORMATS_H

#include "base/err.h"
#include "input/trace_build.h"
#include "input/trace_probe.h"

struct trace_format {
    const char *name;
    enum trace_probe_kind kind;
    const char *const *fields; /* the keys or columns that it has, as a rule; ends with NULL */
    /* Whether a file that begins so is of this format; NULL: when it has all the fields. */
    bool (*detect)(const struct trace_probe *probe);
    /* Adds the sessions of one file; NULL: recognised, but not supported. */
    int (*read)(struct trace_build *b, const char *path, struct err *err);
    const char *about; /* what it is, for messages */
};

/* Ends with a row whose name is NULL. The first row that detects wins. */
extern const struct trace_format trace_formats[];

/* The format called name (NULL: the one that path is of). On failure returns a negative errno, with
 * err naming what was recognised or the formats there are. */
int trace_format_find(const char *name, const char *path, const struct trace_format **ret_format,
                      struct err *err);

int trace_read_dualpath(struct trace_build *b, const char *path, struct err *err);
int trace_read_mooncake(struct trace_build *b, const char *path, struct err *err);
int trace_read_weka(struct trace_build *b, const char *path, struct err *err);
int trace_read_bailian(struct trace_build *b, const char *path, struct err *err);
int trace_read_ragpulse(struct trace_build *b, const char *path, struct err *err);
int trace_read_llmservingsim(struct trace_build *b, const char *path, struct err *err);
int trace_read_azure(struct trace_build *b, const char *path, struct err *err);
int trace_read_burstgpt(struct trace_build *b, const char *path, struct err *err);
int trace_read_vidur(struct trace_build *b, const char *path, struct err *err);
int trace_read_splitwise(struct trace_build *b, const char *path, struct err *err);
int trace_read_tracelab(struct trace_build *b, const char *path, struct err *err);

#endif
