/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How fast whole runs are: events and requests per second of CPU time. Not part of the suite. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "input/scenario.h"
#include "plan/simulate.h"

struct bench {
    const char *name;
    const char *scenario;
    const char *sets[2];
    size_t n_sets;
};

static const struct bench benches[] = {
    {"quickstart", "quickstart", {0}, 0},
    {"ds27b-1p1d", "ds27b-1p1d", {0}, 0},
    {"ds660b-2p4d", "ds660b-2p4d", {0}, 0},
    {"mooncake-conversation", "mooncake-conversation", {0}, 0},
    {"ds660b-48p96d, 4096 agents", "ds660b-48p96d", {"workload.agents=4096"}, 1},
};

static double cpu_s(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static double peak_rss_mb(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_maxrss / 1000;
}

static int report_error(const struct bench *b, const struct err *err)
{
    char text[1024];
    err_format(err, text, sizeof(text));
    fprintf(stderr, "%s: %s\n", b->name, text);
    return EXIT_FAILURE;
}

static int run(const struct bench *b)
{
    const struct simulation_options options = {0};
    struct scenario sc;
    struct scenario_notes notes;
    struct simulation *s;
    struct result r;
    struct err err = ERR_INIT;
    if (scenario_read(b->scenario, b->sets, b->n_sets, &sc, &notes, &err)) {
        return report_error(b, &err);
    }
    scenario_notes_done(&notes);
    double start = cpu_s();
    if (simulation_new(&sc, &options, &s, &err)) {
        return report_error(b, &err);
    }
    double built = cpu_s();
    int rc = simulation_run(s, &r, &err);
    double end = cpu_s();
    simulation_free(s);
    if (rc) {
        return report_error(b, &err);
    }
    printf("%-28s %9llu %10llu %8.2f %8.2f %12.3g %14.4g %8.0f\n", b->name,
           (unsigned long long)r.requests, (unsigned long long)r.events, built - start, end - built,
           (double)r.events / (end - built), (double)r.requests / (end - start), peak_rss_mb());
    fflush(stdout);
    return EXIT_SUCCESS;
}

int main(void)
{
    printf("%-28s %9s %10s %8s %8s %12s %14s %8s\n", "run", "requests", "events", "build_s",
           "run_s", "events/CPU s", "requests/CPU s", "peak MB");
    for (size_t i = 0; i < sizeof(benches) / sizeof(benches[0]); i++) {
        if (run(&benches[i]) != EXIT_SUCCESS) {
            return EXIT_FAILURE;
        }
    }
    return EXIT_SUCCESS;
}
