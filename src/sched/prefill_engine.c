/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sched/prefill_engine.h"

#include <assert.h>
#include <stdlib.h>

#include "sched/packing.h"
#include "sched/prefill_kv.h"
#include "sched/stages.h"

static const struct cluster *cluster_of(const struct prefill_engine *e)
{
    return e->owner->node.cluster;
}

/* Forwards */

static uint32_t batch_layers_ready(const struct prefill_engine *e)
{
    uint32_t least = cluster_of(e)->kv.n_layers;
    for (uint32_t i = 0; i < e->n_batch; i++) {
        uint32_t layers = prefill_kv_layers(e->batch[i]);
        least = layers < least ? layers : least;
    }
    return least;
}

void prefill_engine_fed(struct prefill_engine *e)
{
    compute_feed(e->owner->node.ports.compute, &e->forward, batch_layers_ready(e));
}

void prefill_engine_drop(struct prefill_request *r)
{
    struct prefill_engine *e = r->engine;
    for (uint32_t i = 0; i < e->n_batch; i++) {
        if (e->batch[i] == r) {
            atomic_store_explicit(&e->items[i].dropped, true, memory_order_relaxed);
        }
    }
    prefill_engine_fed(e);
}

static void forward_progress(struct compute_forward *f)
{
    struct prefill_engine *e = container_of(f, struct prefill_engine, forward);
    const struct cluster *c = cluster_of(e);
    f->notify_at = next_compute_mark(c, f->layers_done);
    for (uint32_t i = 0; c->layerwise && i < e->n_batch; i++) {
        if (e->batch[i]->cancelled) {
            continue;
        }
        if (e->storing) {
            prefill_kv_feed_store(e->batch[i], f->layers_done);
        } else {
            prefill_kv_start_store(e->batch[i], f->layers_done);
        }
    }
    e->storing = true;
}

static void send_first_token(struct prefill_request *r)
{
    struct prefill_node *pn = r->owner;
    struct msg m = {.type = MSG_FIRST_TOKEN,
                    .u.event = {.request = r->start.r.request,
                                .tok = 1,
                                .scheduled_ns = r->start.scheduled_ns,
                                .alloc_ns = r->alloc_ns,
                                .read_ns = r->read_ns,
                                .queue_ns = r->queue_ns}};
    pn->node.report.done_tok[r->engine->gpu] += r->start.r.prompt_tok;
    pn->node.report.done_requests[r->engine->gpu]++;
    r->first_sent = true;
    node_send(&pn->node, MSG_CLIENT, &m);
}

static void finish_items(struct prefill_engine *e)
{
    uint32_t n = e->n_batch;
    e->n_batch = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct prefill_request *r = e->batch[i];
        if (r->cancelled) {
            r->computing = false;
            prefill_request_settle(r);
            continue;
        }
        e->owner->computed_tok += r->chunk_tok;
        if (prefill_is_last_chunk(r)) {
            send_first_token(r);
        }
        prefill_kv_chunk_computed(r);
    }
}

static void forward_done(struct compute_forward *f)
{
    struct prefill_engine *e = container_of(f, struct prefill_engine, forward);
    struct prefill_node *pn = e->owner;
    if (f->status) {
        node_fault(&pn->node, e->n_batch ? e->batch[0]->start.r.request : 0, f->status, "forward");
        return;
    }
    e->attention_ns += (uint64_t)f->attention_ns;
    e->full_ns += (uint64_t)(f->fill * (double)(f->done_ns - f->start_ns));
    finish_items(e);
    prefill_group_engine_done(pn, prefill_group_of(pn, e->gpu));
    e->in_forward = false;
    if (e->start_pending) {
        e->start_pending = false;
        prefill_engine_start(e);
    }
}

/* Packing */

static bool grow_batch(struct prefill_engine *e)
{
    uint32_t capacity = e->batch_capacity ? 2 * e->batch_capacity : 16;
    struct compute_item *items = realloc(e->items, capacity * sizeof(*items));
    e->items = items ? items : e->items;
    struct prefill_request **batch = realloc(e->batch, capacity * sizeof(struct prefill_request *));
    e->batch = batch ? batch : e->batch;
    if (!items || !batch) {
        return false;
    }
    e->batch_capacity = capacity;
    return true;
}

static void take(struct prefill_engine *e, struct prefill_request *r, uint32_t new_tok)
{
    list_remove(&r->ready_node);
    r->queue_ns = r->done_tok ? r->queue_ns : loop_now_ns(e->owner->node.ports.loop) - r->ready_ns;
    r->chunk_tok = new_tok;
    r->computing = true;
    r->stored = false;
    if (cluster_of(e)->layerwise) {
        prefill_kv_stream_in(r);
    }
    e->items[e->n_batch] = (struct compute_item){.request = r->start.r.request,
                                                 .cached_tok = r->start.r.hit_tok + r->done_tok,
                                                 .new_tok = new_tok,
                                                 .restored_tok = prefill_restored_tok(r),
                                                 .kv = {r->start.r.session, prefill_hbm_offset(r)}};
    e->batch[e->n_batch++] = r;
    e->owner->n_chunks++;
}

/* First come first served, until the forward is full, or the room in HBM for the layers at hand
 * (without layer streaming every request that is ready has room). Returns how full it is. */
static double pack(struct prefill_engine *e)
{
    const struct cluster *c = cluster_of(e);
    struct packing packing = packing_begin(c);
    uint64_t hbm_left = c->prefill_hbm_bytes;
    e->n_batch = 0;
    list_for_each_safe (pos, tmp, &e->ready) {
        struct prefill_request *r = container_of(pos, struct prefill_request, ready_node);
        uint32_t cached = r->start.r.hit_tok + r->done_tok;
        uint32_t left_tok = prefill_miss_tok(r) - r->done_tok;
        uint64_t hbm = c->layerwise ? cluster_prefill_hbm_bytes(c, r->start.r.prompt_tok) : 0;
        uint32_t n = packing_fit(&packing, cached, left_tok);
        if (n == 0 && e->n_batch == 0) {
            /* Not even one block fits into a whole forward: it has to go through all the same. */
            n = left_tok < c->kv.block_tok ? left_tok : c->kv.block_tok;
        }
        if (n == 0 || hbm > hbm_left || (e->n_batch == e->batch_capacity && !grow_batch(e))) {
            break;
        }
        packing_take(&packing, cached, n);
        hbm_left -= hbm;
        take(e, r, n);
        if (n < left_tok) {
            break;
        }
    }
    return packing_fill(&packing);
}

static void announce(struct prefill_engine *e)
{
    struct prefill_node *pn = e->owner;
    struct prefill_group *g = prefill_group_of(pn, e->gpu);
    if (g->announced || list_empty(&e->ready)) {
        return;
    }
    g->announced = true;
    struct msg m = {.type = MSG_EP_READY, .u.ep = {.group = g->id, .node = pn->node.id}};
    node_send(&pn->node, MSG_NODE(g->first_node), &m);
}

void prefill_engine_queue(struct prefill_request *r, bool first)
{
    if (first) {
        list_add_head(&r->engine->ready, &r->ready_node);
    } else {
        list_add_tail(&r->engine->ready, &r->ready_node);
    }
    announce(r->engine);
}

void prefill_engine_start(struct prefill_engine *e)
{
    if (e->in_forward) {
        e->start_pending = true;
        return;
    }
    const struct cluster *c = cluster_of(e);
    uint32_t engine = e->owner->node.id * c->gpus_per_node + e->gpu;
    double fill = pack(e);
    e->storing = false;
    e->forward = (struct compute_forward){.group = engine / c->prefill_ep_gpus,
                                          .rank = engine % c->prefill_ep_gpus,
                                          .engine = engine,
                                          .items = e->items,
                                          .n_items = e->n_batch,
                                          .fill = fill,
                                          .layers_total = c->kv.n_layers,
                                          .progress = forward_progress,
                                          .notify_at = next_compute_mark(c, 0),
                                          .done = forward_done};
    e->in_forward = true;
    e->forward.layers_ready = batch_layers_ready(e);
    int rc = compute_forward(e->owner->node.ports.compute, &e->forward);
    if (rc) {
        node_fault(&e->owner->node, 0, rc, "forward");
    }
    announce(e);
    prefill_group_engine_started(e->owner, prefill_group_of(e->owner, e->gpu));
}

void prefill_engine_init(struct prefill_engine *e, struct prefill_node *owner, uint16_t gpu)
{
    const struct node *n = &owner->node;
    *e = (struct prefill_engine){.owner = owner, .gpu = gpu};
    list_init(&e->ready);
    space_init(&e->direct, n->ports.loop, n->cluster->prefill_direct_bytes);
    space_init(&e->hbm, n->ports.loop, n->cluster->prefill_hbm_bytes);
}

void prefill_engine_done(struct prefill_engine *e)
{
    slots_done(&e->hbm_slots);
    space_done(&e->direct);
    space_done(&e->hbm);
    free(e->items);
    free(e->batch);
}
