/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "plan/runs.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plan/run_steady.h"
#include "plan/simulation.h"

/* A job as it will run. */
struct task {
    struct scenario scenario;
    bool until_steady;
    size_t job;  /* whose outcome it fills */
    size_t same; /* the task that runs in its place; itself if it runs */
};

struct worker {
    pid_t pid; /* 0: idle */
    int fd;
    struct task *task;
    size_t got; /* bytes of the outcome */
};

struct runner {
    const struct runs_options *options;
    struct task *tasks;
    struct task **order; /* those that run, largest first */
    size_t n_order, next, done;
    struct worker *workers;
    struct run_outcome *outcomes;
    struct err *err;
};

/* In the worker's process */

struct ending {
    uint64_t last_arrival_ns;
    double slo_ttft_s;
    enum run_course course;
};

static bool enough(void *arg, const struct metrics *m)
{
    struct ending *e = arg;
    e->course = run_course(m, e->last_arrival_ns, e->slo_ttft_s);
    return e->course != RUN_GOES_ON;
}

static void simulate(const struct task *t, struct run_outcome *o)
{
    const struct scenario *sc = &t->scenario;
    struct ending ending = {.slo_ttft_s = sc->slo.ttft_s};
    bool open = sc->workload.arrival != ARRIVAL_OFFLINE, until_steady = open && t->until_steady;
    const struct simulation_options options = {.enough = until_steady ? enough : NULL,
                                               .enough_arg = &ending};
    struct simulation *s;
    *o = (struct run_outcome){.err = ERR_INIT};
    if (simulation_new(sc, &options, &s, &o->err)) {
        return;
    }
    ending.last_arrival_ns = recorder_last_arrival_ns(s->workload);
    if (simulation_run(s, &o->result, &o->err) == 0) {
        const struct metrics *m = &s->recorder.metrics;
        if (until_steady) {
            run_steady_end(m, ending.course, &o->steady);
        } else if (open) {
            run_steady_find(m, ending.last_arrival_ns, &o->steady);
        }
        o->n_points = run_points(m, o->points);
    }
    simulation_free(s);
}

static int write_all(int fd, const void *data, size_t size)
{
    const char *at = data;
    while (size > 0) {
        ssize_t n = write(fd, at, size);
        if (n < 0 && errno != EINTR) {
            return -errno;
        }
        at += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* Leaves without flushing what the parent may have in its stdio buffers. */
static void be_worker(const struct task *t, int fd)
{
    struct run_outcome *o = malloc(sizeof(*o));
    if (!o) {
        _exit(1);
    }
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    simulate(t, o);
    int rc = write_all(fd, o, sizeof(*o));
    free(o);
    _exit(rc ? 1 : 0);
}

/* In the parent */

static int start(struct runner *p, struct worker *w)
{
    int fds[2];
    if (pipe(fds)) {
        return err_set(p->err, -errno, "pipe: %s", strerror(errno));
    }
    struct task *t = p->order[p->next];
    pid_t pid = fork();
    if (pid < 0) {
        int code = -errno;
        close(fds[0]);
        close(fds[1]);
        return err_set(p->err, code, "fork: %s", strerror(-code));
    }
    if (pid == 0) {
        close(fds[0]);
        be_worker(t, fds[1]);
    }
    close(fds[1]);
    *w = (struct worker){.pid = pid, .fd = fds[0], .task = t};
    p->next++;
    return 0;
}

static void finish(struct runner *p, struct worker *w)
{
    struct run_outcome *o = &p->outcomes[w->task->job];
    int status = 0;
    close(w->fd);
    while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (w->got < sizeof(*o)) {
        o->err = ERR_INIT;
        if (WIFSIGNALED(status)) {
            err_set(&o->err, -EIO, "the run's process was killed by signal %d", WTERMSIG(status));
        } else {
            err_set(&o->err, -EIO, "the run's process ended early");
        }
    }
    w->pid = 0;
    p->done++;
    if (p->options->progress) {
        p->options->progress(p->options->progress_arg, p->done, p->n_order);
    }
}

static void receive(struct runner *p, struct worker *w)
{
    struct run_outcome *o = &p->outcomes[w->task->job];
    char spare;
    bool full = w->got == sizeof(*o);
    ssize_t n =
        full ? read(w->fd, &spare, 1) : read(w->fd, (char *)o + w->got, sizeof(*o) - w->got);
    if (n > 0 && !full) {
        w->got += (size_t)n;
    } else if (n == 0 || (n < 0 && errno != EINTR)) {
        finish(p, w);
    }
}

static bool interrupted(const struct runner *p)
{
    return p->options->interrupted && atomic_load(p->options->interrupted);
}

static int start_idle(struct runner *p)
{
    for (unsigned i = 0; i < p->options->workers && p->next < p->n_order; i++) {
        int rc = p->workers[i].pid ? 0 : start(p, &p->workers[i]);
        if (rc) {
            return rc;
        }
    }
    return 0;
}

static int wait_for_any(struct runner *p, struct pollfd *fds)
{
    unsigned n = p->options->workers;
    for (unsigned i = 0; i < n; i++) {
        fds[i] = (struct pollfd){.fd = p->workers[i].pid ? p->workers[i].fd : -1, .events = POLLIN};
    }
    if (poll(fds, n, -1) < 0 && errno != EINTR) {
        return err_set(p->err, -errno, "poll: %s", strerror(errno));
    }
    for (unsigned i = 0; i < n; i++) {
        if (fds[i].fd >= 0 && fds[i].revents) {
            receive(p, &p->workers[i]);
        }
    }
    return 0;
}

static void stop_all(struct runner *p)
{
    for (unsigned i = 0; i < p->options->workers; i++) {
        struct worker *w = &p->workers[i];
        if (w->pid) {
            kill(w->pid, SIGKILL);
            close(w->fd);
            while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR) {
            }
        }
    }
}

static int run_tasks(struct runner *p)
{
    unsigned n = p->options->workers;
    struct pollfd *fds = calloc(n, sizeof(*fds));
    p->workers = calloc(n, sizeof(*p->workers));
    int rc = fds && p->workers ? 0 : err_nomem(p->err);
    while (rc == 0 && p->done < p->n_order) {
        rc = interrupted(p) ? err_set(p->err, -ECANCELED, "interrupted") : start_idle(p);
        rc = rc ? rc : wait_for_any(p, fds);
    }
    if (p->workers) {
        stop_all(p);
    }
    free(fds);
    free(p->workers);
    return rc;
}

/* Before */

static double size_of(const struct task *t)
{
    const struct scenario_workload *w = &t->scenario.workload;
    double agents = w->agents ? w->agents : 1;
    return agents * (double)w->max_len_tok * (double)w->max_len_tok;
}

static int by_size(const void *a, const void *b)
{
    const struct task *s = *(struct task *const *)a, *t = *(struct task *const *)b;
    double d = size_of(t) - size_of(s);
    return d > 0 ? 1 : d < 0 ? -1 : (s > t) - (s < t);
}

static int resolve(const struct run_job *job, struct scenario *ret, struct err *err)
{
    struct scenario_notes notes;
    int rc = scenario_read(job->scenario, job->sets, job->n_sets, ret, &notes, err);
    if (rc == 0) {
        scenario_notes_done(&notes);
    }
    return rc;
}

static int plan(struct runner *p, const struct run_job *jobs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct task *t = &p->tasks[i];
        int rc = resolve(&jobs[i], &t->scenario, p->err);
        if (rc) {
            return rc;
        }
        t->until_steady = jobs[i].until_steady;
        t->job = t->same = i;
        for (size_t k = 0; k < i && t->same == i; k++) {
            if (strcmp(p->tasks[k].scenario.sha256, t->scenario.sha256) == 0 &&
                p->tasks[k].until_steady == t->until_steady) {
                t->same = p->tasks[k].same;
            }
        }
        if (t->same == i) {
            p->order[p->n_order++] = t;
        }
    }
    qsort(p->order, p->n_order, sizeof(struct task *), by_size);
    return 0;
}

int runs_execute(const struct run_job *jobs, size_t n, const struct runs_options *options,
                 struct run_outcome *outcomes, struct err *err)
{
    struct runner p = {.options = options, .outcomes = outcomes, .err = err};
    p.tasks = calloc(n ? n : 1, sizeof(*p.tasks));
    p.order = calloc(n ? n : 1, sizeof(struct task *));
    int rc = p.tasks && p.order ? plan(&p, jobs, n) : err_nomem(err);
    rc = rc ? rc : run_tasks(&p);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (p.tasks[i].same != i) {
            outcomes[i] = outcomes[p.tasks[i].same];
        }
    }
    free(p.tasks);
    free(p.order);
    return rc;
}
