/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A prefill node: DRAM buffer, PE read path, and one prefill engine per GPU.
 *
 * Life of a request here: MSG_DECODE_READY (the decode buffer is there; on the DE path the hits are
 * in it)
 * -> [PE path: buffer space, storage read; of a split read its own part, while the decode node
 * reads the other: MSG_DECODE_READ] -> [without layer streaming: HBM, KV into it] -> ready -> one
 * or more forwards (chunks) -> first token -> all KV stored in the decode buffer -> MSG_PROMPT_KV.
 *
 * An engine packs its ready requests into a forward first come first served until the predicted
 * attention time would pass the quota, or its new tokens their limit (packing.h); the one that
 * overflows is cut (chunked prefill). All engines of an EP group start together, on the word of the
 * group's leader: the node of its first engine. What the node fetches once they have packed is for
 * the forward after.
 *
 * When a decode node dies (MSG_DEAD), its requests here are cancelled; one in a forward is dropped
 * from it, and the others of the batch go on.
 */
#ifndef DUALPATH_SCHED_PREFILL_NODE_H
#define DUALPATH_SCHED_PREFILL_NODE_H

#include "base/idmap.h"
#include "base/pool.h"
#include "datapath/space.h"
#include "sched/node.h"

struct prefill_node;
struct prefill_engine;

struct prefill_request {
    struct prefill_node *owner;
    struct prefill_engine *engine;
    uint32_t index;   /* in the pool */
    struct list node; /* in owner->all */
    /* Of its span in the GPU. With layer streaming it has one while a chunk is in a forward or on
     * its way out; without, as long as it holds its claim, which is for the whole prompt. */
    uint32_t hbm_slot;
    /* With layer streaming a cut prompt goes on in the next forward while the last layers of the
     * chunk before still leave a span of their own (room that nothing counts, as that of whole
     * requests of the forward before). The next store waits for them, with so many layers ready; 0:
     * none does. */
    bool leaving;
    uint32_t leaving_slot, waiting_layers;
    struct space_claim hbm;
    struct msg_start start;
    struct list ready_node;
    uint64_t decode_offset_bytes;
    uint64_t asked_ns;          /* for DRAM buffer space */
    uint64_t granted_ns;        /* DRAM buffer space, for a split read */
    uint64_t ready_ns;          /* its hits were there */
    uint32_t n_reading;         /* parts of the hits that are still to come */
    uint64_t alloc_ns, read_ns; /* durations, both nodes */
    uint64_t queue_ns;          /* from ready until it is packed into a forward */
    uint32_t done_tok;          /* new tokens computed by earlier chunks */
    uint32_t chunk_tok;         /* new tokens in the forward in progress */
    struct space_claim dram;
    struct dp_op read;
    struct dp_op load;  /* hits, from this node's DRAM */
    struct dp_op store; /* to the decode buffer */
    struct dp_op keep;  /* the chunk's hidden states to the decode buffer, to be persisted */
    uint32_t n_storing; /* of the two, those not through */
    uint32_t sent_tok;  /* new tokens sent on, of a prompt that stays in HBM between its chunks */
    /* Arrived; all layers when nothing is to come. */
    uint32_t load_layers, push_layers[MSG_MAX_PUSHES];
    bool computing;             /* in the forward in progress */
    bool stored;                /* the stores of the last chunk computed are through */
    bool loading;               /* without layer streaming: its KV is on its way in */
    bool read_over, first_sent; /* as counted in the node's report */
    bool cancelled; /* its decode node is dead; it goes when nothing of it is under way any more */
};

struct prefill_engine {
    struct prefill_node *owner;
    uint16_t gpu;
    bool in_forward;
    bool start_pending; /* told to start while still busy with the forward before */
    bool storing;       /* the stores of the forward in progress have begun */
    struct list ready;
    struct slots hbm_slots; /* with layer streaming */
    struct space direct;    /* bytes, for hits read straight into the GPU */
    struct space hbm;       /* bytes, for whole prompts: without layer streaming */
    struct compute_forward forward;
    struct compute_item *items;
    struct prefill_request **batch;
    uint32_t n_batch, batch_capacity;
    uint64_t attention_ns; /* total over all forwards, for the balance of a real run */
    uint64_t full_ns;      /* total over all forwards, each counted as far as it is full */
};

/* An EP group as its nodes see it. */
struct prefill_group {
    uint32_t id;
    uint32_t first_node, n_nodes;
    uint32_t n_local; /* engines of it on this node */
    uint32_t n_local_running;
    uint32_t n_local_to_start; /* told to start a forward, and not yet done with the one before */
    bool announced;            /* this node has told the leader that it has work */
    bool running, wanted;      /* leader only: a forward is going on; another one is asked for */
};

struct prefill_node {
    struct node node;
    struct space dram;
    struct prefill_engine *engines;
    struct prefill_group *groups; /* those with engines here */
    uint32_t n_groups;
    struct pool requests;
    struct list all; /* requests */
    struct idmap by_id;
    uint64_t computed_tok; /* new tokens put through forwards */
    uint64_t n_chunks;
};

/* Attaches to its endpoint. Returns 0, -ENOMEM or the port's error. */
int prefill_node_init(struct prefill_node *pn, const struct cluster *cluster,
                      const struct node_ports *ports, uint32_t id);
void prefill_node_done(struct prefill_node *pn);

#endif
