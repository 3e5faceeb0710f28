/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Worker threads for what must not hold up the loop: memory copies and checksums. Work items are
 * embedded in their owners, whose own depth bounds the queue. run() is called on a worker, then
 * done() from the loop; between work_pool_push() and done() the item and all that run() reads
 * belong to the worker.
 */
#ifndef DUALPATH_HW_WORK_POOL_H
#define DUALPATH_HW_WORK_POOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/list.h"
#include "base/loop.h"
#include "hw/wall_driver.h"

struct work {
    void (*run)(struct work *w);  /* on a worker thread */
    void (*done)(struct work *w); /* from the loop; may push w again */
    struct list node;
};

struct work_pool {
    struct wall_driver *driver;
    struct loop_poller poller;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct list todo, finished; /* under lock */
    bool quit;                  /* under lock */
    atomic_uint n_finished;     /* lets the poller look without the lock */
    unsigned n_outstanding;     /* the loop's */
    unsigned n_threads;
    pthread_t *threads;
};

/* Starts n_threads > 0 workers, all signals blocked in them. 0 or negative errno. */
int work_pool_init(struct work_pool *p, struct loop *l, struct wall_driver *driver,
                   unsigned n_threads, struct err *e);

/* Nothing may be outstanding. */
void work_pool_done(struct work_pool *p);

/* From the loop's thread. First in, first started. */
void work_pool_push(struct work_pool *p, struct work *w);

#endif
