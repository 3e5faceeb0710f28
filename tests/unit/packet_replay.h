/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The same transfers, submitted and fed at the same times, on the fluid network and in packets:
 * what differs is the network alone.
 */
#ifndef DUALPATH_TESTS_PACKET_REPLAY_H
#define DUALPATH_TESTS_PACKET_REPLAY_H

#include "sim/packet_bursts.h"
#include "sim/sim_dp.h"

#define NONE UINT32_MAX

struct replay_transfer {
    struct dp_op shape;         /* as submitted */
    const void *recorded;       /* where it was recorded, to tell whom a feed is for */
    uint64_t submit_ns, fed_ns; /* fed_ns: the last part was there */
    uint64_t done_ns[2];        /* fluid, packets */
    struct dp_op op;
};

struct replay_event {
    uint64_t at_ns;
    uint32_t transfer, parts_ready;
    bool submit;
};

/* Collectives while it lasts: fluid, what they take is off the capacity of every NIC of the
 * group. */
struct replay_load {
    uint32_t first, n, peers;
    double frac; /* of the NICs */
    uint64_t period_ns;
};

struct replay {
    struct sim_dp_config config;
    struct replay_transfer *transfers;
    struct replay_event *events; /* by time */
    uint32_t n_transfers, n_events, cap_transfers, cap_events;
    struct replay_load loads[2];
    uint32_t n_loads;
    /* The network of packets, away from its defaults. */
    uint32_t window; /* 0: the default */
    bool packet_turns, lane_buffers;
    /* The run in packets. */
    uint64_t n_served; /* packets times stations */
    double stretch[2]; /* of each load: time of its bursts over their time on idle links */
};

/* Relative errors of the packets' times against the fluid ones, signed: (packet - fluid) /
 * packet. */
struct replay_errors {
    uint32_t n;
    double mean_s;                    /* in packets */
    double mean, mean_abs, worst;     /* of submit to done */
    double lag_worst_ns, lag_mean_ns; /* of last part fed to done, absolute, for those fed later */
    uint32_t n_fed;
};

void replay_submit(struct replay *r, uint64_t at_ns, const struct dp_op *op);
void replay_feed(struct replay *r, uint64_t at_ns, const struct dp_op *op, uint32_t parts_ready);
void replay_done(struct replay *r);

/* Both runs; checks that everything has arrived and is conserved. */
void replay_run(struct replay *r);

/* Over the copies of a class (DP_N_CLASSES: of all). */
struct replay_errors replay_errors(const struct replay *r, enum dp_class class);

#endif
