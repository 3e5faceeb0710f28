/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/loop.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/hash.h"

/* The keys live in the heap, not behind the timer pointers: sifting then touches one array only. */
struct loop_entry {
    uint64_t when_ns;
    uint64_t seq;
    struct loop_timer *timer;
};

#define ARITY 4u

int loop_init(struct loop *l, struct loop_driver *driver, uint64_t tie_seed)
{
    *l = (struct loop){.driver = driver, .tie_seed = tie_seed, .capacity = 1024};
    list_init(&l->pollers);
    l->heap = malloc((l->capacity + 1) * sizeof(*l->heap));
    if (!l->heap) {
        return -ENOMEM;
    }
    l->now_ns = driver->ops->now_ns(driver);
    return 0;
}

void loop_done(struct loop *l)
{
    free(l->heap);
    l->heap = NULL;
}

static bool before(const struct loop_entry *a, const struct loop_entry *b)
{
    return a->when_ns < b->when_ns || (a->when_ns == b->when_ns && a->seq < b->seq);
}

static void place(struct loop *l, uint32_t i, struct loop_entry e)
{
    l->heap[i] = e;
    e.timer->heap_index = i;
}

/* Positions are 1-based so that heap_index 0 can mean "not armed". */
static uint32_t parent_of(uint32_t i)
{
    return (i - 2) / ARITY + 1;
}

static void sift_up(struct loop *l, uint32_t i, struct loop_entry e)
{
    while (i > 1 && before(&e, &l->heap[parent_of(i)])) {
        place(l, i, l->heap[parent_of(i)]);
        i = parent_of(i);
    }
    place(l, i, e);
}

static void sift_down(struct loop *l, uint32_t i, struct loop_entry e)
{
    for (;;) {
        uint32_t first = (i - 1) * ARITY + 2;
        if (first > l->n_armed) {
            break;
        }
        uint32_t last = first + ARITY - 1 < l->n_armed ? first + ARITY - 1 : l->n_armed;
        uint32_t best = first;
        for (uint32_t c = first + 1; c <= last; c++) {
            best = before(&l->heap[c], &l->heap[best]) ? c : best;
        }
        if (!before(&l->heap[best], &e)) {
            break;
        }
        place(l, i, l->heap[best]);
        i = best;
    }
    place(l, i, e);
}

static void grow(struct loop *l)
{
    uint32_t capacity = l->capacity * 2;
    struct loop_entry *heap = realloc(l->heap, (capacity + 1) * sizeof(*heap));
    if (!heap) {
        abort(); /* documented: there is no way to go on without the event */
    }
    l->heap = heap;
    l->capacity = capacity;
}

void loop_arm(struct loop *l, struct loop_timer *t, uint64_t when_ns)
{
    uint64_t seq = l->next_seq++;
    struct loop_entry e = {
        .when_ns = when_ns < l->now_ns ? l->now_ns : when_ns,
        .seq = l->tie_seed ? hash_mix64(seq ^ l->tie_seed) : seq,
        .timer = t,
    };
    t->when_ns = e.when_ns;
    if (t->heap_index == 0) {
        if (l->n_armed == l->capacity) {
            grow(l);
        }
        sift_up(l, ++l->n_armed, e);
    } else if (before(&e, &l->heap[t->heap_index])) {
        sift_up(l, t->heap_index, e);
    } else {
        sift_down(l, t->heap_index, e);
    }
}

uint64_t loop_after_ns(const struct loop *l, double ns)
{
    double most = 9e18 - (double)l->now_ns; /* 285 years: within the range of the clock */
    ns = ns > 0 ? ceil(ns) : 0;
    return l->now_ns + (uint64_t)(ns < most ? ns : most);
}

void loop_disarm(struct loop *l, struct loop_timer *t)
{
    uint32_t i = t->heap_index;
    if (i == 0) {
        return;
    }
    t->heap_index = 0;
    struct loop_entry last = l->heap[l->n_armed--];
    if (last.timer == t) {
        return;
    }
    if (i > 1 && before(&last, &l->heap[parent_of(i)])) {
        sift_up(l, i, last);
    } else {
        sift_down(l, i, last);
    }
}

void loop_add_poller(struct loop *l, struct loop_poller *p)
{
    list_add_tail(&l->pollers, &p->node);
}

void loop_remove_poller(struct loop_poller *p)
{
    list_remove(&p->node);
}

static unsigned poll_all(struct loop *l)
{
    unsigned n = 0;
    list_for_each_safe (pos, tmp, &l->pollers) {
        struct loop_poller *p = container_of(pos, struct loop_poller, node);
        n += p->poll(p);
    }
    return n;
}

/* Fires what is due at now_ns. What those callbacks arm for the same instant fires in this round
 * too, unless there are pollers, which must not starve. */
static void fire_due(struct loop *l)
{
    while (!l->stop && l->n_armed > 0 && l->heap[1].when_ns <= l->now_ns) {
        struct loop_timer *t = l->heap[1].timer;
        loop_disarm(l, t);
        l->n_fired++;
        t->fire(t);
        if (!list_empty(&l->pollers)) {
            break;
        }
    }
}

int loop_run(struct loop *l)
{
    l->stop = false;
    while (!l->stop) {
        l->now_ns = l->driver->ops->now_ns(l->driver);
        unsigned polled = poll_all(l);
        fire_due(l);
        bool only_timers = list_empty(&l->pollers);
        if (l->stop || (only_timers && l->n_armed == 0)) {
            break;
        }
        uint64_t deadline = l->n_armed ? l->heap[1].when_ns : LOOP_NEVER;
        bool busy = polled > 0 || deadline <= l->now_ns;
        if (busy && only_timers) {
            continue;
        }
        int rc = l->driver->ops->wait(l->driver, busy ? l->now_ns : deadline);
        if (rc) {
            return rc;
        }
    }
    return 0;
}

void loop_stop(struct loop *l)
{
    l->stop = true;
}
