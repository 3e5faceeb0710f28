/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sched/decode_engine.h"

#include "sched/decode_kept.h"

static const struct kv_layout *kv_of(const struct decode_request *r)
{
    return &r->owner->node.cluster->kv;
}

static const struct kv_layout *stored_of(const struct decode_request *r)
{
    return &r->owner->node.cluster->stored;
}

struct dp_place decode_request_place(const struct decode_request *r, enum dp_tier tier)
{
    uint64_t slot = tier == DP_DRAM ? r->dram.slot : r->hbm.slot;
    return (struct dp_place){.node = r->owner->node.id,
                             .gpu = r->start.decode_gpu,
                             .tier = (uint16_t)tier,
                             .offset_bytes = slot * r->owner->node.cluster->span_bytes};
}

uint32_t decode_request_full_blocks(const struct decode_request *r)
{
    return r->start.r.prompt_tok / kv_of(r)->block_tok;
}

static void tell_client(struct decode_request *r, enum msg_type type)
{
    struct msg m = {.type = (uint16_t)type, .u.event = {.request = r->start.r.request}};
    m.u.event.tok = 1 + r->sequence.steps_done;
    node_send(&r->owner->node, MSG_CLIENT, &m);
}

/* The end */

static void forget(struct decode_request *r)
{
    struct decode_node *dn = r->owner;
    bool doomed = r->doomed;
    list_remove(&r->node);
    idmap_remove(&dn->by_id, r->start.r.request);
    pool_put(&dn->requests, r->index);
    dn->node.n_doomed -= doomed;
    if (doomed) {
        node_tell_if_clear(&dn->node);
    }
}

void decode_request_forget_if_over(struct decode_request *r)
{
    if (!r->finished || !r->persisted || !r->admitted || r->n_writing > 0) {
        return;
    }
    tell_client(r, MSG_DURABLE);
    forget(r);
}

static void report_done(struct decode_request *r)
{
    const struct msg_request *q = &r->start.r;
    struct node *n = &r->owner->node;
    uint64_t promised = cluster_decode_blocks(n->cluster, q->prompt_tok, q->gen_tok);
    n->report.done_tok[r->start.decode_gpu] += q->prompt_tok + q->gen_tok;
    n->report.done_requests[r->start.decode_gpu]++;
    n->report.done_blocks[r->start.decode_gpu] +=
        n->cluster->promise_decode_hbm ? promised : r->hbm.amount;
}

static bool is_under_way(const struct decode_request *r)
{
    bool pushing = false;
    for (unsigned i = 0; i < MSG_MAX_PUSHES; i++) {
        pushing |= dp_op_active(&r->pushes[i].op);
    }
    return pushing || dp_op_active(&r->read) || dp_op_active(&r->admit) ||
           dp_op_active(&r->persist) || r->sequence.joined || r->n_writing > 0;
}

/* For the scheduler it is done: its engine, its room and its read are free again. */
void decode_request_settle(struct decode_request *r)
{
    struct decode_node *dn = r->owner;
    if (!r->cancelled || is_under_way(r)) {
        return;
    }
    if (!r->read_over) {
        dn->node.report.read_done_tok += r->start.decode_tok - r->start.kept_tok;
    }
    r->hbm.amount = r->hbm.held ? r->hbm.amount : 0;
    report_done(r);
    if (r->dram.held) {
        space_give(&dn->dram, &r->dram, r->dram.amount);
    }
    if (r->hbm.held) {
        space_give(&dn->hbm[r->start.decode_gpu], &r->hbm, r->hbm.amount);
    }
    forget(r);
}

/* The whole context is there if anything was decoded, save the last block that is not full. */
static void leave_hbm(struct decode_request *r)
{
    struct decode_node *dn = r->owner;
    struct space *hbm = &dn->hbm[r->start.decode_gpu];
    uint32_t blocks = (r->start.r.prompt_tok + r->start.r.gen_tok - 1) / kv_of(r)->block_tok;
    bool keep = dn->node.cluster->reuse == CLUSTER_REUSE_HBM && blocks > 0;
    space_give(hbm, &r->hbm, r->hbm.amount - (keep && r->hbm.amount > 0 ? blocks : 0));
    if (r->hbm.amount > 0) {
        decode_kept_put(r, &r->hbm, blocks * kv_of(r)->block_tok);
    }
}

static void give_hbm_if_over(struct decode_request *r)
{
    if (!r->finished || r->n_copying > 0) {
        return;
    }
    report_done(r);
    leave_hbm(r);
}

void decode_request_prompt_durable(struct decode_request *r)
{
    if (r->owner->node.cluster->shared_prefixes) {
        tell_client(r, MSG_PROMPT_DURABLE);
    }
    r->persisted = true;
}

/* Persisting blocks from HBM */

static void block_written(struct dp_op *op)
{
    struct block_write *w = container_of(op, struct block_write, op);
    struct block_copy *c = w->copy;
    struct decode_request *r = c->request;
    struct decode_node *dn = r->owner;
    if (!node_op_ok(&dn->node, op, r->start.r.request)) {
        return;
    }
    space_give(&dn->staging, &c->staging, kv_full_block_bytes(stored_of(r)));
    bool of_prompt = op->chain.first_block < decode_request_full_blocks(r);
    pool_put(&dn->block_writes, w->index);
    if (c->staging.amount == 0) {
        pool_put(&dn->block_copies, c->index);
    }
    dn->persisted_blocks++;
    r->n_writing--;
    if (r->cancelled) {
        decode_request_settle(r);
        return;
    }
    if (of_prompt && --r->n_writing_prompt == 0) {
        decode_request_prompt_durable(r);
    }
    decode_request_forget_if_over(r);
}

/* Blocks that are copied at once: of a prompt half the buffer, for the other half to be written
 * meanwhile. */
static uint32_t most_blocks(const struct decode_node *dn)
{
    const struct cluster *c = dn->node.cluster;
    uint64_t half = dn->staging.capacity / 2 / kv_full_block_bytes(&c->stored);
    half = half < UINT32_MAX ? half : UINT32_MAX;
    return c->decode_in_hbm && half > 1 ? (uint32_t)half : 1;
}

static struct dp_place staging_place(const struct block_copy *c)
{
    const struct decode_node *dn = c->request->owner;
    const struct cluster *cluster = dn->node.cluster;
    uint64_t slot_bytes = most_blocks(dn) * kv_full_block_bytes(&cluster->stored);
    struct dp_place p = decode_request_place(c->request, DP_DRAM);
    p.offset_bytes = cluster->staging_offset_bytes + c->staging.slot * slot_bytes;
    return p;
}

static void write_block(struct block_copy *c, uint32_t i)
{
    struct decode_request *r = c->request;
    struct dp_place staged = staging_place(c);
    uint32_t index;
    struct block_write *w = pool_get(&r->owner->block_writes, &index);
    w->copy = c;
    w->index = index;
    w->op = (struct dp_op){.kind = DP_STORAGE_WRITE,
                           .traffic_class = DP_CLASS_PERSIST,
                           .chain = node_chain(&r->start),
                           .done = block_written};
    kv_shape_blocks(&w->op, stored_of(r), i, 1, staged, staged);
    w->op.chain.first_block = c->first_block + i;
    node_submit(&r->owner->node, &w->op, r->start.r.request);
}

static void blocks_copied(struct dp_op *op)
{
    struct block_copy *c = container_of(op, struct block_copy, op);
    struct decode_request *r = c->request;
    if (!node_op_ok(&r->owner->node, op, r->start.r.request)) {
        return;
    }
    for (uint32_t i = 0; i < c->n_blocks; i++) {
        write_block(c, i);
    }
    r->n_copying -= c->n_blocks;
    give_hbm_if_over(r);
}

static void staging_granted(struct space_claim *claim)
{
    struct block_copy *c = container_of(claim, struct block_copy, staging);
    struct decode_request *r = c->request;
    struct dp_place from = decode_request_place(r, DP_HBM);
    from.offset_bytes += c->first_block * kv_full_block_bytes(kv_of(r));
    c->op =
        (struct dp_op){.kind = DP_COPY, .traffic_class = DP_CLASS_PERSIST, .done = blocks_copied};
    kv_shape_blocks(&c->op, stored_of(r), 0, c->n_blocks, from, staging_place(c));
    node_submit(&r->owner->node, &c->op, r->start.r.request);
}

static void copy_blocks(struct decode_request *r, uint32_t first_block, uint32_t n_blocks)
{
    struct decode_node *dn = r->owner;
    uint32_t index;
    struct block_copy *c = pool_get(&dn->block_copies, &index);
    c->request = r;
    c->index = index;
    c->first_block = first_block;
    c->n_blocks = n_blocks;
    c->staging = (struct space_claim){.amount = n_blocks * kv_full_block_bytes(stored_of(r)),
                                      .granted = staging_granted};
    r->n_copying += n_blocks;
    r->n_writing += n_blocks;
    int rc = space_ask(&dn->staging, &c->staging);
    if (rc) {
        node_fault(&dn->node, r->start.r.request, rc, "persist buffer");
    }
}

void decode_engine_persist(struct decode_request *r, uint32_t first_block, uint32_t n_blocks)
{
    uint32_t most = most_blocks(r->owner);
    for (uint32_t n; n_blocks > 0; first_block += n, n_blocks -= n) {
        n = n_blocks < most ? n_blocks : most;
        copy_blocks(r, first_block, n);
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

void decode_engine_skip(struct decode_request *r)
{
    r->finished = true;
    give_hbm_if_over(r);
    decode_request_forget_if_over(r);
}

static void finish(struct decode_request *r)
{
    r->finished = true;
    r->owner->generated_tok += r->sequence.steps_done;
    tell_client(r, MSG_FINISHED);
    give_hbm_if_over(r);
    decode_request_forget_if_over(r);
}

static void stepped(struct compute_sequence *s)
{
    struct decode_request *r = container_of(s, struct decode_request, sequence);
    if (s->status) {
        compute_leave(r->owner->node.ports.compute, s);
        node_fault(&r->owner->node, r->start.r.request, s->status, "decode");
        return;
    }
    if (r->cancelled) {
        compute_leave(r->owner->node.ports.compute, s);
        decode_request_settle(r);
        return;
    }
    uint32_t block = kv_of(r)->block_tok;
    uint32_t context = r->start.r.prompt_tok + s->steps_done;
    if (context % block == 0) {
        decode_engine_persist(r, context / block - 1, 1);
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

void decode_engine_run(struct decode_request *r)
{
    struct node *n = &r->owner->node;
    r->sequence = (struct compute_sequence){
        .engine = cluster_decode_engine(n->cluster, n->id, r->start.decode_gpu),
        .request = r->start.r.request,
        .context_tok = r->start.r.prompt_tok,
        .kv = {r->start.r.session, decode_request_place(r, DP_HBM).offset_bytes},
        .notify_at = next_mark(r, 0),
        .notify = stepped};
    int rc = compute_join(n->ports.compute, &r->sequence);
    if (rc) {
        node_fault(n, r->start.r.request, rc, "decode");
    }
}
