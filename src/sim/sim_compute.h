/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Prefill forwards and decode loops in virtual time, from model/timing.h.
 *
 * Forward of an EP group: starts when all its engines have joined. It runs in stages of
 * stage_layers layers. A stage that starts with layer a may begin once every engine has the KV of
 * layer a; the forward ends no earlier than one layer's time after the KV of the last layer has
 * arrived everywhere. With stage_layers = 1 that is exact layer by layer; with longer stages
 * transfer and computation inside a stage are taken to overlap freely. A stage costs its share of
 *     max over engines (attention + linear + restoration) + experts(tokens of the group).
 *
 * Collectives (model/collectives.h) load the NICs of their group while a stage or an epoch lasts,
 * and KV traffic on those NICs stretches them: a stage takes timing_prefill_late_ns() longer, a
 * step its dispatch and combine bytes' time times (stretch - 1), however much of it the host's work
 * would hide. What is certain of that is part of the stage or epoch from its beginning; the rest,
 * by the mean stretch that it met, is added at its end.
 *
 * Decode loop of an EP group: steps of
 *     hypot(max over engines (attention + linear of its batch) + experts and fixed cost of the
 *           group, the host's work per sequence * the largest batch)
 * and, once for each step that sequences join, the host's work on those of the engine that most
 * join; run in epochs: as many steps at once as nobody joins, leaves or wants to be told, at most
 * EPOCH_STEPS. In an epoch the contexts grow by one token per sequence and step, and the slowest
 * engine stays the slowest. A sequence that joins a running loop enters it decode_lag_steps
 * boundaries after the next one: engines prepare a batch while the one before runs, and read its
 * tokens while the next one does.
 */
#ifndef DUALPATH_SIM_SIM_COMPUTE_H
#define DUALPATH_SIM_SIM_COMPUTE_H

#include "base/list.h"
#include "base/loop.h"
#include "model/timing.h"
#include "sched/compute.h"

#define EPOCH_STEPS 32u

/* The GPUs of an EP group, numbered over all nodes, and the queue pairs that its collectives use on
 * each one's NIC. */
struct sim_gpus {
    uint32_t first, n;
    double queue_pairs;
};

/* Where the collectives of EP groups meet KV traffic: the NICs. */
struct sim_links {
    void *self;
    /* By how much collectives of the group will take longer than on idle NICs at least; >= 1. */
    double (*expected)(void *self, const struct sim_gpus *gpus);
    /* By how much they have taken longer since the last load(), on average; >= expected(). */
    double (*met)(void *self, const struct sim_gpus *gpus);
    /* From now on they use so much of each NIC, in either direction, on average over time. */
    void (*load)(void *self, const struct sim_gpus *gpus, double each_Bps);
};

struct sim_compute_config {
    uint32_t prefill_groups, prefill_group_gpus;
    uint32_t decode_groups, decode_group_gpus;
    uint32_t stage_layers;     /* layers per stage of a forward, >= 1 */
    uint32_t decode_lag_steps; /* steps that a joining sequence waits beyond the next boundary */
    const struct sim_links *links; /* NULL: collectives meet nothing */
};

/* Collectives so far: their time on idle NICs, as KV traffic stretched it, and how much longer the
 * forwards or steps took for that. */
struct sim_collectives {
    double alone_ns, stretched_ns, late_ns;
};

struct sim_forward_group {
    struct sim_compute *sc;
    struct compute_forward **joined; /* by rank */
    uint32_t n_joined;
    bool running;
    uint32_t layer;                 /* first layer of the stage in progress */
    uint32_t stage_end;             /* 0: waiting for KV */
    double compute_ns;              /* of all layers */
    double wire_ns;                 /* dispatch and combine bytes of all layers on idle NICs */
    double stage_ns, stage_wire_ns; /* of the stage in progress, without delay */
    double expected;                /* stretch that its end already allows for */
    double stretch;                 /* that the stage before met; 0 before the first one */
    bool met_links;                 /* what it met has been added */
    uint64_t all_ready_ns;          /* when the last layer's KV was everywhere; LOOP_NEVER before */
    struct loop_timer timer;
    double fill;    /* of the forward: that of its fullest engine */
    double busy_ns; /* of finished forwards */
    double full_ns; /* the same, each weighted with its fill */
    /* Of finished forwards with attention in them: their time, and that times the largest over the
     * mean attention time of an engine. */
    double attending_ns, attention_max_avg_ns;
};

struct sim_decode_engine {
    double batch, context_tok;
    uint32_t n_joined; /* counts those that are admitted at a boundary */
};

struct sim_decode_group {
    struct sim_compute *sc;
    struct sim_decode_engine *engines;
    struct list due[2 * EPOCH_STEPS]; /* sequences by (due step) modulo the size */
    struct list joining;
    uint32_t n_sequences;
    uint64_t step;        /* steps done */
    uint32_t epoch_steps; /* 0: idle */
    uint64_t epoch_start_ns;
    double first_ns, growth_ns; /* step i of the epoch takes first + i * growth, nearly */
    double admission_ns;        /* what its first step takes longer for those that joined with it */
    double wire_ns;             /* of a step's collectives on idle NICs */
    double expected, stretch;   /* as in a forward group */
    bool met_links;
    struct loop_timer timer;
    double busy_ns, batch_steps; /* of finished epochs */
};

struct sim_compute {
    struct compute_port port;
    struct loop *loop;
    const struct timing_model *timing;
    struct sim_compute_config config;
    struct sim_forward_group *forwards;
    struct sim_decode_group *decodes;
    uint64_t n_forwards, n_steps;
    struct sim_collectives prefill_collectives, decode_collectives;
};

static inline struct sim_compute *sim_compute_of(struct compute_port *port)
{
    return container_of(port, struct sim_compute, port);
}

/* timing must outlive it. Returns 0 or -ENOMEM. */
int sim_compute_init(struct sim_compute *sc, struct loop *loop, const struct timing_model *timing,
                     const struct sim_compute_config *config);
void sim_compute_done(struct sim_compute *sc);

/* self is the sim_compute: until a decode engine answers what it is asked now, as late as a
 * sequence that joins would enter its loop, as far as that is known now (who joins or what KV
 * traffic slows later does not move it); 0 when its loop stands. */
uint64_t sim_compute_answer_ns(void *self, uint32_t engine);

/* Time for which a group's capacity has been used until now, what is in progress included: a
 * forward that is not filled up to its limit counts in part, so that a group is full when all its
 * forwards are and one follows the other. */
double sim_forward_full_ns(const struct sim_forward_group *g);

#endif
