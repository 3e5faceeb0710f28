/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Options, values of them that several commands take, and JSON results. */
#ifndef DUALPATH_CLI_CLI_ARGS_H
#define DUALPATH_CLI_CLI_ARGS_H

#include <getopt.h>
#include <jansson.h>

#include "base/err.h"
#include "base/units.h"

enum cli_format { CLI_TEXT, CLI_JSON };

/* Hands all options of argv to take(), which returns 0 or negative errno with err; optind is then
 * at the first argument that is none. letters are getopt's short options. Returns EXIT_OK, or the
 * exit status after having said what is wrong. */
int cli_options(int argc, char **argv, const char *letters, const struct option *options,
                int (*take)(void *self, int option, struct err *err), void *self);

/* Parses the value of an option ("--cnic") as a quantity above 0. Returns 0, or -EINVAL with err.
 */
int cli_positive(const char *option, enum unit_kind kind, const char *text, double *ret_value,
                 struct err *err);

/* Parses a whole number from 1 to max. Returns 0, or -EINVAL with err. */
int cli_parse_count(const char *option, const char *text, unsigned max, unsigned *ret,
                    struct err *err);

/* "text" or "json". Returns 0, or -EINVAL with err. */
int cli_parse_format(const char *text, enum cli_format *ret_format, struct err *err);

/* Prints a result to stdout, keys sorted, and releases it. Takes NULL as out of memory. Returns an
 * exit status. */
int cli_print_json(json_t *root);

/* A JSON number, or null where the value is infinite: JSON has no name for it. */
json_t *cli_json_number(double value);

#endif
