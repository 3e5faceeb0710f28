/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The inside of a simulation, shared by simulate.c (life), simulation_check.c (conservation),
 * simulation_idle.c (pauses) and simulation_result.c (figures). */
#ifndef DUALPATH_PLAN_SIMULATION_H
#define DUALPATH_PLAN_SIMULATION_H

#include "plan/block_keys.h"
#include "plan/recorder.h"
#include "plan/simulate.h"
#include "sched/central.h"
#include "sched/client.h"
#include "sched/decode_node.h"
#include "sched/prefill_node.h"
#include "sim/dram_tier.h"
#include "sim/packet_bursts.h"
#include "sim/sim_compute.h"
#include "sim/sim_dp.h"
#include "sim/sim_messages.h"
#include "sim/virtual_driver.h"

struct simulation {
    const struct scenario *scenario;
    struct simulation_options options;
    struct timing_model timing;
    struct cluster cluster;
    struct workload *workload;
    uint64_t n_turns;

    struct virtual_driver driver;
    struct loop loop;
    struct sim_dp dp;
    struct packet_dp packets;    /* fidelity packet: the copies of dp... */
    struct packet_bursts bursts; /* ...and the collectives */
    struct dram_tier tier;       /* cluster.dram_cache_bytes > 0: dp.tier points to it */
    struct block_keys block_keys;
    struct sim_messages messages;
    struct sim_compute compute;
    struct prefill_node *prefill;
    struct decode_node *decode;
    uint32_t n_prefill, n_decode; /* built so far */
    struct central central;
    struct client client;
    struct recorder recorder;

    struct loop_timer watchdog;
    uint64_t watched_progress, progress_ns; /* arrivals and ends, and when they last changed */
    struct loop_timer idle_timer;           /* while no request is in the system */
    bool was_quiet, fetches_paused;
    struct loop_timer enough_timer;
    struct err fault;
    bool over, enough;
};

/* 0 when bytes, tokens and room are all accounted for; -EPROTO with err naming what is not. */
int simulation_check(const struct simulation *s, struct err *err);

/* Nodes of a system without requests do not fetch: to be told when the last one has left and when
 * the next has come. What the run does is the same; only the fetches that would find nothing new
 * are left out. */
void simulation_idle_init(struct simulation *s);
void simulation_busy(struct simulation *s, bool busy);

/* metrics_probe.read of a simulation. */
void simulation_probe(void *self, struct metrics_sample *sample);

/* Fills *ret after the end, except run.wall_s and run.peak_rss_bytes. */
void simulation_result(struct simulation *s, struct result *ret);

#endif
