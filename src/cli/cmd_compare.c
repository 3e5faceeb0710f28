/* SPDX-License-Identifier: GPL-3.0-or-later */
/* dualpath compare: two results side by side. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "cli/cli_args.h"
#include "cli/commands.h"
#include "plan/compare.h"

#define DEFAULT_TOLERANCE 0.15

static const char help[] =
    "Usage: dualpath compare A.json B.json [OPTIONS]\n"
    "       dualpath compare A.json B.json --decisions A.csv B.csv [OPTIONS]\n"
    "\n"
    "Two results of 'dualpath run --format json' (simulated and real, or any two), figure by "
    "figure:\n"
    "the error of B against A, absolute and relative, and which figures differ by more than the\n"
    "tolerance. With --decisions also the decisions of the two central schedulers "
    "('run --decisions').\n"
    "\n"
    "  --tolerance FRAC   relative error beyond which a figure differs (default 0.15)\n"
    "  --decisions        two more files follow the results: decisions of A and of B\n"
    "  --all              text: also the figures that do not differ\n"
    "  --format FORMAT    text (default) or json\n"
    "  --help\n"
    "\n"
    "Exit status: 0 compared (whatever differs), 2 bad input.\n";

struct args {
    const char *files[4]; /* results A and B, decisions A and B */
    double tolerance;
    bool decisions, all, help;
    enum cli_format format;
};

enum { OPT_TOLERANCE = 256, OPT_DECISIONS, OPT_ALL, OPT_FORMAT, OPT_HELP };

static const struct option options[] = {
    {"tolerance", required_argument, NULL, OPT_TOLERANCE},
    {"decisions", no_argument, NULL, OPT_DECISIONS},
    {"all", no_argument, NULL, OPT_ALL},
    {"format", required_argument, NULL, OPT_FORMAT},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static int take_option(void *self, int option, struct err *err)
{
    struct args *a = self;
    switch (option) {
    case OPT_TOLERANCE:
        return cli_positive("--tolerance", UNIT_NONE, optarg, &a->tolerance, err);
    case OPT_DECISIONS:
        a->decisions = true;
        return 0;
    case OPT_ALL:
        a->all = true;
        return 0;
    case OPT_FORMAT:
        return cli_parse_format(optarg, &a->format, err);
    default:
        a->help = true;
        return 0;
    }
}

/* Returns EXIT_OK, or the exit status after having said what is wrong. */
static int parse(struct args *a, int argc, char **argv)
{
    int status = cli_options(argc, argv, "", options, take_option, a);
    if (status != EXIT_OK) {
        return status;
    }
    int expected = a->decisions ? 4 : 2;
    if (!a->help && argc - optind != expected) {
        return cli_usage("compare", "found %d files, expected %s", argc - optind,
                         a->decisions ? "two results and two files of decisions" : "two results");
    }
    for (int i = 0; i < argc - optind && i < 4; i++) {
        a->files[i] = argv[optind + i];
    }
    return EXIT_OK;
}

/* Text */

static void print_figure(const struct compare_figure *f)
{
    printf("%c %-32s", f->beyond ? '*' : ' ', f->path);
    if (!f->in_a || !f->in_b) {
        printf(" %12.5g only in %c\n", f->in_a ? f->a : f->b, f->in_a ? 'A' : 'B');
        return;
    }
    printf(" %12.5g %12.5g %+12.3g %+8.1f %%\n", f->a, f->b, f->error, 100 * f->error_frac);
}

static void print_results(const struct compare_results *r, const struct args *a)
{
    printf("A  %s (%s)\nB  %s (%s)\n", a->files[0], r->backend_a, a->files[1], r->backend_b);
    if (!r->same_scenario) {
        printf("The scenarios are not the same.\n");
    }
    if (!r->same_trace) {
        printf("The traces are not the same.\n");
    }
    printf("\n  %-32s %12s %12s %12s %10s\n", "figure", "A", "B", "B - A", "of A");
    for (uint32_t i = 0; i < r->n; i++) {
        if (a->all || r->figures[i].beyond) {
            print_figure(&r->figures[i]);
        }
    }
    printf("%" PRIu32 " of %" PRIu32 " figures differ by more than %.3g %%.\n", r->n_beyond, r->n,
           100 * a->tolerance);
}

static void print_decision(char name, bool has, const struct compare_decision *d)
{
    static const char *const paths[COMPARE_N_PATHS] = {
        "read on the prefill side", "read on the decode side", "read on both sides",
        "kept on the decode side"};
    if (has) {
        printf("  %c: session %" PRIu32 ", turn %" PRIu32 ": prefill engine %" PRIu32
               ", decode engine %" PRIu32 ", %s\n",
               name, d->session, d->turn, d->prefill_engine, d->decode_engine, paths[d->path]);
    } else {
        printf("  %c: no more decisions\n", name);
    }
}

static void print_decisions(const struct compare_decisions *d)
{
    printf("\nDecisions: %" PRIu64 " in A, %" PRIu64 " in B", d->n_a, d->n_b);
    if (d->first == 0) {
        printf(", all the same in the same order.\n");
        return;
    }
    printf("; %" PRIu64 " rows differ in order.\nThe first is %" PRIu64 ":\n", d->n_rows_differ,
           d->first);
    print_decision('A', d->has_a, &d->a);
    print_decision('B', d->has_b, &d->b);
    printf("Whatever the order: %" PRIu64 " requests decided otherwise, %" PRIu64
           " only in A, %" PRIu64 " only in B.\n",
           d->n_decided_otherwise, d->n_only_a, d->n_only_b);
}

/* JSON */

static json_t *figure_json(const struct compare_figure *f)
{
    return json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:b}", "figure", f->path, "a",
        f->in_a ? json_real(f->a) : json_null(), "b", f->in_b ? json_real(f->b) : json_null(),
        "error", f->in_a && f->in_b ? json_real(f->error) : json_null(), "error_frac",
        f->in_a && f->in_b ? cli_json_number(f->error_frac) : json_null(), "beyond", f->beyond);
}

static json_t *results_json(const struct compare_results *r)
{
    json_t *figures = json_array();
    for (uint32_t i = 0; i < r->n; i++) {
        json_array_append_new(figures, figure_json(&r->figures[i]));
    }
    return json_pack("{s:s, s:o, s:i, s:b, s:b, s:s, s:s}", "schema", "dualpath/comparison/1",
                     "figures", figures, "n_beyond", (int)r->n_beyond, "same_scenario",
                     r->same_scenario, "same_trace", r->same_trace, "backend_a", r->backend_a,
                     "backend_b", r->backend_b);
}

static json_t *decision_json(bool has, const struct compare_decision *d)
{
    return has ? json_pack("{s:I, s:I, s:I, s:I, s:s}", "session", (json_int_t)d->session, "turn",
                           (json_int_t)d->turn, "prefill_engine", (json_int_t)d->prefill_engine,
                           "decode_engine", (json_int_t)d->decode_engine, "path",
                           compare_path_name(d->path))
               : json_null();
}

static json_t *decisions_json(const struct compare_decisions *d)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "n_a", (json_int_t)d->n_a,
                     "n_b", (json_int_t)d->n_b, "rows_differ", (json_int_t)d->n_rows_differ,
                     "first_row", (json_int_t)d->first, "decided_otherwise",
                     (json_int_t)d->n_decided_otherwise, "only_a", (json_int_t)d->n_only_a,
                     "only_b", (json_int_t)d->n_only_b, "first_a", decision_json(d->has_a, &d->a),
                     "first_b", decision_json(d->has_b, &d->b));
}

static int show(const struct args *a, const struct compare_results *r,
                const struct compare_decisions *d)
{
    if (a->format == CLI_JSON) {
        json_t *root = results_json(r);
        if (root && a->decisions) {
            json_object_set_new(root, "decisions", decisions_json(d));
        }
        return cli_print_json(root);
    }
    print_results(r, a);
    if (a->decisions) {
        print_decisions(d);
    }
    return EXIT_OK;
}

int cmd_compare(int argc, char **argv)
{
    struct args a = {.tolerance = DEFAULT_TOLERANCE};
    struct err err = ERR_INIT;
    struct compare_results results;
    struct compare_decisions decisions = {0};
    int status = parse(&a, argc, argv);
    if (status != EXIT_OK || a.help) {
        fputs(a.help ? help : "", stdout);
        return status;
    }
    if (a.decisions && compare_decisions(a.files[2], a.files[3], &decisions, &err)) {
        return cli_bad_input(&err);
    }
    if (compare_results(a.files[0], a.files[1], a.tolerance, &results, &err)) {
        return cli_bad_input(&err);
    }
    status = show(&a, &results, &decisions);
    compare_results_done(&results);
    return status;
}
