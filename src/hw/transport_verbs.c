/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/transport_verbs.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "hw/verbs_internal.h"

static struct transport_verbs *transport_of(const struct verbs_send *s)
{
    return s->lane->link->t;
}

static bool posted_all(const struct verbs_send *s)
{
    return s->next_part == s->op->parts_total;
}

static bool can_post(const struct verbs_send *s)
{
    return !s->cancelled && s->next_part < s->op->parts_ready;
}

/* Posting waits for the end of the callback, so that
 * one doorbell serves all that it submits and feeds. */
static void make_eager(struct verbs_lane *lane)
{
    struct transport_verbs *t = lane->link->t;
    if (lane->link->up && list_empty(&lane->eager)) {
        list_add_tail(&t->eager, &lane->eager);
    }
    if (!list_empty(&t->eager) && !loop_armed(&t->post_timer)) {
        loop_post(t->loop, &t->post_timer);
    }
}

static void make_sendable(struct verbs_send *s)
{
    if (can_post(s) && list_empty(&s->link)) {
        list_add_tail(&s->lane->sendable, &s->link);
        make_eager(s->lane);
    }
}

/* Takes the op out of its slot, which is free again before done() runs. */
static struct dp_op *release(struct verbs_send *s)
{
    struct dp_op *op = s->op;
    struct verbs_link *k = s->lane->link;
    loop_disarm(k->t->loop, &s->end_timer);
    list_remove(&s->link);
    list_add_tail(&k->idle, &s->link);
    s->op = NULL;
    s->failing = false;
    k->n_in_flight--;
    op->done_ns = wall_now_ns();
    return op;
}

static void finish(struct verbs_send *s, int status)
{
    struct transport_verbs *t = transport_of(s);
    mover_done(&t->mover, release(s), status);
}

void verbs_send_end_fires(struct loop_timer *timer)
{
    finish(container_of(timer, struct verbs_send, end_timer), -ECANCELED);
}

/* Resets the queue pairs, so that the device is done with the memory, and ends every op on them. */
static void fail_link(struct verbs_link *k, int code, const char *what)
{
    uint32_t depth = k->t->options.depth;
    verbs_link_reset(k);
    for (uint32_t i = 0; i < depth; i++) {
        k->sends[i].failing = k->sends[i].op != NULL;
        if (k->sends[i].op) {
            list_remove(&k->sends[i].link);
        }
    }
    for (uint32_t i = 0; i < depth; i++) {
        if (k->sends[i].failing) {
            mover_fail(&k->t->mover, release(&k->sends[i]), code,
                       "node %" PRIu32 ": RDMA write: %s", k->index, what);
        }
    }
}

static uint64_t request_id(const struct verbs_lane *lane, uint32_t mark)
{
    return (uint64_t)lane->epoch << 48 | (uint64_t)lane->index << 24 | mark;
}

/* One work request: the rest of a piece, or a chunk of it. */
static void add_request(struct verbs_send *s, uint32_t i, uint64_t id)
{
    struct transport_verbs *t = transport_of(s);
    struct piece p = op_piece(s->op, s->next_part, s->next_segment);
    uint32_t most = t->device.max_message_bytes;
    most = most < VERBS_CHUNK_BYTES ? most : VERBS_CHUNK_BYTES;
    uint64_t left = p.len_bytes - s->next_byte;
    uint32_t len = left < most ? (uint32_t)left : most;
    uint64_t at = p.at_bytes + s->next_byte;
    bool is_inline = s->can_inline && len <= s->lane->inline_bytes;
    t->sges[i] = (struct ibv_sge){.addr = s->src_base + at, .length = len, .lkey = s->lkey};
    t->wrs[i] = (struct ibv_send_wr){
        .wr_id = id,
        .sg_list = &t->sges[i],
        .num_sge = 1,
        .opcode = IBV_WR_RDMA_WRITE,
        .send_flags = is_inline ? IBV_SEND_INLINE : 0,
        .wr.rdma = {.remote_addr = s->dst_base + at, .rkey = s->rkey},
    };
    t->n_inline += is_inline;
    s->lane->unsignalled_bytes += len;
    s->next_byte += len;
    if (s->next_byte == p.len_bytes) {
        bool ends_part = s->next_segment + 1 == s->op->segments;
        s->next_byte = 0;
        s->next_segment = ends_part ? 0 : s->next_segment + 1;
        s->next_part += ends_part;
    }
}

static struct verbs_mark *new_mark(struct verbs_lane *lane, uint32_t *ret_index)
{
    uint32_t depth = lane->link->t->options.send_depth;
    assert(lane->n_marks < depth);
    *ret_index = (lane->first_mark + lane->n_marks++) % depth;
    return &lane->marks[*ret_index];
}

/* The rest of one part of s, as far as there is room. Returns the batch's length. */
static uint32_t add_run(struct verbs_send *s, uint32_t n, uint32_t room)
{
    uint32_t mark_index, first = n, part = s->next_part;
    struct verbs_mark *mark = new_mark(s->lane, &mark_index);
    if (s->op->start_ns == 0) {
        s->op->start_ns = wall_now_ns();
    }
    while (n < room && can_post(s) && s->next_part == part) {
        add_request(s, n++, request_id(s->lane, mark_index));
    }
    if (s->lane->unsignalled_bytes >= VERBS_SIGNAL_BYTES) {
        s->lane->link->t->wrs[n - 1].send_flags |= IBV_SEND_SIGNALED;
        s->lane->unsignalled_bytes = 0;
    }
    *mark = (struct verbs_mark){.send = s, .n_requests = n - first, .parts = s->next_part};
    s->n_marks++;
    return n;
}

/* This turn's poller has looked already, and asked nobody to tell: without another turn the loop
 * would sleep through what is posted now. */
static void look_again(struct transport_verbs *t)
{
    t->last_completion_ns = wall_now_ns(); /* spin from here: it may complete soon */
    if (!loop_armed(&t->post_timer)) {
        loop_post(t->loop, &t->post_timer);
    }
}

static int ring_doorbell(struct verbs_lane *lane, uint32_t n)
{
    struct transport_verbs *t = lane->link->t;
    struct ibv_send_wr *bad;
    for (uint32_t i = 0; i + 1 < n; i++) {
        t->wrs[i].next = &t->wrs[i + 1];
    }
    t->wrs[n - 1].next = NULL;
    t->wrs[n - 1].send_flags |= IBV_SEND_SIGNALED;
    lane->unsignalled_bytes = 0;
    lane->n_posted += n;
    t->n_posted += n;
    t->n_requests += n;
    t->n_doorbells++;
    int rc = ibv_post_send(lane->qp, t->wrs, &bad);
    look_again(t);
    return rc;
}

/* Parts of the ops in turn, until the queue pair is full or there is nothing left. */
static void post_lane(struct verbs_lane *lane)
{
    uint32_t depth = lane->link->t->options.send_depth;
    struct list *first;
    while (!list_empty(&lane->sendable) && lane->n_posted < depth) {
        uint32_t room = depth - lane->n_posted < VERBS_BATCH ? depth - lane->n_posted : VERBS_BATCH;
        uint32_t n = 0;
        while (n < room && (first = list_first(&lane->sendable))) {
            struct verbs_send *s = container_of(first, struct verbs_send, link);
            list_remove(first);
            n = add_run(s, n, room);
            if (can_post(s)) {
                list_add_tail(&lane->sendable, first);
            }
        }
        int rc = ring_doorbell(lane, n);
        if (rc) {
            fail_link(lane->link, -EIO, strerror(rc));
            return;
        }
    }
}

static void post_fires(struct loop_timer *timer)
{
    struct transport_verbs *t = container_of(timer, struct transport_verbs, post_timer);
    struct list *first;
    while ((first = list_first(&t->eager))) {
        list_remove(first);
        post_lane(container_of(first, struct verbs_lane, eager));
    }
}

static struct verbs_lane *lane_of(struct transport_verbs *t, uint64_t id)
{
    uint32_t index = (uint32_t)(id >> 24) & 0xffffff;
    struct verbs_link *k = t->links[index / DP_N_CLASSES];
    struct verbs_lane *lane = k ? &k->lanes[index % DP_N_CLASSES] : NULL;
    return lane && lane->epoch == (uint16_t)(id >> 48) ? lane : NULL;
}

static void run_arrived(struct verbs_send *s, uint32_t parts)
{
    s->n_marks--;
    if (parts == s->op->parts_total) {
        finish(s, 0);
        return;
    }
    dp_backend_progress(transport_of(s)->mover.dp, s->op, parts); /* may feed or cancel */
    if (s->cancelled && s->n_marks == 0) {
        finish(s, -ECANCELED);
    }
}

/* A queue pair completes in order: the signalled request stands for all before it. */
static void complete_through(struct verbs_lane *lane, uint32_t mark_index)
{
    uint32_t depth = lane->link->t->options.send_depth;
    for (bool last = false; !last && lane->n_marks > 0;) {
        struct verbs_mark m = lane->marks[lane->first_mark];
        last = lane->first_mark == mark_index;
        lane->first_mark = (lane->first_mark + 1) % depth;
        lane->n_marks--;
        lane->n_posted -= m.n_requests;
        lane->link->t->n_posted -= m.n_requests;
        if (m.send) {
            run_arrived(m.send, m.parts);
        }
    }
    if (!list_empty(&lane->sendable)) {
        make_eager(lane);
    }
}

static bool is_death(enum ibv_wc_status s)
{
    return s == IBV_WC_RETRY_EXC_ERR || s == IBV_WC_RNR_RETRY_EXC_ERR || s == IBV_WC_WR_FLUSH_ERR ||
           s == IBV_WC_REM_ABORT_ERR || s == IBV_WC_RESP_TIMEOUT_ERR;
}

static void take_completion(struct transport_verbs *t, const struct ibv_wc *wc)
{
    struct verbs_lane *lane = lane_of(t, wc->wr_id);
    if (!lane) {
        return; /* of a connection that has been given up */
    }
    if (wc->status == IBV_WC_SUCCESS) {
        complete_through(lane, (uint32_t)wc->wr_id & 0xffffff);
    } else {
        fail_link(lane->link, is_death(wc->status) ? -ECONNRESET : -EIO,
                  ibv_wc_status_str(wc->status));
    }
}

static unsigned drain(struct transport_verbs *t)
{
    struct ibv_wc wcs[32];
    unsigned total = 0;
    int n;
    while (total < 1024 && (n = ibv_poll_cq(t->device.cq, 32, wcs)) > 0) {
        for (int i = 0; i < n; i++) {
            take_completion(t, &wcs[i]);
        }
        total += (unsigned)n;
    }
    return total;
}

/* Looks; keeps the loop awake for spin_ns; then asks the channel to tell and looks once more, for
 * what came in between. */
static unsigned poll_completions(struct loop_poller *p)
{
    struct transport_verbs *t = container_of(p, struct transport_verbs, poller);
    unsigned n = t->n_posted > 0 ? drain(t) : 0;
    if (n > 0) {
        t->last_completion_ns = wall_now_ns();
        return n;
    }
    if (t->n_posted == 0 || t->armed) {
        return 0;
    }
    if (wall_now_ns() - t->last_completion_ns < t->options.spin_ns) {
        return 1;
    }
    t->armed = ibv_req_notify_cq(t->device.cq, 0) == 0;
    return t->armed ? drain(t) : 1;
}

static void channel_ready(struct wall_source *s, uint32_t events)
{
    struct transport_verbs *t = container_of(s, struct transport_verbs, channel_source);
    struct ibv_cq *cq;
    void *context;
    (void)events;
    if (ibv_get_cq_event(t->device.channel, &cq, &context) == 0) {
        ibv_ack_cq_events(cq, 1);
        t->armed = false;
        t->last_completion_ns = wall_now_ns();
    }
}

static void async_ready(struct wall_source *s, uint32_t events)
{
    struct transport_verbs *t = container_of(s, struct transport_verbs, async_source);
    struct ibv_async_event ev;
    (void)events;
    if (ibv_get_async_event(t->device.context, &ev) == 0) {
        mover_complain(&t->mover, -EIO, "RDMA device: %s", ibv_event_type_str(ev.event_type));
        ibv_ack_async_event(&ev);
    }
}

/* An empty write touches nothing at the other end, but must be acknowledged by it. */
static void probe_link(struct verbs_link *k)
{
    struct verbs_lane *lane = &k->lanes[0];
    uint32_t mark;
    for (unsigned c = 0; c < DP_N_CLASSES; c++) {
        if (k->lanes[c].n_posted > 0) {
            return; /* on its way to find out */
        }
    }
    *new_mark(lane, &mark) = (struct verbs_mark){.n_requests = 1};
    k->t->wrs[0] = (struct ibv_send_wr){
        .wr_id = request_id(lane, mark),
        .opcode = IBV_WR_RDMA_WRITE,
        .wr.rdma = {.remote_addr = k->remote[0].base, .rkey = k->remote[0].key},
    };
    int rc = ring_doorbell(lane, 1);
    if (rc) {
        fail_link(k, -EIO, strerror(rc));
    }
}

static void arm_keepalive(struct transport_verbs *t)
{
    if (!loop_armed(&t->keepalive_timer)) {
        loop_arm(t->loop, &t->keepalive_timer, loop_now_ns(t->loop) + t->options.keepalive_ns);
    }
}

static void keepalive_fires(struct loop_timer *timer)
{
    struct transport_verbs *t = container_of(timer, struct transport_verbs, keepalive_timer);
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        struct verbs_link *k = t->links[i];
        if (k && k->up && k->n_in_flight > 0) {
            arm_keepalive(t);
            probe_link(k);
        }
    }
}

static struct transport_verbs *of(struct mover *m)
{
    return container_of(m, struct transport_verbs, mover);
}

/* The far end's region of the op, or NULL when the op does not lie in it. */
static const struct verbs_region *find_remote(const struct verbs_link *k,
                                              const struct dp_place *dst, uint64_t span)
{
    uint32_t i = verbs_region_index(k->n_remote - 1, (enum dp_tier)dst->tier, dst->gpu);
    const struct verbs_region *r = i < k->n_remote ? &k->remote[i] : NULL;
    return r && span <= r->size_bytes && dst->offset_bytes <= r->size_bytes - span ? r : NULL;
}

static void begin(struct verbs_send *s, struct verbs_link *k, struct dp_op *op, const uint8_t *src,
                  const struct verbs_region *dst)
{
    const struct verbs_device *d = &k->t->device;
    uint32_t own = verbs_region_index(d->n_regions - 1, (enum dp_tier)op->src.tier, op->src.gpu);
    s->lane = &k->lanes[op->traffic_class];
    s->op = op;
    s->src_base = (uintptr_t)src;
    s->lkey = d->mrs[own]->lkey;
    s->can_inline = !verbs_region_memory(d, own)->on_gpu;
    s->dst_base = dst->base + op->dst.offset_bytes;
    s->rkey = dst->key;
    s->next_part = s->next_segment = 0;
    s->next_byte = 0;
    s->n_marks = 0;
    s->cancelled = false;
    op->private_words[0] = (uint64_t)(uintptr_t)s;
    k->n_in_flight++;
    arm_keepalive(k->t);
    make_sendable(s);
}

static int verbs_submit(struct mover *m, struct dp_op *op)
{
    struct transport_verbs *t = of(m);
    uint64_t span;
    if (op->src.node != t->options.node || !op_span(op, &span)) {
        return -EINVAL;
    }
    struct verbs_link *k = op->dst.node < t->n_nodes ? t->links[op->dst.node] : NULL;
    if (!k || !k->up) {
        return k && k->was_up ? -ECONNRESET : -EHOSTUNREACH;
    }
    const uint8_t *src =
        memory_at(t->memory, (enum dp_tier)op->src.tier, op->src.gpu, op->src.offset_bytes, span);
    const struct verbs_region *dst = find_remote(k, &op->dst, span);
    if (!src || !dst) {
        return -EFAULT;
    }
    struct list *first = list_first(&k->idle);
    if (!first) {
        return -EAGAIN;
    }
    list_remove(first);
    begin(container_of(first, struct verbs_send, link), k, op, src, dst);
    return 0;
}

static struct verbs_send *send_of(struct dp_op *op)
{
    return (struct verbs_send *)(uintptr_t)op->private_words[0];
}

static void verbs_feed(struct mover *m, struct dp_op *op)
{
    (void)m;
    if (!send_of(op)->failing) {
        make_sendable(send_of(op));
    }
}

/* What is posted cannot be called back; the op ends when it has completed. */
static void cancel_send(struct verbs_send *s)
{
    if (s->failing || s->cancelled || posted_all(s)) {
        return;
    }
    s->cancelled = true;
    list_remove(&s->link);
    if (s->n_marks == 0) {
        loop_post(transport_of(s)->loop, &s->end_timer);
    }
}

static void verbs_cancel(struct mover *m, struct dp_op *op)
{
    (void)m;
    cancel_send(send_of(op));
}

static void verbs_cancel_all(struct mover *m)
{
    struct transport_verbs *t = of(m);
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        for (uint32_t j = 0; t->links[i] && j < t->options.depth; j++) {
            if (t->links[i]->sends[j].op) {
                cancel_send(&t->links[i]->sends[j]);
            }
        }
    }
}

/* Its queue pairs are reset: writes of the node that are still on the way are refused. */
static void verbs_forget_node(struct mover *m, uint32_t node)
{
    struct transport_verbs *t = of(m);
    struct verbs_link *k = node < t->n_nodes ? t->links[node] : NULL;
    if (k && k->up) {
        fail_link(k, -ECONNRESET, "the node has died");
    }
}

static const struct mover_ops verbs_ops = {
    .name = "verbs",
    .submit = verbs_submit,
    .feed = verbs_feed,
    .cancel = verbs_cancel,
    .cancel_all = verbs_cancel_all,
    .forget_node = verbs_forget_node,
};

static void set_defaults(struct verbs_options *o)
{
    o->send_depth = o->send_depth ? o->send_depth : 256;
    o->keepalive_ns = o->keepalive_ns ? o->keepalive_ns : NS_PER_S;
    o->timeout = o->timeout ? o->timeout : 14;
    o->retries = o->retries ? o->retries : 6;
}

static int check_options(const struct verbs_options *o, uint32_t n_nodes, struct err *e)
{
    if (o->node >= n_nodes || n_nodes >= 0xffffff / DP_N_CLASSES || o->depth == 0 ||
        o->send_depth > 32768 || o->timeout > 31 || o->retries > 6) {
        return err_set(e, -EINVAL,
                       "verbs: node %" PRIu32 " of %" PRIu32 ", depth %" PRIu32 ", %" PRIu32
                       " requests per queue pair (up to 32768), timeout 2^%u (up to 31),"
                       " %u retries (up to 6)",
                       o->node, n_nodes, o->depth, o->send_depth, o->timeout, o->retries);
    }
    return 0;
}

static int watch(struct transport_verbs *t)
{
    t->channel_source = (struct wall_source){t->device.channel->fd, channel_ready};
    t->async_source = (struct wall_source){t->device.context->async_fd, async_ready};
    int rc = wall_driver_add(t->driver, &t->channel_source, EPOLLIN);
    return rc ? rc : wall_driver_add(t->driver, &t->async_source, EPOLLIN);
}

int transport_verbs_init(struct transport_verbs *t, struct loop *loop, struct wall_driver *driver,
                         const struct node_memory *memory, uint32_t n_nodes,
                         const struct verbs_options *options, struct err *e)
{
    int rc = check_options(options, n_nodes, e);
    if (rc) {
        return rc;
    }
    *t = (struct transport_verbs){.mover.ops = &verbs_ops,
                                  .options = *options,
                                  .loop = loop,
                                  .driver = driver,
                                  .memory = memory,
                                  .n_nodes = n_nodes,
                                  .poller.poll = poll_completions};
    set_defaults(&t->options);
    list_init(&t->eager);
    loop_timer_init(&t->post_timer, post_fires);
    loop_timer_init(&t->keepalive_timer, keepalive_fires);
    uint64_t entries = (uint64_t)(n_nodes + 1) * DP_N_CLASSES * t->options.send_depth;
    rc = verbs_device_open(&t->device, options->device, memory,
                           entries < INT32_MAX ? (int)entries : INT32_MAX, e);
    if (rc) {
        return rc;
    }
    loop_add_poller(loop, &t->poller);
    t->links = calloc(n_nodes + (size_t)1, sizeof(struct verbs_link *));
    rc = watch(t);
    rc = rc ? rc : t->links ? verbs_connect_loopback(t) : -ENOMEM;
    if (rc) {
        err_set(e, rc, "RDMA loopback: %s", strerror(-rc));
        transport_verbs_done(t);
    }
    return rc;
}

void transport_verbs_done(struct transport_verbs *t)
{
    for (uint32_t i = 0; t->links && i <= t->n_nodes; i++) {
        if (t->links[i]) {
            verbs_link_free(t->links[i]);
        }
    }
    free(t->links);
    loop_disarm(t->loop, &t->post_timer);
    loop_disarm(t->loop, &t->keepalive_timer);
    loop_remove_poller(&t->poller);
    wall_driver_remove(t->driver, &t->channel_source);
    wall_driver_remove(t->driver, &t->async_source);
    verbs_device_close(&t->device);
}
