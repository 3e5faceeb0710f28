/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/cmd_trace_generate.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "input/generator.h"
#include "input/workload.h"

#define COMMAND "trace generate"

static const char help[] =
    "Usage: dualpath trace generate --max-len LENGTH [--trajectories N] [--seed N] [-o FILE]\n"
    "\n"
    "Writes agent sessions like the DeepSeek coding trajectories, in the project's own trace "
    "format.\n"
    "\n"
    "  --max-len LENGTH   longest trajectory in tokens, 32K to 64K\n"
    "  --trajectories N   how many (500)\n"
    "  --seed N           random seed (1)\n"
    "  -o, --output FILE  where to; standard output when left out\n";

struct generate_options {
    uint64_t max_len_tok, seed;
    uint32_t trajectories;
    const char *output;
    bool help;
};

static int parse_integer(const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (errno || end == text || *end || strchr(text, '-') || v < min || v > max) {
        return -EINVAL;
    }
    *ret = v;
    return 0;
}

static int parse_option(int option, const char *value, struct generate_options *o)
{
    uint64_t n;
    double tok;
    switch (option) {
    case 'm':
        if (units_parse(UNIT_TOK, value, &tok) || tok < 1 || tok != floor(tok) ||
            tok > UINT32_MAX) {
            return cli_usage(COMMAND, "--max-len: found '%s', expected %s", value,
                             units_expected(UNIT_TOK));
        }
        o->max_len_tok = (uint64_t)tok;
        return EXIT_OK;
    case 't':
        if (parse_integer(value, 1, UINT32_MAX - 1, &n)) {
            return cli_usage(COMMAND, "--trajectories: found '%s', expected a whole number from 1",
                             value);
        }
        o->trajectories = (uint32_t)n;
        return EXIT_OK;
    case 's':
        if (parse_integer(value, 0, UINT64_MAX, &o->seed)) {
            return cli_usage(COMMAND, "--seed: found '%s', expected a whole number from 0", value);
        }
        return EXIT_OK;
    case 'o':
        o->output = value;
        return EXIT_OK;
    default:
        o->help = true;
        return EXIT_OK;
    }
}

static int parse_options(int argc, char **argv, struct generate_options *o)
{
    static const struct option options[] = {
        {"max-len", required_argument, NULL, 'm'}, {"trajectories", required_argument, NULL, 't'},
        {"seed", required_argument, NULL, 's'},    {"output", required_argument, NULL, 'o'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
    };
    *o = (struct generate_options){.trajectories = GENERATOR_TRAJECTORIES, .seed = 1};
    optind = 1;
    int option;
    while ((option = getopt_long(argc, argv, ":o:h", options, NULL)) != -1) {
        if (option == '?' || option == ':') {
            return cli_usage(COMMAND,
                             option == ':' ? "option '%s' needs a value" : "unknown option '%s'",
                             argv[optind - 1]);
        }
        int rc = parse_option(option, optarg, o);
        if (rc) {
            return rc;
        }
    }
    if (optind < argc) {
        return cli_usage(COMMAND, "unexpected argument '%s'", argv[optind]);
    }
    if (!o->help && o->max_len_tok == 0) {
        return cli_usage(COMMAND, "--max-len is missing");
    }
    return EXIT_OK;
}

static int make_workload(const struct generate_options *o, struct workload **ret_workload,
                         struct err *err)
{
    const struct scenario_workload as_it_is = {.trace = GENERATOR_NAME,
                                               .arrival = ARRIVAL_OFFLINE,
                                               .append_scale = 1,
                                               .generation_scale = 1,
                                               .tool_latency_scale = 1};
    struct trace trace;
    int rc = generator_make(o->max_len_tok, o->trajectories, o->seed, &trace, err);
    if (rc) {
        err_field(err, "--max-len");
        return rc;
    }
    return workload_from_trace(&trace, &as_it_is, 0, 1, o->seed, ret_workload, err);
}

/* Returns an exit status: a file that cannot be made is a wrong argument, a full disk is not. */
static int write_file(const struct workload *w, const char *path)
{
    struct err err = ERR_INIT;
    struct output o;
    if (output_open(&o, path, &err)) {
        return cli_bad_input(&err);
    }
    int rc = workload_export(w, path ? o.file : stdout, &err);
    rc = rc ? rc : output_commit(&o, &err);
    output_discard(&o);
    if (rc) {
        cli_bad_input(&err);
        return EXIT_RUN_FAILED;
    }
    return EXIT_OK;
}

int cmd_trace_generate(int argc, char **argv)
{
    struct generate_options o;
    int status = parse_options(argc, argv, &o);
    if (status) {
        return status;
    }
    if (o.help) {
        fputs(help, stdout);
        return EXIT_OK;
    }
    struct err err = ERR_INIT;
    struct workload *w;
    if (make_workload(&o, &w, &err)) {
        return cli_bad_input(&err);
    }
    status = write_file(w, o.output);
    workload_free(w);
    return status;
}
