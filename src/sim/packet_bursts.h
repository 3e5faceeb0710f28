/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Inference traffic in packets: the collectives of EP groups, as bursts on the inference lane of
 * sim/packet_dp.h.
 *
 * A group's GPUs are numbered over all nodes, first .. first + n. In a burst each sends the same
 * number of bytes to each of its peers, GPU i of the group to i + k n / (peers + 1), k = 1..peers,
 * modulo n: with one peer per other node these are the GPUs of its own rank there, with n - 1 all
 * others. A burst is over when every byte has arrived, as a collective is. While a group is loaded
 * one begins every period_ns, or at the end of the one before if that took longer, and carries what
 * the load amounts to since the last one began.
 */
#ifndef DUALPATH_SIM_PACKET_BURSTS_H
#define DUALPATH_SIM_PACKET_BURSTS_H

#include "sim/packet_dp.h"
#include "sim/sim_compute.h"

/* Decode kernels: a dispatch and a combine every 0.6 to 0.9 ms of a step; assumed for prefills. */
#define PACKET_BURSTS_PERIOD_NS 750000u

struct packet_burst_group {
    struct list node;
    struct packet_bursts *owner;
    uint32_t first, n;
    uint32_t peers, next_peers; /* of the burst on its way, or the last one; of the next */
    double queue_pairs, next_queue_pairs; /* of a GPU, over all peers */
    double each_Bps;                      /* of each GPU, in each direction; 0: no load */
    struct packet_flow *flows;            /* n * (n - 1) */
    uint32_t n_open;
    double due_bytes; /* of each GPU, not sent yet, as of due_at_ns */
    uint64_t due_at_ns;
    uint64_t burst_bytes; /* to each peer */
    uint64_t began_ns;    /* the burst; or the load, before the first one */
    struct loop_timer timer;
    /* Bursts that are over. */
    uint64_t n_bursts, moved_bytes; /* bytes: each GPU's */
    double alone_ns, taken_ns;
    double asked_alone_ns, asked_taken_ns; /* as of the last packet_bursts_stretch() */
    double stretch;                        /* its answer; 1 before */
};

struct packet_bursts {
    struct packet_dp *pd;
    uint64_t period_ns;
    struct list groups;
    struct sim_links links; /* for sim_compute: the two functions below */
};

void packet_bursts_init(struct packet_bursts *b, struct packet_dp *pd, uint64_t period_ns);
void packet_bursts_done(struct packet_bursts *b);

/*
 * From now on each of the n GPUs from first on sends each_Bps on average, in equal parts to its
 * peers (1 <= peers < n, GPUs that exist), over so many queue pairs in all. 0: no more bursts after
 * the one on its way; what is due goes with the next load's first one. Aborts when out of memory.
 * As sim_links.load: a peer per queue pair, as far as there are peers.
 */
void packet_bursts_load(struct packet_bursts *b, uint32_t first, uint32_t n, uint32_t peers,
                        double queue_pairs, double each_Bps);

/* How much longer the group's bursts since the last call took than on idle links; without one the
 * same as then, at first 1. */
double packet_bursts_stretch(struct packet_bursts *b, uint32_t first);

/* The group that begins with that GPU, or NULL. */
struct packet_burst_group *packet_bursts_group(const struct packet_bursts *b, uint32_t first);

#endif
