/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The compute port: forwards of prefill engines and the decode loop of decode engines.
 *
 * A forward is a stream like a dp_op: it consumes the KV of a layer only after compute_feed() has
 * said that the layer's KV is in the GPU, and reports layers whose new KV exists. All engines of an
 * expert-parallel (EP) group take part in every forward of the group, with an empty batch if they
 * have nothing to do; the backend keeps them in step at every layer.
 *
 * Decoding is one loop per EP group that never stops while a sequence is in it: sequences join and
 * leave at step boundaries, every sequence gets one token per step.
 *
 * Completion is exactly once, from the event loop.
 */
#ifndef DUALPATH_SCHED_COMPUTE_H
#define DUALPATH_SCHED_COMPUTE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

/* Where the KV of a request lies, for backends that have bytes: its tokens from 0 on, laid out as
 * datapath/kv_layout.h says, from this offset of the engine's HBM. The chain is that of its storage
 * ops. */
struct compute_kv {
    uint64_t chain_id;
    uint64_t hbm_offset_bytes;
};

struct compute_item {
    uint32_t request;
    uint32_t cached_tok; /* context before this chunk: hits and earlier chunks */
    uint32_t new_tok;    /* tokens of this chunk */
    /* Cached tokens whose KV has to be made of what came: timing_restore_ns(). */
    uint32_t restored_tok;
    struct compute_kv kv;
    /* Set by the engine at any time: nobody needs it any more, and its KV may not come. A backend
     * leaves it out of the layers that it has not begun. */
    atomic_bool dropped;
};

struct compute_forward {
    /* Set by the engine. */
    uint32_t group;  /* EP group of the prefill side, 0-based */
    uint32_t rank;   /* position in the group */
    uint32_t engine; /* prefill engine, 0-based over all nodes */
    const struct compute_item *items;
    uint32_t n_items;
    double fill; /* 0 to 1: how far the batch is what one forward may hold, for use of capacity */
    uint32_t layers_total;
    uint32_t layers_ready; /* layers whose KV is in the GPU; raised by compute_feed() only */
    void (*progress)(struct compute_forward *f);
    uint32_t notify_at; /* progress() once layers_done >= notify_at; the callee raises it */
    void (*done)(struct compute_forward *f);

    /* Set by the backend. */
    uint32_t layers_done;
    int status;
    bool in_flight;
    uint64_t submit_ns, start_ns, done_ns;
    double attention_ns; /* this engine's own attention time in the forward */
    uint64_t private_words[4];
};

struct compute_sequence {
    /* Set by the engine. */
    uint32_t engine; /* decode engine, 0-based over all nodes */
    uint32_t request;
    uint32_t context_tok; /* tokens of KV when it joins */
    struct compute_kv kv;
    /* notify() once steps_done >= notify_at; the callee raises it or leaves. May be lowered to 0
     * from outside: then notify() comes at the latest when it would have come anyway. */
    uint32_t notify_at;
    void (*notify)(struct compute_sequence *s);

    /* Set by the backend. */
    uint32_t steps_done; /* tokens generated since it joined */
    int status; /* negative errno: its steps failed; notify() comes at once, and it must leave */
    bool joined;
    struct list link; /* for the backend's lists, as the words are for what else it keeps */
    uint64_t private_words[4];
};

/* The sequence whose link it is. */
static inline struct compute_sequence *compute_sequence_of(struct list *link)
{
    return container_of(link, struct compute_sequence, link);
}

struct compute_port;

struct compute_port_ops {
    const char *name;
    int (*forward)(struct compute_port *port, struct compute_forward *f);
    void (*feed)(struct compute_port *port, struct compute_forward *f);
    int (*join)(struct compute_port *port, struct compute_sequence *s);
    void (*leave)(struct compute_port *port, struct compute_sequence *s);
};

struct compute_port {
    const struct compute_port_ops *ops;
};

/* Joins f's engine to the next forward of its group. Returns 0, or negative errno. */
int compute_forward(struct compute_port *port, struct compute_forward *f);

/* Raises f->layers_ready; f must be in flight. */
void compute_feed(struct compute_port *port, struct compute_forward *f, uint32_t layers_ready);

/* Adds a sequence to its group's decode loop, from the next step boundary on. 0 or negative errno.
 */
int compute_join(struct compute_port *port, struct compute_sequence *s);

/* Takes it out; to be called from inside notify() only, when the sequence has its last token. */
void compute_leave(struct compute_port *port, struct compute_sequence *s);

/* For backends, from the loop only. */
void compute_backend_progress(struct compute_forward *f, uint32_t layers_done);
void compute_backend_done(struct compute_forward *f, int status);

#endif
