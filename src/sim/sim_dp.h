/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The data path in virtual time: every hop of every op on the link models.
 *
 *   storage read    storage NIC (queue of its own), then in DRAM; DRAM writes take a share of the
 *                   NIC's rate. Into HBM (peer to peer, as GPUDirect Storage does): past DRAM, and
 *                   free on the GPU's PCIe link, of which a storage NIC's rate spread over the
 *                   node's GPUs is a small part; with isolation.reads_on_pcie its bytes cross that
 *                   link (the resource of the compute NIC's RX) while the NIC serves the read, at
 *                   the rate of the share that the read began with
 *   storage write   storage NIC; DRAM reads take a share of the NIC's rate
 *   copy            [source DRAM] -> CNIC TX of the source -> CNIC RX of the destination
 *                   -> [destination DRAM]
 *
 * A loopback copy (DRAM to a GPU of the node or back) takes TX and RX of the same CNIC. DRAM is
 * half-duplex: reads and writes share its capacity. What the storage NIC moves is taken off the
 * DRAM capacity that copies share (its DMA is small against DRAM and is not throttled by them). A
 * limit of the storage cluster, on delivered bytes, is shared max-min fairly by the NICs, each of
 * which asks for what it delivers at line rate with the I/O it has in service.
 */
#ifndef DUALPATH_SIM_SIM_DP_H
#define DUALPATH_SIM_SIM_DP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/pool.h"
#include "datapath/dp.h"
#include "sim/isolation.h"
#include "sim/network.h"
#include "sim/sim_compute.h"
#include "sim/storage_server.h"
#include "sim/submit.h"

/* How long a decode engine takes to answer a reader that asks it for a request's buffer. */
struct sim_answers {
    void *self;
    uint64_t (*ns)(void *self, uint32_t decode_engine);
};

struct sim_dp_config {
    uint32_t n_nodes, gpus_per_node;
    double cnic_Bps; /* each direction */
    /* Times that a copy into HBM is made, one for each GPU of an engine that holds the same KV; 0 =
     * 1. */
    uint32_t hbm_copies;
    double dram_Bps;
    struct storage_config storage;
    struct sim_answers answers;   /* of no function: at once */
    double cluster_Bps;           /* delivered by the storage cluster to all nodes; 0 = no limit */
    uint64_t transfer_latency_ns; /* per copy op, beyond the bytes' own time */
    struct sim_submit_config submit;
    struct sim_isolation_config isolation;
    bool free_transfers; /* the oracle: every op takes no time and no capacity */
    uint32_t depth;      /* ops in flight before -EAGAIN; 0 = no limit */
    uint64_t seed;
};

/* Another network for the copies than the fluid one: sim/packet_dp.h. */
struct sim_copies {
    void *self;
    /* The first bytes of op may leave, those of so many parts, at no more than cap_Bps
     * (MAXMIN_NO_CAP: no limit). path: the resources that it takes. Ends in sim_dp_copied(). */
    void (*open)(void *self, struct dp_op *op, uint32_t parts, double cap_Bps,
                 struct net_resource *const *path, unsigned n_path);
    void (*feed)(void *self, struct dp_op *op, uint32_t parts);
    void (*abort)(void *self, struct dp_op *op);
    void (*dram_left)(void *self, struct net_resource *dram, double Bps);
};

struct dram_tier;

struct sim_node {
    struct storage_server snic;
    struct net_resource dram;
    bool at_line_rate;                 /* while the storage cluster is being shared */
    uint32_t n_jobs, n_jobs_past_dram; /* of the storage NIC, from submission to the end */
    double past_dram_bytes;            /* moved by it so far without touching DRAM */
    struct sim_dp *sd;
};

struct sim_cnic {
    struct net_resource tx,
        rx; /* tx: PCIe reads (out of a memory), rx: PCIe writes (into a memory) */
    struct submit_queue submit;
    /* Collectives, the same in both directions. */
    double inference_Bps, inference_bytes; /* bytes: until inference_at_ns */
    uint64_t inference_at_ns;
    uint32_t group_first; /* of the EP group that has loaded it: its first GPU; none: UINT32_MAX */
};

/* KV traffic as the collectives of an EP group meet it: the stretch now, and its integral over time
 * from from_ns until since_ns. */
struct sim_met {
    uint32_t n; /* GPUs */
    double queue_pairs;
    double stretch, integral_ns;
    uint64_t from_ns, since_ns;
    bool dirty;
    struct list node; /* in sim_dp.dirty, if it is */
};

struct sim_dp {
    struct dp dp;
    struct loop *loop;
    struct sim_dp_config config;
    struct net net;
    const struct sim_copies *copies; /* NULL: net */
    struct dram_tier *tier;          /* in front of storage (sim/dram_tier.h), or NULL */
    struct sim_node *nodes;
    struct sim_cnic *cnics; /* node * gpus_per_node + gpu */
    struct isolation isolation;
    struct sim_links links; /* for sim_compute */
    struct sim_met *met;    /* by the first GPU of a group */
    struct list
        dirty; /* sim_met.node: the stretch has to be found anew at the end of the instant */
    struct pool ops;
    bool cluster_limits; /* the storage cluster can be slower than all NICs at line rate */
    struct rng *rng;
};

/* Returns 0 or -ENOMEM. */
int sim_dp_init(struct sim_dp *sd, struct loop *loop, const struct sim_dp_config *config);
void sim_dp_done(struct sim_dp *sd);

/* For sim_copies and the DRAM tier: op has arrived, from the loop only. */
void sim_dp_copied(struct sim_dp *sd, struct dp_op *op);

/* For the DRAM tier: a read whose turn has come asks its decode engine, and waits so long in its
 * slot for the answer, before its first byte. Sets op->answer_ns. */
uint64_t sim_dp_ask(const struct sim_dp *sd, struct dp_op *op);

/* For sim_dp_init(). */
void sim_links_init(struct sim_links *links, struct sim_dp *sd);

/* Bytes of collectives through a NIC so far, in one direction. */
double sim_dp_inference_bytes(const struct sim_dp *sd, const struct sim_cnic *cnic);

/* 0 when every byte accepted by every resource has been delivered; else -EPROTO and the resource's
 * name. */
int sim_dp_check_conserved(const struct sim_dp *sd, char *ret_what, size_t size);

#endif
