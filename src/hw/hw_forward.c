/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Forwards: a prefill engine meets its group before each layer and once after the last. */
#include <errno.h>

#include "hw/hw_compute_internal.h"

static void end(struct hw_engine *e, int status)
{
    struct compute_forward *f = e->forward;
    e->forward = NULL;
    f->done_ns = loop_now_ns(e->owner->loop);
    e->owner->n_forwards += f->n_items > 0;
    compute_backend_done(f, status);
}

static void arrive_if_ready(struct hw_engine *e)
{
    struct compute_forward *f = e->forward;
    if (!f || e->working || e->member.waiting || e->owner->stopping) {
        return;
    }
    if (e->layer == f->layers_total || f->layers_ready > e->layer) {
        ep_arrive(e->owner->barrier, &e->member, 1);
    }
}

static void layer_over(struct hw_engine *e)
{
    e->layer++;
    if (e->forward->status == 0) {
        compute_backend_progress(e->forward, e->layer);
    }
    arrive_if_ready(e);
}

static void run_layer(struct work *w)
{
    struct hw_engine *e = container_of(w, struct hw_engine, work);
    const struct compute_forward *f = e->forward;
    for (uint32_t i = 0; i < f->n_items; i++) {
        const struct compute_item *item = &f->items[i];
        if (atomic_load_explicit(&item->dropped, memory_order_relaxed)) {
            continue;
        }
        struct layer_job job = {.request = item->request,
                                .kv = item->kv,
                                .layer = e->layer,
                                .cached_tok = item->cached_tok,
                                .new_tok = item->new_tok,
                                .arrived_tok = item->cached_tok};
        if (hw_engine_layer(e, &job)) {
            return;
        }
    }
}

static void layer_worked(struct work *w)
{
    struct hw_engine *e = container_of(w, struct hw_engine, work);
    hw_engine_worked(e);
    e->forward->attention_ns += e->attention_ns;
    if (e->owner->stopping) {
        end(e, -ECANCELED);
        return;
    }
    e->forward->status = e->error.set ? e->error.code : e->forward->status;
    layer_over(e);
}

static void released(struct ep_member *m, uint64_t sum)
{
    (void)sum;
    struct hw_engine *e = container_of(m, struct hw_engine, member);
    struct compute_forward *f = e->forward;
    if (!f || e->owner->stopping) {
        return; /* the stop ends it */
    }
    if (e->layer == f->layers_total) {
        end(e, f->status);
        return;
    }
    if (e->layer == 0) {
        f->start_ns = loop_now_ns(e->owner->loop);
    }
    if (f->n_items == 0 || f->status) {
        layer_over(e);
    } else {
        hw_engine_work(e);
    }
}

void hw_forward_engine_init(struct hw_engine *e)
{
    e->member.released = released;
    e->work = (struct work){.run = run_layer, .done = layer_worked};
}

static bool kv_fits(const struct hw_engine *e, const struct compute_forward *f)
{
    for (uint32_t i = 0; i < f->n_items; i++) {
        const struct compute_item *item = &f->items[i];
        if (!hw_engine_kv(e, &item->kv, item->cached_tok + item->new_tok)) {
            return false;
        }
    }
    return true;
}

int hw_forward_start(struct hw_engine *e, struct compute_forward *f)
{
    const struct hw_compute *hc = e->owner;
    if (e->forward || f->group != e->member.group || f->rank != e->member.rank ||
        f->layers_total != hc->attention.content.layout.n_layers) {
        return -EINVAL;
    }
    if (!kv_fits(e, f)) {
        return -EFAULT;
    }
    e->forward = f;
    e->layer = 0;
    f->submit_ns = loop_now_ns(hc->loop);
    f->attention_ns = 0;
    arrive_if_ready(e);
    return 0;
}

void hw_forward_feed(struct hw_engine *e)
{
    arrive_if_ready(e);
}

void hw_forward_cancel(struct hw_engine *e)
{
    if (e->forward && !e->working) {
        end(e, -ECANCELED);
    }
}
