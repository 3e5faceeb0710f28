/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/cmd_trace.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cmd_trace_generate.h"

static const struct command trace_commands[] = {
    {"inspect", "statistics of traces and the hits of a KV cache", cmd_trace_inspect},
    {"validate", "strict check of traces, with everything a reader would repair",
     cmd_trace_validate},
    {"generate", "makes coding-agent sessions like those of the paper", cmd_trace_generate},
    {NULL, NULL, NULL},
};

const char trace_reader_help[] =
    "  --trace-format F     read as this format instead of detecting it\n"
    "  --block-size N       tokens per block id, for formats that do not say\n"
    "  --tolerant           skip bad rows and count them\n"
    "  --dedupe             drop exact repetitions of the previous request\n"
    "  --drop-zero-output   drop requests without output\n"
    "  --weka-dialect D     v7 or v8, where the file does not tell\n";

enum {
    OPT_HELP = 'h',
    OPT_TRACE_FORMAT = 256,
    OPT_BLOCK_SIZE,
    OPT_TOLERANT,
    OPT_DEDUPE,
    OPT_DROP_ZERO,
    OPT_WEKA_DIALECT,
    OPT_FORMAT, /* from here on: inspect only */
    OPT_LRU,
};

static const struct option long_options[] = {
    {"help", no_argument, NULL, OPT_HELP},
    {"trace-format", required_argument, NULL, OPT_TRACE_FORMAT},
    {"block-size", required_argument, NULL, OPT_BLOCK_SIZE},
    {"tolerant", no_argument, NULL, OPT_TOLERANT},
    {"dedupe", no_argument, NULL, OPT_DEDUPE},
    {"drop-zero-output", no_argument, NULL, OPT_DROP_ZERO},
    {"weka-dialect", required_argument, NULL, OPT_WEKA_DIALECT},
    {"format", required_argument, NULL, OPT_FORMAT},
    {"lru", required_argument, NULL, OPT_LRU},
    {NULL, 0, NULL, 0},
};

static int parse_block_size(const char *text, uint32_t *ret)
{
    char *end;
    errno = 0;
    unsigned long n = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || n == 0 || n > UINT32_MAX) {
        return -EINVAL;
    }
    *ret = (uint32_t)n;
    return 0;
}

static int take_option(const char *command, int opt, struct trace_arguments *a)
{
    switch (opt) {
    case OPT_HELP:
        a->help = true;
        return EXIT_OK;
    case OPT_TRACE_FORMAT:
        a->options.format = optarg;
        return EXIT_OK;
    case OPT_BLOCK_SIZE:
        return parse_block_size(optarg, &a->options.block_tok) == 0
                   ? EXIT_OK
                   : cli_usage(command, "--block-size: found \"%s\", expected tokens, 1 or more",
                               optarg);
    case OPT_TOLERANT:
        a->options.tolerant = true;
        return EXIT_OK;
    case OPT_DEDUPE:
        a->options.dedupe = true;
        return EXIT_OK;
    case OPT_DROP_ZERO:
        a->options.drop_zero_output = true;
        return EXIT_OK;
    case OPT_WEKA_DIALECT:
        a->options.weka_dialect = optarg;
        return strcmp(optarg, "v7") == 0 || strcmp(optarg, "v8") == 0
                   ? EXIT_OK
                   : cli_usage(command, "--weka-dialect: found \"%s\", expected v7 or v8", optarg);
    case OPT_FORMAT:
        a->json = strcmp(optarg, "json") == 0;
        return a->json || strcmp(optarg, "text") == 0
                   ? EXIT_OK
                   : cli_usage(command, "--format: found \"%s\", expected text or json", optarg);
    default:
        a->lru = optarg;
        return EXIT_OK;
    }
}

int trace_parse_arguments(int argc, char **argv, bool inspect, struct trace_arguments *ret_args)
{
    struct trace_arguments a = {0};
    char command[32];
    int opt, rc = EXIT_OK;
    snprintf(command, sizeof(command), "trace %s", argv[0]);
    opterr = 0;
    optind = 1;
    while (rc == EXIT_OK && (opt = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
        if (opt == ':') {
            return cli_usage(command, "option '%s' needs a value", argv[optind - 1]);
        }
        if (opt == '?') {
            return cli_usage(command, "unknown option '%s'", argv[optind - 1]);
        }
        if (opt >= OPT_FORMAT && !inspect) {
            return cli_usage(command, "found --%s, an option of inspect",
                             opt == OPT_LRU ? "lru" : "format");
        }
        rc = take_option(command, opt, &a);
    }
    a.files = argv + optind;
    a.n_files = argc - optind;
    if (rc == EXIT_OK && !a.help && a.n_files == 0) {
        return cli_usage(command, "no file given, expected one or more");
    }
    *ret_args = a;
    return rc;
}

static void print_help(FILE *out)
{
    fprintf(out, "Usage: dualpath trace COMMAND [OPTIONS] FILE...\n\n");
    for (const struct command *c = trace_commands; c->name; c++) {
        fprintf(out, "  %-10s %s\n", c->name, c->summary);
    }
    fprintf(out, "\n'dualpath trace COMMAND --help' explains a command.\n");
}

int cmd_trace(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return EXIT_BAD_INPUT;
    }
    if (strcmp(argv[1], "--help") == 0) {
        print_help(stdout);
        return EXIT_OK;
    }
    for (const struct command *c = trace_commands; c->name; c++) {
        if (strcmp(argv[1], c->name) == 0) {
            return c->run(argc - 1, argv + 1);
        }
    }
    return cli_usage("trace", "unknown command '%s'", argv[1]);
}
