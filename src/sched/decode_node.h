/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A decode node: DRAM buffer, DE read path, HBM of its decode engines, and persistence.
 *
 * Life of a request here: MSG_START -> buffer space -> [DE path: storage read] -> MSG_DECODE_READY
 * -> pushes its KV to the prefill GPU when asked -> MSG_PROMPT_KV -> HBM blocks -> copy into HBM ->
 * buffer space given back -> decode loop -> last token. Of a split read MSG_DECODE_READY comes
 * before the read, for the prefill node to read its part meanwhile, and MSG_DECODE_READ after it.
 *
 * With cluster.decode_in_hbm the buffer is the request's own HBM: asked for at the start, read and
 * stored into directly, and decoded from as soon as the prompt is complete.
 *
 * Who persists what: the decode node writes the prompt's new full blocks from its buffer as soon as
 * the prompt is complete, and every block that decoding fills, or that never was in DRAM, by way of
 * a staging buffer of its own (so that persisting never waits for a prompt that waits for HBM):
 * copied together, as far as half of that buffer goes, and written block by block. The request is
 * over when all of it is durable.
 *
 * When a prefill node dies (MSG_DEAD), its requests here that have not finished are cancelled:
 * their reads and pushes end, their sequence leaves the decode loop, blocks on their way to storage
 * get there. Finished ones go on until they are durable.
 */
#ifndef DUALPATH_SCHED_DECODE_NODE_H
#define DUALPATH_SCHED_DECODE_NODE_H

#include "base/idmap.h"
#include "base/pool.h"
#include "datapath/space.h"
#include "sched/node.h"

struct decode_node;
struct decode_kept;
struct decode_request;

/* A stream of a request's KV to its prefill GPU. */
struct decode_push {
    struct decode_request *request;
    struct dp_op op;
    uint32_t every; /* layers between reports */
};

struct decode_request {
    struct decode_node *owner;
    uint32_t index;   /* in the pool */
    struct list node; /* in owner->all */
    struct msg_start start;
    uint64_t asked_ns, alloc_ns, read_ns;
    struct space_claim dram, hbm;      /* bytes; blocks */
    struct decode_kept *kept;          /* of the session's last turn, to be grown; NULL */
    uint32_t hbm_kept_tok;             /* that much of the prompt never is in the DRAM buffer */
    struct dp_op read, admit, persist; /* persist: the prompt's new blocks */
    struct decode_push pushes[MSG_MAX_PUSHES];
    struct loop_timer expand_timer; /* compressed KV */
    struct compute_sequence sequence;
    bool admitted;             /* KV is in HBM and the buffer given back */
    bool persisted;            /* the prompt's new blocks are durable */
    bool finished;             /* last token is out */
    uint32_t n_copying;        /* blocks on their way out of HBM */
    uint32_t n_writing;        /* those, and those not yet durable */
    uint32_t n_writing_prompt; /* of them, blocks of the prompt */
    bool read_over;            /* the storage read is counted as done */
    bool doomed;               /* its prefill node is dead */
    bool cancelled;            /* it goes when nothing of it is under way any more */
};

struct decode_node {
    struct node node;
    struct space dram;          /* bytes */
    struct space staging;       /* bytes, for decoded blocks */
    struct space *hbm;          /* blocks, by GPU */
    uint64_t *expander_free_ns; /* by GPU: when it has expanded what was admitted so far */
    struct pool requests, block_copies, block_writes;
    struct list all; /* requests */
    struct idmap by_id;
    struct pool kept; /* struct decode_kept */
    struct idmap kept_by_session;
    struct list *kept_lru; /* idle ones, by GPU; of the DRAM buffer: the first */
    struct {
        uint64_t put, dropped;
        uint64_t hit_tok; /* hits that were not read from storage */
    } kept_counts;
    /* By decode steps: the first token of a request comes from its prefill. */
    uint64_t generated_tok;
    uint64_t persisted_blocks;
};

/* Attaches to its endpoint. Returns 0, -ENOMEM or the port's error. */
int decode_node_init(struct decode_node *dn, const struct cluster *cluster,
                     const struct node_ports *ports, uint32_t id);
void decode_node_done(struct decode_node *dn);

#endif
