/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/paper_beyond.h"

#include <errno.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/output.h"
#include "input/cards.h"
#include "plan/beyond.h"

#define GROUP "beyond"

bool paper_beyond_meant(const char *only, const char **ret_table)
{
    size_t n = sizeof(GROUP) - 1;
    if (!only || strncmp(only, GROUP, n) != 0 || (only[n] && only[n] != ':')) {
        return false;
    }
    *ret_table = only[n] ? only + n + 1 : NULL;
    return true;
}

static int write_rows(const struct paper_beyond_args *a, const struct beyond_rows *b,
                      struct output *o, struct err *err)
{
    FILE *out = output_stream(o);
    int rc = a->format[0] == 'j'   ? beyond_write_json(b, out)
             : a->format[0] == 'c' ? beyond_write_csv(b, out)
                                   : beyond_write_text(b, out);
    return output_end(o, rc, err);
}

static bool all_ran(const struct beyond_rows *b)
{
    bool ran = true;
    for (size_t i = 0; i < b->n; i++) {
        ran &= b->rows[i].left_out || b->rows[i].outcome.err.code == 0;
    }
    return ran;
}

static int run_and_write(const struct paper_beyond_args *a, struct beyond_rows *b, struct output *o)
{
    struct err err = ERR_INIT;
    if (beyond_run(b, &a->runs, &err)) {
        return cli_run_failed(&err);
    }
    if (write_rows(a, b, o, &err)) {
        cli_bad_input(&err);
        return EXIT_RUN_FAILED;
    }
    return a->check && !all_ran(b) ? EXIT_RUN_FAILED : EXIT_OK;
}

int paper_beyond(const struct paper_beyond_args *a, struct output *o)
{
    struct err err = ERR_INIT;
    struct beyond_rows b;
    char path[1024];
    const char *dir = cards_data_dir();
    snprintf(path, sizeof(path), "%s/paper/beyond.csv", dir ? dir : ".");
    if (beyond_read(a->rows ? a->rows : path, a->table, &b, &err)) {
        return cli_bad_input(&err);
    }
    int status = run_and_write(a, &b, o);
    beyond_done(&b);
    return status;
}
