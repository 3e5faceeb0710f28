/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One prefill engine (GPU) of a prefill node: packing and forwards. Used by prefill_node.c and
 * prefill_kv.c only; the structs are in prefill_node.h. */
#ifndef DUALPATH_SCHED_PREFILL_ENGINE_H
#define DUALPATH_SCHED_PREFILL_ENGINE_H

#include "sched/prefill_node.h"

void prefill_engine_init(struct prefill_engine *e, struct prefill_node *owner, uint16_t gpu);
void prefill_engine_done(struct prefill_engine *e);

/* Queues a request for the engine's next forwards, at the end or before all others, and tells the
 * group's leader, once per forward and node, that there is work. */
void prefill_engine_queue(struct prefill_request *r, bool first);

/* Takes part in the group's next forward, with whatever is ready. */
void prefill_engine_start(struct prefill_engine *e);

/* More of what the forward in progress needs has arrived, or is not needed any more. */
void prefill_engine_fed(struct prefill_engine *e);

/* Takes a request out of the forward in progress. */
void prefill_engine_drop(struct prefill_request *r);

/* Of prefill_node.c. */
struct prefill_group *prefill_group_of(struct prefill_node *pn, uint32_t gpu);
void prefill_group_engine_started(struct prefill_node *pn, struct prefill_group *g);
void prefill_group_engine_done(struct prefill_node *pn, struct prefill_group *g);
void prefill_request_forget(struct prefill_request *r);

#endif
