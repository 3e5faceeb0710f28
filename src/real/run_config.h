/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What an agent needs to know of a run, and how it travels: one flat JSON object whose keys are the
 * paths of the members ("cluster.kv.n_layers"), every one required. Numbers survive exactly:
 * doubles with 17 digits, 64-bit integers as decimal strings.
 */
#ifndef DUALPATH_REAL_RUN_CONFIG_H
#define DUALPATH_REAL_RUN_CONFIG_H

#include "base/err.h"
#include "hw/curve_socket.h"
#include "model/timing.h"
#include "sched/cluster.h"

struct run_config {
    struct cluster cluster; /* its timing points to the one below */
    struct timing_model timing;
    uint64_t seed;            /* of the KV's content */
    uint32_t heads;           /* query heads of the attention layer that is computed */
    uint32_t check_every;     /* outputs compared with the reference: one in so many, 1: all */
    uint32_t n_spans;         /* requests at a node at a time */
    uint32_t transport_depth; /* transfers in flight to one peer */
    uint32_t storage_depth;   /* blocks in flight */
    uint32_t compute_threads; /* per node, beside two for copies and checksums */
    uint64_t peer_timeout_ns; /* so long a silent peer of the data path is borne */
    char storage[16];         /* "uring" or "usrbio" */
    char storage_dir[512];    /* the same directory on all nodes */
    char tcp_secret[CURVE_SECRET_CHARS]; /* of the data path */
    char transport[16];                  /* "mem", "tcp" or "verbs" */
    char compute[16];                    /* "cpu" or "cuda" */
    char rdma_device[64];                /* "": the first with an active port */
    uint32_t service_level;              /* of RDMA queue pairs: picks the virtual lane */
    uint32_t traffic_class;              /* of RDMA over Ethernet: DSCP << 2 */
};

/* Bytes of HBM of each of a node's GPUs: spans (cluster.span_bytes) of the requests. */
uint64_t run_config_hbm_bytes(const struct run_config *c, uint32_t node);

/* Returns text to free(), NULL when out of memory. */
char *run_config_write(const struct run_config *c);

/* 0, or -EINVAL with err naming the key. ret->cluster.timing points into *ret. */
int run_config_read(const char *text, struct run_config *ret, struct err *err);

#endif
