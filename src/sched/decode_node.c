/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sched/decode_node.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* A block that decoding has filled, on its way HBM -> staging -> storage. */
struct block_write {
    struct decode_request *request;
    uint32_t index; /* in the pool */
    uint32_t block; /* of the request's context */
    struct space_claim staging;
    struct dp_op op; /* the copy, then the write */
};

static const struct kv_layout *kv_of(const struct decode_request *r)
{
    return &r->owner->node.cluster->kv;
}

/* The request's span in the buffer or in HBM, once granted. */
static struct dp_place place(const struct decode_request *r, enum dp_tier tier)
{
    uint64_t slot = tier == DP_DRAM ? r->dram.slot : r->hbm.slot;
    return (struct dp_place){.node = r->owner->node.id,
                             .gpu = r->start.decode_gpu,
                             .tier = (uint16_t)tier,
                             .offset_bytes = slot * r->owner->node.cluster->span_bytes};
}

static struct dp_chain chain_of(const struct decode_request *r)
{
    return (struct dp_chain){.chain_id = r->start.r.session, .turn = r->start.r.turn};
}

static uint64_t now_ns(const struct decode_request *r)
{
    return loop_now_ns(r->owner->node.ports.loop);
}

static uint32_t prompt_full_blocks(const struct decode_request *r)
{
    return r->start.r.prompt_tok / kv_of(r)->block_tok;
}

/* The prompt's blocks that are not in storage yet. */
static uint32_t new_prompt_blocks(const struct decode_request *r)
{
    return prompt_full_blocks(r) - r->start.r.hit_tok / kv_of(r)->block_tok;
}

static void tell_client(struct decode_request *r, enum msg_type type)
{
    struct msg m = {.type = (uint16_t)type, .u.event = {.request = r->start.r.request}};
    m.u.event.tok = 1 + r->sequence.steps_done;
    node_send(&r->owner->node, MSG_CLIENT, &m);
}

/* The end */

static void forget_if_over(struct decode_request *r)
{
    struct decode_node *dn = r->owner;
    if (!r->finished || !r->persisted || !r->admitted || r->n_writing > 0) {
        return;
    }
    tell_client(r, MSG_DURABLE);
    idmap_remove(&dn->by_id, r->start.r.request);
    pool_put(&dn->requests, r->index);
}

static void give_hbm_if_over(struct decode_request *r)
{
    struct decode_node *dn = r->owner;
    if (!r->finished || r->n_copying > 0) {
        return;
    }
    if (r->hbm.amount > 0) {
        space_give(&dn->hbm[r->start.decode_gpu], &r->hbm, r->hbm.amount);
    }
    const struct msg_request *q = &r->start.r;
    struct msg_fetch *report = &dn->node.report;
    report->done_tok[r->start.decode_gpu] += q->prompt_tok + q->gen_tok;
    report->done_requests[r->start.decode_gpu]++;
    report->done_blocks[r->start.decode_gpu] +=
        cluster_decode_blocks(dn->node.cluster, q->prompt_tok, q->gen_tok);
}

/* Persisting decoded blocks */

static void block_written(struct dp_op *op)
{
    struct block_write *w = container_of(op, struct block_write, op);
    struct decode_request *r = w->request;
    struct decode_node *dn = r->owner;
    if (!node_op_ok(&dn->node, op, r->start.r.request)) {
        return;
    }
    space_give(&dn->staging, &w->staging, w->staging.amount);
    pool_put(&dn->block_writes, w->index);
    dn->persisted_blocks++;
    r->n_writing--;
    forget_if_over(r);
}

static struct dp_place staging_place(const struct block_write *w)
{
    const struct cluster *c = w->request->owner->node.cluster;
    struct dp_place p = place(w->request, DP_DRAM);
    p.offset_bytes = c->staging_offset_bytes + w->staging.slot * kv_full_block_bytes(&c->kv);
    return p;
}

static void block_copied(struct dp_op *op)
{
    struct block_write *w = container_of(op, struct block_write, op);
    struct decode_request *r = w->request;
    if (!node_op_ok(&r->owner->node, op, r->start.r.request)) {
        return;
    }
    struct dp_place staged = staging_place(w);
    w->op = (struct dp_op){.kind = DP_STORAGE_WRITE,
                           .traffic_class = DP_CLASS_PERSIST,
                           .chain = chain_of(r),
                           .done = block_written};
    kv_shape_blocks(&w->op, kv_of(r), 0, 1, staged, staged);
    w->op.chain.first_block = w->block;
    node_submit(&r->owner->node, &w->op, r->start.r.request);
    r->n_copying--;
    give_hbm_if_over(r);
}

static void staging_granted(struct space_claim *claim)
{
    struct block_write *w = container_of(claim, struct block_write, staging);
    struct decode_request *r = w->request;
    struct dp_place from = place(r, DP_HBM);
    from.offset_bytes += w->block * kv_full_block_bytes(kv_of(r));
    w->op =
        (struct dp_op){.kind = DP_COPY, .traffic_class = DP_CLASS_PERSIST, .done = block_copied};
    kv_shape_blocks(&w->op, kv_of(r), 0, 1, from, staging_place(w));
    node_submit(&r->owner->node, &w->op, r->start.r.request);
}

static void persist_block(struct decode_request *r, uint32_t block)
{
    struct decode_node *dn = r->owner;
    uint32_t index;
    struct block_write *w = pool_get(&dn->block_writes, &index);
    w->request = r;
    w->index = index;
    w->block = block;
    w->staging =
        (struct space_claim){.amount = kv_full_block_bytes(kv_of(r)), .granted = staging_granted};
    r->n_copying++;
    r->n_writing++;
    int rc = space_ask(&dn->staging, &w->staging);
    if (rc) {
        node_fault(&dn->node, r->start.r.request, rc, "persist buffer");
    }
}

/* Decoding */

static uint32_t steps_total(const struct decode_request *r)
{
    return r->start.r.gen_tok - 1;
}

/* The next step after which something happens: second token, a block is full, last token. */
static uint32_t next_mark(const struct decode_request *r, uint32_t steps)
{
    if (steps == 0) {
        return 1;
    }
    uint32_t block = kv_of(r)->block_tok;
    uint32_t to_full = block - (r->start.r.prompt_tok + steps) % block;
    return steps + to_full < steps_total(r) ? steps + to_full : steps_total(r);
}

static void finish(struct decode_request *r)
{
    r->finished = true;
    r->owner->generated_tok += r->sequence.steps_done;
    tell_client(r, MSG_FINISHED);
    give_hbm_if_over(r);
    forget_if_over(r);
}

static void stepped(struct compute_sequence *s)
{
    struct decode_request *r = container_of(s, struct decode_request, sequence);
    if (s->status) {
        compute_leave(r->owner->node.ports.compute, s);
        node_fault(&r->owner->node, r->start.r.request, s->status, "decode");
        return;
    }
    uint32_t block = kv_of(r)->block_tok;
    uint32_t context = r->start.r.prompt_tok + s->steps_done;
    if (context % block == 0) {
        persist_block(r, context / block - 1);
    }
    if (s->steps_done == 1) {
        tell_client(r, MSG_TOKEN);
    }
    if (s->steps_done == steps_total(r)) {
        compute_leave(r->owner->node.ports.compute, s);
        finish(r);
    } else {
        s->notify_at = next_mark(r, s->steps_done);
    }
}

static void decode(struct decode_request *r)
{
    struct node *n = &r->owner->node;
    uint32_t first_decode_engine = (n->id - n->cluster->prefill_nodes) * n->cluster->gpus_per_node;
    r->sequence =
        (struct compute_sequence){.engine = first_decode_engine + r->start.decode_gpu,
                                  .request = r->start.r.request,
                                  .context_tok = r->start.r.prompt_tok,
                                  .kv = {r->start.r.session, place(r, DP_HBM).offset_bytes},
                                  .notify_at = next_mark(r, 0),
                                  .notify = stepped};
    int rc = compute_join(n->ports.compute, &r->sequence);
    if (rc) {
        node_fault(n, r->start.r.request, rc, "decode");
    }
}

/* The prompt: buffer, read, push, persist, admission */

/* Blocks of the prompt that still have to be written keep their room in the buffer. */
static uint64_t unpersisted_bytes(const struct decode_request *r)
{
    return r->persisted ? 0 : new_prompt_blocks(r) * kv_full_block_bytes(kv_of(r));
}

static void prompt_durable(struct decode_request *r)
{
    if (r->owner->node.cluster->shared_prefixes) {
        tell_client(r, MSG_PROMPT_DURABLE);
    }
    r->persisted = true;
}

static void prompt_persisted(struct dp_op *op)
{
    struct decode_request *r = container_of(op, struct decode_request, persist);
    struct decode_node *dn = r->owner;
    if (!node_op_ok(&dn->node, op, r->start.r.request)) {
        return;
    }
    dn->persisted_blocks += op->parts_total;
    if (r->admitted) {
        space_give(&dn->dram, &r->dram, unpersisted_bytes(r));
    }
    prompt_durable(r);
    forget_if_over(r);
}

static void persist_prompt(struct decode_request *r)
{
    if (new_prompt_blocks(r) == 0) {
        prompt_durable(r);
        return;
    }
    r->persist = (struct dp_op){.kind = DP_STORAGE_WRITE,
                                .traffic_class = DP_CLASS_PERSIST,
                                .chain = chain_of(r),
                                .done = prompt_persisted};
    struct dp_place dram = place(r, DP_DRAM);
    kv_shape_blocks(&r->persist, kv_of(r), r->start.r.hit_tok / kv_of(r)->block_tok,
                    new_prompt_blocks(r), dram, dram);
    node_submit(&r->owner->node, &r->persist, r->start.r.request);
}

/* The prompt's KV is where it will be used: what is durable of it leaves the buffer. */
static void leave_buffer(struct decode_request *r)
{
    r->admitted = true;
    space_give(&r->owner->dram, &r->dram, r->dram.amount - unpersisted_bytes(r));
}

static void admitted(struct dp_op *op)
{
    struct decode_request *r = container_of(op, struct decode_request, admit);
    if (!node_op_ok(&r->owner->node, op, r->start.r.request)) {
        return;
    }
    leave_buffer(r);
    decode(r);
}

static void hbm_granted(struct space_claim *claim)
{
    struct decode_request *r = container_of(claim, struct decode_request, hbm);
    r->admit = (struct dp_op){.kind = DP_COPY, .traffic_class = DP_CLASS_ADMIT, .done = admitted};
    kv_shape_blocks(&r->admit, kv_of(r), 0, kv_blocks(kv_of(r), r->start.r.prompt_tok),
                    place(r, DP_DRAM), place(r, DP_HBM));
    node_submit(&r->owner->node, &r->admit, r->start.r.request);
}

static void on_prompt_kv(struct decode_request *r)
{
    struct decode_node *dn = r->owner;
    const struct msg_request *q = &r->start.r;
    persist_prompt(r);
    if (q->gen_tok == 1) {
        /* The prefill's token was the only one: nothing to decode. */
        leave_buffer(r);
        r->finished = true;
        give_hbm_if_over(r);
        forget_if_over(r);
        return;
    }
    r->hbm.amount = cluster_decode_blocks(dn->node.cluster, q->prompt_tok, q->gen_tok);
    r->hbm.granted = hbm_granted;
    int rc = space_ask(&dn->hbm[r->start.decode_gpu], &r->hbm);
    if (rc) {
        node_fault(&dn->node, q->request, rc, "HBM");
    }
}

static void send_pushed(struct decode_request *r)
{
    struct msg m = {.type = MSG_PUSHED,
                    .u.pushed = {.request = r->start.r.request, .layers = r->push.parts_done}};
    node_send(&r->owner->node, MSG_NODE(r->start.prefill_node), &m);
}

static void push_progress(struct dp_op *op)
{
    struct decode_request *r = container_of(op, struct decode_request, push);
    uint32_t next = op->notify_at + r->push_every;
    op->notify_at = next < op->parts_total ? next : op->parts_total;
    send_pushed(r);
}

static void push_done(struct dp_op *op)
{
    struct decode_request *r = container_of(op, struct decode_request, push);
    node_op_ok(&r->owner->node, op, r->start.r.request); /* progress has told of the last layer */
}

static void on_push(struct decode_request *r, const struct msg_push *m)
{
    struct dp_place gpu = {.node = r->start.prefill_node,
                           .gpu = r->start.prefill_gpu,
                           .tier = DP_HBM,
                           .offset_bytes = m->gpu_offset_bytes};
    r->push_every = m->notify_every;
    r->push = (struct dp_op){.kind = DP_COPY,
                             .traffic_class = DP_CLASS_LOAD,
                             .parts_ready = kv_of(r)->n_layers,
                             .done = push_done,
                             .progress = push_progress,
                             .notify_at = m->notify_at};
    kv_shape_layers(&r->push, kv_of(r), m->first_tok, m->n_tok, place(r, DP_DRAM), gpu);
    node_submit(&r->owner->node, &r->push, r->start.r.request);
}

static void send_ready(struct decode_request *r)
{
    struct msg m = {.type = MSG_DECODE_READY,
                    .u.decode_ready = {.start = r->start,
                                       .decode_offset_bytes = place(r, DP_DRAM).offset_bytes,
                                       .alloc_ns = r->alloc_ns,
                                       .read_ns = r->read_ns}};
    node_send(&r->owner->node, MSG_NODE(r->start.prefill_node), &m);
}

static void read_done(struct dp_op *op)
{
    struct decode_request *r = container_of(op, struct decode_request, read);
    struct node *n = &r->owner->node;
    if (!node_op_ok(n, op, r->start.r.request)) {
        return;
    }
    n->report.read_done_tok += r->start.r.hit_tok;
    r->read_ns = now_ns(r) - op->submit_ns;
    send_ready(r);
}

static void dram_granted(struct space_claim *claim)
{
    struct decode_request *r = container_of(claim, struct decode_request, dram);
    r->alloc_ns = now_ns(r) - r->asked_ns;
    if (!r->start.read_on_decode || r->start.r.hit_tok == 0) {
        send_ready(r);
        return;
    }
    struct dp_place dram = place(r, DP_DRAM);
    r->read = (struct dp_op){.kind = DP_STORAGE_READ,
                             .traffic_class = DP_CLASS_READ,
                             .chain = chain_of(r),
                             .done = read_done};
    kv_shape_blocks(&r->read, kv_of(r), 0, r->start.r.hit_tok / kv_of(r)->block_tok, dram, dram);
    node_submit(&r->owner->node, &r->read, r->start.r.request);
}

static void on_start(struct decode_node *dn, const struct msg_start *start)
{
    uint32_t index;
    struct decode_request *r = pool_get(&dn->requests, &index);
    r->owner = dn;
    r->index = index;
    r->start = *start;
    idmap_put(&dn->by_id, start->r.request, index);
    r->asked_ns = now_ns(r);
    r->dram.amount = kv_room_bytes(kv_of(r), start->r.prompt_tok);
    r->dram.granted = dram_granted;
    int rc = space_ask(&dn->dram, &r->dram);
    if (rc) {
        node_fault(&dn->node, start->r.request, rc, "decode buffer");
    }
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
    switch (m->type) {
    case MSG_START:
        on_start(dn, &m->u.start);
        break;
    case MSG_PUSH:
        on_push(find(dn, m->u.push.request), &m->u.push);
        break;
    case MSG_PROMPT_KV:
        on_prompt_kv(find(dn, m->u.prompt_kv.request));
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
    pool_init(&dn->block_writes, sizeof(struct block_write));
    idmap_init(&dn->by_id);
    dn->hbm = calloc(cluster->gpus_per_node, sizeof(*dn->hbm));
    if (!dn->hbm) {
        decode_node_done(dn);
        return -ENOMEM;
    }
    for (uint32_t gpu = 0; gpu < cluster->gpus_per_node; gpu++) {
        space_init(&dn->hbm[gpu], ports->loop, cluster->decode_hbm_blocks);
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
    for (uint32_t gpu = 0; dn->hbm && gpu < dn->node.cluster->gpus_per_node; gpu++) {
        space_done(&dn->hbm[gpu]);
    }
    free(dn->hbm);
    dn->hbm = NULL;
    space_done(&dn->dram);
    space_done(&dn->staging);
    pool_done(&dn->requests);
    pool_done(&dn->block_writes);
    idmap_done(&dn->by_id);
}
