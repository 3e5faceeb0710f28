/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Shared by hw_compute.c (port and engines), hw_forward.c, hw_decode.c (their state machines) and
 * hw_compute_check.c (what a worker does for one item and layer). */
#ifndef DUALPATH_HW_HW_COMPUTE_INTERNAL_H
#define DUALPATH_HW_HW_COMPUTE_INTERNAL_H

#include "hw/hw_compute.h"

/* One request in one layer, on a worker thread. */
struct layer_job {
    uint32_t request;
    struct compute_kv kv;
    uint32_t layer;
    uint32_t cached_tok, new_tok;
    uint32_t arrived_tok; /* of the cached: brought in since this engine last saw them */
};

/* Verifies, attends, compares. 0, or negative errno with e->error filled. */
int hw_engine_layer(struct hw_engine *e, const struct layer_job *job);

/* The address of tok tokens of KV in the engine's HBM, or NULL. */
uint8_t *hw_engine_kv(const struct hw_engine *e, const struct compute_kv *kv, uint32_t tok);

/* Hands e->work to the pool. */
void hw_engine_work(struct hw_engine *e);

/* At the beginning of the work's done(): takes back what the worker had, and tells a fault. */
void hw_engine_worked(struct hw_engine *e);

void hw_forward_engine_init(struct hw_engine *e);
int hw_forward_start(struct hw_engine *e, struct compute_forward *f);
void hw_forward_feed(struct hw_engine *e);
void hw_forward_cancel(struct hw_engine *e); /* unless working: then the work's end does it */

void hw_decode_engine_init(struct hw_engine *e);
int hw_decode_join(struct hw_engine *e, struct compute_sequence *s);
void hw_decode_leave(struct hw_engine *e, struct compute_sequence *s);

#endif
