/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the probes share: a loop of its own for each, ops kept in flight, statistics. */
#ifndef DUALPATH_HW_PROBE_INTERNAL_H
#define DUALPATH_HW_PROBE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/loop.h"
#include "hw/hw_dp.h"
#include "hw/probe.h"
#include "hw/wall_driver.h"
#include "hw/work_pool.h"

/* 0 or -ENOMEM. */
int probe_points_add(struct probe_points *ps, const struct probe_point *p, struct err *e);

struct probe_stat probe_stat_of(const double values[PROBE_REPETITIONS]);

/* 0, or -ECANCELED when the probe has been interrupted. Asked between two measurements. */
int probe_go_on(const struct probe_config *c);

/* Processor time of this process so far. */
uint64_t probe_cpu_ns(void);

/* Loop, driver and worker threads of a probe. */
struct probe_ground {
    struct wall_driver driver;
    struct loop loop;
    struct work_pool pool;
    bool has_driver, has_loop, has_pool;
};
int probe_ground_init(struct probe_ground *g, unsigned n_threads, struct err *e);
void probe_ground_done(struct probe_ground *g); /* in every case */

/* Lets time pass. 0, or the error that ended the loop. */
int probe_rest(struct probe_ground *g, uint64_t ns);

/* A second loop in a thread of its own, for the other end of something. Between probe_peer_start()
 * and probe_peer_done() the thread has everything on it. */
struct probe_peer {
    struct probe_ground ground;
    struct loop_poller poller;
    pthread_t thread;
    atomic_bool stop;
    bool started;
};
int probe_peer_init(struct probe_peer *p, unsigned n_threads, struct err *e);
int probe_peer_start(struct probe_peer *p, struct err *e);
void probe_peer_stop(
    struct probe_peer *p); /* the thread has ended; before what is on it is freed */
void probe_peer_done(struct probe_peer *p); /* in every case */

/* Keeps ops in flight on several data paths at once. */
struct probe_bench {
    struct probe_ground *ground;
    struct hw_dp **dps; /* [n_dps] */
    uint32_t n_dps;
    uint32_t depth; /* ops per data path */
    /* Fills op number seq of data path i: all but done. */
    void (*fill)(void *self, uint32_t i, uint64_t seq, uint32_t slot, struct dp_op *op);
    void *self;
};

/* Measures point: p->what, size_bytes, segments, depth, nodes are set by the caller, the rest here.
 */
int probe_bench_run(struct probe_bench *b, const struct probe_config *c, struct probe_point *p,
                    struct err *e);

/* Copies of one transport: dp's from src to dst, places that have PROBE_COPY_HEAP_BYTES. */
#define PROBE_COPY_BYTES ((uint64_t)1 << 20) /* the largest */
#define PROBE_COPY_DEPTH 8u
/* Pieces lie apart, as Layer Blocks in Full Blocks do. */
#define PROBE_COPY_STRIDE     (2 * PROBE_COPY_BYTES)
#define PROBE_COPY_HEAP_BYTES (PROBE_COPY_DEPTH * PROBE_COPY_STRIDE)
_Static_assert(PROBE_COPY_HEAP_BYTES == PROBE_GPU_MEMORY_BYTES, "copies to a GPU fill its memory");

struct probe_copies {
    enum probe_what what;
    struct probe_ground *ground;
    struct hw_dp *dp;
    struct dp_place src, dst;
    uint64_t size_bytes; /* of the point being measured */
    uint32_t segments;
};
int probe_copies_measure(struct probe_copies *c, const struct probe_config *config,
                         struct probe_points *ps, struct err *e);

#endif
