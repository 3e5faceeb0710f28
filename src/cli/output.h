/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Output files that appear whole or not at all: written beside their name and renamed at the end.
 * What is no regular file (a device, a pipe) is written to directly. */
#ifndef DUALPATH_CLI_OUTPUT_H
#define DUALPATH_CLI_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"

struct output {
    FILE *file; /* NULL when no path was given */
    const char *path;
    char *target;    /* the file behind path's links, NULL when written to directly */
    char *temporary; /* what becomes target */
};

/* path NULL: nothing is opened. Returns 0, or negative errno with err. */
int output_open(struct output *o, const char *path, struct err *err);

/* Whether both are open for the same regular file. */
bool output_is_same(const struct output *a, const struct output *b);

/* Where a result goes: the file, or stdout where no path was given. */
FILE *output_stream(const struct output *o);

/* Closes and puts the file in place. Returns 0, or negative errno with err; the file is then gone.
 */
int output_commit(struct output *o, struct err *err);

/* Commits when rc, what came of writing to output_stream(), is 0. Returns 0, or negative errno with
 * err. */
int output_end(struct output *o, int rc, struct err *err);

/* Removes what was written; harmless after a commit. */
void output_discard(struct output *o);

#endif
