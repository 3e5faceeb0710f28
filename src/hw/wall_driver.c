/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/wall_driver.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"

static _Atomic(struct wall_driver *) sigint_driver;

uint64_t wall_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static uint64_t driver_now_ns(struct loop_driver *d)
{
    (void)d;
    return wall_now_ns();
}

static struct timespec time_left(uint64_t deadline_ns)
{
    uint64_t now_ns = wall_now_ns();
    uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    return (struct timespec){.tv_sec = (time_t)(left_ns / NS_PER_S),
                             .tv_nsec = (long)(left_ns % NS_PER_S)};
}

static int driver_wait(struct loop_driver *driver, uint64_t deadline_ns)
{
    struct wall_driver *d = container_of(driver, struct wall_driver, driver);
    if (atomic_load(&d->interrupted)) {
        return -ECANCELED;
    }
    struct timespec left = time_left(deadline_ns);
    int n = epoll_pwait2(d->epoll_fd, d->events, WALL_EVENTS,
                         deadline_ns == LOOP_NEVER ? NULL : &left, NULL);
    if (n < 0 && errno != EINTR) {
        return -errno;
    }
    d->n_events = n < 0 ? 0 : n;
    return atomic_load(&d->interrupted) ? -ECANCELED : 0;
}

static const struct loop_driver_ops driver_ops = {.now_ns = driver_now_ns, .wait = driver_wait};

/* A callback may remove sources whose events are still to come: remove() blanks them. */
static unsigned hand_out_events(struct loop_poller *p)
{
    struct wall_driver *d = container_of(p, struct wall_driver, poller);
    unsigned n = 0;
    for (d->next_event = 0; d->next_event < d->n_events; d->next_event++) {
        struct epoll_event *ev = &d->events[d->next_event];
        struct wall_source *s = ev->data.ptr;
        if (s) {
            s->ready(s, ev->events);
            n++;
        }
    }
    d->n_events = 0;
    return n;
}

static void wake_ready(struct wall_source *s, uint32_t events)
{
    (void)events;
    uint64_t count;
    while (read(s->fd, &count, sizeof(count)) < 0 && errno == EINTR) {
    }
}

int wall_driver_init(struct wall_driver *d, struct err *e)
{
    *d = (struct wall_driver){.driver.ops = &driver_ops,
                              .poller.poll = hand_out_events,
                              .wake = {.fd = -1, .ready = wake_ready}};
    list_init(&d->poller.node);
    d->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (d->epoll_fd < 0) {
        return err_set(e, -errno, "epoll_create1: %s", strerror(errno));
    }
    d->wake.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = d->wake.fd < 0 ? -errno : wall_driver_add(d, &d->wake, EPOLLIN);
    if (rc) {
        wall_driver_done(d);
        return err_set(e, rc, "eventfd: %s", strerror(-rc));
    }
    return 0;
}

void wall_driver_attach(struct wall_driver *d, struct loop *l)
{
    loop_add_poller(l, &d->poller);
}

void wall_driver_done(struct wall_driver *d)
{
    struct wall_driver *self = d;
    if (atomic_compare_exchange_strong(&sigint_driver, &self, NULL)) {
        signal(SIGINT, SIG_DFL);
    }
    loop_remove_poller(&d->poller);
    if (d->wake.fd >= 0) {
        close(d->wake.fd);
    }
    close(d->epoll_fd);
}

void wall_driver_wake(struct wall_driver *d)
{
    int saved = errno; /* a signal handler must leave it alone */
    uint64_t one = 1;
    while (write(d->wake.fd, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
    errno = saved;
}

static void on_sigint(int sig)
{
    (void)sig;
    struct wall_driver *d = atomic_load(&sigint_driver);
    if (d) {
        atomic_store(&d->interrupted, true);
        wall_driver_wake(d);
    }
}

int wall_driver_catch_sigint(struct wall_driver *d)
{
    struct wall_driver *none = NULL;
    if (!atomic_compare_exchange_strong(&sigint_driver, &none, d)) {
        return -EBUSY;
    }
    struct sigaction a = {.sa_handler = on_sigint, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&a.sa_mask);
    return sigaction(SIGINT, &a, NULL) ? -errno : 0;
}

static int control(struct wall_driver *d, int what, struct wall_source *s, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = s};
    return epoll_ctl(d->epoll_fd, what, s->fd, &ev) ? -errno : 0;
}

int wall_driver_add(struct wall_driver *d, struct wall_source *s, uint32_t events)
{
    return control(d, EPOLL_CTL_ADD, s, events);
}

int wall_driver_change(struct wall_driver *d, struct wall_source *s, uint32_t events)
{
    return control(d, EPOLL_CTL_MOD, s, events);
}

void wall_driver_remove(struct wall_driver *d, struct wall_source *s)
{
    control(d, EPOLL_CTL_DEL, s, 0);
    for (int i = d->next_event; i < d->n_events; i++) {
        if (d->events[i].data.ptr == s) {
            d->events[i].data.ptr = NULL;
        }
    }
}
