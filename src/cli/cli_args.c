/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/cli_args.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

int cli_options(int argc, char **argv, const char *letters, const struct option *options,
                int (*take)(void *self, int option, struct err *err), void *self)
{
    struct err err = ERR_INIT;
    int option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, letters, options, NULL)) != -1) {
        if (option == '?') {
            return cli_usage(argv[0], "unknown option or missing value: '%s'", argv[optind - 1]);
        }
        if (take(self, option, &err)) {
            return cli_bad_input(&err);
        }
    }
    return EXIT_OK;
}

int cli_positive(const char *option, enum unit_kind kind, const char *text, double *ret_value,
                 struct err *err)
{
    double value;
    if (units_parse(kind, text, &value) == 0 && value > 0) {
        *ret_value = value;
        return 0;
    }
    err_at(err, option, 0, 0);
    return err_set(err, -EINVAL, "found '%.60s', expected %s, above 0", text, units_expected(kind));
}

int cli_parse_count(const char *option, const char *text, unsigned max, unsigned *ret,
                    struct err *err)
{
    char *end;
    errno = 0;
    unsigned long value = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
    if (value >= 1 && value <= max && errno == 0 && *end == '\0') {
        *ret = (unsigned)value;
        return 0;
    }
    err_at(err, option, 0, 0);
    return err_set(err, -EINVAL, "found '%.60s', expected a whole number from 1 to %u", text, max);
}

int cli_parse_format(const char *text, enum cli_format *ret_format, struct err *err)
{
    if (strcmp(text, "text") == 0 || strcmp(text, "json") == 0) {
        *ret_format = text[0] == 'j' ? CLI_JSON : CLI_TEXT;
        return 0;
    }
    err_at(err, "--format", 0, 0);
    return err_set(err, -EINVAL, "found '%.60s', expected text or json", text);
}

int cli_print_json(json_t *root)
{
    if (!root) {
        fprintf(stderr, "dualpath: out of memory\n");
        return EXIT_RUN_FAILED;
    }
    int ret = json_dumpf(root, stdout, JSON_SORT_KEYS | JSON_INDENT(2));
    json_decref(root);
    putchar('\n');
    return ret == 0 ? EXIT_OK : EXIT_RUN_FAILED;
}

json_t *cli_json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}
