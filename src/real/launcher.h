/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Agents as processes of this machine: started, watched by pidfd, and ended whatever happens. */
#ifndef DUALPATH_REAL_LAUNCHER_H
#define DUALPATH_REAL_LAUNCHER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "hw/wall_driver.h"

struct launched {
    struct launcher *owner;
    uint32_t node;
    pid_t pid;                 /* 0: not started, or reaped */
    struct wall_source source; /* its pidfd */
};

struct launcher {
    struct wall_driver *driver;
    struct launched *agents; /* [n] */
    uint32_t n, n_running;
    void *self;
    /* An agent has ended: killed by a signal, or with an exit status. From the loop. */
    void (*ended)(void *self, uint32_t node, pid_t pid, bool killed, int signal_or_status);
};

/* Room for n agents. 0 or -ENOMEM. */
int launcher_init(struct launcher *l, struct wall_driver *driver, uint32_t n, struct err *err);

/* Starts "program --join join_path --node node" in a process group of its own, so that an interrupt
 * at the terminal is the hub's to handle. 0 or negative errno. */
int launcher_start(struct launcher *l, const char *program, const char *join_path, uint32_t node,
                   struct err *err);

/* Kills an agent that still runs; ended() tells of it as always. */
void launcher_kill(struct launcher *l, uint32_t node);

/* Kills what still runs, and waits for it. */
void launcher_done(struct launcher *l);

/* Where dualpath-node is: beside this executable. 0 or negative errno with err. */
int launcher_find_program(char *ret, size_t size, struct err *err);

#endif
