/* SPDX-License-Identifier: GPL-3.0-or-later */
/* dualpath probe: what this machine has, and a profile of it for the simulator. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/cli_args.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/probe_report.h"
#include "input/scenario.h"

#define DEFAULT_SCENARIO "loopback"
#define DEFAULT_SECONDS  20.0

static const char help[] =
    "Usage: dualpath probe [SCENARIO] [OPTIONS]\n"
    "\n"
    "Measures what this machine has, through the very backends of a real run, in the shape that\n"
    "SCENARIO (default: loopback) will use it: its model's KV, its number of nodes, its depths.\n"
    "Storage against I/O size and queue depth; copies by memory, TCP and RDMA against size and "
    "batching;\n"
    "control messages; forwards and decode steps on the CPU; copies and products on a GPU, if "
    "there is\n"
    "one. Medians of 5 repetitions, with their spread.\n"
    "\n"
    "  -o FILE.json         writes the profile: 'dualpath run SCENARIO --machine FILE.json' "
    "predicts\n"
    "                       what the run takes on this machine\n"
    "  --storage-dir DIR    measures storage there (default: the scenario's, $TMPDIR, /tmp)\n"
    "  --transport NAME     mem, tcp (default) or verbs: what the profile's compute NICs are\n"
    "  --seconds N          measuring time, about (default 20)\n"
    "  --set PATH=VALUE     sets a key of the scenario; may be given many times\n"
    "  --format FORMAT      text (default) or json: every point\n"
    "  --help\n"
    "\n"
    "Exit status: 0 success, 1 a measurement failed, 2 bad input, 77 a needed device is absent,\n"
    "130 interrupted.\n";

struct args {
    const char *scenario, *output, *storage_dir;
    const char **sets;
    size_t n_sets;
    enum probe_what transport;
    double seconds;
    enum cli_format format;
    bool help;
};

enum { OPT_STORAGE = 256, OPT_TRANSPORT, OPT_SECONDS, OPT_SET, OPT_FORMAT, OPT_HELP };

static const struct option options[] = {
    {"storage-dir", required_argument, NULL, OPT_STORAGE},
    {"transport", required_argument, NULL, OPT_TRANSPORT},
    {"seconds", required_argument, NULL, OPT_SECONDS},
    {"set", required_argument, NULL, OPT_SET},
    {"format", required_argument, NULL, OPT_FORMAT},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static int set_transport(const char *text, enum probe_what *ret, struct err *err)
{
    static const struct {
        const char *name;
        enum probe_what what;
    } names[] = {{"mem", PROBE_COPY_MEM}, {"tcp", PROBE_COPY_TCP}, {"verbs", PROBE_COPY_VERBS}};
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(text, names[i].name) == 0) {
            *ret = names[i].what;
            return 0;
        }
    }
    err_at(err, "--transport", 0, 0);
    return err_set(err, -EINVAL, "found '%.60s', expected mem, tcp or verbs", text);
}

static int take_option(void *self, int option, struct err *err)
{
    struct args *a = self;
    switch (option) {
    case OPT_STORAGE:
        a->storage_dir = optarg;
        return 0;
    case OPT_TRANSPORT:
        return set_transport(optarg, &a->transport, err);
    case OPT_SECONDS:
        return cli_positive("--seconds", UNIT_S, optarg, &a->seconds, err);
    case OPT_SET:
        a->sets[a->n_sets++] = optarg;
        return 0;
    case OPT_FORMAT:
        return cli_parse_format(optarg, &a->format, err);
    case 'o':
        a->output = optarg;
        return 0;
    default:
        a->help = true;
        return 0;
    }
}

/* Returns EXIT_OK, or the exit status after having said what is wrong. */
static int parse(struct args *a, int argc, char **argv)
{
    a->sets = calloc((size_t)argc, sizeof(*a->sets));
    if (!a->sets) {
        struct err err = ERR_INIT;
        err_nomem(&err);
        cli_bad_input(&err);
        return EXIT_RUN_FAILED;
    }
    int status = cli_options(argc, argv, "o:", options, take_option, a);
    if (status != EXIT_OK) {
        return status;
    }
    if (argc - optind > 1) {
        return cli_usage("probe", "more than one scenario given");
    }
    a->scenario = optind < argc ? argv[optind] : DEFAULT_SCENARIO;
    return EXIT_OK;
}

static const char *storage_parent(const struct args *a, const struct scenario *sc)
{
    const char *tmp = getenv("TMPDIR");
    return a->storage_dir        ? a->storage_dir
           : *sc->hw.storage_dir ? sc->hw.storage_dir
           : tmp && *tmp         ? tmp
                                 : "/tmp";
}

static int configure(const struct args *a, const struct scenario *sc, struct probe_config *ret,
                     struct err *err)
{
    double per_layer = sc->model.kv_bytes_per_tok_layer;
    if (per_layer != floor(per_layer)) {
        err_field(err, "model.kv_bytes_per_tok_layer");
        return err_set(err, -EINVAL, "found %.6g, expected a whole number of bytes", per_layer);
    }
    *ret = (struct probe_config){
        .rep_ns = (uint64_t)(a->seconds * NS_PER_S / (PROBE_MAX_POINTS * PROBE_REPETITIONS)),
        .prefill_nodes = sc->cluster.prefill_nodes,
        .decode_nodes = sc->cluster.decode_nodes,
        .kv = {.n_layers = sc->model.n_layers,
               .block_tok = sc->system.block_tok,
               .layer_tok_bytes = (uint64_t)per_layer},
        .heads = sc->hw.heads,
        .check_every = sc->hw.check_every,
        .compute_threads = sc->hw.compute_threads,
        .storage_depth = sc->hw.storage_depth,
        .interrupted = &cli_interrupted,
    };
    return 0;
}

static int write_profile(struct output *o, const json_t *profile, struct err *err)
{
    if (json_dumpf(profile, o->file, JSON_SORT_KEYS | JSON_INDENT(2)) ||
        fputc('\n', o->file) == EOF) {
        return err_set(err, -EIO, "cannot write %s", o->path);
    }
    return output_commit(o, err);
}

static int show(const struct args *a, const struct scenario *sc, const struct probe_measured *m,
                const struct probe_fit *f, json_t *profile)
{
    if (a->format == CLI_JSON) {
        return cli_print_json(profile ? probe_report_json(m, json_incref(profile)) : NULL);
    }
    probe_report_text(m, f, &sc->model);
    return EXIT_OK;
}

static int report(const struct args *a, const struct scenario *sc, const struct probe_measured *m,
                  const struct probe_fit *f, struct output *o)
{
    struct err err = ERR_INIT;
    char source[400];
    snprintf(source, sizeof(source),
             "dualpath probe %s: %u prefill and %u decode nodes on one machine, %.3g s of "
             "measurements",
             a->scenario, sc->cluster.prefill_nodes, sc->cluster.decode_nodes, a->seconds);
    json_t *profile = probe_fit_profile(f, source);
    int status = show(a, sc, m, f, profile);
    if (status == EXIT_OK && o->file && write_profile(o, profile, &err)) {
        cli_bad_input(&err);
        status = EXIT_RUN_FAILED;
    }
    json_decref(profile);
    return status;
}

static int fail(const struct err *err, int rc)
{
    cli_bad_input(err);
    switch (rc) {
    case -ENODEV:
        return EXIT_NO_DEVICE;
    case -EINVAL:
        return EXIT_BAD_INPUT;
    case -ECANCELED:
        return EXIT_INTERRUPTED;
    default:
        return EXIT_RUN_FAILED;
    }
}

static int measure(const struct args *a, const struct scenario *sc, const char *directory,
                   struct output *o)
{
    struct err err = ERR_INIT;
    struct probe_config config;
    struct probe_measured m = {0};
    struct probe_fit f;
    int rc = configure(a, sc, &config, &err);
    config.storage_dir = directory;
    rc = rc ? rc : probe_measure(&config, a->transport == PROBE_COPY_VERBS, &m, &err);
    rc = rc ? rc
            : probe_fit(&m.points, &sc->model, kv_full_block_bytes(&config.kv), a->transport, &f,
                        &err);
    int status = rc ? fail(&err, rc) : report(a, sc, &m, &f, o);
    probe_measured_done(&m);
    return status;
}

static int measure_in_directory(const struct args *a, const struct scenario *sc, struct output *o)
{
    struct err err = ERR_INIT;
    char directory[300];
    const char *parent = storage_parent(a, sc);
    int n = snprintf(directory, sizeof(directory), "%s/dualpath-probe-XXXXXX", parent);
    if (n < 0 || (size_t)n >= sizeof(directory) || !mkdtemp(directory)) {
        err_at(&err, a->storage_dir ? "--storage-dir" : "hw.storage_dir", 0, 0);
        err_set(&err, -EINVAL, "cannot make a directory in %s: %s", parent, strerror(errno));
        return cli_bad_input(&err);
    }
    int status = measure(a, sc, directory, o);
    rmdir(directory);
    return status;
}

/* The output is opened first: nobody should measure for a minute to learn that it cannot be. */
static int probe(const struct args *a)
{
    struct err err = ERR_INIT;
    struct scenario sc;
    struct scenario_notes notes;
    struct output o;
    if (scenario_read(a->scenario, a->sets, a->n_sets, &sc, &notes, &err)) {
        return cli_bad_input(&err);
    }
    scenario_notes_done(&notes);
    if (output_open(&o, a->output, &err)) {
        return cli_bad_input(&err);
    }
    int status = measure_in_directory(a, &sc, &o);
    output_discard(&o);
    return status;
}

int cmd_probe(int argc, char **argv)
{
    struct args a = {.transport = PROBE_COPY_TCP, .seconds = DEFAULT_SECONDS};
    int status = parse(&a, argc, argv);
    if (status == EXIT_OK && a.help) {
        fputs(help, stdout);
    } else if (status == EXIT_OK) {
        cli_catch_interrupts();
        status = probe(&a);
    }
    free(a.sets);
    return status;
}
