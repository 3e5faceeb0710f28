/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"

static void print_help(FILE *out)
{
    fprintf(out, "Usage: dualpath COMMAND [ARGUMENTS]\n\n");
    for (const struct command *c = cli_commands; c->name; c++) {
        fprintf(out, "  %-10s %s\n", c->name, c->summary);
    }
    fprintf(out, "\n'dualpath COMMAND --help' explains a command. 'dualpath --version' prints the "
                 "version.\n");
}

/* What did not reach stdout is no success. */
static int written(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return status;
    }
    fprintf(stderr, "dualpath: cannot write to the standard output: %s\n", strerror(errno));
    return status == EXIT_OK ? EXIT_RUN_FAILED : status;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return EXIT_BAD_INPUT;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("dualpath %s\n", DUALPATH_VERSION);
        return EXIT_OK;
    }
    for (const struct command *c = cli_commands; c->name; c++) {
        if (strcmp(argv[1], c->name) == 0) {
            return written(c->run(argc - 1, argv + 1));
        }
    }
    fprintf(stderr, "dualpath: unknown command '%s'\nTry 'dualpath --help'.\n", argv[1]);
    return EXIT_BAD_INPUT;
}
