/* SPDX-License-Identifier: GPL-3.0-or-later */
/* dualpath bounds: the ratios of prefill to decode nodes at which only the storage NICs limit. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli_args.h"
#include "cli/commands.h"
#include "input/scenario_keys.h"
#include "model/bounds.h"

static const char help[] =
    "Usage: dualpath bounds [OPTIONS]\n"
    "\n"
    "The interval of P/D (prefill to decode nodes) in which the storage NICs of all nodes can be\n"
    "saturated without overloading a compute NIC (CNIC) or DRAM, every term of it, and the "
    "resource\n"
    "that binds at each end. Counts hit KV only, perfectly balanced.\n"
    "\n"
    "  --gpus-per-node N   GPUs of a node, each with its own CNIC (default 8)\n"
    "  --snic-ratio S      storage NIC bandwidth of a node, in CNICs (default 1)\n"
    "  --cnic RATE         one CNIC, each direction (default 50GB/s)\n"
    "  --dram RATE         DRAM of a node, reads + writes (default 500GB/s)\n"
    "  --format FORMAT     text (default) or json\n"
    "  --help\n";

#define MAX_DENOMINATOR 16 /* of a ratio that is also printed as a fraction */

enum {
    OPT_GPUS = 'g',
    OPT_SNIC = 's',
    OPT_CNIC = 'c',
    OPT_DRAM = 'd',
    OPT_FORMAT = 'f',
    OPT_HELP = 'h'
};

static const struct option options[] = {
    {"gpus-per-node", required_argument, NULL, OPT_GPUS},
    {"snic-ratio", required_argument, NULL, OPT_SNIC},
    {"cnic", required_argument, NULL, OPT_CNIC},
    {"dram", required_argument, NULL, OPT_DRAM},
    {"format", required_argument, NULL, OPT_FORMAT},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static int parse_gpus(const char *text, double *ret_gpus, struct err *err)
{
    double gpus;
    if (cli_positive("--gpus-per-node", UNIT_NONE, text, &gpus, err) < 0) {
        return err->code;
    }
    if (gpus != floor(gpus)) {
        err_at(err, "--gpus-per-node", 0, 0);
        return err_set(err, -EINVAL, "found '%.60s', expected a whole number above 0", text);
    }
    *ret_gpus = gpus;
    return 0;
}

/* A rate that 'dualpath run' would warn of, too. */
static int parse_rate(const char *option, const char *key, const char *text, double *ret_Bps,
                      struct err *err)
{
    char warning[320];
    int rc = cli_positive(option, UNIT_BPS, text, ret_Bps, err);
    bool with_unit = text[strspn(text, "0123456789.eE+- ")] != '\0';
    if (rc == 0 && scenario_key_unusual(scenario_key_find(key), *ret_Bps, with_unit, warning,
                                        sizeof(warning))) {
        fprintf(stderr, "dualpath: warning: %s: %s\n", option, warning);
    }
    return rc;
}

static int parse_option(int option, const char *text, struct bounds_input *in,
                        enum cli_format *format, struct err *err)
{
    switch (option) {
    case OPT_GPUS:
        return parse_gpus(text, &in->gpus_per_node, err);
    case OPT_SNIC:
        return cli_positive("--snic-ratio", UNIT_NONE, text, &in->snic_ratio, err);
    case OPT_CNIC:
        return parse_rate("--cnic", "cluster.cnic_Bps", text, &in->cnic_Bps, err);
    case OPT_DRAM:
        return parse_rate("--dram", "cluster.dram_Bps", text, &in->dram_Bps, err);
    default:
        return cli_parse_format(text, format, err);
    }
}

static json_t *terms_json(const struct bounds *b)
{
    json_t *terms = json_array();
    for (size_t i = 0; i < BOUNDS_N_TERMS; i++) {
        const struct bounds_term *t = &b->terms[i];
        json_array_append_new(terms,
                              json_pack("{s:s, s:s, s:b, s:s, s:o}", "resource", t->resource,
                                        "bound", bounds_kind_name(t->kind), "binds", t->binds,
                                        "formula", t->formula, "value", cli_json_number(t->value)));
    }
    return terms;
}

/* The resources of all terms of the kind that bind. */
static json_t *binding_json(const struct bounds *b, enum bounds_kind kind)
{
    json_t *list = json_array();
    for (size_t i = 0; i < BOUNDS_N_TERMS; i++) {
        if (b->terms[i].kind == kind && b->terms[i].binds) {
            json_array_append_new(list, json_string(b->terms[i].resource));
        }
    }
    return list;
}

static int print_json(const struct bounds_input *in, const struct bounds *b)
{
    return cli_print_json(json_pack(
        "{s:o, s:o, s:b, s:o, s:o, s:s?, s:o, s:{s:f, s:f, s:f, s:f}}", "pd_min",
        cli_json_number(b->pd_min), "pd_max", cli_json_number(b->pd_max), "empty", b->empty,
        "binds_min", binding_json(b, BOUNDS_LOWER), "binds_max", binding_json(b, BOUNDS_UPPER),
        "violated", b->violated ? b->violated->resource : NULL, "terms", terms_json(b), "input",
        "gpus_per_node", in->gpus_per_node, "snic_ratio", in->snic_ratio, "cnic_Bps", in->cnic_Bps,
        "dram_Bps", in->dram_Bps));
}

/* A ratio of small whole numbers as people write it, beside its decimals: "7/2 = 3.5". */
struct ratio_text {
    char text[48];
};

static struct ratio_text ratio_text(double value)
{
    struct ratio_text r;
    snprintf(r.text, sizeof(r.text), "%.4g", value);
    for (int q = 2; q <= MAX_DENOMINATOR && isfinite(value) && value != floor(value); q++) {
        double p = round(value * q);
        if (p != 0 && fabs(p / q - value) <= 1e-12 * fabs(value)) {
            snprintf(r.text, sizeof(r.text), "%.0f/%d = %.4g", p, q, value);
            break;
        }
    }
    return r;
}

static const char *term_remark(const struct bounds_term *t)
{
    if (t->kind == BOUNDS_CONDITION) {
        return t->value > 1 ? "  of capacity: overloaded at any P/D" : "  of capacity at any P/D";
    }
    return t->binds ? "  binds" : "";
}

/* The resources of all terms of the kind that bind: "de_cnic_write and de_dram". */
struct names_text {
    char text[96];
};

static struct names_text binding_text(const struct bounds *b, enum bounds_kind kind)
{
    struct names_text names = {""};
    size_t n = 0;
    for (size_t i = 0; i < BOUNDS_N_TERMS; i++) {
        if (b->terms[i].kind == kind && b->terms[i].binds && n < sizeof(names.text)) {
            n += (size_t)snprintf(names.text + n, sizeof(names.text) - n, "%s%s", n ? " and " : "",
                                  b->terms[i].resource);
        }
    }
    return names;
}

static void print_verdict(const struct bounds *b)
{
    if (b->violated) {
        printf("Empty: no P/D is free of bottlenecks, %s would carry %.4g times its capacity.\n",
               b->violated->resource, b->violated->value);
    } else if (b->empty) {
        printf("Empty: no P/D is free of bottlenecks, %s needs P/D >= %s and %s P/D <= %s.\n",
               binding_text(b, BOUNDS_LOWER).text, ratio_text(b->pd_min).text,
               binding_text(b, BOUNDS_UPPER).text, ratio_text(b->pd_max).text);
    } else {
        printf("Free of bottlenecks for P/D from %s to %s: %s binds below, %s above.\n",
               ratio_text(b->pd_min).text, ratio_text(b->pd_max).text,
               binding_text(b, BOUNDS_LOWER).text, binding_text(b, BOUNDS_UPPER).text);
    }
}

static int print_text(const struct bounds_input *in, const struct bounds *b)
{
    printf("g = %g GPUs per node, s = %g CNICs of storage bandwidth, B = %g GB/s, M = %g GB/s\n\n",
           in->gpus_per_node, in->snic_ratio, in->cnic_Bps / 1e9, in->dram_Bps / 1e9);
    printf("%-14s %-22s %14s\n", "resource", "term", "value");
    for (size_t i = 0; i < BOUNDS_N_TERMS; i++) {
        const struct bounds_term *t = &b->terms[i];
        printf("%-14s %-22s %14s%s\n", t->resource, t->formula, ratio_text(t->value).text,
               term_remark(t));
    }
    putchar('\n');
    print_verdict(b);
    return EXIT_OK;
}

int cmd_bounds(int argc, char **argv)
{
    struct bounds_input in = {
        .gpus_per_node = 8, .snic_ratio = 1, .cnic_Bps = 50e9, .dram_Bps = 500e9};
    enum cli_format format = CLI_TEXT;
    struct err err = ERR_INIT;
    struct bounds b;
    int option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        if (option == OPT_HELP) {
            fputs(help, stdout);
            return EXIT_OK;
        }
        if (option == '?' || option == ':') {
            return cli_usage(argv[0], "%s: %s", argv[optind - 1],
                             option == ':' ? "a value is missing" : "no such option");
        }
        if (parse_option(option, optarg, &in, &format, &err) < 0) {
            return cli_bad_input(&err);
        }
    }
    if (optind < argc) {
        return cli_usage(argv[0], "unexpected argument '%s'", argv[optind]);
    }
    bounds_compute(&in, &b);
    return format == CLI_JSON ? print_json(&in, &b) : print_text(&in, &b);
}
