/* SPDX-License-Identifier: GPL-3.0-or-later */
/* dualpath paper --only beyond: options that the paper does not have, on the same workloads. */
#ifndef DUALPATH_CLI_PAPER_BEYOND_H
#define DUALPATH_CLI_PAPER_BEYOND_H

#include <stdbool.h>

#include "cli/output.h"
#include "plan/runs.h"

struct paper_beyond_args {
    const char *table;         /* NULL: all */
    const char *rows, *format; /* rows NULL: the shipped ones */
    bool check;                /* a row that failed is a failure */
    struct runs_options runs;
};

/* Whether the value of --only is meant: "beyond" or "beyond:TABLE"; then also *ret_table. */
bool paper_beyond_meant(const char *only, const char **ret_table);

/* Writes to an open output. Returns an exit status. */
int paper_beyond(const struct paper_beyond_args *a, struct output *o);

#endif
