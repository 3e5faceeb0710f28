/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What this machine has, measured through the very backends that a real run uses: `dualpath probe`.
 *
 * Every point is measured in PROBE_REPETITIONS repetitions of rep_ns each (or one measurement, if
 * that takes longer). Transfers are always under way at the point's depth; engines compute for half
 * of the time (probe_compute.c). A repetition gives the mean of all that it measured, so that what
 * else the machine does counts as it does in a run. Points report the median over the repetitions
 * and how far they spread. What computes also reports its processor time, which does not depend on
 * what else the machine does; how much longer it took tells how busy the machine is.
 *
 * Several nodes on one machine share its cores and devices, of which the simulator knows nothing
 * but a limit of the storage. So storage and computation are measured by one node and by as many at
 * once as the run has (probe_config); copies by one node.
 */
#ifndef DUALPATH_HW_PROBE_H
#define DUALPATH_HW_PROBE_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"
#include "datapath/kv_layout.h"
#include "hw/memory.h"

#define PROBE_REPETITIONS 5u

/* Over the repetitions. */
struct probe_stat {
    double median, min, max;
};

enum probe_what {
    PROBE_STORAGE_READ,   /* storage_uring, one block of size_bytes per op */
    PROBE_STORAGE_WRITE,  /* likewise */
    PROBE_COPY_MEM,       /* DRAM to HBM of a node, transport_mem */
    PROBE_COPY_TCP,       /* DRAM of one node to DRAM of another, transport_tcp, loopback device */
    PROBE_COPY_VERBS,     /* DRAM to HBM of a node, RDMA writes through its own device */
    PROBE_COPY_VERBS_GPU, /* likewise, and the HBM is a GPU's */
    PROBE_MESSAGE,        /* control message, one way */
    PROBE_FORWARD,        /* prefill of new_tok tokens on cached_tok */
    PROBE_DECODE,         /* step of batch sequences of cached_tok */
    PROBE_N_WHAT,
};

const char *probe_what_name(enum probe_what what); /* "storage read", ... */

struct probe_point {
    enum probe_what what;
    uint64_t size_bytes; /* of an op: transfers */
    uint32_t segments;   /* pieces (work requests) of an op: copies */
    uint32_t depth;      /* ops in flight, per node */
    uint32_t nodes;      /* that did the same at the same time */
    double cached_tok;   /* forward: context before; decode: mean context of a sequence */
    double new_tok;      /* forward */
    double batch;        /* decode: sequences of an engine */

    struct probe_stat time_ns;   /* of an op (submit to done), message, forward or step */
    struct probe_stat cpu_ns;    /* forward, step: processor time of it, on all threads */
    struct probe_stat Bps;       /* transfers: per node */
    struct probe_stat submit_ns; /* copies: the caller's time in dp_submit() */
    double time_sigma;           /* storage: of the logarithm of an op's time, all repetitions */
};

struct probe_points {
    struct probe_point *points;
    uint32_t n, capacity;
};

struct probe_config {
    uint64_t rep_ns;
    uint32_t prefill_nodes, decode_nodes; /* that will run on this machine, one GPU each */
    struct kv_layout kv;
    uint32_t heads, check_every; /* of the attention that is computed */
    uint32_t compute_threads;    /* per node */
    uint32_t storage_depth;
    const char *storage_dir;        /* exists; what is written there is removed again */
    const atomic_bool *interrupted; /* NULL, or set by a signal handler: ends with -ECANCELED */
};

/* Points measured by them are appended to ps. They block. 0, or negative errno with e. */
int probe_storage(const struct probe_config *c, struct probe_points *ps, struct err *e);
int probe_copy_mem(const struct probe_config *c, struct probe_points *ps, struct err *e);
int probe_copy_tcp(const struct probe_config *c, struct probe_points *ps, struct err *e);
int probe_copy_verbs(const struct probe_config *c, struct probe_points *ps, struct err *e);
/* hbm: of a GPU, PROBE_GPU_MEMORY_BYTES. */
int probe_copy_verbs_gpu(const struct probe_config *c, const struct memory_region *hbm,
                         struct probe_points *ps, struct err *e);
int probe_compute_cpu(const struct probe_config *c, struct probe_points *ps, struct err *e);
int probe_messages(const struct probe_config *c, struct probe_points *ps, struct err *e);

/* How many points they measure together (an upper limit), to share out the time. */
#define PROBE_MAX_POINTS 93u

#define PROBE_GPU_MEMORY_BYTES ((uint64_t)16 << 20)

void probe_points_done(struct probe_points *ps);

#endif
