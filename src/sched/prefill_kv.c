/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sched/prefill_kv.h"

#include <assert.h>

#include "sched/prefill_engine.h"
#include "sched/stages.h"

static const struct cluster *cluster_of(const struct prefill_request *r)
{
    return r->owner->node.cluster;
}

static bool has(const struct prefill_request *r, enum cluster_restore restore)
{
    return cluster_of(r)->restore == restore;
}

/* A request's span in the node's buffer and in the GPU, see cluster.span_bytes. */
struct dp_place prefill_hits_place(const struct prefill_request *r)
{
    return (struct dp_place){.node = r->owner->node.id,
                             .gpu = r->engine->gpu,
                             .tier = has(r, CLUSTER_RESTORE_DIRECT) ? DP_HBM : DP_DRAM,
                             .offset_bytes = r->dram.slot * cluster_of(r)->span_bytes};
}

struct space *prefill_hits_space(struct prefill_request *r)
{
    return has(r, CLUSTER_RESTORE_DIRECT) ? &r->engine->direct : &r->owner->dram;
}

uint64_t prefill_hbm_offset(const struct prefill_request *r)
{
    return r->hbm_slot * cluster_of(r)->span_bytes;
}

static struct dp_place hbm_place(const struct prefill_request *r)
{
    return (struct dp_place){.node = r->owner->node.id,
                             .gpu = r->engine->gpu,
                             .tier = DP_HBM,
                             .offset_bytes = prefill_hbm_offset(r)};
}

/* Where the decode node gathers the prompt's KV. */
static struct dp_place decode_place(const struct prefill_request *r)
{
    bool hbm = cluster_of(r)->decode_in_hbm;
    return (struct dp_place){.node = r->start.decode_node,
                             .gpu = r->start.decode_gpu,
                             .tier = hbm ? DP_HBM : DP_DRAM,
                             .offset_bytes = r->decode_offset_bytes};
}

static bool reads_here(const struct prefill_request *r)
{
    return r->start.decode_tok < r->start.r.hit_tok;
}

uint32_t prefill_miss_tok(const struct prefill_request *r)
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

uint32_t prefill_restored_tok(const struct prefill_request *r)
{
    if (has(r, CLUSTER_RESTORE_COMPRESSED)) {
        return r->start.r.hit_tok + r->done_tok;
    }
    return projects_hits(r) ? r->start.r.hit_tok : 0;
}

/* Without layer streaming the GPU holds the whole prompt's KV from the first chunk to the last. */
static bool keeps_prompt(const struct prefill_request *r)
{
    return !cluster_of(r)->layerwise && has(r, CLUSTER_RESTORE_KV);
}

bool prefill_is_last_chunk(const struct prefill_request *r)
{
    return r->done_tok + r->chunk_tok == prefill_miss_tok(r);
}

/* In */

static bool all_here(const struct prefill_request *r)
{
    return prefill_kv_layers(r) == cluster_of(r)->kv.n_layers;
}

uint32_t prefill_kv_layers(const struct prefill_request *r)
{
    uint32_t least = r->load_layers;
    for (unsigned k = 0; k < MSG_MAX_PUSHES; k++) {
        least = r->push_layers[k] < least ? r->push_layers[k] : least;
    }
    return least;
}

static void nothing_to_come(struct prefill_request *r)
{
    r->load_layers = r->push_layers[0] = r->push_layers[1] = cluster_of(r)->kv.n_layers;
}

static void advanced(struct prefill_request *r)
{
    if (!r->loading) {
        prefill_engine_fed(r->engine);
    } else if (all_here(r)) {
        r->loading = false;
        prefill_engine_queue(r, false);
    }
}

static void load_progress(struct dp_op *op)
{
    struct prefill_request *r = container_of(op, struct prefill_request, load);
    op->notify_at = next_load_mark(cluster_of(r), op->parts_done);
    if (r->cancelled) {
        return;
    }
    r->load_layers = op->parts_done;
    if (op->parts_done < op->parts_total) {
        advanced(r);
    }
}

/* The hits in the node's buffer are loaded again for the next chunk, if there is one; a chunk that
 * is loaded before it is packed does not know. */
static bool is_loaded_again(const struct prefill_request *r)
{
    bool last = cluster_of(r)->layerwise && prefill_is_last_chunk(r);
    return !last && !projects_hits(r) && !keeps_prompt(r);
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
    if (!is_loaded_again(r)) {
        space_give(&r->owner->dram, &r->dram, r->dram.amount);
    }
    advanced(r);
}

void prefill_kv_pushed(struct prefill_request *r, uint32_t stream, uint32_t layers)
{
    assert(r && stream < MSG_MAX_PUSHES && (r->loading || r->computing) &&
           layers >= r->push_layers[stream]);
    r->push_layers[stream] = layers;
    advanced(r);
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

/* The stream with the chunk before, if there is one. */
#define LAST_STREAM 1u

static void ask_for_push(struct prefill_request *r, uint32_t stream, uint32_t first_tok,
                         uint32_t n_tok, uint32_t layers_ready)
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
                               .gpu_offset_bytes = prefill_hbm_offset(r),
                               .notify_at = next_load_mark(c, 0),
                               .notify_every = c->stage_layers,
                               .layers_ready = layers_ready}};
    r->push_layers[stream] = 0;
    node_send(n, MSG_NODE(r->start.decode_node), &m);
}

/*
 * KV before this chunk: hits that were read here from this node's buffer (or in the GPU already),
 * all else from the decode node: earlier chunks and the hits read there, in one piece unless hits
 * read here lie between, and the hits that the decode node has kept, which lie elsewhere. Of an
 * earlier chunk that is still leaving this GPU, layers follow as they get there.
 */
static void start_loads(struct prefill_request *r)
{
    const struct msg_start *s = &r->start;
    uint32_t all = cluster_of(r)->kv.n_layers;
    uint32_t apart_tok = loads_here(r) ? s->decode_tok : s->kept_tok;
    uint32_t from = loads_here(r) ? s->r.hit_tok : s->kept_tok;
    nothing_to_come(r);
    if (loads_here(r) && !has(r, CLUSTER_RESTORE_DIRECT)) {
        load_hits(r);
    }
    ask_for_push(r, 0, 0, apart_tok, all);
    ask_for_push(r, LAST_STREAM, from, s->r.hit_tok + r->done_tok - from,
                 r->leaving ? r->store.parts_done : all);
}

void prefill_kv_stream_in(struct prefill_request *r)
{
    r->hbm_slot = slots_take(&r->engine->hbm_slots);
    start_loads(r);
}

static void hbm_granted(struct space_claim *claim)
{
    struct prefill_request *r = container_of(claim, struct prefill_request, hbm);
    r->hbm_slot = claim->slot;
    r->loading = true;
    start_loads(r);
    advanced(r);
}

void prefill_kv_bring(struct prefill_request *r)
{
    const struct cluster *c = cluster_of(r);
    if (c->layerwise || r->hbm.held) {
        prefill_engine_queue(r, r->done_tok > 0);
        return;
    }
    r->hbm.amount = cluster_prefill_hbm_bytes(c, r->start.r.prompt_tok);
    r->hbm.granted = hbm_granted;
    int rc = space_ask(&r->engine->hbm, &r->hbm);
    if (rc) {
        node_fault(&r->owner->node, r->start.r.request, rc, "prefill HBM");
    }
}

static void end_leaving(struct prefill_request *r)
{
    if (r->leaving) {
        r->leaving = false;
        slots_give(&r->engine->hbm_slots, r->leaving_slot);
    }
}

static void leave_hbm(struct prefill_request *r)
{
    end_leaving(r);
    if (r->hbm.held) {
        space_give(&r->engine->hbm, &r->hbm, r->hbm.amount);
    } else if (r->chunk_tok > 0) {
        slots_give(&r->engine->hbm_slots, r->hbm_slot);
    }
}

/* Out */

/* A chunk whose forward is over while layers of it are on their way: the next one asks for them. */
static void store_progress(struct dp_op *op)
{
    struct prefill_request *r = container_of(op, struct prefill_request, store);
    op->notify_at = next_compute_mark(cluster_of(r), op->parts_done);
    if (!r->leaving || !r->computing || r->cancelled) {
        return;
    }
    struct msg m = {.type = MSG_PUSH_FEED,
                    .u.pushed = {.request = r->start.r.request,
                                 .stream = LAST_STREAM,
                                 .layers = op->parts_done}};
    node_send(&r->owner->node, MSG_NODE(r->start.decode_node), &m);
}

/* Sends tokens from .. end in a layout to the decode buffer, as their layers are made. */
static void submit_store(struct prefill_request *r, struct dp_op *op, void (*done)(struct dp_op *),
                         const struct kv_layout *layout, uint32_t from, uint32_t end,
                         uint32_t layers_done)
{
    *op = (struct dp_op){.kind = DP_COPY,
                         .traffic_class = DP_CLASS_STORE,
                         .parts_ready = layers_done,
                         .done = done,
                         .progress = op == &r->store ? store_progress : NULL,
                         .notify_at = next_compute_mark(cluster_of(r), 0)};
    kv_shape_layers(op, layout, from, end - from, hbm_place(r), decode_place(r));
    r->n_storing++;
    node_submit(&r->owner->node, op, r->start.r.request);
}

static void through(struct prefill_request *r)
{
    struct prefill_node *pn = r->owner;
    if (r->dram.held) {
        space_give(prefill_hits_space(r), &r->dram, r->dram.amount);
    }
    struct msg m = {.type = MSG_PROMPT_KV, .u.prompt_kv = r->start.r};
    node_send(&pn->node, MSG_NODE(r->start.decode_node), &m);
    prefill_request_forget(r);
}

static void end_chunk(struct prefill_request *r)
{
    r->done_tok += r->chunk_tok;
    r->chunk_tok = 0;
}

/* Ends a chunk that leaves HBM with its KV: once its forward is over and all of it is stored. */
static void chunk_over(struct prefill_request *r)
{
    if (r->computing || !r->stored) {
        return;
    }
    leave_hbm(r);
    end_chunk(r);
    if (r->done_tok == prefill_miss_tok(r)) {
        through(r);
    } else {
        prefill_kv_bring(r);
    }
}

static void store_done(struct dp_op *op);

/* Sends on what a prompt that stays has computed since it last did; then it may be through. */
static void send_kept(struct prefill_request *r)
{
    const struct cluster *c = cluster_of(r);
    uint32_t hit_tok = r->start.r.hit_tok;
    if (r->n_storing > 0) {
        return;
    }
    if (r->sent_tok < r->done_tok) {
        uint32_t from = r->sent_tok > 0 ? hit_tok + r->sent_tok : r->start.decode_tok;
        r->sent_tok = r->done_tok;
        submit_store(r, &r->store, store_done, &c->wire, from, hit_tok + r->done_tok,
                     c->kv.n_layers);
    } else if (r->done_tok == prefill_miss_tok(r)) {
        leave_hbm(r);
        through(r);
    }
}

/* Whether the next chunk may be in the next forward while the last layers of this one leave. */
static bool may_go_on(const struct prefill_request *r)
{
    return cluster_of(r)->layerwise && !has(r, CLUSTER_RESTORE_HIDDEN) && !r->stored &&
           !prefill_is_last_chunk(r) && !r->leaving;
}

static void go_on(struct prefill_request *r)
{
    r->leaving = true;
    r->leaving_slot = r->hbm_slot;
    end_chunk(r);
    prefill_kv_bring(r);
}

static void go_on_kept(struct prefill_request *r)
{
    end_chunk(r);
    if (r->done_tok < prefill_miss_tok(r)) {
        prefill_kv_bring(r);
    }
    send_kept(r);
}

void prefill_kv_chunk_computed(struct prefill_request *r)
{
    const struct cluster *c = cluster_of(r);
    r->computing = false;
    if (keeps_prompt(r)) {
        go_on_kept(r);
    } else if (may_go_on(r)) {
        go_on(r);
    } else {
        if (!c->layerwise) {
            prefill_kv_start_store(r, c->kv.n_layers);
        }
        chunk_over(r);
    }
}

static void one_stored(struct prefill_request *r, struct dp_op *op)
{
    r->n_storing--;
    if (r->cancelled) {
        prefill_request_settle(r);
        return;
    }
    if (!node_op_ok(&r->owner->node, op, r->start.r.request) || r->n_storing > 0) {
        return;
    }
    if (keeps_prompt(r)) {
        send_kept(r);
        return;
    }
    if (r->leaving) {
        end_leaving(r);
        if (r->waiting_layers > 0) {
            prefill_kv_start_store(r, r->waiting_layers);
            r->waiting_layers = 0;
        }
        return;
    }
    r->stored = true;
    chunk_over(r);
}

static void store_done(struct dp_op *op)
{
    one_stored(container_of(op, struct prefill_request, store), op);
}

static void keep_done(struct dp_op *op)
{
    one_stored(container_of(op, struct prefill_request, keep), op);
}

void prefill_kv_start_store(struct prefill_request *r, uint32_t layers_done)
{
    const struct cluster *c = r->owner->node.cluster;
    if (r->leaving) {
        r->waiting_layers = layers_done;
        return;
    }
    uint32_t computed_from = r->start.r.hit_tok + r->done_tok;
    uint32_t from = reads_here(r) && r->done_tok == 0 ? r->start.decode_tok : computed_from;
    uint32_t end = computed_from + r->chunk_tok;
    from = projects_hits(r) ? 0 : from;
    submit_store(r, &r->store, store_done, &c->wire, from, end, layers_done);
    if (c->restore == CLUSTER_RESTORE_HIDDEN) {
        submit_store(r, &r->keep, keep_done, &c->stored, computed_from, end, layers_done);
    }
}

void prefill_kv_feed_store(struct prefill_request *r, uint32_t layers_done)
{
    struct dp *dp = r->owner->node.ports.dp;
    if (r->waiting_layers > 0) {
        r->waiting_layers = layers_done;
        return;
    }
    dp_feed(dp, &r->store, layers_done);
    if (has(r, CLUSTER_RESTORE_HIDDEN)) {
        dp_feed(dp, &r->keep, layers_done);
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
    if (!r->cancelled || is_under_way(r)) {
        return;
    }
    if (r->dram.held) {
        space_give(prefill_hits_space(r), &r->dram, r->dram.amount);
    }
    leave_hbm(r);
    if (r->read_over && !r->first_sent) {
        pn->node.report.read_done_tok -= r->start.r.hit_tok - r->start.decode_tok;
    }
    prefill_request_forget(r);
}

void prefill_request_cancel(struct prefill_request *r)
{
    struct prefill_node *pn = r->owner;
    r->cancelled = true;
    list_remove(&r->ready_node);
    space_withdraw(prefill_hits_space(r), &r->dram);
    space_withdraw(&r->engine->hbm, &r->hbm);
    r->loading = false;
    dp_cancel(pn->node.ports.dp, &r->read);
    dp_cancel(pn->node.ports.dp, &r->load);
    dp_cancel(pn->node.ports.dp, &r->store);
    dp_cancel(pn->node.ports.dp, &r->keep);
    if (r->computing) {
        nothing_to_come(r);
        prefill_engine_drop(r);
    }
    prefill_request_settle(r);
}
