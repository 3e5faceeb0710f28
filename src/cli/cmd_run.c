/* SPDX-License-Identifier: GPL-3.0-or-later */
/* dualpath run: one scenario, one result. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_args.h"
#include "cli/commands.h"
#include "cli/machine_profile.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/run_real.h"
#include "input/scenario_explain.h"
#include "input/scenario_keys.h"
#include "input/workload.h"
#include "plan/compose.h"
#include "plan/simulate.h"

static const char help[] =
    "Usage: dualpath run SCENARIO [OPTIONS]\n"
    "\n"
    "Simulates SCENARIO (a JSON file, or the name of a shipped one: 'dualpath list scenarios') "
    "and\n"
    "prints the result on stdout: text for a person, one JSON object for a program. With --backend "
    "real\n"
    "the same scheduler, engines and data path run as processes on this machine, or on a "
    "cluster.\n"
    "\n"
    "  --backend BACKEND    sim (default) or real\n"
    "  --set PATH=VALUE     sets a key of the scenario (system.preset=basic, "
    "cluster.snic_Bps=800Gb/s);\n"
    "                       may be given many times, the last one wins\n"
    "  --machine FILE.json  what this machine has, from 'dualpath probe -o': stronger than the "
    "scenario,\n"
    "                       weaker than --set\n"
    "  --seed N             seed of every random stream (default: the scenario's)\n"
    "  --tie-seed N         another order of events at equal times; totals do not change\n"
    "  --format FORMAT      text (default) or json\n"
    "  -o FILE              the result goes to FILE instead\n"
    "  --requests FILE.csv  also one row per request: lengths, times, parts of its TTFT\n"
    "  --series FILE.csv    also the run over time: load, rates, use of every resource\n"
    "  --decisions FILE.csv also one row per decision of the central scheduler, in order\n"
    "  --export-trace FILE  also the arrivals of this run, as a trace to replay\n"
    "  --replay FILE        runs such a trace as it stands, instead of the scenario's workload: "
    "same "
    "result,\n"
    "                       but for its run block (it sets workload.trace, .format, "
    ".arrival=recorded,\n"
    "                       .agents=0, .tool_latency_s=0, the scales to 1)\n"
    "  --explain            prints (or, with -o, writes) the resolved scenario instead of running "
    "it: every key, where "
    "it comes\n"
    "                       from, what follows from it\n"
    "  --help\n"
    "\n"
    "With --backend real:\n"
    "  --print-launch       starts no agents: prints the lines that start them on a cluster, and "
    "waits\n"
    "  --join-file FILE     with --print-launch: where the agents' keys go (default: "
    "./dualpath-join.json)\n"
    "  --listen ADDRESS     with --print-launch: numeric address of this machine that they reach\n"
    "  --wait SECONDS       for all agents to be ready (default: 60, with --print-launch 600)\n"
    "\n"
    "Exit status: 0 success, 1 the run failed, 2 bad input, 77 hardware that the run needs is "
    "missing,\n"
    "130 interrupted (nothing is written then).\n";

struct run_args {
    const char *scenario;
    const char **sets;
    size_t n_sets;
    char *owned_sets[3]; /* --seed, --tie-seed and --replay as settings */
    size_t n_owned;
    enum cli_format format;
    const char *machine;
    const char *output, *requests, *series, *decisions, *trace;
    bool explain, help;
    bool arrival_given; /* by the scenario or a setting */
    bool real;
    struct run_real_args real_args;
};

enum {
    OPT_SET = 256,
    OPT_SEED,
    OPT_TIE_SEED,
    OPT_FORMAT,
    OPT_REQUESTS,
    OPT_SERIES,
    OPT_EXPORT,
    OPT_REPLAY,
    OPT_EXPLAIN,
    OPT_HELP,
    OPT_BACKEND,
    OPT_DECISIONS,
    OPT_PRINT_LAUNCH,
    OPT_JOIN_FILE,
    OPT_LISTEN,
    OPT_WAIT,
    OPT_MACHINE,
};

static const struct option run_options[] = {
    {"set", required_argument, NULL, OPT_SET},
    {"seed", required_argument, NULL, OPT_SEED},
    {"tie-seed", required_argument, NULL, OPT_TIE_SEED},
    {"format", required_argument, NULL, OPT_FORMAT},
    {"requests", required_argument, NULL, OPT_REQUESTS},
    {"series", required_argument, NULL, OPT_SERIES},
    {"export-trace", required_argument, NULL, OPT_EXPORT},
    {"replay", required_argument, NULL, OPT_REPLAY},
    {"explain", no_argument, NULL, OPT_EXPLAIN},
    {"help", no_argument, NULL, OPT_HELP},
    {"backend", required_argument, NULL, OPT_BACKEND},
    {"decisions", required_argument, NULL, OPT_DECISIONS},
    {"print-launch", no_argument, NULL, OPT_PRINT_LAUNCH},
    {"join-file", required_argument, NULL, OPT_JOIN_FILE},
    {"listen", required_argument, NULL, OPT_LISTEN},
    {"wait", required_argument, NULL, OPT_WAIT},
    {"machine", required_argument, NULL, OPT_MACHINE},
    {NULL, 0, NULL, 0},
};

/* --seed N is --set seed=N. */
static int set_key(struct run_args *a, const char *key, const char *value, struct err *err)
{
    size_t size = strlen(key) + strlen(value) + 2;
    char *text = malloc(size);
    if (!text || a->n_owned == sizeof(a->owned_sets) / sizeof(a->owned_sets[0])) {
        free(text);
        return err_set(err, -EINVAL, "--seed, --tie-seed and --replay may be given once each");
    }
    snprintf(text, size, "%s=%s", key, value);
    a->owned_sets[a->n_owned++] = text;
    a->sets[a->n_sets++] = text;
    return 0;
}

static int set_seed(struct run_args *a, const char *option, const char *key, const char *value,
                    struct err *err)
{
    char *end;
    errno = 0;
    (void)strtoull(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end || errno) {
        err_at(err, option, 0, 0);
        return err_set(err, -EINVAL, "found '%.60s', expected a whole number from 0 to %" PRIu64,
                       value, UINT64_MAX);
    }
    return set_key(a, key, value, err);
}

/* What an exported trace already holds must not be applied to it again. max_len_tok stays: engines
 * are sized by it, and no exported turn is beyond it. */
static const char *const replay_sets[] = {
    "workload.format=dualpath",  "workload.arrival=recorded",   "workload.agents=0",
    "workload.append_scale=1",   "workload.generation_scale=1", "workload.tool_latency_scale=1",
    "workload.tool_latency_s=0", "workload.trace_block_tok=0",
};
#define N_REPLAY_SETS (sizeof(replay_sets) / sizeof(replay_sets[0]))

static int set_replay(struct run_args *a, const char *trace, struct err *err)
{
    for (size_t i = 0; i < N_REPLAY_SETS; i++) {
        a->sets[a->n_sets++] = replay_sets[i];
    }
    return set_key(a, "workload.trace", trace, err);
}

static int set_backend(struct run_args *a, const char *value, struct err *err)
{
    a->real = strcmp(value, "real") == 0;
    if (!a->real && strcmp(value, "sim") != 0) {
        err_field(err, "--backend");
        return err_set(err, -EINVAL, "found \"%s\", expected sim or real", value);
    }
    return 0;
}

/* Options of a real run only. */
static int parse_real_option(struct run_real_args *a, int option, const char *value,
                             struct err *err)
{
    switch (option) {
    case OPT_PRINT_LAUNCH:
        a->print_launch = true;
        return 0;
    case OPT_JOIN_FILE:
        a->join_path = value;
        return 0;
    case OPT_LISTEN:
        a->listen = value;
        return 0;
    default:
        return cli_positive("--wait", UNIT_S, value, &a->wait_s, err);
    }
}

static int parse_option(struct run_args *a, int option, const char *value, struct err *err)
{
    switch (option) {
    case OPT_SET:
        a->sets[a->n_sets++] = value;
        return 0;
    case OPT_SEED:
        return set_seed(a, "--seed", "seed", value, err);
    case OPT_TIE_SEED:
        return set_seed(a, "--tie-seed", "tie_seed", value, err);
    case OPT_FORMAT:
        return cli_parse_format(value, &a->format, err);
    case OPT_REQUESTS:
        a->requests = value;
        return 0;
    case OPT_SERIES:
        a->series = value;
        return 0;
    case OPT_EXPORT:
        a->trace = value;
        return 0;
    case OPT_REPLAY:
        return set_replay(a, value, err);
    case OPT_EXPLAIN:
        a->explain = true;
        return 0;
    case OPT_MACHINE:
        a->machine = value;
        return 0;
    case OPT_BACKEND:
        return set_backend(a, value, err);
    case OPT_DECISIONS:
        a->decisions = value;
        return 0;
    case OPT_PRINT_LAUNCH:
    case OPT_JOIN_FILE:
    case OPT_LISTEN:
    case OPT_WAIT:
        return parse_real_option(&a->real_args, option, value, err);
    case 'o':
        a->output = value;
        return 0;
    default:
        a->help = true;
        return 0;
    }
}

/* Returns EXIT_OK, or the exit status after having said what is wrong. */
static int parse(struct run_args *a, int argc, char **argv)
{
    struct err err = ERR_INIT;
    int option;
    a->sets = calloc((size_t)argc * (N_REPLAY_SETS + 1), sizeof(*a->sets));
    if (!a->sets) {
        err_nomem(&err);
        return cli_bad_input(&err);
    }
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":o:", run_options, NULL)) != -1) {
        if (option == '?' || option == ':') {
            return cli_usage("run",
                             option == ':' ? "option '%s' needs a value" : "unknown option '%s'",
                             argv[optind - 1]);
        }
        if (parse_option(a, option, optarg, &err)) {
            return cli_bad_input(&err);
        }
    }
    if (!a->help && optind != argc - 1) {
        return cli_usage("run",
                         optind < argc ? "more than one scenario given" : "no scenario given");
    }
    if (a->explain &&
        (a->requests || a->series || a->decisions || a->trace || a->format == CLI_JSON)) {
        return cli_usage("run", "--explain runs nothing and is text: it goes with -o, not with "
                                "--requests, --series, --decisions, --export-trace or --format "
                                "json");
    }
    a->scenario = argv[optind];
    return EXIT_OK;
}

static void print_warnings(const struct scenario_notes *notes)
{
    for (size_t i = 0; i < notes->n_warnings; i++) {
        fprintf(stderr, "dualpath: warning: %s\n", notes->warnings[i]);
    }
}

/* From the first to the last recorded arrival of an agent. */
static double recorded_span_s(const struct trace *t)
{
    uint64_t last_ns = 0; /* the first is at 0 */
    for (uint32_t i = 0; i < t->n_sessions; i++) {
        const struct trace_session *s = &t->sessions[i];
        last_ns = s->parent == TRACE_NONE && s->arrival_ns > last_ns ? s->arrival_ns : last_ns;
    }
    return (double)last_ns / (double)NS_PER_S;
}

/* What the reader and the workload changed or left out, for the person who will use the numbers. */
static void print_repairs(const struct workload *w, bool arrival_given)
{
    struct workload_info info;
    workload_info(w, &info);
    for (uint32_t i = 0; i < info.trace->n_repairs; i++) {
        fprintf(stderr, "dualpath: note: trace: %s: %" PRIu64 "\n", info.trace->repairs[i].reason,
                info.trace->repairs[i].count);
    }
    double recorded_s = arrival_given ? 0 : recorded_span_s(info.trace);
    if (recorded_s > 0) {
        fprintf(
            stderr,
            "dualpath: note: workload: all agents start at 0, as no arrival is given; the trace "
            "records arrivals over %.6g s (set workload.arrival to recorded to keep them, or to "
            "offline)\n",
            recorded_s);
    }
    const struct {
        const char *what;
        uint64_t count;
    } counts[] = {
        {"agents beyond the sessions of the trace, each a copy of one", info.counts.copies},
        {"turns beyond max_len_tok not replayed", info.counts.turns_cut},
        {"turns of copies not replayed (their synthetic first round takes room)",
         info.counts.agent_turns_cut},
        {"sessions dropped with the turn they begin at", info.counts.sessions_dropped},
        {"waits for dropped sessions ignored", info.counts.waits_dropped},
        {"lengths scaled to 0 raised to 1 token", info.counts.lengths_raised},
    };
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        if (counts[i].count) {
            fprintf(stderr, "dualpath: note: workload: %s: %" PRIu64 "\n", counts[i].what,
                    counts[i].count);
        }
    }
}

struct run_outputs {
    struct output result, requests, series, decisions, trace;
};

/* One of two outputs to the same file would be lost. */
static int check_distinct(const struct run_outputs *o, struct err *err)
{
    const struct {
        const char *option;
        const struct output *output;
    } all[] = {{"-o", &o->result},
               {"--requests", &o->requests},
               {"--series", &o->series},
               {"--decisions", &o->decisions},
               {"--export-trace", &o->trace}};
    const size_t n = sizeof(all) / sizeof(all[0]);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = i + 1; k < n; k++) {
            if (output_is_same(all[i].output, all[k].output)) {
                err_at(err, all[k].output->path, 0, 0);
                return err_set(err, -EINVAL, "named by %s and by %s, expected a file for each",
                               all[i].option, all[k].option);
            }
        }
    }
    return 0;
}

static int open_outputs(const struct run_args *a, struct run_outputs *o, struct err *err)
{
    memset(o, 0, sizeof(*o));
    int rc = output_open(&o->result, a->output, err);
    rc = rc ? rc : output_open(&o->requests, a->requests, err);
    rc = rc ? rc : output_open(&o->series, a->series, err);
    rc = rc ? rc : output_open(&o->decisions, a->decisions, err);
    rc = rc ? rc : output_open(&o->trace, a->trace, err);
    return rc ? rc : check_distinct(o, err);
}

static int commit_outputs(struct run_outputs *o, struct err *err)
{
    int rc = output_commit(&o->requests, err);
    rc = rc ? rc : output_commit(&o->series, err);
    rc = rc ? rc : output_commit(&o->decisions, err);
    rc = rc ? rc : output_commit(&o->trace, err);
    return rc ? rc : output_commit(&o->result, err);
}

static void discard_outputs(struct run_outputs *o)
{
    output_discard(&o->result);
    output_discard(&o->requests);
    output_discard(&o->series);
    output_discard(&o->decisions);
    output_discard(&o->trace);
}

static int write_result(const struct run_args *a, const struct result *r, FILE *out,
                        struct err *err)
{
    if (a->format == CLI_JSON) {
        return result_write_json(r, out, err);
    }
    result_write_text(r, out);
    return ferror(out) ? err_set(err, -EIO, "cannot write the result") : 0;
}

static int fail(struct err *err, int rc)
{
    cli_bad_input(err);
    switch (rc) {
    case -ECANCELED:
        return EXIT_INTERRUPTED;
    case -ENODEV:
        return EXIT_NO_DEVICE;
    default:
        return EXIT_RUN_FAILED;
    }
}

/* Both return EXIT_OK with *ret filled, or the exit status after having said what is wrong. */
static int simulate(const struct run_args *a, const struct scenario *sc, struct progress *progress,
                    struct run_outputs *o, struct result *ret)
{
    struct err err = ERR_INIT;
    struct simulation *s;
    const struct simulation_options sim = {.interrupted = &cli_interrupted,
                                           .progress = progress_show,
                                           .progress_arg = progress,
                                           .requests_csv = o->requests.file,
                                           .series_csv = o->series.file,
                                           .decisions_csv = o->decisions.file};
    if (simulation_new(sc, &sim, &s, &err)) {
        return cli_bad_input(&err);
    }
    print_repairs(simulation_workload(s), a->arrival_given);
    int rc = o->trace.file ? workload_export(simulation_workload(s), o->trace.file, &err) : 0;
    rc = rc ? rc : simulation_run(s, ret, &err);
    progress_end(progress);
    simulation_free(s);
    return rc ? fail(&err, rc) : EXIT_OK;
}

static int run_for_real(const struct run_args *a, const struct scenario *sc, struct run_outputs *o,
                        struct result *ret)
{
    struct err err = ERR_INIT;
    struct real_run *r;
    const struct run_real_files files = {o->requests.file, o->series.file, o->decisions.file};
    if (run_real_new(sc, &a->real_args, &files, &cli_interrupted, &r, &err)) {
        return err.code == -EINVAL ? cli_bad_input(&err) : fail(&err, err.code);
    }
    print_repairs(real_run_workload(r), a->arrival_given);
    int rc = o->trace.file ? workload_export(real_run_workload(r), o->trace.file, &err) : 0;
    rc = rc ? rc : real_run_go(r, ret, &err);
    real_run_free(r);
    return rc ? fail(&err, rc) : EXIT_OK;
}

static int run(const struct run_args *a, const struct scenario *sc, struct run_outputs *o)
{
    struct err err = ERR_INIT;
    struct progress progress;
    struct result r;
    progress_start(&progress);
    int status = a->real ? run_for_real(a, sc, o, &r) : simulate(a, sc, &progress, o, &r);
    if (status != EXIT_OK) {
        return status;
    }
    r.wall_s = progress_wall_s(&progress);
    r.peak_rss_bytes = progress_peak_rss_bytes();
    int rc = write_result(a, &r, o->result.file ? o->result.file : stdout, &err);
    rc = rc ? rc : commit_outputs(o, &err);
    result_done(&r);
    return rc ? fail(&err, rc) : EXIT_OK;
}

/* The settings of --machine, then those of --set, which so win. */
static int read_scenario(const struct run_args *a, struct scenario *ret,
                         struct scenario_notes *notes, struct err *err)
{
    struct machine_profile machine = {0};
    int rc = a->machine ? machine_profile_read(a->machine, &machine, err) : 0;
    size_t n = machine.n + a->n_sets;
    const char **sets = rc == 0 ? calloc(n + 1, sizeof(*sets)) : NULL;
    if (rc == 0 && !sets) {
        rc = err_nomem(err);
    }
    for (size_t i = 0; rc == 0 && i < n; i++) {
        sets[i] = i < machine.n ? machine.sets[i] : a->sets[i - machine.n];
    }
    rc = rc ? rc : scenario_read(a->scenario, sets, n, ret, notes, err);
    free(sets);
    machine_profile_done(&machine);
    return rc;
}

static int explain(const struct scenario *sc, const struct scenario_notes *notes,
                   struct run_outputs *o)
{
    struct err err = ERR_INIT;
    struct timing_model timing;
    struct cluster cluster;
    if (compose_cluster(sc, &timing, &cluster, &err)) { /* what no run takes is not explained */
        return cli_bad_input(&err);
    }
    scenario_explain(sc, notes, o->result.file ? o->result.file : stdout);
    int rc = output_commit(&o->result, &err);
    return rc ? fail(&err, rc) : EXIT_OK;
}

static int read_and_run(struct run_args *a)
{
    struct err err = ERR_INIT;
    struct scenario sc;
    struct scenario_notes notes;
    struct run_outputs outputs;
    if (read_scenario(a, &sc, &notes, &err)) {
        return cli_bad_input(&err);
    }
    print_warnings(&notes);
    const struct scenario_key *arrival = scenario_key_find("workload.arrival.kind");
    a->arrival_given = notes.origins[arrival - scenario_keys].by != SCENARIO_BY_DEFAULT;
    int status = EXIT_OK;
    if (open_outputs(a, &outputs, &err)) {
        status = cli_bad_input(&err);
    } else if (a->explain) {
        status = explain(&sc, &notes, &outputs);
    } else {
        status = run(a, &sc, &outputs);
    }
    discard_outputs(&outputs);
    scenario_notes_done(&notes);
    return status;
}

int cmd_run(int argc, char **argv)
{
    struct run_args a = {0};
    int status = parse(&a, argc, argv);
    if (status == EXIT_OK && a.help) {
        fputs(help, stdout);
    } else if (status == EXIT_OK) {
        cli_catch_interrupts();
        status = read_and_run(&a);
    }
    for (size_t i = 0; i < a.n_owned; i++) {
        free(a.owned_sets[i]);
    }
    free(a.sets);
    return status;
}
