/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A cache of KV blocks in the DRAM of all nodes, in front of storage: every node gives node_bytes
 * (beside its staging buffer) to one pool, as Mooncake Store does (Qin et al., "Mooncake: A
 * KVCache-centric Disaggregated Architecture for LLM Serving", arXiv 2407.00079). It is whole Full
 * Blocks, each in one place, evicted least recently used first over the whole pool.
 *
 *   read    blocks found in the pool of the reading node are copied into its staging buffer: a read
 *           and a write of its DRAM. Those in another node's pool come by RDMA: DRAM read there, TX
 *           of its CNIC, RX of the reader's, DRAM write here; which of the node's CNICs is the
 *           rail of the engine that reads. Only what is left is read from storage, through the
 *           SNIC, and is then copied from the buffer into the pool. The three kinds go on at the
 *           same time; the read is over when all of it is in the buffer and what was new in the
 *           pool.
 *   write   goes to storage as without a pool (write-through: nothing is lost by an eviction), and
 *           at the same time into the pool.
 *
 * A new block goes to the pool of the node that has it in its buffer, if there is room; else to the
 * node with most room; else the oldest block of all makes room, wherever it lies. At the end of an
 * op all of its blocks become the most recently used, from first to last; blocks that are found are
 * so from the start too, so that what is being read stays. A block can be found from the moment its
 * copy into the pool begins; two reads that miss it at the same time both go to storage.
 *
 * The work requests of remote copies are the reader's (RDMA READ, or WRITE of a new block), one per
 * block.
 */
#ifndef DUALPATH_SIM_DRAM_TIER_H
#define DUALPATH_SIM_DRAM_TIER_H

#include "base/err.h"
#include "base/pool.h"
#include "datapath/block_lru.h"
#include "sim/sim_dp.h"

struct dram_tier_config {
    uint64_t node_bytes;  /* of each node's pool; less than a block: nothing is ever found */
    uint64_t block_bytes; /* of a Full Block */
    /* What the blocks first_block .. first_block + n of a chain are called in the pool; NULL: chain
     * and number. */
    void (*keys)(void *self, const struct dp_chain *chain, uint32_t n, struct block_key *ret_keys);
    void *self;
};

enum dram_tier_source {
    DRAM_TIER_LOCAL,
    DRAM_TIER_REMOTE,
    DRAM_TIER_STORAGE,
    DRAM_TIER_N_SOURCES,
};

struct dram_tier {
    struct sim_dp *sd;
    struct dram_tier_config config;
    struct block_lru blocks; /* value: the node */
    uint64_t node_blocks;    /* that fit into a node's pool */
    uint64_t *used_blocks;   /* by node */
    struct block_key *keys;  /* of the op at hand */
    uint32_t capacity_keys;
    uint32_t *counts; /* scratch, by node */
    struct pool ops, moves;

    uint64_t read_bytes[DRAM_TIER_N_SOURCES]; /* where the blocks of reads were found */
    uint64_t added_blocks, evicted_blocks, peak_blocks;
};

/* Puts it in front of sd's storage; sd must outlive it, and have no other network for copies
 * (sim_dp.copies). 0 or -ENOMEM. */
int dram_tier_init(struct dram_tier *tier, struct sim_dp *sd,
                   const struct dram_tier_config *config);
void dram_tier_done(struct dram_tier *tier);

/* For sim_dp: starts a storage op; sim_dp_copied() tells of its end. */
void dram_tier_submit(struct dram_tier *tier, struct dp_op *op);
/* For sim_dp: the same where transfers take no time: nothing but the pool changes. */
void dram_tier_note(struct dram_tier *tier, const struct dp_op *op);
/* For sim_dp: false when the op ends by itself. */
bool dram_tier_cancel(struct dram_tier *tier, struct dp_op *op);

/* 0 when the pool's blocks are those added and not evicted, and lie on the nodes; else -EPROTO and
 * what is wrong. */
int dram_tier_check(const struct dram_tier *tier, char *ret_what, size_t size);

#endif
