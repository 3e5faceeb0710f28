/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * After dualpath probe, does the simulator predict what a real run takes on this machine? JCT and
 * mean TTFT of the loopback scenario, basic and dualpath, and which of the two is better.
 *
 * The machine must be quiet for that: what others take from it between the probe and the runs no
 * simulator can know. On a busy one (by the probe's own figure) the errors are stated but not
 * judged, and the test is skipped (77), unless PROBE_JUDGE is in the environment.
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
#define MAX_ERROR    0.40
#define MAX_SLOWDOWN 1.5  /* beyond: others use this machine */
#define APART        0.05 /* real figures nearer than this have no order to predict */
#define SKIPPED      77

static char dir[200];
static const char *dualpath;

static const char *const presets[2] = {"basic", "dualpath"};

struct outcome {
    double jct_s, ttft_s;
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
        json_number_value(json_object_get(root, "jct_s")),
        json_number_value(json_object_get(json_object_get(root, "ttft_s"), "mean"))};
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

static bool within(const char *preset, const char *what, double real, double sim)
{
    double error = (sim - real) / real;
    printf("%-8s %-9s real %8.4f s, predicted %8.4f s: %+.1f %%\n", preset, what, real, sim,
           100 * error);
    return fabs(error) <= MAX_ERROR;
}

static bool same_order(const char *what, const double real[2], const double sim[2])
{
    if (fabs(real[1] - real[0]) < APART * real[0]) {
        printf("%-18s within %.0f %% of each other: no order to predict\n", what, 100 * APART);
        return true;
    }
    bool same = (real[1] < real[0]) == (sim[1] < sim[0]);
    printf("%-18s real: %s is less; predicted: %s\n", what, presets[real[1] < real[0]],
           presets[sim[1] < sim[0]]);
    return same;
}

static bool compare_all(void)
{
    double real_jct[2], sim_jct[2], real_ttft[2], sim_ttft[2];
    bool good = true;
    for (int i = 0; i < 2; i++) {
        struct outcome sim = run("sim", presets[i]), real = run("real", presets[i]);
        sim_jct[i] = sim.jct_s;
        sim_ttft[i] = sim.ttft_s;
        real_jct[i] = real.jct_s;
        real_ttft[i] = real.ttft_s;
        good &= within(presets[i], "JCT", real.jct_s, sim.jct_s);
        good &= within(presets[i], "mean TTFT", real.ttft_s, sim.ttft_s);
    }
    good &= same_order("JCT", real_jct, sim_jct);
    return same_order("mean TTFT", real_ttft, sim_ttft) && good;
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

int main(void)
{
    const char *tmp = getenv("TMPDIR");
    dualpath = getenv("DUALPATH");
    snprintf(dir, sizeof(dir), "%s/probe-test-XXXXXX", tmp ? tmp : "/tmp");
    if (!dualpath || !mkdtemp(dir)) {
        give_up("DUALPATH must name the program, and TMPDIR be a directory");
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    double slowdown = probe();
    bool good = compare_all();
    clean_up();
    if (slowdown > MAX_SLOWDOWN && !getenv("PROBE_JUDGE")) {
        printf("Not judged: computing took %.2f times its processor time, so others use this "
               "machine.\n",
               slowdown);
        return SKIPPED;
    }
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
