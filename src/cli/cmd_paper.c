/* SPDX-License-Identifier: GPL-3.0-or-later */
/* dualpath paper: the published results beside ours. */
#include <errno.h>
#include <getopt.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli_args.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/paper_beyond.h"
#include "input/cards.h"
#include "plan/paper.h"

static const char help[] =
    "Usage: dualpath paper [OPTIONS]\n"
    "\n"
    "Runs the experiments of the DualPath paper (arXiv 2602.21548) and prints each published "
    "figure,\n"
    "ours, and the error. 'fitted' rows were used for the calibration, 'predicted' ones were not.\n"
    "\n"
    "  --only ID            one experiment: fig7, fig8, fig9, fig12, table1, table3, "
    "scale-timeline,\n"
    "                       online, capacity, ttft-breakdown, attention-balance, snic-balance,\n"
    "                       working-set, batch-efficiency; or beyond (not part of the whole): what "
    "the\n"
    "                       paper does not have, against DualPath and Basic on the same workloads; "
    "one\n"
    "                       of its tables: beyond:paths, :restore, :tool-latency, :regimes, "
    ":hardware\n"
    "  --fast               the small offline cells only, with one seed each\n"
    "  --check              exit status 1 when a row failed or a bar is missed; with --fast, when "
    "one\n"
    "                       known to be missed is missed by a tenth more than it was\n"
    "  --jobs N             simulations at a time (default: the processors)\n"
    "  --format FORMAT      text (default), json or csv\n"
    "  -o FILE              the result goes to FILE instead\n"
    "  --targets FILE.csv   other published figures; with --only beyond other rows\n"
    "  --help\n"
    "\n"
    "Exit status: 0 success, 1 failed, 2 bad input, 130 interrupted.\n";

struct paper_args {
    struct paper_options options;
    const char *targets, *output, *format;
    bool check, help;
};

static void show_runs(void *arg, size_t done, size_t all)
{
    (void)arg;
    bool terminal = isatty(STDERR_FILENO);
    if (terminal || done == all || done % 10 == 0) {
        fprintf(stderr, "%s%zu of %zu runs%s", terminal ? "\r\033[K" : "", done, all,
                terminal && done < all ? "" : "\n");
    }
}

static void show_search(void *arg, const struct target *t)
{
    (void)arg;
    fprintf(stderr, "capacity of %s, %s\n", t->model, target_setting(t, "system.preset"));
}

enum { OPT_ONLY = 256, OPT_FAST, OPT_CHECK, OPT_JOBS, OPT_FORMAT, OPT_TARGETS, OPT_HELP };

static int take_option(void *self, int option, struct err *err)
{
    struct paper_args *a = self;
    switch (option) {
    case OPT_ONLY:
        a->options.only = optarg;
        return 0;
    case OPT_FAST:
        a->options.fast = true;
        return 0;
    case OPT_CHECK:
        a->check = true;
        return 0;
    case OPT_JOBS:
        return cli_parse_count("--jobs", optarg, 1000, &a->options.runs.workers, err);
    case OPT_FORMAT:
        a->format = optarg;
        return 0;
    case OPT_TARGETS:
        a->targets = optarg;
        return 0;
    case 'o':
        a->output = optarg;
        return 0;
    default:
        a->help = true;
        return 0;
    }
}

static int parse(struct paper_args *a, int argc, char **argv)
{
    static const struct option options[] = {
        {"only", required_argument, NULL, OPT_ONLY},
        {"fast", no_argument, NULL, OPT_FAST},
        {"check", no_argument, NULL, OPT_CHECK},
        {"jobs", required_argument, NULL, OPT_JOBS},
        {"format", required_argument, NULL, OPT_FORMAT},
        {"targets", required_argument, NULL, OPT_TARGETS},
        {"help", no_argument, NULL, OPT_HELP},
        {NULL, 0, NULL, 0},
    };
    int status = cli_options(argc, argv, "o:", options, take_option, a);
    if (status != EXIT_OK) {
        return status;
    }
    if (optind != argc) {
        return cli_usage(argv[0], "unexpected '%s'", argv[optind]);
    }
    if (strcmp(a->format, "text") != 0 && strcmp(a->format, "json") != 0 &&
        strcmp(a->format, "csv") != 0) {
        return cli_usage(argv[0], "--format: found '%.60s', expected text, json or csv", a->format);
    }
    const char *table;
    if (a->options.fast && paper_beyond_meant(a->options.only, &table)) {
        return cli_usage(argv[0], "--fast does not go with --only %s", a->options.only);
    }
    return EXIT_OK;
}

static int write_report(const struct paper_args *a, const struct paper_report *report,
                        struct output *o, struct err *err)
{
    FILE *out = output_stream(o);
    int rc = a->format[0] == 'j'   ? paper_write_json(report, out)
             : a->format[0] == 'c' ? paper_write_csv(report, out)
                                   : paper_write_text(report, out);
    return output_end(o, rc, err);
}

static bool all_hold(const struct paper_report *report, bool fast)
{
    bool hold = true;
    for (size_t i = 0; i < report->n_bars; i++) {
        hold &= paper_bar_passes(&report->bars[i], fast);
    }
    for (size_t i = 0; i < report->n_rows; i++) {
        hold &= report->rows[i].err.code == 0;
    }
    return hold;
}

static int run_published(const struct paper_args *a, struct output *o)
{
    struct err err = ERR_INIT;
    struct targets targets;
    struct paper_report report;
    char path[1024];
    const char *dir = cards_data_dir();
    snprintf(path, sizeof(path), "%s/paper/targets.csv", dir ? dir : ".");
    if (targets_read(a->targets ? a->targets : path, &targets, &err)) {
        return cli_bad_input(&err);
    }
    int status = EXIT_OK;
    if (paper_run(&targets, &a->options, &report, &err)) {
        status = cli_run_failed(&err);
    } else {
        if (write_report(a, &report, o, &err)) {
            cli_bad_input(&err);
            status = EXIT_RUN_FAILED;
        } else if (a->check && !all_hold(&report, a->options.fast)) {
            status = EXIT_RUN_FAILED;
        }
        paper_done(&report);
    }
    targets_done(&targets);
    return status;
}

/* The output is opened first: nobody should wait for minutes to learn that it cannot be. */
static int run(const struct paper_args *a)
{
    struct paper_beyond_args beyond = {
        .rows = a->targets, .format = a->format, .check = a->check, .runs = a->options.runs};
    struct err err = ERR_INIT;
    struct output o;
    if (output_open(&o, a->output, &err)) {
        return cli_bad_input(&err);
    }
    int status = paper_beyond_meant(a->options.only, &beyond.table) ? paper_beyond(&beyond, &o)
                                                                    : run_published(a, &o);
    output_discard(&o);
    return status;
}

int cmd_paper(int argc, char **argv)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    struct paper_args a = {
        .format = "text",
        .options = {.searching = show_search,
                    .runs = {.workers = processors > 0 ? (unsigned)processors : 1,
                             .interrupted = &cli_interrupted,
                             .progress = show_runs}}};
    int status = parse(&a, argc, argv);
    if (status == EXIT_OK && a.help) {
        fputs(help, stdout);
    } else if (status == EXIT_OK) {
        cli_catch_interrupts();
        status = run(&a);
    }
    return status;
}
