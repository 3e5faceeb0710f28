/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The sub-commands of `dualpath trace`, one file each; the table is in cmd_trace.c. */
#ifndef DUALPATH_CLI_CMD_TRACE_H
#define DUALPATH_CLI_CMD_TRACE_H

#include "input/trace.h"

int cmd_trace(int argc, char **argv);

/* argv[0] is the sub-command's own name; returns an exit status. */
int cmd_trace_inspect(int argc, char **argv);
int cmd_trace_validate(int argc, char **argv);

/* What the options below set, and the files that remain. */
struct trace_arguments {
    struct trace_options options;
    bool help, json;
    const char *lru; /* the list as given, NULL: none */
    char **files;
    int n_files;
};

/* The part of a help text that describes the options of every reader. */
extern const char trace_reader_help[];

/*
 * Parses argv of sub-command argv[0]: the reader's options (--trace-format, --block-size,
 * --tolerant,
 * --dedupe, --drop-zero-output, --weka-dialect), and, with inspect, --format and --lru.
 * Returns EXIT_OK, or EXIT_BAD_INPUT after a message.
 */
int trace_parse_arguments(int argc, char **argv, bool inspect, struct trace_arguments *ret_args);

#endif
