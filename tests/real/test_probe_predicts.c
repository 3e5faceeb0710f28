/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * After dualpath probe, does the simulator predict what a real run takes on this machine? JCT and
 * mean TTFT of the loopback scenario, basic and dualpath, and which of the two is better.
 *
 *   test_probe_predicts        one run of each; fails beyond 40 %, and only if a second probe with
 *                              its runs is beyond too: one run says nothing of order
 *   test_probe_predicts full   medians of five runs, taken in turn; fails beyond 15 %, or where the
 *                              medians are apart by more than the runs scatter and the order is
 *                              wrong
 *
 * The machine must be quiet for that: what others take from it between the probe and the runs no
 * simulator can know. On a busy one (by the probe's own figure, before or after) the errors are
 * stated but not judged, and the test is skipped (77), unless PROBE_JUDGE is in the environment.
 */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SCENARIO     "scenarios/loopback.json"
#define MAX_RUNS     5
#define MAX_SLOWDOWN 1.5 /* beyond: others use this machine */
#define SKIPPED      77

static char dir[200];
static const char *dualpath;

static const char *const presets[2] = {"basic", "dualpath"};

enum metric { JCT, TTFT, METRICS };

static const char *const metric_names[METRICS] = {"JCT", "mean TTFT"};

struct outcome {
    double s[METRICS];
};

/* What one try asks for. */
struct
try {
    int runs; /* of each preset, at most MAX_RUNS */
    double max_error;
    bool judge_order;
};

static void give_up(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(EXIT_FAILURE);
}

/* Runs the program through a shell, as every argument here is plain. */
static void command(const char *arguments)
{
    char line[1200];
    snprintf(line, sizeof(line), "'%s' %s", dualpath, arguments);
    int status = system(line);
    if (status == -1 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        give_up(line);
    }
}

static json_t *load(const char *name)
{
    char path[300];
    json_error_t error;
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    json_t *root = json_load_file(path, 0, &error);
    unlink(path);
    if (!root) {
        give_up(error.text);
    }
    return root;
}

static struct outcome run(const char *backend, const char *preset)
{
    char line[1000];
    snprintf(line, sizeof(line),
             "run " SCENARIO " --backend %s --machine %s/profile.json --set system.preset=%s "
             "--format json -o %s/result.json 2>%s/err",
             backend, dir, preset, dir, dir);
    command(line);
    json_t *root = load("result.json");
    struct outcome o = {
        {json_number_value(json_object_get(root, "jct_s")),
         json_number_value(json_object_get(json_object_get(root, "ttft_s"), "mean"))}};
    json_decref(root);
    return o;
}

static double probe(void)
{
    char line[1000], copy[1000];
    snprintf(line, sizeof(line),
             "probe " SCENARIO " --seconds 16 -o %s/profile.json --format json "
             ">%s/probe.json 2>%s/err",
             dir, dir, dir);
    command(line);
    json_t *root = load("probe.json");
    json_t *fit = json_object_get(json_object_get(root, "profile"), "fit");
    double slowdown = json_number_value(json_object_get(fit, "slowdown"));
    json_decref(root);
    snprintf(copy, sizeof(copy), "%s/profile.json", dir);
    if (access(copy, R_OK)) {
        give_up("probe wrote no profile");
    }
    return slowdown;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool within(const char *preset, enum metric m, const double *real, int runs, double sim,
                   double max_error)
{
    double middle = real[runs / 2], error = (sim - middle) / middle;
    printf("%-8s %-9s real %8.4f s (%d runs, %.4f to %.4f), predicted %8.4f s: %+.1f %%\n", preset,
           metric_names[m], middle, runs, real[0], real[runs - 1], sim, 100 * error);
    return fabs(error) <= max_error;
}

/* Real figures whose runs overlap have no order to predict. */
static bool same_order(enum metric m, double real[2][MAX_RUNS], int runs, const double sim[2])
{
    bool first_less = real[0][runs - 1] < real[1][0], second_less = real[1][runs - 1] < real[0][0];
    const char *predicted = presets[sim[1] < sim[0]];
    if (!first_less && !second_less) {
        printf("%-18s the real runs overlap: no order to predict (predicted: %s)\n",
               metric_names[m], predicted);
        return true;
    }
    printf("%-18s real: %s is less; predicted: %s\n", metric_names[m], presets[second_less],
           predicted);
    return second_less == (sim[1] < sim[0]);
}

static bool compare_all(const struct try *t)
{
    double real[METRICS][2][MAX_RUNS], sim[METRICS][2];
    for (int i = 0; i < 2; i++) {
        struct outcome o = run("sim", presets[i]);
        for (int m = 0; m < METRICS; m++) {
            sim[m][i] = o.s[m];
        }
    }
    for (int r = 0; r < t->runs; r++) {
        for (int i = 0; i < 2; i++) {
            struct outcome o = run("real", presets[i]);
            for (int m = 0; m < METRICS; m++) {
                real[m][i][r] = o.s[m];
            }
        }
    }
    bool good = true;
    for (int m = 0; m < METRICS; m++) {
        for (int i = 0; i < 2; i++) {
            qsort(real[m][i], (size_t)t->runs, sizeof(double), by_value);
            good &=
                within(presets[i], (enum metric)m, real[m][i], t->runs, sim[m][i], t->max_error);
        }
        bool ordered = same_order((enum metric)m, real[m], t->runs, sim[m]);
        good &= ordered || !t->judge_order;
    }
    return good;
}

static void clean_up(void)
{
    static const char *const names[] = {"profile.json", "err"};
    for (unsigned i = 0; i < 2; i++) {
        char path[300];
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(dir);
}

/* Probes, runs and compares; *slowdown is what the probes before and after saw at most. */
static bool attempt(const struct try *t, double *slowdown)
{
    double before = probe();
    bool good = compare_all(t);
    double after = probe();
    *slowdown = before > after ? before : after;
    return good;
}

int main(int argc, char **argv)
{
    bool full = argc > 1 && strcmp(argv[1], "full") == 0;
    struct try t = full ? (struct try){MAX_RUNS, 0.15, true} : (struct try){1, 0.40, false};
    const char *tmp = getenv("TMPDIR");
    dualpath = getenv("DUALPATH");
    snprintf(dir, sizeof(dir), "%s/probe-test-XXXXXX", tmp ? tmp : "/tmp");
    if (!dualpath || !mkdtemp(dir)) {
        give_up("DUALPATH must name the program, and TMPDIR be a directory");
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    double slowdown;
    bool good = attempt(&t, &slowdown);
    if (!good && !full) {
        printf("Beyond %.0f %%: once more.\n", 100 * t.max_error);
        good = attempt(&t, &slowdown);
    }
    clean_up();
    if (!good && slowdown > MAX_SLOWDOWN && !getenv("PROBE_JUDGE")) {
        printf("Not judged: computing took %.2f times its processor time, so others use this "
               "machine.\n",
               slowdown);
        return SKIPPED;
    }
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
