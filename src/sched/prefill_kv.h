/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The KV of a prefill request on its way into and out of its GPU. Used by prefill_node.c and
 * prefill_engine.c only; the structs are in prefill_node.h.
 *
 * With layer streaming KV comes during the forward that takes a chunk and leaves during it, layer
 * by layer. Without, it is all in HBM before the request is ready for a forward: HBM for the whole
 * prompt is claimed once the hits are there, and given back when the last of it has left.
 */
#ifndef DUALPATH_SCHED_PREFILL_KV_H
#define DUALPATH_SCHED_PREFILL_KV_H

#include "sched/prefill_node.h"

/* Where the hits of a request that reads here lie, and the space that its claim is on: the node's
 * DRAM buffer, or the GPU with direct reads. */
struct dp_place prefill_hits_place(const struct prefill_request *r);
struct space *prefill_hits_space(struct prefill_request *r);

/* Of its span in the GPU. */
uint64_t prefill_hbm_offset(const struct prefill_request *r);

/* Tokens to compute; tokens whose KV the forward in progress has to make; whether the chunk in
 * progress is the last. */
uint32_t prefill_miss_tok(const struct prefill_request *r);
uint32_t prefill_restored_tok(const struct prefill_request *r);
bool prefill_is_last_chunk(const struct prefill_request *r);

/* The hits are there: makes the request ready for a forward, at once or once its KV is in HBM. */
void prefill_kv_bring(struct prefill_request *r);

/* Layer streaming: a forward takes a chunk of the request. */
void prefill_kv_stream_in(struct prefill_request *r);

/* Layers of what the chunk in a forward needs that have arrived. */
uint32_t prefill_kv_layers(const struct prefill_request *r);

/* layers_done of the chunk's forward are computed: their KV leaves. The first call begins it. */
void prefill_kv_start_store(struct prefill_request *r, uint32_t layers_done);
void prefill_kv_feed_store(struct prefill_request *r, uint32_t layers_done);

/* The chunk's forward is over: the prompt is through once its KV has left, or goes on in the next
 * forward, with layer streaming while the last layers of the chunk still leave. */
void prefill_kv_chunk_computed(struct prefill_request *r);

/* layers of a stream that the decode node pushes have arrived. */
void prefill_kv_pushed(struct prefill_request *r, uint32_t stream, uint32_t layers);

/* Its decode node is dead: ends what is under way and takes it out of the forward. */
void prefill_request_cancel(struct prefill_request *r);

/* Forgets a cancelled request of which nothing is under way any more. */
void prefill_request_settle(struct prefill_request *r);

#endif
