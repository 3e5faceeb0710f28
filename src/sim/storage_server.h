/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One node's storage NIC: reads and writes queue first come first served, each in a queue of its
 * own; a bounded number of each is in service and shares the link equally (processor sharing).
 * Bytes of an op with small I/O cost more link time: an op of b bytes in I/Os of s bytes is b /
 * efficiency(s) of work, and all in service get equal shares of the work, so that the NIC delivers
 * its line rate times the mean of their efficiencies. A sampled latency follows the service without
 * holding its slot (I/Os are pipelined). With one read in service, no latency and Poisson arrivals
 * this is an M/G/1 queue.
 */
#ifndef DUALPATH_SIM_STORAGE_SERVER_H
#define DUALPATH_SIM_STORAGE_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/loop.h"

struct rng;
struct storage_server;

struct storage_job {
    struct list node;
    struct storage_server *server;
    double efficiency;      /* of its I/O size */
    double work_left_bytes; /* at line rate: bytes left over efficiency */
    uint64_t bytes;
    uint32_t queue; /* 0 reads, 1 writes */
    struct loop_timer latency_timer;
    void (*started)(struct storage_job *job); /* first byte */
    void (*done)(struct storage_job *job);
};

struct storage_config {
    double line_Bps;
    double efficiency_max, half_size_bytes; /* efficiency(s) = max * s / (s + half) */
    double latency_median_s, latency_sigma; /* 0 median = none */
    uint32_t in_service[2];                 /* reads, writes; >= 1 */
};

struct storage_server {
    struct loop *loop;
    struct rng *rng;
    struct storage_config config;
    struct list waiting[2];
    struct list serving;
    uint32_t n_serving[2];
    double rate_Bps; /* of work, now; below line_Bps when the storage cluster is the limit */
    uint64_t served_at_ns;
    struct loop_timer timer;
    void (*load_changed)(struct storage_server *s); /* NULL, or told when demand_Bps changed */
    double demand_Bps;                              /* what it delivers at line rate: 0 when idle */
    uint64_t bytes_in[2], bytes_out[2];
    double moved_bytes, used_ns; /* until served_at_ns */
};

/* rng is the owner's, used for latencies only. */
void storage_server_init(struct storage_server *s, struct loop *loop, struct rng *rng,
                         const struct storage_config *config);

double storage_server_efficiency(const struct storage_config *config, double io_bytes);

/* Queues a job of bytes in I/Os of io_bytes; job->done (and started) set by the caller. */
void storage_server_submit(struct storage_server *s, struct storage_job *job, uint32_t queue,
                           uint64_t bytes, uint64_t io_bytes);

/* Takes out a job that is waiting or in service; returns false when its bytes have all moved
 * already. */
bool storage_server_cancel(struct storage_server *s, struct storage_job *job);

/* Until now: bytes delivered in both directions, those of ops in service included; and time of the
 * line, a time at which it runs at a part of its rate counted in part. */
double storage_server_moved_bytes(const struct storage_server *s);
double storage_server_used_ns(const struct storage_server *s);

/* What it delivers now. */
double storage_server_delivers_Bps(const struct storage_server *s);

/* Sets the rate of work from now on. */
void storage_server_set_rate(struct storage_server *s, double rate_Bps);

#endif
