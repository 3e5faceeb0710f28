/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One prefill engine (GPU) of a prefill node: packing, KV streaming in and out, chunks. Used by
 * prefill_node.c only; the structs are in prefill_node.h. */
#ifndef DUALPATH_SCHED_PREFILL_ENGINE_H
#define DUALPATH_SCHED_PREFILL_ENGINE_H

#include "sched/prefill_node.h"

void prefill_engine_init(struct prefill_engine *e, struct prefill_node *owner, uint16_t gpu);
void prefill_engine_done(struct prefill_engine *e);

/* Tells the group's leader, once per forward and node, that there is work. */
void prefill_engine_announce(struct prefill_engine *e);

/* Takes part in the group's next forward, with whatever is ready. */
void prefill_engine_start(struct prefill_engine *e);

/* Its decode node is dead: ends what is under way and takes it out of the forward. */
void prefill_request_cancel(struct prefill_request *r);

/* Forgets a cancelled request of which nothing is under way any more. */
void prefill_request_settle(struct prefill_request *r);

/* layers of a stream that the decode node pushes have arrived. */
void prefill_engine_pushed(struct prefill_request *r, uint32_t stream, uint32_t layers);

/* Of prefill_node.c. */
struct prefill_group *prefill_group_of(struct prefill_node *pn, uint32_t gpu);
void prefill_group_engine_started(struct prefill_node *pn, struct prefill_group *g);
void prefill_group_engine_done(struct prefill_node *pn, struct prefill_group *g);
void prefill_request_forget(struct prefill_request *r);

/* Where the hits of a request that reads here lie, and the space that its claim is on: the node's
 * DRAM buffer, or the GPU with direct reads. */
struct dp_place prefill_hits_place(const struct prefill_request *r);
struct space *prefill_hits_space(struct prefill_request *r);

#endif
