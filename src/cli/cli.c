/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

int cli_bad_input(const struct err *err)
{
    char text[1400];
    err_format(err, text, sizeof(text));
    fprintf(stderr, "dualpath: %s\n", text);
    return err->code == -ENOMEM ? EXIT_RUN_FAILED : EXIT_BAD_INPUT;
}

int cli_run_failed(const struct err *err)
{
    cli_bad_input(err);
    return err->code == -ECANCELED ? EXIT_INTERRUPTED
           : err->code == -EINVAL  ? EXIT_BAD_INPUT
                                   : EXIT_RUN_FAILED;
}

int cli_usage(const char *command, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "dualpath %s: ", command);
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\nTry 'dualpath %s --help'.\n", command);
    va_end(ap);
    return EXIT_BAD_INPUT;
}

atomic_bool cli_interrupted;

static void on_signal(int sig)
{
    (void)sig;
    atomic_store(&cli_interrupted, true);
}

void cli_catch_interrupts(void)
{
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
}
