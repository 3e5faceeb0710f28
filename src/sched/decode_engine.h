/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A decode node's requests in HBM: decoding, persisting blocks from there, and the end. Used by
 * decode_node.c only; the structs are in decode_node.h. */
#ifndef DUALPATH_SCHED_DECODE_ENGINE_H
#define DUALPATH_SCHED_DECODE_ENGINE_H

#include "sched/decode_node.h"

/* Adjacent blocks of a request's context on their way HBM -> staging -> storage. */
struct block_copy {
    struct decode_request *request;
    uint32_t index;                 /* in the pool */
    uint32_t first_block, n_blocks; /* of the request's context */
    struct space_claim staging;     /* room of those not yet written */
    struct dp_op op;
};

/* One of them on its way to storage. */
struct block_write {
    struct block_copy *copy;
    uint32_t index; /* in the pool */
    struct dp_op op;
};

/* Joins the decode loop: the prompt's KV is in HBM. */
void decode_engine_run(struct decode_request *r);

/* Writes full blocks of the context, which are in HBM, to storage. Those of a prompt that never was
 * in DRAM leave HBM together. */
void decode_engine_persist(struct decode_request *r, uint32_t first_block, uint32_t n_blocks);

/* The last token is out, by the prefill alone: nothing was to be decoded. */
void decode_engine_skip(struct decode_request *r);

/* The request's span in the node's DRAM buffer or in HBM, once granted. */
struct dp_place decode_request_place(const struct decode_request *r, enum dp_tier tier);

/* Full blocks of the prompt. */
uint32_t decode_request_full_blocks(const struct decode_request *r);

/* The prompt's new blocks are in storage. */
void decode_request_prompt_durable(struct decode_request *r);

void decode_request_forget_if_over(struct decode_request *r);

/* Forgets a cancelled request of which nothing is under way any more. */
void decode_request_settle(struct decode_request *r);

#endif
