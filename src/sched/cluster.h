/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The cluster as the schedulers and engines see it: counts, limits and rules. Nodes 0 ..
 * prefill_nodes - 1 are prefill nodes, the others decode nodes. Engines (GPUs) are numbered within
 * their kind, node by node; with tensor parallelism several GPUs are one here. EP groups are runs
 * of consecutive engines.
 */
#ifndef DUALPATH_SCHED_CLUSTER_H
#define DUALPATH_SCHED_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "datapath/kv_layout.h"
#include "model/timing.h"

enum cluster_scheduler { CLUSTER_ADAPTIVE, CLUSTER_ROUND_ROBIN };
enum cluster_path {
    CLUSTER_SHORTER_QUEUE,
    CLUSTER_PREFILL,
    CLUSTER_DECODE,
    CLUSTER_PATH_ROUND_ROBIN,
    CLUSTER_SPLIT
};
/* What a decode node does with a context when a turn is over: see sched/decode_kept.h. */
enum cluster_reuse { CLUSTER_REUSE_NONE, CLUSTER_REUSE_HBM, CLUSTER_REUSE_DRAM };

/*
 * What is stored of a context and how it comes back to the GPUs:
 *   KV        as it is
 *   HIDDEN    hidden states, of which the prefill GPU makes the KV of the hits in the first chunk's
 *             forward (HCache, arXiv 2410.05004). On both paths it then sends the KV of hits and
 *             misses to the decode buffer, the hidden states of the misses beside it; decoded
 *             blocks are persisted as hidden states too
 *   COMPRESSED  smaller KV in storage, in buffers and on the wire, expanded in the GPU that uses it
 *   DIRECT    KV; the PE path reads it from storage into the prefill GPU (GPUDirect Storage), where
 *             it stays until the prompt's KV has been stored in the decode buffer
 */
enum cluster_restore {
    CLUSTER_RESTORE_KV,
    CLUSTER_RESTORE_HIDDEN,
    CLUSTER_RESTORE_COMPRESSED,
    CLUSTER_RESTORE_DIRECT
};

struct cluster {
    uint32_t prefill_nodes, decode_nodes, gpus_per_node;
    uint32_t prefill_ep_gpus, decode_ep_gpus; /* EP group sizes */
    /* Scheduling groups: runs of consecutive nodes of one kind whose leader (the first) fetches for
     * all. */
    uint32_t prefill_group_nodes, decode_group_nodes;
    struct kv_layout kv;
    /* The same blocks in buffers and between GPUs, and in storage: other bytes, unless restore is
     * KV or DIRECT. */
    struct kv_layout wire, stored;
    enum cluster_restore restore;
    /* Granularity of layer streaming, see sim/sim_compute.h; 1 = every layer. */
    uint32_t stage_layers;
    const struct timing_model *timing; /* the engines' prediction of attention time */

    bool layerwise; /* stream KV layer by layer; false: whole batch in HBM before the forward */
    enum cluster_scheduler scheduler;
    enum cluster_path path; /* which side reads */
    enum cluster_reuse reuse;
    /* A prompt's KV is gathered in the HBM of its decode engine, reserved from the start; false: in
     * the decode node's DRAM buffer, and copied into HBM when it is complete. */
    bool decode_in_hbm;
    /* HBM of decode engines, and that of prefill engines if whole prompts lie there, counts as
     * taken from a request's assignment on; false: once the node has granted it. */
    bool promise_decode_hbm, promise_prefill_hbm;
    /* What ends the batch of a forward and engine: predicted attention time, or new tokens. One of
     * the two is 0. */
    uint64_t quota_ns;
    uint32_t forward_tok;
    uint64_t alpha_tok; /* read queue of a node up to which its engines are preferred */
    uint64_t beta_tok;  /* unfinished tokens of an engine up to which it gets more */
    uint64_t fetch_period_ns;
    /* Prefill leaders fetch when a forward of their engines has started, and periodically only
     * while none runs; false: periodically. */
    bool fetch_at_forward;
    uint64_t scheduler_cost_ns; /* per assignment, serial in the central scheduler */

    uint64_t dram_buffer_bytes; /* per node, for prompts on their way */
    /* Per node, for blocks on their way from decode GPUs to storage. */
    uint64_t persist_buffer_bytes;
    uint64_t prefill_hbm_bytes;    /* per GPU, for KV of the batch in a forward */
    uint64_t prefill_direct_bytes; /* per GPU, for hits read straight into it */
    uint64_t decode_hbm_blocks;    /* per GPU */
    uint64_t storage_blocks;       /* capacity of the storage, see sched/stored.h; 0 = no limit */
    uint64_t span_bytes;           /* address range set apart for one request in a memory */
    /* Where the persist buffer begins, behind all spans of prompts. */
    uint64_t staging_offset_bytes;
    bool retry; /* requests of a node that dies are run again elsewhere, see sched/retry.h */
    bool shared_prefixes; /* requests may hit blocks of other sessions: report prompts as they get
                             durable */
};

static inline uint32_t cluster_nodes(const struct cluster *c)
{
    return c->prefill_nodes + c->decode_nodes;
}

/* The number of a decode engine over all decode nodes, as struct compute_sequence has it. */
static inline uint32_t cluster_decode_engine(const struct cluster *c, uint32_t node, uint32_t gpu)
{
    return (node - c->prefill_nodes) * c->gpus_per_node + gpu;
}

static inline bool cluster_is_prefill(const struct cluster *c, uint32_t node)
{
    return node < c->prefill_nodes;
}

static inline uint32_t cluster_prefill_groups(const struct cluster *c)
{
    return c->prefill_nodes / c->prefill_group_nodes;
}

static inline uint32_t cluster_decode_groups(const struct cluster *c)
{
    return c->decode_nodes / c->decode_group_nodes;
}

/* Layers of KV that a prefill GPU holds at a time for a request: double buffering when streaming.
 */
static inline uint32_t cluster_layers_held(const struct cluster *c)
{
    return c->layerwise && c->kv.n_layers > 2 ? 2 : c->kv.n_layers;
}

/* Bytes of HBM that a prefill GPU needs for a context of tok tokens in a forward: KV, and what it
 * is made of. */
static inline uint64_t cluster_prefill_hbm_bytes(const struct cluster *c, uint64_t tok)
{
    uint64_t bytes = kv_room_bytes(&c->kv, tok) / c->kv.n_layers * cluster_layers_held(c);
    bool made = c->restore == CLUSTER_RESTORE_HIDDEN || c->restore == CLUSTER_RESTORE_COMPRESSED;
    return made ? bytes + kv_room_bytes(&c->stored, tok) / c->kv.n_layers * cluster_layers_held(c)
                : bytes;
}

/* Room of a prompt in the decode buffer: its KV, and what of it is to be stored where that is
 * another thing. */
static inline uint64_t cluster_decode_room_bytes(const struct cluster *c, uint32_t prompt_tok)
{
    uint64_t bytes = kv_room_bytes(&c->wire, prompt_tok);
    return c->restore == CLUSTER_RESTORE_HIDDEN ? bytes + kv_room_bytes(&c->stored, prompt_tok)
                                                : bytes;
}

/* HBM blocks of a decode GPU for a request: KV of the last generated token is never computed. */
static inline uint32_t cluster_decode_blocks(const struct cluster *c, uint32_t prompt_tok,
                                             uint32_t gen_tok)
{
    return kv_blocks(&c->kv, prompt_tok + gen_tok - 1);
}

#endif
