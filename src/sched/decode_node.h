/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A decode node: DRAM buffer, DE read path, HBM of its decode engines, and persistence.
 *
 * Life of a request here: MSG_START -> buffer space -> [DE path: storage read] -> MSG_DECODE_READY
 * -> pushes its KV to the prefill GPU when asked -> MSG_PROMPT_KV -> HBM blocks -> copy into HBM ->
 * buffer space given back -> decode loop -> last token.
 *
 * Who persists what: the decode node writes the prompt's new full blocks from its buffer as soon as
 * the prompt is complete, and every block that decoding fills by way of a staging buffer of its own
 * (so that persisting never waits for a prompt that waits for HBM). The request is over when all of
 * it is durable.
 */
#ifndef DUALPATH_SCHED_DECODE_NODE_H
#define DUALPATH_SCHED_DECODE_NODE_H

#include "base/idmap.h"
#include "base/pool.h"
#include "datapath/space.h"
#include "sched/node.h"

struct decode_node;

struct decode_request {
    struct decode_node *owner;
    uint32_t index; /* in the pool */
    struct msg_start start;
    uint64_t asked_ns, alloc_ns, read_ns;
    struct space_claim dram, hbm;            /* bytes; blocks */
    struct dp_op read, push, admit, persist; /* persist: the prompt's new blocks */
    uint32_t push_every;
    struct compute_sequence sequence;
    bool admitted;      /* KV is in HBM and the buffer given back */
    bool persisted;     /* the prompt's new blocks are durable */
    bool finished;      /* last token is out */
    uint32_t n_copying; /* decoded blocks on their way out of HBM */
    uint32_t n_writing; /* decoded blocks not yet durable, those copying included */
};

struct decode_node {
    struct node node;
    struct space dram;    /* bytes */
    struct space staging; /* bytes, for decoded blocks */
    struct space *hbm;    /* blocks, by GPU */
    struct pool requests, block_writes;
    struct idmap by_id;
    /* By decode steps: the first token of a request comes from its prefill. */
    uint64_t generated_tok;
    uint64_t persisted_blocks;
};

/* Attaches to its endpoint. Returns 0, -ENOMEM or the port's error. */
int decode_node_init(struct decode_node *dn, const struct cluster *cluster,
                     const struct node_ports *ports, uint32_t id);
void decode_node_done(struct decode_node *dn);

#endif
