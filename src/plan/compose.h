/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * From a resolved scenario to what the schedulers and engines are built from: the same for a
 * simulated and for a real run.
 */
#ifndef DUALPATH_PLAN_COMPOSE_H
#define DUALPATH_PLAN_COMPOSE_H

#include "base/err.h"
#include "input/scenario.h"
#include "sched/cluster.h"
#include "sched/workload.h"

/* Share of a node's DRAM buffer that decoded blocks pass through on their way to storage. */
#define COMPOSE_PERSIST_BUFFER_SHARE 0.05

/*
 * Layer streaming of fidelity "auto": a forward in this many stages. Inside a stage transfers and
 * computation are taken to overlap freely, which is wrong by most when they take equally long; so
 * there are more stages when the typical request's hits take COMPOSE_NEAR_BALANCE times as long to
 * reach the GPU as its forward takes, or the inverse, or anything between. Figures: sim/README.md.
 */
#define COMPOSE_STAGES_NEAR  8u
#define COMPOSE_STAGES_FAR   4u
#define COMPOSE_NEAR_BALANCE 8.0

/*
 * With tensor parallelism (system.tp_gpus > 1) the "GPUs" of the schedulers, engines and links are
 * engines of tp GPUs, whose NICs are one that is as fast as all of them. A copy into HBM is made
 * once for each GPU that holds the same KV, over the NIC of that GPU and out of DRAM each time: tp
 * times with a latent (MLA), tp / KV heads where there are fewer of those. What leaves HBM leaves
 * once.
 */
double compose_engine_nic_Bps(const struct scenario *sc);
uint32_t compose_hbm_copies(const struct scenario *sc);

/* Share of a prefill GPU's HBM for KV that hits read straight into it may hold (restore
 * gpu_direct); the rest is for the layers of the batch in the forward. */
#define COMPOSE_DIRECT_SHARE 0.8

/* ret_timing must outlive ret_cluster, which points to it. -EINVAL with err when the groups do not
 * come out even or the KV layout is not one of whole bytes. */
int compose_cluster(const struct scenario *sc, struct timing_model *ret_timing,
                    struct cluster *ret_cluster, struct err *err);

/*
 * Checks every turn against the buffers and memories it must fit into; -EINVAL with err naming the
 * session, the turn and the limit. Also sets cluster->span_bytes, staging_offset_bytes and
 * shared_prefixes, which follow from the workload.
 */
int compose_workload(struct cluster *cluster, const struct workload *w, const char *trace,
                     struct err *err);

#endif
