/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Streams of bytes over shared resources in virtual time: sim/maxmin's rates turned into events.
 *
 * A stream may have a producer: it moves what is ready, pauses (and leaves its share to others)
 * when it has caught up, and goes on when more is there. It reports when its mark is reached and
 * when it ends. Rates are solved once per instant, after all changes of that instant.
 */
#ifndef DUALPATH_SIM_NETWORK_H
#define DUALPATH_SIM_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "sim/maxmin.h"

struct net_stream;

struct net {
    struct loop *loop;
    struct maxmin maxmin;
    struct loop_timer solve_timer;
    /* NULL, or told of every stream that begins, pauses or gets another rate, and when all rates of
     * the instant are known. */
    void (*changed)(struct net *n, const struct net_stream *s);
    void (*solved)(struct net *n);
};

struct packet_station;

struct net_resource {
    struct maxmin_resource maxmin;
    struct packet_station *packets; /* the same in packets (sim/packet_dp.h), or NULL */
    uint64_t bytes_in, bytes_out;   /* accepted and delivered; equal when nothing is in flight */
    double moved_bytes;             /* as of the last change of rate: for utilisation over time */
};

struct net_stream {
    struct maxmin_flow maxmin;
    struct net *net;
    struct net_resource *path[MAXMIN_MAX_LINKS];
    uint8_t n_path;
    bool open;    /* between net_stream_open() and the end */
    bool running; /* has a share of its resources */
    /* Set by the caller, for its own use: never leaves the node; crosses a GPU's PCIe link past its
     * NIC. */
    bool local, past_nic;
    uint64_t total_bytes, ready_bytes, mark_bytes;
    double sent_bytes;
    uint64_t sent_at_ns; /* time at which sent_bytes was true */
    struct loop_timer timer;
    void (*reached)(struct net_stream *s); /* sent >= mark_bytes (< total): set another mark */
    void (*ended)(struct net_stream *s);   /* all bytes sent */
};

void net_init(struct net *n, struct loop *loop);
void net_done(struct net *n);
void net_resource_init(struct net_resource *r, double capacity_Bps);

/* Capacity left to streams, e.g. DRAM bandwidth less what the storage NIC takes. */
void net_set_capacity(struct net *n, struct net_resource *r, double capacity_Bps);

/* The caller has set total_bytes, ready_bytes, mark_bytes, reached, ended and maxmin.cap_Bps; the
 * path must be of distinct resources. */
void net_stream_open(struct net *n, struct net_stream *s, struct net_resource *const *path,
                     unsigned n_path);
/* More is ready. */
void net_stream_ready(struct net_stream *s, uint64_t ready_bytes);
/* Ends it early without ended(); what was not sent is taken off the resources' accounts. */
void net_stream_abort(struct net_stream *s);

#endif
