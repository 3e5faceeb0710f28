/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <inttypes.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/cmd_trace.h"

/* What 'dualpath run' refuses, though the file is as its format wants it. */
static void print_empty(const char *path, const struct trace_turn *first, uint64_t n)
{
    printf(
        "  %" PRIu64 " x request with a prompt or an output of 0 tokens, which 'dualpath run' "
        "refuses;\n      workload.tolerant=true (--drop-zero-output) drops those without output\n",
        n);
    if (first->line) {
        printf("      first at %s:%" PRIu32 "\n", path, first->line);
    }
}

static void print_result(const char *path, const struct trace *t)
{
    const struct trace_turn *first;
    uint64_t n_empty = trace_empty_turns(t, &first);
    printf("%s: %s, %" PRIu64 " requests in %" PRIu32 " sessions, %s\n", path, t->format,
           t->n_turns, t->n_sessions,
           n_empty        ? "accepted, but not by a run:"
           : t->n_repairs ? "accepted with repairs:"
                          : "clean");
    if (n_empty) {
        print_empty(path, first, n_empty);
    }
    for (uint32_t i = 0; i < t->n_repairs; i++) {
        const struct trace_repair *r = &t->repairs[i];
        printf("  %" PRIu64 " x %s\n", r->count, r->reason);
        if (r->first[0]) {
            printf("      first at %s\n", r->first);
        }
    }
}

int cmd_trace_validate(int argc, char **argv)
{
    struct trace_arguments a;
    int status = trace_parse_arguments(argc, argv, false, &a);
    if (status != EXIT_OK) {
        return status;
    }
    if (a.help) {
        printf("Usage: dualpath trace validate [OPTIONS] FILE...\n\n"
               "Reads traces strictly: exit status 2 when one is not valid. Prints what a reader\n"
               "accepted, changed or skipped. A directory is read as one trace.\n\n%s",
               trace_reader_help);
        return EXIT_OK;
    }
    for (int i = 0; i < a.n_files; i++) {
        struct trace t;
        struct err err = ERR_INIT;
        if (trace_read(a.files[i], &a.options, &t, &err) < 0) {
            status = cli_bad_input(&err); /* the other files are checked all the same */
            continue;
        }
        print_result(a.files[i], &t);
        trace_done(&t);
    }
    return status;
}
