/* SPDX-License-Identifier: GPL-3.0-or-later */
/* dualpath calibrate: fits the constants of a profile to published or measured figures. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli_args.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "input/cards.h"
#include "input/cards_find.h"
#include "input/json_file.h"
#include "plan/calibrate.h"

static const char help[] =
    "Usage: dualpath calibrate PROFILE [OPTIONS]\n"
    "\n"
    "Fits the constants that PROFILE lists (the name of a shipped one, or a file) to the rows of "
    "its\n"
    "targets marked \"fit\", and prints each with its confidence. At most six constants.\n"
    "\n"
    "  --targets FILE.csv   instead of the targets that the profile names\n"
    "  --steps N            steps of the fit at most (default 8)\n"
    "  --jobs N             simulations at a time (default: the processors)\n"
    "  -o FILE.json         writes the profile with the new values\n"
    "  --help\n"
    "\n"
    "Exit status: 0 success, 1 the fit failed, 2 bad input, 130 interrupted.\n";

struct calibrate_args {
    const char *profile, *targets, *output;
    unsigned steps, jobs;
    bool help;
};

static int take_option(void *self, int option, struct err *err)
{
    struct calibrate_args *a = self;
    switch (option) {
    case 't':
        a->targets = optarg;
        return 0;
    case 's':
        return cli_parse_count("--steps", optarg, 1000, &a->steps, err);
    case 'j':
        return cli_parse_count("--jobs", optarg, 1000, &a->jobs, err);
    case 'o':
        a->output = optarg;
        return 0;
    default:
        a->help = true;
        return 0;
    }
}

static int parse(struct calibrate_args *a, int argc, char **argv)
{
    static const struct option options[] = {
        {"targets", required_argument, NULL, 't'},
        {"steps", required_argument, NULL, 's'},
        {"jobs", required_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int status = cli_options(argc, argv, "o:", options, take_option, a);
    if (status != EXIT_OK) {
        return status;
    }
    if (!a->help && optind != argc - 1) {
        return cli_usage(argv[0], "expected one profile");
    }
    a->profile = argv[optind];
    return EXIT_OK;
}

static void print_confidence(FILE *out, const struct calibrate_constant *c)
{
    if (c->log_std > 0) {
        fprintf(out, " +- %.1f %%", 100 * c->log_std);
    }
}

static void print_constants(FILE *out, const struct calibrate_fit *fit)
{
    for (size_t i = 0; i < fit->n_constants; i++) {
        const struct calibrate_constant *c = &fit->constants[i];
        fprintf(out, "  %-40s %-12.5g", c->keys[0], c->value);
        print_confidence(out, c);
        fprintf(out, "\n");
    }
}

static void show_step(void *arg, const struct calibrate_fit *fit)
{
    (void)arg;
    fprintf(stderr, "step %u: %u evaluations, rms error %.2f %%\n", fit->steps, fit->evaluations,
            100 * fit->rms);
    print_constants(stderr, fit);
}

static void print_fit(const char *name, const struct calibrate_fit *fit)
{
    printf("%s: %zu constants, %zu targets, rms error %.2f %% (%.2f %% at the start), %u "
           "evaluations\n",
           name, fit->n_constants, fit->n_targets, 100 * fit->rms, 100 * fit->start_rms,
           fit->evaluations);
    if (fit->n_targets == fit->n_constants) {
        printf("as many constants as targets: how well these determine them is not known\n");
    }
    for (size_t i = 0; i < fit->n_constants; i++) {
        const struct calibrate_constant *c = &fit->constants[i];
        printf("\n  %.5g", c->value);
        print_confidence(stdout, c);
        printf(":");
        for (size_t k = 0; k < c->n_keys; k++) {
            printf(" %s", c->keys[k]);
        }
        printf("\n    %s\n", c->reading);
    }
}

static int write_profile(struct output *o, const json_t *profile, struct err *err)
{
    if (!o->file) {
        return 0;
    }
    if (json_dumpf(profile, o->file, JSON_INDENT(2) | JSON_REAL_PRECISION(6))) {
        return err_set(err, -EIO, "%s: cannot be written", o->path);
    }
    fprintf(o->file, "\n");
    return output_commit(o, err);
}

static int fit_profile(const struct calibrate_args *a, const char *path, struct json_file *file,
                       struct output *o)
{
    struct err err = ERR_INIT;
    char targets_path[1024];
    struct targets targets;
    struct calibrate_fit fit;
    const json_t *about = json_object_get(file->root, "fit");
    const char *model = json_string_value(json_object_get(about, "model"));
    const char *named = json_string_value(json_object_get(about, "targets"));
    const char *dir = cards_data_dir();
    if (!model || (!named && !a->targets)) {
        json_file_error(file, "fit", &err, "expected \"model\" and \"targets\"");
        return cli_bad_input(&err);
    }
    snprintf(targets_path, sizeof(targets_path), "%s/%s", dir ? dir : ".", named ? named : "");
    if (calibrate_fit_read(file->root, path, &fit, &err) ||
        targets_read(a->targets ? a->targets : targets_path, &targets, &err)) {
        return cli_bad_input(&err);
    }
    const struct calibrate_options options = {
        .max_steps = a->steps,
        .runs = {.workers = a->jobs, .interrupted = &cli_interrupted},
        .progress = show_step};
    int rc = calibrate(&targets, model, path, &options, &fit, &err);
    if (rc == 0) {
        print_fit(a->profile, &fit);
        rc = calibrate_fit_write(file->root, &fit) ? err_nomem(&err) : 0;
        rc = rc ? rc : write_profile(o, file->root, &err);
    }
    targets_done(&targets);
    if (rc) {
        cli_bad_input(&err);
    }
    return rc == 0 ? EXIT_OK : atomic_load(&cli_interrupted) ? EXIT_INTERRUPTED : EXIT_RUN_FAILED;
}

int cmd_calibrate(int argc, char **argv)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    struct calibrate_args a = {.steps = 8, .jobs = processors > 0 ? (unsigned)processors : 1};
    struct err err = ERR_INIT;
    struct json_file file;
    char path[1024];
    int status = parse(&a, argc, argv);
    if (status != EXIT_OK) {
        return status;
    }
    if (a.help) {
        fputs(help, stdout);
        return EXIT_OK;
    }
    if (cards_find("profiles", a.profile, path, sizeof(path), &err) ||
        json_file_read(path, &file, &err)) {
        return cli_bad_input(&err);
    }
    struct output o;
    if (output_open(&o, a.output, &err)) {
        status = cli_bad_input(&err);
    } else {
        cli_catch_interrupts();
        status = fit_profile(&a, path, &file, &o);
        output_discard(&o);
    }
    json_file_done(&file);
    return status;
}
