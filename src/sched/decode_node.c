/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sched/decode_node.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "sched/decode_engine.h"
#include "sched/decode_kept.h"

static const struct kv_layout *kv_of(const struct decode_request *r)
{
    return &r->owner->node.cluster->kv;
}

static const struct kv_layout *wire_of(const struct decode_request *r)
{
    return &r->owner->node.cluster->wire;
}

static const struct kv_layout *stored_of(const struct decode_request *r)
{
    return &r->owner->node.cluster->stored;
}

static bool in_hbm(const struct decode_request *r)
{
    return r->owner->node.cluster->decode_in_hbm;
}

/* Where the prompt's KV is gathered. */
static struct dp_place buffer_place(const struct decode_request *r)
{
    return decode_request_place(r, in_hbm(r) ? DP_HBM : DP_DRAM);
}

static uint64_t now_ns(const struct decode_request *r)
{
    return loop_now_ns(r->owner->node.ports.loop);
}

static uint32_t new_prompt_blocks(const struct decode_request *r)
{
    return decode_request_full_blocks(r) - r->start.r.hit_tok / kv_of(r)->block_tok;
}

/* The prompt: room, read, push */

/* Asks for room, beyond what is kept of the last turn if that lies there. */
static void ask_room(struct decode_request *r, struct space *space, struct space_claim *claim,
                     uint64_t amount, const char *what)
{
    uint64_t held = claim->into ? claim->into->amount : 0;
    if (amount <= held) {
        claim->granted(claim);
        return;
    }
    claim->amount = amount - held;
    int rc = space_ask(space, claim);
    if (rc) {
        node_fault(&r->owner->node, r->start.r.request, rc, what);
    }
}

static void push_progress(struct dp_op *op)
{
    struct decode_push *p = container_of(op, struct decode_push, op);
    struct decode_request *r = p->request;
    uint32_t next = op->notify_at + p->every;
    op->notify_at = next < op->parts_total ? next : op->parts_total;
    if (r->cancelled) {
        return;
    }
    struct msg m = {.type = MSG_PUSHED,
                    .u.pushed = {.request = r->start.r.request,
                                 .stream = (uint32_t)(p - r->pushes),
                                 .layers = op->parts_done}};
    node_send(&r->owner->node, MSG_NODE(r->start.prefill_node), &m);
}

static void push_done(struct dp_op *op)
{
    struct decode_request *r = container_of(op, struct decode_push, op)->request;
    if (r->cancelled) {
        decode_request_settle(r);
        return;
    }
    node_op_ok(&r->owner->node, op, r->start.r.request); /* progress has told of the last layer */
}

/* What is kept in HBM of the last turn comes from there, all else from the buffer. */
static struct dp_place push_source(const struct decode_request *r, const struct msg_push *m)
{
    struct dp_place p = buffer_place(r);
    if (r->kept && m->first_tok < r->hbm_kept_tok) {
        p.tier = DP_HBM;
        p.offset_bytes = r->kept->claim.slot * r->owner->node.cluster->span_bytes;
    }
    return p;
}

/* Hits alone are what was read; with earlier chunks behind them, what the prefill GPU has sent. */
static const struct kv_layout *pushed_layout(const struct decode_request *r,
                                             const struct msg_push *m)
{
    bool as_read = m->first_tok == 0 && m->n_tok == r->start.r.hit_tok;
    return as_read && r->start.decode_tok == r->start.r.hit_tok ? stored_of(r) : wire_of(r);
}

static void on_push(struct decode_request *r, const struct msg_push *m)
{
    struct dp_place gpu = {.node = r->start.prefill_node,
                           .gpu = r->start.prefill_gpu,
                           .tier = DP_HBM,
                           .offset_bytes = m->gpu_offset_bytes};
    assert(m->stream < MSG_MAX_PUSHES);
    struct decode_push *p = &r->pushes[m->stream];
    p->request = r;
    p->every = m->notify_every;
    p->op = (struct dp_op){.kind = DP_COPY,
                           .traffic_class = DP_CLASS_LOAD,
                           .parts_ready = m->layers_ready,
                           .done = push_done,
                           .progress = push_progress,
                           .notify_at = m->notify_at};
    kv_shape_layers(&p->op, pushed_layout(r, m), m->first_tok, m->n_tok, push_source(r, m), gpu);
    node_submit(&r->owner->node, &p->op, r->start.r.request);
}

static void on_push_feed(struct decode_request *r, const struct msg_pushed *m)
{
    assert(m->stream < MSG_MAX_PUSHES);
    struct dp_op *op = &r->pushes[m->stream].op;
    if (dp_op_active(op)) {
        dp_feed(r->owner->node.ports.dp, op, m->layers);
    }
}

static void send_ready(struct decode_request *r)
{
    struct msg m = {.type = MSG_DECODE_READY,
                    .u.decode_ready = {.start = r->start,
                                       .decode_offset_bytes = buffer_place(r).offset_bytes,
                                       .alloc_ns = r->alloc_ns,
                                       .read_ns = r->read_ns}};
    node_send(&r->owner->node, MSG_NODE(r->start.prefill_node), &m);
}

static bool is_split(const struct decode_request *r)
{
    return r->start.decode_tok > 0 && r->start.decode_tok < r->start.r.hit_tok;
}

static void read_done(struct dp_op *op)
{
    struct decode_request *r = container_of(op, struct decode_request, read);
    struct node *n = &r->owner->node;
    if (r->cancelled) {
        decode_request_settle(r);
        return;
    }
    if (!node_op_ok(n, op, r->start.r.request)) {
        return;
    }
    n->report.read_done_tok += r->start.decode_tok - r->start.kept_tok;
    r->read_over = true;
    if (is_split(r)) {
        struct msg m = {.type = MSG_DECODE_READ, .u.decode_read = {r->start.r.request}};
        node_send(n, MSG_NODE(r->start.prefill_node), &m);
        return;
    }
    r->alloc_ns += op->answer_ns;
    r->read_ns = now_ns(r) - op->submit_ns - op->answer_ns;
    send_ready(r);
}

static void read_hits(struct decode_request *r)
{
    uint32_t block = kv_of(r)->block_tok, first = r->start.kept_tok / block;
    struct dp_place buffer = buffer_place(r);
    const struct node *n = &r->owner->node;
    r->read = (struct dp_op){.kind = DP_STORAGE_READ,
                             .traffic_class = DP_CLASS_READ,
                             .chain = node_chain(&r->start),
                             .decode_engine =
                                 cluster_decode_engine(n->cluster, n->id, r->start.decode_gpu),
                             .done = read_done};
    kv_shape_blocks(&r->read, stored_of(r), first, r->start.decode_tok / block - first, buffer,
                    buffer);
    node_submit(&r->owner->node, &r->read, r->start.r.request);
}

static void buffer_granted(struct decode_request *r)
{
    bool reads = r->start.decode_tok > r->start.kept_tok;
    r->alloc_ns = now_ns(r) - r->asked_ns;
    r->owner->kept_counts.hit_tok += r->start.kept_tok;
    if (!reads || is_split(r)) {
        send_ready(r);
    }
    if (reads) {
        read_hits(r);
    }
}

/* The prompt is complete: persist, admission */

/* Blocks of the prompt that still have to be written keep their room in the buffer. */
static uint64_t unpersisted_bytes(const struct decode_request *r)
{
    return r->persisted ? 0 : new_prompt_blocks(r) * kv_full_block_bytes(stored_of(r));
}

/* So many bytes in DRAM are needed no more. For the next turn the full blocks are kept, as soon as
 * none of them is needed any more. */
static void leave_dram(struct decode_request *r, uint64_t bytes)
{
    struct decode_node *dn = r->owner;
    uint64_t kept = decode_request_full_blocks(r) * kv_full_block_bytes(kv_of(r));
    if (dn->node.cluster->reuse != CLUSTER_REUSE_DRAM || kept == 0) {
        space_give(&dn->dram, &r->dram, bytes);
    } else if (r->persisted) {
        space_give(&dn->dram, &r->dram, r->dram.amount - kept);
        decode_kept_put(r, &r->dram, decode_request_full_blocks(r) * kv_of(r)->block_tok);
    }
}

static void prompt_persisted(struct dp_op *op)
{
    struct decode_request *r = container_of(op, struct decode_request, persist);
    struct decode_node *dn = r->owner;
    if (!node_op_ok(&dn->node, op, r->start.r.request)) {
        return;
    }
    dn->persisted_blocks += op->parts_total;
    if (r->cancelled) {
        decode_request_settle(r);
        return;
    }
    uint64_t bytes = unpersisted_bytes(r);
    r->persisted = true;
    if (r->admitted) {
        leave_dram(r, bytes);
    }
    decode_request_prompt_durable(r);
    decode_request_forget_if_over(r);
}

static void persist_prompt(struct decode_request *r)
{
    if (new_prompt_blocks(r) == 0) {
        decode_request_prompt_durable(r);
        return;
    }
    if (in_hbm(r)) {
        r->n_writing_prompt = new_prompt_blocks(r);
        decode_engine_persist(r, r->start.r.hit_tok / kv_of(r)->block_tok, new_prompt_blocks(r));
        return;
    }
    r->persist = (struct dp_op){.kind = DP_STORAGE_WRITE,
                                .traffic_class = DP_CLASS_PERSIST,
                                .chain = node_chain(&r->start),
                                .done = prompt_persisted};
    struct dp_place dram = decode_request_place(r, DP_DRAM);
    kv_shape_blocks(&r->persist, stored_of(r), r->start.r.hit_tok / kv_of(r)->block_tok,
                    new_prompt_blocks(r), dram, dram);
    node_submit(&r->owner->node, &r->persist, r->start.r.request);
}

/* The prompt's KV is where it will be used: what is durable of it leaves the buffer. */
static void leave_buffer(struct decode_request *r)
{
    r->admitted = true;
    if (r->dram.amount > 0) {
        leave_dram(r, r->dram.amount - unpersisted_bytes(r));
    }
}

static void expanded(struct loop_timer *t)
{
    decode_engine_run(container_of(t, struct decode_request, expand_timer));
}

/* Compressed KV is expanded in HBM, one prompt after the other; decode steps go on meanwhile. */
static void expand(struct decode_request *r)
{
    struct node *n = &r->owner->node;
    bool compressed = n->cluster->restore == CLUSTER_RESTORE_COMPRESSED;
    double ns = compressed ? timing_restore_ns(n->cluster->timing, r->start.r.prompt_tok) : 0;
    if (ns <= 0) {
        decode_engine_run(r);
        return;
    }
    uint64_t *free_ns = &r->owner->expander_free_ns[r->start.decode_gpu];
    *free_ns = (*free_ns > now_ns(r) ? *free_ns : now_ns(r)) + (uint64_t)llround(ns);
    loop_timer_init(&r->expand_timer, expanded);
    loop_arm(n->ports.loop, &r->expand_timer, *free_ns);
}

static void admitted(struct dp_op *op)
{
    struct decode_request *r = container_of(op, struct decode_request, admit);
    if (!node_op_ok(&r->owner->node, op, r->start.r.request)) {
        return;
    }
    if (r->cancelled) {
        decode_request_settle(r);
        return;
    }
    leave_buffer(r);
    expand(r);
}

static void admit(struct decode_request *r)
{
    const struct kv_layout *kv = wire_of(r);
    uint32_t first = r->hbm_kept_tok / kv->block_tok;
    r->admit = (struct dp_op){.kind = DP_COPY, .traffic_class = DP_CLASS_ADMIT, .done = admitted};
    kv_shape_blocks(&r->admit, kv, first, kv_blocks(kv, r->start.r.prompt_tok) - first,
                    decode_request_place(r, DP_DRAM), decode_request_place(r, DP_HBM));
    node_submit(&r->owner->node, &r->admit, r->start.r.request);
}

static void hbm_granted(struct space_claim *claim)
{
    struct decode_request *r = container_of(claim, struct decode_request, hbm);
    struct node *n = &r->owner->node;
    if (claim->into) {
        decode_kept_use(r, claim);
    }
    if (!n->cluster->promise_decode_hbm) {
        n->report.done_blocks[r->start.decode_gpu] -= claim->amount;
    }
    if (in_hbm(r)) {
        buffer_granted(r);
    } else {
        admit(r);
    }
}

static void ask_hbm(struct decode_request *r)
{
    const struct msg_request *q = &r->start.r;
    struct decode_node *dn = r->owner;
    r->hbm.granted = hbm_granted;
    r->hbm.into = r->hbm_kept_tok > 0 ? &r->kept->claim : NULL;
    ask_room(r, &dn->hbm[r->start.decode_gpu], &r->hbm,
             cluster_decode_blocks(dn->node.cluster, q->prompt_tok, q->gen_tok), "HBM");
}

static void on_prompt_kv(struct decode_request *r)
{
    persist_prompt(r);
    if (r->start.r.gen_tok == 1) {
        /* The prefill's token was the only one: nothing to decode. */
        if (r->kept) {
            decode_kept_give(r);
        }
        leave_buffer(r);
        decode_engine_skip(r);
    } else if (in_hbm(r)) {
        leave_buffer(r);
        decode_engine_run(r);
    } else {
        ask_hbm(r);
    }
}

static void dram_granted(struct space_claim *claim)
{
    struct decode_request *r = container_of(claim, struct decode_request, dram);
    if (claim->into) {
        decode_kept_use(r, claim);
    }
    buffer_granted(r);
}

static void ask_buffer(struct decode_request *r)
{
    struct decode_node *dn = r->owner;
    uint64_t hbm_kept = kv_room_bytes(kv_of(r), r->hbm_kept_tok);
    r->dram.granted = dram_granted;
    r->dram.into = r->kept && r->hbm_kept_tok == 0 ? &r->kept->claim : NULL;
    ask_room(r, &dn->dram, &r->dram,
             cluster_decode_room_bytes(dn->node.cluster, r->start.r.prompt_tok) - hbm_kept,
             "decode buffer");
}

static void on_start(struct decode_node *dn, const struct msg_start *start)
{
    uint32_t index;
    struct decode_request *r = pool_get(&dn->requests, &index);
    r->owner = dn;
    r->index = index;
    r->start = *start;
    list_add_tail(&dn->all, &r->node);
    idmap_put(&dn->by_id, start->r.request, index);
    r->asked_ns = now_ns(r);
    if (dn->node.cluster->reuse != CLUSTER_REUSE_NONE) {
        decode_kept_take(r);
    }
    if (r->kept && dn->node.cluster->reuse == CLUSTER_REUSE_HBM) {
        r->hbm_kept_tok = r->start.kept_tok;
    }
    if (in_hbm(r)) {
        ask_hbm(r);
    } else {
        ask_buffer(r);
    }
}

/* A prefill node is dead */

static void cancel(struct decode_request *r)
{
    struct decode_node *dn = r->owner;
    r->cancelled = true;
    space_withdraw(&dn->dram, &r->dram);
    space_withdraw(&dn->hbm[r->start.decode_gpu], &r->hbm);
    dp_cancel(dn->node.ports.dp, &r->read);
    for (unsigned i = 0; i < MSG_MAX_PUSHES; i++) {
        dp_cancel(dn->node.ports.dp, &r->pushes[i].op);
    }
    loop_disarm(dn->node.ports.loop, &r->expand_timer);
    r->sequence.notify_at = 0;
    decode_request_settle(r);
}

static void on_dead(struct decode_node *dn, uint32_t dead)
{
    list_for_each_safe (pos, tmp, &dn->all) {
        struct decode_request *r = container_of(pos, struct decode_request, node);
        if (r->start.prefill_node != dead) {
            continue;
        }
        r->doomed = true;
        dn->node.n_doomed++;
        if (!r->finished) {
            cancel(r);
        }
    }
    node_take_death(&dn->node, dead);
    node_tell_if_clear(&dn->node);
}

static struct decode_request *find(struct decode_node *dn, uint32_t request)
{
    uint32_t index = 0;
    bool known = idmap_get(&dn->by_id, request, &index);
    assert(known);
    (void)known;
    return pool_at(&dn->requests, index);
}

static void on_message(void *self, const struct msg *m)
{
    struct decode_node *dn = container_of((struct node *)self, struct decode_node, node);
    if (node_ignores(&dn->node, m)) {
        return;
    }
    switch (m->type) {
    case MSG_START:
        on_start(dn, &m->u.start);
        break;
    case MSG_PUSH:
        on_push(find(dn, m->u.push.request), &m->u.push);
        break;
    case MSG_PUSH_FEED:
        on_push_feed(find(dn, m->u.pushed.request), &m->u.pushed);
        break;
    case MSG_PROMPT_KV:
        on_prompt_kv(find(dn, m->u.prompt_kv.request));
        break;
    case MSG_DEAD:
        on_dead(dn, m->u.dead.node);
        break;
    default:
        node_fault(&dn->node, 0, -EPROTO, "unexpected message at a decode node");
    }
}

int decode_node_init(struct decode_node *dn, const struct cluster *cluster,
                     const struct node_ports *ports, uint32_t id)
{
    *dn = (struct decode_node){0};
    node_init(&dn->node, cluster, ports, id);
    space_init(&dn->dram, ports->loop, cluster->dram_buffer_bytes);
    space_init(&dn->staging, ports->loop, cluster->persist_buffer_bytes);
    pool_init(&dn->requests, sizeof(struct decode_request));
    pool_init(&dn->block_copies, sizeof(struct block_copy));
    pool_init(&dn->block_writes, sizeof(struct block_write));
    idmap_init(&dn->by_id);
    list_init(&dn->all);
    dn->hbm = calloc(cluster->gpus_per_node, sizeof(*dn->hbm));
    dn->expander_free_ns = calloc(cluster->gpus_per_node, sizeof(*dn->expander_free_ns));
    if (!dn->hbm || !dn->expander_free_ns) {
        decode_node_done(dn);
        return -ENOMEM;
    }
    for (uint32_t gpu = 0; gpu < cluster->gpus_per_node; gpu++) {
        space_init(&dn->hbm[gpu], ports->loop, cluster->decode_hbm_blocks);
    }
    if (decode_kept_init(dn)) {
        decode_node_done(dn);
        return -ENOMEM;
    }
    int rc = ports->messages->ops->attach(ports->messages, MSG_NODE(id), on_message, &dn->node);
    if (rc) {
        decode_node_done(dn);
    }
    return rc;
}

void decode_node_done(struct decode_node *dn)
{
    node_stop(&dn->node);
    node_done(&dn->node);
    for (uint32_t gpu = 0; dn->hbm && gpu < dn->node.cluster->gpus_per_node; gpu++) {
        space_done(&dn->hbm[gpu]);
    }
    free(dn->hbm);
    free(dn->expander_free_ns);
    dn->hbm = NULL;
    dn->expander_free_ns = NULL;
    space_done(&dn->dram);
    space_done(&dn->staging);
    pool_done(&dn->requests);
    pool_done(&dn->block_copies);
    pool_done(&dn->block_writes);
    decode_kept_done(dn);
    idmap_done(&dn->by_id);
}
