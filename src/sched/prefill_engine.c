/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sched/prefill_engine.h"

#include <assert.h>
#include <stdlib.h>

#include "sched/packing.h"
#include "sched/stages.h"

static const struct cluster *cluster_of(const struct prefill_engine *e)
{
    return e->owner->node.cluster;
}

static bool has(const struct prefill_request *r, enum cluster_restore restore)
{
    return r->owner->node.cluster->restore == restore;
}

/* A request's span in the node's buffer and in the GPU, see cluster.span_bytes. */
struct dp_place prefill_hits_place(const struct prefill_request *r)
{
    return (struct dp_place){.node = r->owner->node.id,
                             .gpu = r->engine->gpu,
                             .tier = has(r, CLUSTER_RESTORE_DIRECT) ? DP_HBM : DP_DRAM,
                             .offset_bytes = r->dram.slot * r->owner->node.cluster->span_bytes};
}

struct space *prefill_hits_space(struct prefill_request *r)
{
    return has(r, CLUSTER_RESTORE_DIRECT) ? &r->engine->direct : &r->owner->dram;
}

static uint64_t hbm_offset(const struct prefill_request *r)
{
    return r->hbm_slot * r->owner->node.cluster->span_bytes;
}

static struct dp_place hbm_place(const struct prefill_request *r)
{
    return (struct dp_place){.node = r->owner->node.id,
                             .gpu = r->engine->gpu,
                             .tier = DP_HBM,
                             .offset_bytes = hbm_offset(r)};
}

/* Where the decode node gathers the prompt's KV. */
static struct dp_place decode_place(const struct prefill_request *r)
{
    bool hbm = r->owner->node.cluster->decode_in_hbm;
    return (struct dp_place){.node = r->start.decode_node,
                             .gpu = r->start.decode_gpu,
                             .tier = hbm ? DP_HBM : DP_DRAM,
                             .offset_bytes = r->decode_offset_bytes};
}

static bool reads_here(const struct prefill_request *r)
{
    return r->start.decode_tok < r->start.r.hit_tok;
}

static uint32_t miss_tok(const struct prefill_request *r)
{
    return r->start.r.prompt_tok - r->start.r.hit_tok;
}

/* The first chunk makes the KV of the hits from hidden states and sends it on: later ones find it
 * in the decode buffer. */
static bool projects_hits(const struct prefill_request *r)
{
    return has(r, CLUSTER_RESTORE_HIDDEN) && r->done_tok == 0;
}

static bool loads_here(const struct prefill_request *r)
{
    return reads_here(r) && (!has(r, CLUSTER_RESTORE_HIDDEN) || projects_hits(r));
}

static uint32_t restored_tok(const struct prefill_request *r)
{
    if (has(r, CLUSTER_RESTORE_COMPRESSED)) {
        return r->start.r.hit_tok + r->done_tok;
    }
    return projects_hits(r) ? r->start.r.hit_tok : 0;
}

/* Without layer streaming the GPU holds the whole prompt's KV from the first chunk to the last. */
static bool keeps_prompt(const struct prefill_request *r)
{
    return !r->owner->node.cluster->layerwise && has(r, CLUSTER_RESTORE_KV);
}

static bool is_last_chunk(const struct prefill_request *r)
{
    return r->done_tok + r->chunk_tok == miss_tok(r);
}

/* Loads */

static uint32_t batch_layers_ready(const struct prefill_engine *e)
{
    uint32_t least = cluster_of(e)->kv.n_layers;
    for (uint32_t i = 0; i < e->n_batch; i++) {
        const struct prefill_request *r = e->batch[i];
        least = r->load_layers < least ? r->load_layers : least;
        for (unsigned k = 0; k < MSG_MAX_PUSHES; k++) {
            least = r->push_layers[k] < least ? r->push_layers[k] : least;
        }
    }
    return least;
}

static void join_forward(struct prefill_engine *e)
{
    struct node *n = &e->owner->node;
    e->state = PREFILL_FORWARD;
    e->forward.layers_ready = batch_layers_ready(e);
    int rc = compute_forward(n->ports.compute, &e->forward);
    if (rc) {
        node_fault(n, 0, rc, "forward");
    }
}

static void loads_advanced(struct prefill_engine *e)
{
    uint32_t ready = batch_layers_ready(e);
    if (e->state == PREFILL_FORWARD) {
        compute_feed(e->owner->node.ports.compute, &e->forward, ready);
    } else if (ready == cluster_of(e)->kv.n_layers) {
        join_forward(e);
    }
}

static void load_progress(struct dp_op *op)
{
    struct prefill_request *r = container_of(op, struct prefill_request, load);
    op->notify_at = next_load_mark(r->owner->node.cluster, op->parts_done);
    if (r->cancelled) {
        return;
    }
    r->load_layers = op->parts_done;
    if (op->parts_done < op->parts_total) {
        loads_advanced(r->engine);
    }
}

static void load_done(struct dp_op *op)
{
    struct prefill_request *r = container_of(op, struct prefill_request, load);
    if (r->cancelled) {
        prefill_request_settle(r);
        return;
    }
    if (!node_op_ok(&r->owner->node, op, r->start.r.request)) {
        return;
    }
    if (is_last_chunk(r) || projects_hits(r) || keeps_prompt(r)) {
        space_give(&r->owner->dram, &r->dram, r->dram.amount);
    }
    loads_advanced(r->engine);
}

void prefill_engine_pushed(struct prefill_request *r, uint32_t stream, uint32_t layers)
{
    assert(r && stream < MSG_MAX_PUSHES && r->computing && layers >= r->push_layers[stream]);
    r->push_layers[stream] = layers;
    loads_advanced(r->engine);
}

static void load_hits(struct prefill_request *r)
{
    struct node *n = &r->owner->node;
    r->load = (struct dp_op){.kind = DP_COPY,
                             .traffic_class = DP_CLASS_LOAD,
                             .parts_ready = n->cluster->kv.n_layers,
                             .done = load_done,
                             .progress = load_progress,
                             .notify_at = next_load_mark(n->cluster, 0)};
    kv_shape_layers(&r->load, &n->cluster->stored, r->start.decode_tok,
                    r->start.r.hit_tok - r->start.decode_tok, prefill_hits_place(r), hbm_place(r));
    r->load_layers = 0;
    node_submit(n, &r->load, r->start.r.request);
}

static void ask_for_push(struct prefill_request *r, uint32_t stream, uint32_t first_tok,
                         uint32_t n_tok)
{
    if (n_tok == 0) {
        return;
    }
    struct node *n = &r->owner->node;
    const struct cluster *c = n->cluster;
    struct msg m = {.type = MSG_PUSH,
                    .u.push = {.request = r->start.r.request,
                               .stream = stream,
                               .first_tok = first_tok,
                               .n_tok = n_tok,
                               .gpu_offset_bytes = hbm_offset(r),
                               .notify_at = next_load_mark(c, 0),
                               .notify_every = c->stage_layers}};
    r->push_layers[stream] = 0;
    node_send(n, MSG_NODE(r->start.decode_node), &m);
}

/*
 * KV before this chunk: hits that were read here from this node's buffer (or in the GPU already),
 * all else from the decode node: earlier chunks and the hits read there, in one piece unless hits
 * read here lie between, and the hits that the decode node has kept, which lie elsewhere.
 */
static void start_loads(struct prefill_request *r)
{
    const struct msg_start *s = &r->start;
    uint32_t apart_tok = loads_here(r) ? s->decode_tok : s->kept_tok;
    uint32_t from = loads_here(r) ? s->r.hit_tok : s->kept_tok;
    r->load_layers = r->push_layers[0] = r->push_layers[1] = r->owner->node.cluster->kv.n_layers;
    if (keeps_prompt(r) && r->done_tok > 0) {
        return;
    }
    if (loads_here(r) && !has(r, CLUSTER_RESTORE_DIRECT)) {
        load_hits(r);
    }
    ask_for_push(r, 0, 0, apart_tok);
    ask_for_push(r, 1, from, s->r.hit_tok + r->done_tok - from);
}

/* Stores */

static void chunk_over(struct prefill_request *r)
{
    struct prefill_node *pn = r->owner;
    if (r->computing || !r->stored) {
        return; /* the other half of the chunk's end is still to come */
    }
    bool last = is_last_chunk(r);
    if (last || !keeps_prompt(r)) {
        slots_give(&r->engine->hbm_slots, r->hbm_slot);
    }
    r->done_tok += r->chunk_tok;
    r->chunk_tok = 0;
    if (!last) {
        /* It was the oldest of its engine when it was cut, and goes on before the others. */
        list_add_head(&r->engine->ready, &r->ready_node);
        prefill_engine_announce(r->engine);
        return;
    }
    if (reads_here(r) && has(r, CLUSTER_RESTORE_DIRECT)) {
        space_give(&r->engine->direct, &r->dram, r->dram.amount);
    }
    struct msg m = {.type = MSG_PROMPT_KV, .u.prompt_kv = r->start.r};
    node_send(&pn->node, MSG_NODE(r->start.decode_node), &m);
    prefill_request_forget(r);
}

static void idle(struct prefill_engine *e)
{
    e->state = PREFILL_IDLE;
    if (e->start_pending) {
        e->start_pending = false;
        prefill_engine_start(e);
    }
}

static void drained(struct prefill_engine *e)
{
    if (--e->n_draining == 0) {
        idle(e);
    }
}

static void one_stored(struct prefill_request *r, struct dp_op *op)
{
    struct prefill_engine *e = r->engine;
    r->n_storing--;
    if (r->cancelled) {
        prefill_request_settle(r);
        return;
    }
    if (!node_op_ok(&r->owner->node, op, r->start.r.request) || r->n_storing > 0) {
        return;
    }
    bool draining = r->draining;
    r->draining = false;
    r->stored = true;
    chunk_over(r);
    if (draining) {
        drained(e);
    }
}

/* Cancelling */

static bool is_under_way(const struct prefill_request *r)
{
    return r->computing || dp_op_active(&r->read) || dp_op_active(&r->load) ||
           dp_op_active(&r->store) || dp_op_active(&r->keep);
}

/* What the scheduler counts as done here, if its first token has not come, are neither the request
 * nor its read: it may have died before this node has heard of it. */
void prefill_request_settle(struct prefill_request *r)
{
    struct prefill_node *pn = r->owner;
    struct prefill_engine *e = r->engine;
    if (!r->cancelled || is_under_way(r)) {
        return;
    }
    if (r->dram.held) {
        space_give(prefill_hits_space(r), &r->dram, r->dram.amount);
    }
    if (r->chunk_tok > 0) {
        slots_give(&e->hbm_slots, r->hbm_slot);
    }
    if (r->read_over && !r->first_sent) {
        pn->node.report.read_done_tok -= r->start.r.hit_tok - r->start.decode_tok;
    }
    bool draining = r->draining;
    prefill_request_forget(r);
    if (draining) {
        drained(e);
    }
}

static void drop_from_batch(struct prefill_request *r)
{
    struct prefill_engine *e = r->engine;
    for (uint32_t i = 0; i < e->n_batch; i++) {
        if (e->batch[i] == r) {
            atomic_store_explicit(&e->items[i].dropped, true, memory_order_relaxed);
        }
    }
    r->load_layers = r->push_layers[0] = r->push_layers[1] = cluster_of(e)->kv.n_layers;
    loads_advanced(e);
}

void prefill_request_cancel(struct prefill_request *r)
{
    struct prefill_node *pn = r->owner;
    r->cancelled = true;
    list_remove(&r->ready_node);
    space_withdraw(prefill_hits_space(r), &r->dram);
    dp_cancel(pn->node.ports.dp, &r->read);
    dp_cancel(pn->node.ports.dp, &r->load);
    dp_cancel(pn->node.ports.dp, &r->store);
    dp_cancel(pn->node.ports.dp, &r->keep);
    if (r->computing) {
        drop_from_batch(r);
    }
    prefill_request_settle(r);
}

static void store_done(struct dp_op *op)
{
    one_stored(container_of(op, struct prefill_request, store), op);
}

static void keep_done(struct dp_op *op)
{
    one_stored(container_of(op, struct prefill_request, keep), op);
}

/* Sends what the chunk has of tokens from.. on in a layout to the decode buffer, as it is made. */
static void submit_store(struct prefill_request *r, struct dp_op *op, void (*done)(struct dp_op *),
                         const struct kv_layout *layout, uint32_t from, uint32_t layers_done)
{
    uint32_t end = r->start.r.hit_tok + r->done_tok + r->chunk_tok;
    *op = (struct dp_op){
        .kind = DP_COPY, .traffic_class = DP_CLASS_STORE, .parts_ready = layers_done, .done = done};
    kv_shape_layers(op, layout, from, end - from, hbm_place(r), decode_place(r));
    r->n_storing++;
    node_submit(&r->owner->node, op, r->start.r.request);
}

static void start_store(struct prefill_request *r, uint32_t layers_done)
{
    const struct cluster *c = r->owner->node.cluster;
    uint32_t computed_from = r->start.r.hit_tok + r->done_tok;
    uint32_t from = reads_here(r) && r->done_tok == 0 ? r->start.decode_tok : computed_from;
    from = projects_hits(r) ? 0 : from;
    submit_store(r, &r->store, store_done, &c->wire, from, layers_done);
    if (c->restore == CLUSTER_RESTORE_HIDDEN) {
        submit_store(r, &r->keep, keep_done, &c->stored, computed_from, layers_done);
    }
}

static void feed_store(struct prefill_request *r, uint32_t layers_done)
{
    struct dp *dp = r->owner->node.ports.dp;
    dp_feed(dp, &r->store, layers_done);
    if (has(r, CLUSTER_RESTORE_HIDDEN)) {
        dp_feed(dp, &r->keep, layers_done);
    }
}

/* Forwards */

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
            feed_store(e->batch[i], f->layers_done);
        } else {
            start_store(e->batch[i], f->layers_done);
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
    bool drain = !cluster_of(e)->layerwise;
    uint32_t n = e->n_batch;
    e->n_draining = 0;
    for (uint32_t i = 0; drain && i < n; i++) {
        e->n_draining += !e->batch[i]->cancelled;
    }
    e->state = e->n_draining > 0 ? PREFILL_DRAINING : PREFILL_FORWARD;
    e->n_batch = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct prefill_request *r = e->batch[i];
        if (r->cancelled) {
            r->computing = false;
            prefill_request_settle(r);
            continue;
        }
        e->owner->computed_tok += r->chunk_tok;
        if (is_last_chunk(r)) {
            send_first_token(r);
        }
        r->computing = false;
        if (drain) {
            r->draining = true;
            start_store(r, cluster_of(e)->kv.n_layers);
        } else {
            chunk_over(r);
        }
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
    e->full_ns += (uint64_t)(e->fill * (double)(f->done_ns - f->start_ns));
    finish_items(e);
    prefill_group_engine_done(pn, prefill_group_of(pn, e->gpu));
    if (e->state == PREFILL_FORWARD) {
        idle(e);
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
    if (!keeps_prompt(r) || r->done_tok == 0) {
        r->hbm_slot = slots_take(&e->hbm_slots);
    }
    e->items[e->n_batch] = (struct compute_item){.request = r->start.r.request,
                                                 .cached_tok = r->start.r.hit_tok + r->done_tok,
                                                 .new_tok = new_tok,
                                                 .restored_tok = restored_tok(r),
                                                 .kv = {r->start.r.session, hbm_offset(r)}};
    e->batch[e->n_batch++] = r;
    e->owner->n_chunks++;
}

/* First come first served, until the quota of attention time or the room in HBM is used up. */
static void pack(struct prefill_engine *e)
{
    const struct cluster *c = cluster_of(e);
    double left_ns = (double)c->quota_ns;
    uint64_t hbm_left = c->prefill_hbm_bytes;
    e->n_batch = 0;
    e->fill = 0;
    list_for_each_safe (pos, tmp, &e->ready) {
        struct prefill_request *r = container_of(pos, struct prefill_request, ready_node);
        uint32_t cached = r->start.r.hit_tok + r->done_tok;
        uint32_t left_tok = miss_tok(r) - r->done_tok;
        uint64_t hbm = cluster_prefill_hbm_bytes(c, r->start.r.prompt_tok);
        uint32_t n = packing_fit(c->timing, cached, left_tok, c->kv.block_tok, left_ns);
        if (n == 0 && e->n_batch == 0) {
            /* Not even one block fits into a whole quota: it has to go through all the same. */
            n = left_tok < c->kv.block_tok ? left_tok : c->kv.block_tok;
        }
        if (n == 0 || hbm > hbm_left || (e->n_batch == e->batch_capacity && !grow_batch(e))) {
            return;
        }
        left_ns -= timing_attention_ns(c->timing, cached, n);
        e->fill = left_ns > 0 ? 1 - left_ns / (double)c->quota_ns : 1;
        hbm_left -= hbm;
        take(e, r, n);
        if (n < left_tok) {
            return;
        }
    }
}

void prefill_engine_announce(struct prefill_engine *e)
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

void prefill_engine_start(struct prefill_engine *e)
{
    if (e->state != PREFILL_IDLE) {
        e->start_pending = true;
        return;
    }
    const struct cluster *c = cluster_of(e);
    uint32_t engine = e->owner->node.id * c->gpus_per_node + e->gpu;
    pack(e);
    e->storing = false;
    e->forward = (struct compute_forward){.group = engine / c->prefill_ep_gpus,
                                          .rank = engine % c->prefill_ep_gpus,
                                          .engine = engine,
                                          .items = e->items,
                                          .n_items = e->n_batch,
                                          .layers_total = c->kv.n_layers,
                                          .progress = forward_progress,
                                          .notify_at = next_compute_mark(c, 0),
                                          .done = forward_done};
    for (uint32_t i = 0; i < e->n_batch; i++) {
        start_loads(e->batch[i]);
    }
    e->state = PREFILL_LOADING;
    if (c->layerwise || batch_layers_ready(e) == c->kv.n_layers) {
        join_forward(e);
    }
    prefill_engine_announce(e);
    prefill_group_engine_started(e->owner, prefill_group_of(e->owner, e->gpu));
}

void prefill_engine_init(struct prefill_engine *e, struct prefill_node *owner, uint16_t gpu)
{
    const struct node *n = &owner->node;
    *e = (struct prefill_engine){.owner = owner, .gpu = gpu};
    list_init(&e->ready);
    space_init(&e->direct, n->ports.loop, n->cluster->prefill_direct_bytes);
}

void prefill_engine_done(struct prefill_engine *e)
{
    slots_done(&e->hbm_slots);
    space_done(&e->direct);
    free(e->items);
    free(e->batch);
}
