/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The data path's front door. Every movement of KV-cache bytes, in the simulator and on hardware,
 * is a `struct dp_op` that its caller owns, fills and submits here; the backend behind the table
 * moves it.
 *
 *   - An accepted op (dp_submit() returned 0) completes exactly once: done() is called from the
 *     event loop, never from inside dp_submit(), dp_feed() or dp_cancel().
 *   - An op is a stream of `parts_total` equal parts, moved in order: layers for copies to and from
 *     a GPU (Layer Blocks), Full Blocks for storage. The producer may still be computing:
 *     parts_ready says how many exist, dp_feed() raises it. progress() reports parts that have
 *     arrived.
 *   - Ops between the same pair of places complete in the order in which they were submitted only
 *     if they are parts of one op; separate ops may overtake each other.
 */
#ifndef DUALPATH_DATAPATH_DP_H
#define DUALPATH_DATAPATH_DP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

enum dp_kind {
    DP_STORAGE_READ,  /* storage -> SNIC -> dst (DRAM; HBM where the backend can) */
    DP_STORAGE_WRITE, /* src (DRAM) -> SNIC -> storage */
    DP_COPY, /* src -> src's CNIC -> dst's CNIC -> dst; a loopback when both are one GPU's CNIC */
};

/* What a transfer is for: picks the service level / virtual lane, and the row in the accounts. */
enum dp_class {
    DP_CLASS_READ,    /* storage reads of hit KV */
    DP_CLASS_LOAD,    /* KV towards a prefill GPU, layer by layer */
    DP_CLASS_STORE,   /* KV from a prefill GPU to the decode buffer */
    DP_CLASS_ADMIT,   /* decode buffer -> decode GPU */
    DP_CLASS_PERSIST, /* new full blocks to storage, the copy out of the GPU included */
    DP_N_CLASSES,
};

enum dp_tier {
    DP_DRAM,
    DP_HBM,
};

/*
 * A place: a byte offset in one memory of one node. For DRAM, gpu names the CNIC (one per GPU)
 * through which a copy enters or leaves. The simulator has no bytes and ignores offset_bytes.
 *
 * KV-cache has the same layout in every memory and in storage: Full Blocks one after the other,
 * inside each the Layer Blocks in layer order, so that no copy ever re-arranges anything.
 */
struct dp_place {
    uint32_t node;
    uint16_t gpu;  /* index within the node */
    uint16_t tier; /* enum dp_tier */
    uint64_t offset_bytes;
};

/* The blocks of a storage op: parts first_block .. first_block + parts_total of a chain. The turn
 * of the request says which prompt the chain is at, where chains share blocks: for a cache that has
 * to know a block again. */
struct dp_chain {
    uint64_t chain_id;
    uint32_t first_block;
    uint32_t turn;
};

#define DP_OP_PRIVATE_WORDS 4

struct dp_op {
    /* Set by the caller before dp_submit(), not changed while in flight. */
    enum dp_kind kind;
    enum dp_class traffic_class;
    struct dp_place src, dst; /* the side that is storage is ignored */
    struct dp_chain chain;    /* storage ops */
    uint32_t decode_engine;   /* reads: the one that the KV is for, counted over all decode nodes */
    uint64_t part_bytes;      /* > 0 */
    uint32_t parts_total;     /* > 0 */
    /* A part is `segments` pieces (one work request each) of segment_bytes, the last one being what
     * is left of part_bytes. Piece s of part p starts at offset_bytes + p * part_stride_bytes + s *
     * segment_stride_bytes, on both sides. */
    uint32_t segments; /* > 0 */
    uint64_t segment_bytes, segment_stride_bytes, part_stride_bytes;
    uint32_t parts_ready;               /* <= parts_total; raised by dp_feed() only */
    void (*done)(struct dp_op *op);     /* status is final, the op may be reused */
    void (*progress)(struct dp_op *op); /* NULL: not wanted */
    uint32_t notify_at; /* progress() once parts_done >= notify_at; the callee raises it for the
                           next call */

    /* Set by the data path. */
    uint32_t parts_done;
    int status; /* 0, or negative errno: -ECANCELED, -EIO, ... ; valid in done() */
    bool in_flight;
    uint64_t submit_ns; /* accepted */
    uint64_t start_ns;  /* first byte: out of the queue */
    uint64_t done_ns;   /* last byte */
    uint64_t answer_ns; /* reads: how long, before the first byte, the reader waited for the decode
                           engine to say where the KV goes (the simulator's) */
    bool waiting, cancelled; /* of dp_submit_or_wait(): in line; to end when its turn comes */
    struct list blocked;     /* in dp->blocked, or in the line behind the op that is there */
    struct list line;        /* of the first in line: those behind it, in order */
    uint64_t private_words[DP_OP_PRIVATE_WORDS]; /* the backend's */
};

/* Bytes accepted and bytes completed, per traffic class; equal when nothing is in flight. */
struct dp_account {
    uint64_t ops_in, ops_out;
    uint64_t bytes_in, bytes_out;
    uint64_t bytes_failed; /* of ops that ended with an error */
};

struct dp;

struct dp_ops {
    const char *name;
    /* 0, -EAGAIN (queue full: submit again after a completion) or another negative errno. */
    int (*submit)(struct dp *dp, struct dp_op *op);
    void (*feed)(struct dp *dp, struct dp_op *op);
    /* Asks for an early end; done() still comes, with 0 if the op had got through. */
    void (*cancel)(struct dp *dp, struct dp_op *op);
    /* See dp_forget_node(). NULL where nobody but this process writes. */
    void (*forget_node)(struct dp *dp, uint32_t node);
};

struct dp {
    const struct dp_ops *ops;
    struct dp_account accounts[DP_N_CLASSES];
    uint64_t n_in_flight;
    /* Ops of dp_submit_or_wait() that found the backend full: the first of every line. There is one
     * line for storage and one for the copies to each node, so that a peer that is slow holds up
     * nothing but what goes to it. */
    struct list blocked;
};

/* Backends call it when they set themselves up. */
void dp_init(struct dp *dp, const struct dp_ops *ops);

/*
 * Starts op. Returns 0 when accepted; -EAGAIN when the backend is at its depth; -EINVAL when the op
 * makes no sense (no part, no byte, pieces that do not add up, a copy within one memory). On
 * failure nothing has happened.
 */
int dp_submit(struct dp *dp, struct dp_op *op);

/* As dp_submit(), but an op that finds the backend full waits its turn (first come first served
 * among those to storage, and those to one node) and is submitted from a later completion. Returns
 * 0 or -EINVAL. */
int dp_submit_or_wait(struct dp *dp, struct dp_op *op);

/* Raises op->parts_ready to parts_ready (never lowers it). The op must be in flight or waiting for
 * room. */
void dp_feed(struct dp *dp, struct dp_op *op, uint32_t parts_ready);

/* Asks an op in flight to end; harmless on one that is not. */
void dp_cancel(struct dp *dp, struct dp_op *op);

/* For backends: reports progress and completion of an op, from the loop only. */
void dp_backend_progress(struct dp *dp, struct dp_op *op, uint32_t parts_done);
void dp_backend_done(struct dp *dp, struct dp_op *op, int status);

/* The node has died: after this nothing that it had sent is written here any more, what it sends
 * still is refused, and ops towards it end with an error. */
void dp_forget_node(struct dp *dp, uint32_t node);

/* Accepted, or in line, and not done. */
static inline bool dp_op_active(const struct dp_op *op)
{
    return op->in_flight || op->waiting;
}

static inline uint64_t dp_op_bytes(const struct dp_op *op)
{
    return op->part_bytes * op->parts_total;
}

const char *dp_class_name(enum dp_class traffic_class);

#endif
