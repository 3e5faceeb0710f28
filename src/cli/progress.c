/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define SHOW_EVERY_S 0.2

static double clock_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void progress_start(struct progress *p)
{
    *p = (struct progress){.started_s = clock_s(), .terminal = isatty(STDERR_FILENO)};
}

void progress_show(void *arg, const struct simulation_progress *s)
{
    struct progress *p = arg;
    double now_s = clock_s(), elapsed_s = now_s - p->started_s;
    if (!p->terminal || elapsed_s < 1 || now_s - p->shown_s < SHOW_EVERY_S) {
        return;
    }
    p->shown_s = now_s;
    p->shown = true;
    double done = s->requests_total ? (double)s->requests_over / (double)s->requests_total : 0;
    double eta_s = done > 0 ? elapsed_s * (1 - done) / done : 0;
    fprintf(stderr, "\r\033[K%5.1f %%  simulated %.1f s  %.2f M events/s  ETA %.0f s", 100 * done,
            s->simulated_s, (double)s->events / elapsed_s * 1e-6, eta_s);
}

void progress_end(struct progress *p)
{
    if (p->shown) {
        fprintf(stderr, "\r\033[K");
    }
}

double progress_wall_s(const struct progress *p)
{
    return clock_s() - p->started_s;
}

uint64_t progress_peak_rss_bytes(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
#ifdef __APPLE__
    return (uint64_t)u.ru_maxrss;
#else
    return (uint64_t)u.ru_maxrss * 1024;
#endif
}
