/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The commands. One file per command (cmd_<name>.c); only this room prints to a person or decides
 * the exit status. A command gets argv[0] = its own name and returns an exit status below.
 */
#ifndef DUALPATH_CLI_CLI_H
#define DUALPATH_CLI_CLI_H

#include <stdatomic.h>

#include "base/err.h"

enum exit_status {
    EXIT_OK = 0,
    EXIT_RUN_FAILED = 1,
    EXIT_BAD_INPUT = 2, /* wrong usage or bad input */
    EXIT_NO_DEVICE = 77,
    EXIT_INTERRUPTED = 130,
};

struct command {
    const char *name;
    const char *summary; /* one line for the help text */
    int (*run)(int argc, char **argv);
};

/* Prints "dualpath: source:line:column: field: text" to stderr. Returns EXIT_BAD_INPUT, or
 * EXIT_RUN_FAILED where memory ran out, which is not the input's fault. */
int cli_bad_input(const struct err *err);

/* Prints the same, of a run: returns EXIT_INTERRUPTED of one that was cancelled, EXIT_BAD_INPUT of
 * one that its input does not allow (-EINVAL), else EXIT_RUN_FAILED. */
int cli_run_failed(const struct err *err);

/* Prints "dualpath COMMAND: message" and how to get help to stderr; returns EXIT_BAD_INPUT. */
int cli_usage(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* From the call on, SIGINT and SIGTERM set cli_interrupted instead of ending the process. */
extern atomic_bool cli_interrupted;
void cli_catch_interrupts(void);

#endif
