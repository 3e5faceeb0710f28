/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One node's storage NIC. Reads wait first come first served in one queue for the node or in one
 * for each of its readers (the engines' own I/O rings), writes in a queue of their own; a bounded
 * number of each queue is in service and shares the link equally (processor sharing), none taking
 * more than a stream's rate: one request's reads keep a limited number of bytes in flight.
 *
 * Bytes of an op with small I/O cost more link time: an op of b bytes in I/Os of s bytes is b /
 * efficiency(s) of work, and all in service get equal shares of the work, so that the NIC delivers
 * its line rate times the mean of their efficiencies. A sampled latency follows the service without
 * holding its slot (I/Os are pipelined), less the time in service where that waits for I/Os already
 * (latency_in_rate). A read may need a while before its first byte that does hold its slot. With
 * one read in service, no latency and Poisson arrivals this is an M/G/1 queue.
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
    uint64_t started_ns;
    struct storage_queue *queue;
    struct loop_timer prepare_timer, latency_timer;
    /* NULL, or asked when its turn has come: how long its slot is taken before the first byte. */
    uint64_t (*prepare_ns)(struct storage_job *job);
    void (*started)(struct storage_job *job); /* first byte */
    void (*done)(struct storage_job *job);
};

struct storage_queue {
    struct list waiting;
    uint32_t n_serving, in_service;
    bool writes;
};

struct storage_config {
    double line_Bps;
    double efficiency_max, half_size_bytes; /* efficiency(s) = max * s / (s + half) */
    double stream_Bps;                      /* of the line, for one job at most; 0 = no limit */
    double latency_median_s, latency_sigma; /* 0 median = none */
    bool latency_in_rate;   /* stream_Bps is that of few I/Os in flight: each waits in service */
    uint32_t read_queues;   /* of a node; 0 = 1 */
    uint32_t in_service[2]; /* of a queue of reads, of writes; >= 1 */
};

struct storage_server {
    struct loop *loop;
    struct rng *rng;
    struct storage_config config;
    struct storage_queue *queues; /* those of reads, then that of writes */
    uint32_t n_queues;
    struct list serving;
    uint32_t n_serving;
    double rate_Bps; /* of work, now; below line_Bps when the storage cluster is the limit */
    uint64_t served_at_ns;
    struct loop_timer timer;
    void (*load_changed)(struct storage_server *s); /* NULL, or told when demand_Bps changed */
    double demand_Bps;                              /* what it delivers at line rate: 0 when idle */
    uint64_t bytes_in[2], bytes_out[2];             /* reads, writes */
    double moved_bytes, used_ns;                    /* until served_at_ns */
};

/* rng is the owner's, used for latencies only. 0 or -ENOMEM. */
int storage_server_init(struct storage_server *s, struct loop *loop, struct rng *rng,
                        const struct storage_config *config);
void storage_server_done(struct storage_server *s);

double storage_server_efficiency(const struct storage_config *config, double io_bytes);

/* Queues a job of bytes in I/Os of io_bytes; job->done (and started) set by the caller. A reader
 * uses the queue of its number modulo their count. */
void storage_server_read(struct storage_server *s, struct storage_job *job, uint32_t reader,
                         uint64_t bytes, uint64_t io_bytes);
void storage_server_write(struct storage_server *s, struct storage_job *job, uint64_t bytes,
                          uint64_t io_bytes);

/* What each job in service gets of the line now, before efficiency; some are in service. */
double storage_server_job_Bps(const struct storage_server *s);

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
