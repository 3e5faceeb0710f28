/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The event loop: one queue of intrusive timers ordered by (when_ns, seq). Only the loop's driver
 * knows what time is: the virtual driver (sim/virtual_driver) jumps, the wall driver
 * (hw/wall_driver) sleeps.
 *
 * Everything asynchronous in the project completes from here, never from inside the call that
 * started it. The loop allocates only when its heap grows; timers are owned by whoever embeds them.
 */
#ifndef DUALPATH_BASE_LOOP_H
#define DUALPATH_BASE_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

#define LOOP_NEVER UINT64_MAX

struct loop;
struct loop_timer;

typedef void loop_timer_fn(struct loop_timer *t);

/* Zero-initialise, or loop_timer_init(); must be disarmed before its memory goes away. */
struct loop_timer {
    loop_timer_fn *fire;
    uint64_t when_ns;
    uint32_t heap_index; /* 0 = not armed, else 1-based position */
};

/* What time is. Implementations: sim/virtual_driver.c, hw/wall_driver.c. */
struct loop_driver;
struct loop_driver_ops {
    uint64_t (*now_ns)(struct loop_driver *d);
    /* Waits until deadline_ns (LOOP_NEVER: until something happens). Returns 0, or -ECANCELED to
     * stop the loop (nothing can ever happen, or an interruption). May return early. When there are
     * pollers it is called in every turn, with a deadline that is not in the future while there is
     * work to do, so that a driver which collects events for a poller, or an interruption, never
     * starves. */
    int (*wait)(struct loop_driver *d, uint64_t deadline_ns);
};
struct loop_driver {
    const struct loop_driver_ops *ops;
};

/* Called once per turn of the loop (completion queues of real devices). Returns the number of
 * events. */
struct loop_poller {
    struct list node;
    unsigned (*poll)(struct loop_poller *p);
};

struct loop_entry;

struct loop {
    struct loop_driver *driver;
    uint64_t now_ns; /* constant within a callback */
    uint64_t next_seq;
    /* 0: equal times fire in the order they were armed; else in a shuffled one. */
    uint64_t tie_seed;
    uint64_t n_fired;
    struct loop_entry *heap;
    uint32_t n_armed, capacity;
    struct list pollers;
    bool stop;
};

/* Returns 0 or -ENOMEM. The driver must outlive the loop. */
int loop_init(struct loop *l, struct loop_driver *driver, uint64_t tie_seed);
void loop_done(struct loop *l);

static inline uint64_t loop_now_ns(const struct loop *l)
{
    return l->now_ns;
}

static inline void loop_timer_init(struct loop_timer *t, loop_timer_fn *fire)
{
    t->fire = fire;
    t->when_ns = 0;
    t->heap_index = 0;
}

static inline bool loop_armed(const struct loop_timer *t)
{
    return t->heap_index != 0;
}

/* Arms or moves the timer; a time already past fires at the next turn. Aborts when out of memory.
 */
void loop_arm(struct loop *l, struct loop_timer *t, uint64_t when_ns);
void loop_disarm(struct loop *l, struct loop_timer *t);

/* now + ns (rounded up), or a time beyond every run when that is too far to count. */
uint64_t loop_after_ns(const struct loop *l, double ns);

/* Runs t->fire from the loop, at the current time, after this callback has returned. */
static inline void loop_post(struct loop *l, struct loop_timer *t)
{
    loop_arm(l, t, l->now_ns);
}

void loop_add_poller(struct loop *l, struct loop_poller *p);
void loop_remove_poller(struct loop_poller *p);

/* Runs until loop_stop(), or until nothing is armed and there is no poller, or the driver ends it.
 * Returns 0, or the driver's error. */
int loop_run(struct loop *l);
void loop_stop(struct loop *l);

#endif
