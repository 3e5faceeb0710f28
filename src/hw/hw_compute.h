/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The compute port on real machines: what all kernels (CPU, CUDA) have in common. Every engine
 * whose node's memory is in this process gets a state machine here; the attention itself runs on
 * the worker threads of a pool, one work item per engine at a time.
 *
 * Forward, for each layer: wait for the layer to be fed and for the EP group (ep_barrier), then for
 * each item: [compare the KV that was loaded with the content function,] write the KV of the new
 * tokens into HBM, attend, compare outputs with the reference. progress() after each layer, done()
 * after the group has met once more behind the last.
 *
 * Decode step: meet the group, then for each sequence and layer: write the KV of the token before,
 * attend, compare; in its first step also compare all KV that was admitted. Tokens count, and
 * notify() comes, when the group has met again. A group in which nobody has a sequence rests.
 *
 * What does not agree ends the forward, or the sequence, with -EBADMSG, and hw_faults gets a text
 * that names engine, request, layer and token. Such an engine still meets its group, so that nobody
 * hangs.
 *
 * Closing: hw_compute_stop(), run the loop until hw_compute_idle(), then free. The pool should not
 * be that of the transports: copies would wait behind attention.
 */
#ifndef DUALPATH_HW_HW_COMPUTE_H
#define DUALPATH_HW_HW_COMPUTE_H

#include "hw/attention.h"
#include "hw/ep_barrier.h"
#include "hw/memory.h"
#include "hw/mover.h"
#include "hw/work_pool.h"
#include "sched/compute.h"

struct hw_compute_config {
    uint32_t prefill_nodes, decode_nodes, gpus_per_node; /* numbered as in sched/cluster.h */
    uint32_t prefill_ep_gpus, decode_ep_gpus;
    /* Outputs are compared for one in check_every (token, layer), drawn by lot; 1: all, 0: none. */
    uint32_t check_every;
    bool verify_kv; /* compare KV that was brought in byte by byte, before it is used */
};

/* What computes. One per process, serving all engines of it, each under its own slot. */
struct attention_kernel;
struct attention_kernel_ops {
    const char *name;
    /* On a worker thread, one call per slot at a time: writes the KV of the new tokens into t->kv
     * and their outputs into ret_out [n_tok][heads][value_dim]. 0, or negative errno with e filled.
     */
    int (*attend)(struct attention_kernel *k, uint32_t slot, const struct attention_task *t,
                  float *ret_out, struct err *e);
};
struct attention_kernel {
    const struct attention_kernel_ops *ops;
    bool exact; /* outputs equal the reference bit for bit, else within attention_tolerance() */
};

#define HW_COMPUTE_SLICE_TOK 64u /* new tokens per call of a kernel */

struct hw_compute_counts {
    uint64_t outputs_checked; /* (token, layer) */
    uint64_t rows_verified;   /* of KV: (token, layer) */
    uint64_t layers;          /* (item or sequence, layer) computed */
};

struct hw_compute;

struct hw_engine {
    struct hw_compute *owner;
    uint32_t engine; /* number within its kind */
    uint32_t gpu, slot;
    const struct node_memory *memory;
    struct ep_member member;

    /* Between work_pool_push() and the work's done() these belong to the worker. */
    struct work work;
    struct attention_scratch scratch; /* for the reference */
    float *out;                       /* [HW_COMPUTE_SLICE_TOK][heads][value_dim] */
    struct err error;                 /* first of this work item */
    double attention_ns;              /* of this work item */
    struct hw_compute_counts counts;  /* likewise */
    bool working;

    /* A prefill engine's. */
    struct compute_forward *forward;
    uint32_t layer; /* done */

    /* A decode engine's. */
    struct list joining, active; /* of sequences */
    uint32_t n_joining, n_active;
    bool resting; /* nobody in the group has a sequence, as far as it knows */
    bool stepped; /* a step is done whose tokens do not count yet */
};

struct hw_compute {
    struct compute_port port;
    struct hw_compute_config config;
    struct loop *loop;
    struct work_pool *pool;
    struct ep_barrier *barrier;
    struct attention_kernel *kernel;
    struct hw_faults *faults;
    struct attention attention;
    struct hw_engine *engines; /* those of this process */
    uint32_t n_engines, n_working;
    struct loop_timer stop_timer;
    bool stopping;
    struct hw_compute_counts counts;
    uint64_t n_forwards, n_steps; /* engines' own, empty ones not counted */
};

/*
 * All pointers outlive it. An engine is here if map has its node's memory. 0, -EINVAL (counts that
 * do not go together, no engine here) or -ENOMEM.
 *
 * The port's calls then return -EINVAL for an engine that is not here or busy, or a forward without
 * the right group and rank; -EFAULT for KV that does not lie in the engine's HBM; -ESHUTDOWN after
 * stop.
 */
struct hw_compute_parts {
    struct loop *loop;
    struct work_pool *pool;
    struct ep_barrier *barrier;
    const struct memory_map *map;
    struct hw_faults *faults;
};
int hw_compute_init(struct hw_compute *hc, const struct hw_compute_config *config,
                    const struct hw_compute_parts *parts, const struct attention *attention,
                    struct attention_kernel *kernel, struct err *e);
void hw_compute_done(struct hw_compute *hc); /* idle */

/* Forwards end with -ECANCELED, sequences are dropped without a word; both stay untouched once
 * idle. */
void hw_compute_stop(struct hw_compute *hc);
bool hw_compute_idle(const struct hw_compute *hc);

/* How many engines of map's nodes are in this process: the slots that a kernel needs. */
uint32_t hw_compute_slots(const struct hw_compute_config *config, const struct memory_map *map);

#endif
