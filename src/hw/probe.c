/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/probe.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/units.h"
#include "hw/probe_internal.h"

const char *probe_what_name(enum probe_what what)
{
    static const char *const names[PROBE_N_WHAT] = {
        [PROBE_STORAGE_READ] = "storage read", [PROBE_STORAGE_WRITE] = "storage write",
        [PROBE_COPY_MEM] = "copy mem",         [PROBE_COPY_TCP] = "copy tcp",
        [PROBE_COPY_VERBS] = "copy verbs",     [PROBE_COPY_VERBS_GPU] = "copy verbs to GPU",
        [PROBE_MESSAGE] = "message",           [PROBE_FORWARD] = "forward",
        [PROBE_DECODE] = "decode step",
    };
    return names[what];
}

int probe_points_add(struct probe_points *ps, const struct probe_point *p, struct err *e)
{
    if (ps->n == ps->capacity) {
        uint32_t capacity = ps->capacity ? 2 * ps->capacity : 64;
        struct probe_point *points = realloc(ps->points, capacity * sizeof(*points));
        if (!points) {
            return err_nomem(e);
        }
        ps->points = points;
        ps->capacity = capacity;
    }
    ps->points[ps->n++] = *p;
    return 0;
}

void probe_points_done(struct probe_points *ps)
{
    free(ps->points);
    *ps = (struct probe_points){0};
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct probe_stat probe_stat_of(const double values[PROBE_REPETITIONS])
{
    double v[PROBE_REPETITIONS];
    memcpy(v, values, sizeof(v));
    qsort(v, PROBE_REPETITIONS, sizeof(v[0]), compare);
    return (struct probe_stat){
        .median = v[PROBE_REPETITIONS / 2], .min = v[0], .max = v[PROBE_REPETITIONS - 1]};
}

int probe_go_on(const struct probe_config *c)
{
    return c->interrupted && atomic_load(c->interrupted) ? -ECANCELED : 0;
}

uint64_t probe_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* Ground */

int probe_ground_init(struct probe_ground *g, unsigned n_threads, struct err *e)
{
    *g = (struct probe_ground){0};
    int rc = wall_driver_init(&g->driver, e);
    if (rc) {
        return rc;
    }
    g->has_driver = true;
    if (loop_init(&g->loop, &g->driver.driver, 0)) {
        return err_nomem(e);
    }
    wall_driver_attach(&g->driver, &g->loop);
    g->has_loop = true;
    rc = work_pool_init(&g->pool, &g->loop, &g->driver, n_threads, e);
    g->has_pool = rc == 0;
    return rc;
}

void probe_ground_done(struct probe_ground *g)
{
    if (g->has_pool) {
        work_pool_done(&g->pool);
    }
    if (g->has_driver) {
        wall_driver_done(&g->driver);
    }
    if (g->has_loop) {
        loop_done(&g->loop);
    }
}

struct rest {
    struct loop_timer timer;
    struct loop *loop;
};

static void rested(struct loop_timer *t)
{
    loop_stop(container_of(t, struct rest, timer)->loop);
}

int probe_rest(struct probe_ground *g, uint64_t ns)
{
    struct rest r = {.loop = &g->loop};
    loop_timer_init(&r.timer, rested);
    loop_arm(&g->loop, &r.timer, wall_now_ns() + ns);
    int rc = loop_run(&g->loop);
    loop_disarm(&g->loop, &r.timer);
    return rc;
}

static unsigned look_for_stop(struct loop_poller *poller)
{
    struct probe_peer *p = container_of(poller, struct probe_peer, poller);
    if (atomic_load(&p->stop)) {
        loop_stop(&p->ground.loop);
    }
    return 0;
}

int probe_peer_init(struct probe_peer *p, unsigned n_threads, struct err *e)
{
    p->started = false;
    atomic_init(&p->stop, false);
    p->poller.poll = look_for_stop;
    return probe_ground_init(&p->ground, n_threads, e);
}

static void *run_peer(void *arg)
{
    struct probe_peer *p = arg;
    loop_run(&p->ground.loop);
    return NULL;
}

int probe_peer_start(struct probe_peer *p, struct err *e)
{
    loop_add_poller(&p->ground.loop, &p->poller);
    int rc = -pthread_create(&p->thread, NULL, run_peer, p);
    if (rc) {
        loop_remove_poller(&p->poller);
        return err_set(e, rc, "cannot start a thread: %s", strerror(-rc));
    }
    p->started = true;
    return 0;
}

void probe_peer_stop(struct probe_peer *p)
{
    if (p->started) {
        atomic_store(&p->stop, true);
        wall_driver_wake(&p->ground.driver);
        pthread_join(p->thread, NULL);
        loop_remove_poller(&p->poller);
        p->started = false;
    }
}

void probe_peer_done(struct probe_peer *p)
{
    probe_peer_stop(p);
    probe_ground_done(&p->ground);
}

/* Ops in flight */

struct rep;

struct flight {
    struct dp_op op;
    struct rep *rep;
    uint32_t dp, slot;
    uint64_t start_ns;
};

struct rep {
    struct probe_bench *bench;
    struct flight *flights;
    uint64_t end_ns, last_ns;
    uint64_t n_submitted, n_done;
    uint32_t n_in_flight;
    double time_ns, log_sum, log_squares, submit_ns;
    uint64_t bytes;
    int status;
};

static void submit(struct flight *f);

static void flight_done(struct dp_op *op)
{
    struct flight *f = container_of(op, struct flight, op);
    struct rep *r = f->rep;
    uint64_t now = wall_now_ns();
    double ns = (double)(now - f->start_ns);
    r->n_in_flight--;
    r->n_done++;
    r->time_ns += ns;
    r->log_sum += log(ns);
    r->log_squares += log(ns) * log(ns);
    r->bytes += dp_op_bytes(op);
    r->last_ns = now;
    r->status = r->status ? r->status : op->status;
    if (now < r->end_ns && r->status == 0) {
        submit(f);
    }
    if (r->n_in_flight == 0) {
        loop_stop(&r->bench->ground->loop);
    }
}

static void submit(struct flight *f)
{
    struct rep *r = f->rep;
    struct probe_bench *b = r->bench;
    f->op = (struct dp_op){0};
    b->fill(b->self, f->dp, r->n_submitted++, f->slot, &f->op);
    f->op.done = flight_done;
    f->start_ns = wall_now_ns();
    int rc = dp_submit(&b->dps[f->dp]->dp, &f->op);
    r->submit_ns += (double)(wall_now_ns() - f->start_ns);
    r->n_in_flight += rc == 0;
    r->status = r->status ? r->status : rc;
}

static int run_rep(struct rep *r, uint64_t rep_ns)
{
    struct probe_bench *b = r->bench;
    uint64_t start_ns = wall_now_ns();
    r->end_ns = start_ns + rep_ns;
    for (uint32_t i = 0; i < b->n_dps * b->depth && r->status == 0; i++) {
        struct flight *f = &r->flights[i];
        *f = (struct flight){.rep = r, .dp = i % b->n_dps, .slot = i / b->n_dps};
        submit(f);
    }
    int rc = r->n_in_flight > 0 ? loop_run(&b->ground->loop) : 0;
    r->last_ns -= start_ns;
    return r->status ? r->status : rc;
}

struct logs {
    double n, sum, squares;
};

static void take_rep(const struct rep *r, uint32_t n_dps, uint32_t i, double time[], double Bps[],
                     double submits[], struct logs *logs)
{
    time[i] = r->time_ns / (double)r->n_done;
    Bps[i] = (double)r->bytes / ((double)r->last_ns * 1e-9) / n_dps;
    submits[i] = r->submit_ns / (double)r->n_submitted;
    logs->n += (double)r->n_done;
    logs->sum += r->log_sum;
    logs->squares += r->log_squares;
}

static int say(const struct probe_bench *b, const struct probe_point *p, int rc, struct err *e)
{
    for (uint32_t i = 0; i < b->n_dps; i++) {
        if (b->dps[i]->faults.n) {
            return err_set(e, rc, "%s: %s", probe_what_name(p->what), b->dps[i]->faults.last.text);
        }
    }
    return err_set(e, rc, "%s: %s", probe_what_name(p->what), strerror(-rc));
}

int probe_bench_run(struct probe_bench *b, const struct probe_config *c, struct probe_point *p,
                    struct err *e)
{
    double time[PROBE_REPETITIONS], Bps[PROBE_REPETITIONS], submits[PROBE_REPETITIONS];
    struct logs logs = {0};
    struct flight *flights = calloc((size_t)b->n_dps * b->depth, sizeof(*flights));
    if (!flights) {
        return err_nomem(e);
    }
    for (uint32_t i = 0; i < PROBE_REPETITIONS; i++) {
        struct rep r = {.bench = b, .flights = flights};
        int rc = probe_go_on(c);
        rc = rc ? rc : run_rep(&r, c->rep_ns);
        if (rc) {
            free(flights);
            return say(b, p, rc, e);
        }
        take_rep(&r, b->n_dps, i, time, Bps, submits, &logs);
    }
    free(flights);
    p->depth = b->depth;
    p->nodes = b->n_dps;
    p->time_ns = probe_stat_of(time);
    p->Bps = probe_stat_of(Bps);
    p->submit_ns = probe_stat_of(submits);
    double mean = logs.sum / logs.n;
    p->time_sigma = sqrt(fmax(0, logs.squares / logs.n - mean * mean));
    return 0;
}
