/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The loop's driver on a real machine: time is CLOCK_MONOTONIC, waiting is epoll. File descriptors
 * of sockets and rings wake the loop, and so does any thread or signal handler through
 * wall_driver_wake().
 *
 * wait() only collects what is ready; the driver's poller hands it out in the next turn, so that
 * loop_now_ns() is fresh in every callback. As the driver is a poller, loop_run() ends by
 * loop_stop(), by SIGINT, or by an error; never for want of timers.
 */
#ifndef DUALPATH_HW_WALL_DRIVER_H
#define DUALPATH_HW_WALL_DRIVER_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/err.h"
#include "base/loop.h"

#define WALL_EVENTS 64

/* A file descriptor that the loop watches, level triggered. Embedded in its owner. */
struct wall_source {
    int fd;
    void (*ready)(struct wall_source *s, uint32_t events); /* EPOLLIN, ... */
};

struct wall_driver {
    struct loop_driver driver;
    struct loop_poller poller;
    struct wall_source wake;
    int epoll_fd;
    atomic_bool interrupted;
    int n_events, next_event;
    struct epoll_event events[WALL_EVENTS];
};

/* CLOCK_MONOTONIC in ns; from any thread. */
uint64_t wall_now_ns(void);

/* Order: wall_driver_init(), loop_init(),
 * wall_driver_attach(); back: wall_driver_done(), loop_done(). */
int wall_driver_init(struct wall_driver *d, struct err *e);
void wall_driver_attach(struct wall_driver *d, struct loop *l);
void wall_driver_done(struct wall_driver *d);

/* Makes the loop take a turn soon. Safe from every thread and from signal handlers. */
void wall_driver_wake(struct wall_driver *d);

/* From now on the first SIGINT ends loop_run() with -ECANCELED, the second kills the process as
 * usual. One driver of a process can have this. Returns 0 or negative errno. */
int wall_driver_catch_sigint(struct wall_driver *d);

/* Watch s->fd for the EPOLL* events; errors and hang-ups are always reported. 0 or negative errno.
 */
int wall_driver_add(struct wall_driver *d, struct wall_source *s, uint32_t events);
int wall_driver_change(struct wall_driver *d, struct wall_source *s, uint32_t events);

/* Before s->fd is closed; no call of ready() comes after it, even for events already collected. */
void wall_driver_remove(struct wall_driver *d, struct wall_source *s);

#endif
