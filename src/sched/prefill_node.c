/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sched/prefill_node.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "sched/prefill_engine.h"
#include "sched/prefill_kv.h"

static struct prefill_node *node_of(struct node *n)
{
    return container_of(n, struct prefill_node, node);
}

static struct prefill_request *find(struct prefill_node *pn, uint32_t request)
{
    uint32_t index;
    return idmap_get(&pn->by_id, request, &index) ? pool_at(&pn->requests, index) : NULL;
}

static void ready(struct prefill_request *r)
{
    r->ready_ns = loop_now_ns(r->owner->node.ports.loop);
    prefill_kv_bring(r);
}

static bool is_split(const struct prefill_request *r)
{
    return r->start.decode_tok > 0 && r->start.decode_tok < r->start.r.hit_tok;
}

static uint32_t own_tok(const struct prefill_request *r)
{
    return r->start.r.hit_tok - r->start.decode_tok;
}

/* A part of the hits is in its buffer. A split read lasts from the grant of buffer space here to
 * the end of the later part. */
static void part_read(struct prefill_request *r)
{
    if (--r->n_reading > 0) {
        return;
    }
    struct node *n = &r->owner->node;
    if (is_split(r)) {
        r->read_ns += loop_now_ns(n->ports.loop) - r->granted_ns;
    }
    ready(r);
}

static void read_done(struct dp_op *op)
{
    struct prefill_request *r = container_of(op, struct prefill_request, read);
    struct node *n = &r->owner->node;
    if (r->cancelled) {
        prefill_request_settle(r);
        return;
    }
    if (!node_op_ok(n, op, r->start.r.request)) {
        return;
    }
    n->report.read_done_tok += own_tok(r);
    r->read_over = true;
    if (!is_split(r)) {
        r->alloc_ns += op->answer_ns;
        r->read_ns += loop_now_ns(n->ports.loop) - op->submit_ns - op->answer_ns;
    }
    part_read(r);
}

static void dram_granted(struct space_claim *claim)
{
    struct prefill_request *r = container_of(claim, struct prefill_request, dram);
    struct node *n = &r->owner->node;
    const struct kv_layout *stored = &n->cluster->stored;
    r->granted_ns = loop_now_ns(n->ports.loop);
    r->alloc_ns += r->granted_ns - r->asked_ns;
    struct dp_place to = prefill_hits_place(r);
    r->read = (struct dp_op){.kind = DP_STORAGE_READ,
                             .traffic_class = DP_CLASS_READ,
                             .chain = node_chain(&r->start),
                             .decode_engine = cluster_decode_engine(
                                 n->cluster, r->start.decode_node, r->start.decode_gpu),
                             .done = read_done};
    kv_shape_blocks(&r->read, stored, r->start.decode_tok / stored->block_tok,
                    own_tok(r) / stored->block_tok, to, to);
    node_submit(n, &r->read, r->start.r.request);
}

static struct prefill_request *admit(struct prefill_node *pn, const struct msg_decode_ready *m)
{
    uint32_t index;
    struct prefill_request *r = pool_get(&pn->requests, &index);
    r->owner = pn;
    r->index = index;
    r->start = m->start;
    r->engine = &pn->engines[m->start.prefill_gpu];
    r->decode_offset_bytes = m->decode_offset_bytes;
    r->alloc_ns = m->alloc_ns;
    r->read_ns = m->read_ns;
    list_init(&r->ready_node);
    list_add_tail(&pn->all, &r->node);
    idmap_put(&pn->by_id, m->start.r.request, index);
    return r;
}

static void on_decode_ready(struct prefill_node *pn, const struct msg_decode_ready *m)
{
    struct prefill_request *r = admit(pn, m);
    if (own_tok(r) == 0) {
        ready(r);
        return;
    }
    r->n_reading = is_split(r) ? 2 : 1;
    r->asked_ns = loop_now_ns(pn->node.ports.loop);
    r->dram.amount = kv_room_bytes(&pn->node.cluster->stored, own_tok(r));
    r->dram.granted = dram_granted;
    int rc = space_ask(prefill_hits_space(r), &r->dram);
    if (rc) {
        node_fault(&pn->node, r->start.r.request, rc, "prefill buffer");
    }
}

void prefill_request_forget(struct prefill_request *r)
{
    struct prefill_node *pn = r->owner;
    bool doomed = r->cancelled;
    list_remove(&r->node);
    idmap_remove(&pn->by_id, r->start.r.request);
    pool_put(&pn->requests, r->index);
    pn->node.n_doomed -= doomed;
    if (doomed) {
        node_tell_if_clear(&pn->node);
    }
}

static void on_dead(struct prefill_node *pn, uint32_t dead)
{
    list_for_each_safe (pos, tmp, &pn->all) {
        struct prefill_request *r = container_of(pos, struct prefill_request, node);
        if (r->start.decode_node == dead) {
            pn->node.n_doomed++;
            prefill_request_cancel(r);
        }
    }
    node_take_death(&pn->node, dead);
    node_tell_if_clear(&pn->node);
}

/* EP groups */

struct prefill_group *prefill_group_of(struct prefill_node *pn, uint32_t gpu)
{
    const struct cluster *c = pn->node.cluster;
    uint32_t first = pn->node.id * c->gpus_per_node / c->prefill_ep_gpus;
    uint32_t group = (pn->node.id * c->gpus_per_node + gpu) / c->prefill_ep_gpus;
    return &pn->groups[group - first];
}

static struct prefill_group *group_by_id(struct prefill_node *pn, uint32_t id)
{
    assert(id >= pn->groups[0].id && id < pn->groups[0].id + pn->n_groups);
    return &pn->groups[id - pn->groups[0].id];
}

static void lead_forward(struct prefill_node *pn, struct prefill_group *g)
{
    g->running = true;
    g->wanted = false;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        struct msg m = {.type = MSG_EP_START, .u.ep = {.group = g->id, .node = pn->node.id}};
        node_send(&pn->node, MSG_NODE(g->first_node + i), &m);
    }
}

static void on_ep_ready(struct prefill_node *pn, const struct msg_ep *m)
{
    struct prefill_group *g = group_by_id(pn, m->group);
    g->wanted = true;
    if (!g->running) {
        lead_forward(pn, g);
    }
}

static void on_ep_start(struct prefill_node *pn, const struct msg_ep *m)
{
    const struct cluster *c = pn->node.cluster;
    struct prefill_group *g = group_by_id(pn, m->group);
    g->announced = false;
    g->n_local_running = g->n_local_to_start = g->n_local;
    pn->node.fetches_itself = c->fetch_at_forward;
    for (uint32_t gpu = 0; gpu < c->gpus_per_node; gpu++) {
        if (prefill_group_of(pn, gpu) == g) {
            prefill_engine_start(&pn->engines[gpu]);
        }
    }
}

void prefill_group_engine_started(struct prefill_node *pn, struct prefill_group *g)
{
    assert(g->n_local_to_start > 0);
    if (--g->n_local_to_start == 0 && pn->node.cluster->fetch_at_forward) {
        node_fetch(&pn->node);
    }
}

/* The node's engines are between two forwards: what they have finished is told, so that the fetch
 * of the next forward counts without it. */
static void forward_over(struct prefill_node *pn)
{
    bool running = false;
    for (uint32_t i = 0; i < pn->n_groups; i++) {
        running |= pn->groups[i].n_local_running > 0;
    }
    if (pn->node.cluster->fetch_at_forward) {
        pn->node.fetches_itself = running;
        if (pn->node.id % pn->node.cluster->prefill_group_nodes != 0) {
            node_fetch(&pn->node);
        }
    }
}

void prefill_group_engine_done(struct prefill_node *pn, struct prefill_group *g)
{
    assert(g->n_local_running > 0);
    if (--g->n_local_running > 0) {
        return;
    }
    forward_over(pn);
    if (g->first_node == pn->node.id) {
        g->running = false;
        if (g->wanted) {
            lead_forward(pn, g);
        }
    }
}

static void on_message(void *self, const struct msg *m)
{
    struct prefill_node *pn = node_of(self);
    if (node_ignores(&pn->node, m)) {
        return;
    }
    switch (m->type) {
    case MSG_DECODE_READY:
        on_decode_ready(pn, &m->u.decode_ready);
        break;
    case MSG_DECODE_READ:
        part_read(find(pn, m->u.decode_read.request));
        break;
    case MSG_PUSHED:
        prefill_kv_pushed(find(pn, m->u.pushed.request), m->u.pushed.stream, m->u.pushed.layers);
        break;
    case MSG_EP_READY:
        on_ep_ready(pn, &m->u.ep);
        break;
    case MSG_EP_START:
        on_ep_start(pn, &m->u.ep);
        break;
    case MSG_DEAD:
        on_dead(pn, m->u.dead.node);
        break;
    default:
        node_fault(&pn->node, 0, -EPROTO, "unexpected message at a prefill node");
    }
}

static int init_groups(struct prefill_node *pn)
{
    const struct cluster *c = pn->node.cluster;
    uint32_t first_engine = pn->node.id * c->gpus_per_node;
    uint32_t first = first_engine / c->prefill_ep_gpus;
    pn->n_groups = (first_engine + c->gpus_per_node - 1) / c->prefill_ep_gpus - first + 1;
    pn->groups = calloc(pn->n_groups, sizeof(*pn->groups));
    if (!pn->groups) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < pn->n_groups; i++) {
        struct prefill_group *g = &pn->groups[i];
        g->id = first + i;
        g->first_node = g->id * c->prefill_ep_gpus / c->gpus_per_node;
        uint32_t last_node = ((g->id + 1) * c->prefill_ep_gpus - 1) / c->gpus_per_node;
        g->n_nodes = last_node - g->first_node + 1;
    }
    for (uint32_t gpu = 0; gpu < c->gpus_per_node; gpu++) {
        prefill_group_of(pn, gpu)->n_local++;
    }
    return 0;
}

int prefill_node_init(struct prefill_node *pn, const struct cluster *cluster,
                      const struct node_ports *ports, uint32_t id)
{
    *pn = (struct prefill_node){0};
    node_init(&pn->node, cluster, ports, id);
    space_init(&pn->dram, ports->loop, cluster->dram_buffer_bytes);
    pool_init(&pn->requests, sizeof(struct prefill_request));
    idmap_init(&pn->by_id);
    list_init(&pn->all);
    pn->engines = calloc(cluster->gpus_per_node, sizeof(*pn->engines));
    if (!pn->engines || init_groups(pn)) {
        prefill_node_done(pn);
        return -ENOMEM;
    }
    for (uint32_t gpu = 0; gpu < cluster->gpus_per_node; gpu++) {
        prefill_engine_init(&pn->engines[gpu], pn, (uint16_t)gpu);
    }
    int rc = ports->messages->ops->attach(ports->messages, MSG_NODE(id), on_message, &pn->node);
    if (rc) {
        prefill_node_done(pn);
    }
    return rc;
}

void prefill_node_done(struct prefill_node *pn)
{
    node_stop(&pn->node);
    node_done(&pn->node);
    for (uint32_t gpu = 0; pn->engines && gpu < pn->node.cluster->gpus_per_node; gpu++) {
        prefill_engine_done(&pn->engines[gpu]);
    }
    free(pn->engines);
    free(pn->groups);
    space_done(&pn->dram);
    pool_done(&pn->requests);
    idmap_done(&pn->by_id);
    pn->engines = NULL;
    pn->groups = NULL;
}
