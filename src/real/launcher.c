/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "real/launcher.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int launcher_init(struct launcher *l, struct wall_driver *driver, uint32_t n, struct err *err)
{
    *l = (struct launcher){.driver = driver, .n = n};
    l->agents = calloc(n, sizeof(*l->agents));
    return l->agents ? 0 : err_nomem(err);
}

static void unwatch(struct launched *a)
{
    if (a->source.fd > 0) {
        wall_driver_remove(a->owner->driver, &a->source);
        close(a->source.fd);
        a->source.fd = 0;
    }
}

static void reap(struct wall_source *s, uint32_t events)
{
    struct launched *a = container_of(s, struct launched, source);
    struct launcher *l = a->owner;
    pid_t pid = a->pid;
    int status;
    (void)events;
    if (waitpid(pid, &status, WNOHANG) != pid) {
        return;
    }
    unwatch(a);
    a->pid = 0;
    l->n_running--;
    bool killed = WIFSIGNALED(status);
    l->ended(l->self, a->node, pid, killed, killed ? WTERMSIG(status) : WEXITSTATUS(status));
}

static int spawn(const char *program, char *const argv[], pid_t *ret_pid)
{
    posix_spawnattr_t attr;
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGINT);
    sigaddset(&defaults, SIGTERM);
    int rc = posix_spawnattr_init(&attr);
    if (rc) {
        return -rc;
    }
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &defaults);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                        POSIX_SPAWN_SETSIGDEF);
    rc = posix_spawn(ret_pid, program, NULL, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    return -rc;
}

int launcher_start(struct launcher *l, const char *program, const char *join_path, uint32_t node,
                   struct err *err)
{
    char number[16];
    /* posix_spawn() does not write to its arguments, whatever their type says. */
    char *const argv[] = {(char *)"dualpath-node", (char *)"--join", (char *)join_path,
                          (char *)"--node",        number,           NULL};
    struct launched *a = &l->agents[node];
    *a = (struct launched){.owner = l, .node = node, .source.ready = reap};
    snprintf(number, sizeof(number), "%u", node);
    int rc = spawn(program, argv, &a->pid);
    if (rc) {
        return err_set(err, rc, "cannot start %s: %s", program, strerror(-rc));
    }
    l->n_running++;
    a->source.fd = (int)syscall(SYS_pidfd_open, a->pid, 0);
    rc = a->source.fd < 0 ? -errno : wall_driver_add(l->driver, &a->source, EPOLLIN);
    if (rc) {
        return err_set(err, rc, "cannot watch process %ld: %s", (long)a->pid, strerror(-rc));
    }
    return 0;
}

void launcher_kill(struct launcher *l, uint32_t node)
{
    if (l->agents[node].pid > 0) {
        kill(l->agents[node].pid, SIGKILL);
    }
}

void launcher_done(struct launcher *l)
{
    for (uint32_t i = 0; l->agents && i < l->n; i++) {
        struct launched *a = &l->agents[i];
        if (a->pid) {
            /* Not reaped yet, so the id is still its own. */
            kill(a->pid, SIGKILL);
            while (waitpid(a->pid, NULL, 0) < 0 && errno == EINTR) {
            }
            unwatch(a);
        }
    }
    free(l->agents);
    l->agents = NULL;
}

int launcher_find_program(char *ret, size_t size, struct err *err)
{
    static const char name[] = "dualpath-node";
    ssize_t n = readlink("/proc/self/exe", ret, size - 1);
    if (n < 0) {
        return err_set(err, -errno, "cannot find this executable: %s", strerror(errno));
    }
    ret[n] = '\0';
    char *slash = strrchr(ret, '/');
    if (!slash || (size_t)(slash + 1 - ret) + sizeof(name) > size) {
        return err_set(err, -ENAMETOOLONG, "the path of this executable is too long: %s", ret);
    }
    memcpy(slash + 1, name, sizeof(name));
    return access(ret, X_OK) ? err_set(err, -errno, "cannot run %s: %s", ret, strerror(errno)) : 0;
}
