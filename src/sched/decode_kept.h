/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * KV that a decode node keeps for its session's next turn (system.decode_reuse; the DualPath paper
 * does not), so that it need not be read from storage again. Used by decode_node.c only.
 *
 *   hbm    the whole context when its last token is out, in the HBM of its engine. The next turn's
 *          prompt grows in place: the prefill GPU is fed from there, and only what is new is
 *          copied.
 *   dram   the prompt when it has been copied into HBM and is durable, in the node's DRAM buffer.
 *          What has been generated since is read from storage.
 *
 * What is kept is idle room (datapath/space.h): whoever waits for room gets it, from the least
 * recently kept on. A turn comes when all before it is durable, so nothing is lost with it. The
 * scheduler is told of what is kept and what is dropped, and says which turns are to use it; one
 * that comes for KV just dropped reads all from storage.
 */
#ifndef DUALPATH_SCHED_DECODE_KEPT_H
#define DUALPATH_SCHED_DECODE_KEPT_H

#include "sched/decode_node.h"

struct decode_kept {
    uint32_t index; /* in the pool */
    uint32_t session, tok;
    uint16_t gpu;
    struct space_claim claim;
    uint64_t idle_amount; /* 0: in use by request */
    /* Its session's next turn, from its start until it is granted the rest of its room; NULL. */
    struct decode_request *request;
    struct list lru;
};

/* Returns 0 or -ENOMEM. */
int decode_kept_init(struct decode_node *dn);
void decode_kept_done(struct decode_node *dn);

/* Keeps what claim holds, with the KV of the request's first tok tokens, whole blocks. */
void decode_kept_put(struct decode_request *r, struct space_claim *claim, uint32_t tok);

/*
 * At the start of r: finds what is kept of its session. r->kept is set if it covers the tokens that
 * the scheduler counts on; else r->start.kept_tok becomes 0, and what is there is dropped. HBM is
 * in use from now on, DRAM from decode_kept_use() on.
 */
void decode_kept_take(struct decode_request *r);

/* r has been granted claim, into r->kept's: that becomes r's own. */
void decode_kept_use(struct decode_request *r, struct space_claim *claim);

/* r has no use for r->kept any more. */
void decode_kept_give(struct decode_request *r);

#endif
