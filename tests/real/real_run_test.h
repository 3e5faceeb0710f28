/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Starting dualpath run --backend real as a person does, and looking at what comes of it. */
#ifndef DUALPATH_TESTS_REAL_RUN_TEST_H
#define DUALPATH_TESTS_REAL_RUN_TEST_H

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"

#define SCENARIO     "scenarios/loopback.json"
#define MAX_ARGS     24
#define TEXT         (1 << 16)
#define MAX_CHILDREN 16

static char dir[200]; /* TMPDIR of the runs: must be empty again after each */
static char out_path[256], err_path[256];
static char out[TEXT], errors[TEXT];

static inline void sleep_ms(unsigned ms)
{
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    while (nanosleep(&t, &t) && errno == EINTR) {
    }
}

static inline double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline void setup(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof(dir), "%s/real-run-test-XXXXXX", tmp ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(out_path, sizeof(out_path), "%s.out", dir);
    snprintf(err_path, sizeof(err_path), "%s.err", dir);
    setenv("TMPDIR", dir, 1);
}

static inline void teardown(void)
{
    unlink(out_path);
    unlink(err_path);
    ck_assert_int_eq(rmdir(dir), 0); /* nothing was left behind */
    *strrchr(dir, '/') = '\0';
    setenv("TMPDIR", dir, 1);
}

static inline void read_text(const char *path, char *text)
{
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, TEXT - 1);
    ck_assert_int_ge(n, 0);
    text[n] = '\0';
    close(fd);
}

/* Starts a program with its output in out_path and err_path. */
static inline pid_t start(const char *program, const char *const *args)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        const char *argv[MAX_ARGS + 2] = {program};
        for (unsigned i = 0; args[i] && i < MAX_ARGS; i++) {
            argv[i + 1] = args[i];
        }
        int o = open(out_path, O_WRONLY | O_CREAT | O_APPEND, 0600);
        int e = open(err_path, O_WRONLY | O_CREAT | O_APPEND, 0600);
        dup2(o, 1);
        dup2(e, 2);
        execv(program, (char *const *)argv);
        _exit(126);
    }
    return pid;
}

static inline pid_t start_run(const char *const *more)
{
    const char *args[MAX_ARGS + 1] = {"run", SCENARIO, "--backend", "real", "--format", "json"};
    unsigned n = 6;
    for (; *more && n < MAX_ARGS; more++) {
        args[n++] = *more;
    }
    unlink(out_path);
    unlink(err_path);
    return start(getenv("DUALPATH"), args);
}

/* Exit status; -signal; fails the test after limit_s, which is for what hangs: a busy machine stays
 * far below. */
static inline int finish(pid_t pid, double limit_s)
{
    double limit = now_s() + limit_s;
    int status;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (now_s() > limit) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            read_text(err_path, errors);
            ck_abort_msg("no end within %.0f s; stderr: %s", limit_s, errors);
        }
        sleep_ms(5);
    }
    read_text(out_path, out);
    read_text(err_path, errors);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Processes whose parent is pid, or that run dualpath-node under our TMPDIR when pid is 0. */
static inline unsigned children(pid_t pid, pid_t *ret, unsigned max)
{
    DIR *d = opendir("/proc");
    struct dirent *e;
    unsigned n = 0;
    while ((e = readdir(d))) {
        char path[300], text[512];
        long ppid;
        snprintf(path, sizeof(path), "/proc/%s/stat", e->d_name);
        FILE *f = e->d_name[0] >= '0' && e->d_name[0] <= '9' ? fopen(path, "r") : NULL;
        char *end = f && fgets(text, sizeof(text), f) ? strrchr(text, ')') : NULL;
        char state;
        if (end && sscanf(end + 1, " %c %ld", &state, &ppid) == 2 && ppid == pid && n < max) {
            ret[n++] = (pid_t)atol(e->d_name);
        }
        if (f) {
            fclose(f);
        }
    }
    closedir(d);
    return n;
}

static inline double number_at(const json_t *root, const char *group, const char *key)
{
    const json_t *at = group ? json_object_get(root, group) : root;
    const json_t *v = json_object_get(at, key);
    ck_assert_msg(json_is_number(v), "no %s.%s", group ? group : "", key);
    return json_number_value(v);
}

static inline unsigned from_environment(const char *name, unsigned otherwise)
{
    const char *text = getenv(name);
    return text ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

/* Whether a run under our TMPDIR has written a block: it serves requests. */
static inline bool is_serving(void)
{
    DIR *parent = opendir(dir);
    struct dirent *e, *file;
    bool found = false;
    while (!found && (e = readdir(parent))) {
        char path[500];
        snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        DIR *d = strncmp(e->d_name, "dualpath-", 9) == 0 ? opendir(path) : NULL;
        while (d && (file = readdir(d))) {
            found = found || (file->d_name[0] != '.' && strcmp(file->d_name, "join.json") != 0);
        }
        if (d) {
            closedir(d);
        }
    }
    closedir(parent);
    return found;
}

/* Waits until all agents of a run (NULL: they are not its children) are there and it serves
 * requests: not before does a test know what it interrupts. */
static inline unsigned wait_until_serving(pid_t run, pid_t *agents)
{
    unsigned n = 0;
    double limit = now_s() + 300;
    while ((agents && (n = children(run, agents, MAX_CHILDREN)) < 4) || !is_serving()) {
        int status;
        ck_assert_msg(waitpid(run, &status, WNOHANG) == 0, "the run ended before it served");
        ck_assert_msg(now_s() < limit, "the run does not serve");
        sleep_ms(2);
    }
    return n;
}

#endif
