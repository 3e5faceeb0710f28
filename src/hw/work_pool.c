/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/work_pool.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* The next item, or NULL when the pool closes. */
static struct work *take(struct work_pool *p)
{
    struct work *w = NULL;
    pthread_mutex_lock(&p->lock);
    while (list_empty(&p->todo) && !p->quit) {
        pthread_cond_wait(&p->more, &p->lock);
    }
    if (!list_empty(&p->todo)) {
        w = container_of(list_first(&p->todo), struct work, node);
        list_remove(&w->node);
    }
    pthread_mutex_unlock(&p->lock);
    return w;
}

static void *worker(void *arg)
{
    struct work_pool *p = arg;
    struct work *w;
    while ((w = take(p))) {
        w->run(w);
        pthread_mutex_lock(&p->lock);
        list_add_tail(&p->finished, &w->node);
        pthread_mutex_unlock(&p->lock);
        if (atomic_fetch_add(&p->n_finished, 1) == 0) {
            wall_driver_wake(p->driver); /* later ones ride on the same wake-up */
        }
    }
    return NULL;
}

static struct work *take_finished(struct work_pool *p)
{
    pthread_mutex_lock(&p->lock);
    struct work *w = container_of(list_first(&p->finished), struct work, node);
    list_remove(&w->node);
    pthread_mutex_unlock(&p->lock);
    return w;
}

/* As many as were counted when it began: items that done() pushes again wait for the next turn. */
static unsigned hand_back(struct loop_poller *poller)
{
    struct work_pool *p = container_of(poller, struct work_pool, poller);
    unsigned n = atomic_exchange(&p->n_finished, 0);
    for (unsigned i = 0; i < n; i++) {
        struct work *w = take_finished(p);
        p->n_outstanding--;
        w->done(w);
    }
    return n;
}

static void stop_threads(struct work_pool *p)
{
    pthread_mutex_lock(&p->lock);
    p->quit = true;
    pthread_cond_broadcast(&p->more);
    pthread_mutex_unlock(&p->lock);
    for (unsigned i = 0; i < p->n_threads; i++) {
        pthread_join(p->threads[i], NULL);
    }
    free(p->threads);
    pthread_cond_destroy(&p->more);
    pthread_mutex_destroy(&p->lock);
}

/* Signals belong to the loop's thread. */
static int start_threads(struct work_pool *p, unsigned n_threads)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = 0;
    while (rc == 0 && p->n_threads < n_threads) {
        rc = pthread_create(&p->threads[p->n_threads], NULL, worker, p);
        p->n_threads += rc == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -rc;
}

int work_pool_init(struct work_pool *p, struct loop *l, struct wall_driver *driver,
                   unsigned n_threads, struct err *e)
{
    assert(n_threads > 0);
    *p = (struct work_pool){.driver = driver, .poller.poll = hand_back};
    list_init(&p->todo);
    list_init(&p->finished);
    p->threads = calloc(n_threads, sizeof(*p->threads));
    if (!p->threads) {
        return err_nomem(e);
    }
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->more, NULL);
    int rc = start_threads(p, n_threads);
    if (rc) {
        stop_threads(p);
        return err_set(e, rc, "cannot start %u worker threads: %s", n_threads, strerror(-rc));
    }
    loop_add_poller(l, &p->poller);
    return 0;
}

void work_pool_done(struct work_pool *p)
{
    assert(p->n_outstanding == 0);
    loop_remove_poller(&p->poller);
    stop_threads(p);
}

void work_pool_push(struct work_pool *p, struct work *w)
{
    p->n_outstanding++;
    pthread_mutex_lock(&p->lock);
    list_add_tail(&p->todo, &w->node);
    pthread_cond_signal(&p->more);
    pthread_mutex_unlock(&p->lock);
}
