/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/transport_mem.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* An op is copied in batches of whole parts, each one visit to a worker: between two of them the
 * loop reports progress and sees a cancel. */
#define BATCH_BYTES ((uint64_t)4 << 20)

struct mem_move {
    struct work work;
    struct list idle;
    struct transport_mem *t;
    struct dp_op *op; /* NULL: idle */
    struct loop_timer cancel_timer;
    uint32_t copied;
    bool busy; /* with a worker, to whom the next fields belong meanwhile */
    bool cancelled;
    uint32_t from, to;
    uint8_t *dst;
    const uint8_t *src;
    uint64_t start_ns, end_ns;
};

static void copy_part(const struct mem_move *v, uint32_t part)
{
    for (uint32_t s = 0; s < v->op->segments; s++) {
        struct piece p = op_piece(v->op, part, s);
        memmove(v->dst + p.at_bytes, v->src + p.at_bytes, p.len_bytes);
    }
}

static void run_batch(struct work *w)
{
    struct mem_move *v = container_of(w, struct mem_move, work);
    v->start_ns = wall_now_ns();
    for (uint32_t p = v->from; p < v->to; p++) {
        copy_part(v, p);
    }
    v->end_ns = wall_now_ns();
}

/* Sends the next batch to a worker when there is one and the last has come back. */
static void start_batch(struct mem_move *v)
{
    uint32_t ready = v->op->parts_ready - v->copied;
    if (v->busy || v->cancelled || ready == 0) {
        return;
    }
    uint64_t fit = BATCH_BYTES / v->op->part_bytes;
    v->from = v->copied;
    v->to = v->copied + (fit == 0 ? 1 : fit < ready ? (uint32_t)fit : ready);
    v->busy = true;
    work_pool_push(v->t->pool, &v->work);
}

static void finish(struct mem_move *v, int status)
{
    struct dp_op *op = v->op;
    loop_disarm(v->t->loop, &v->cancel_timer);
    v->op = NULL;
    list_add_tail(&v->t->idle, &v->idle);
    mover_done(v->t->ends_as, op, status);
}

static void batch_done(struct work *w)
{
    struct mem_move *v = container_of(w, struct mem_move, work);
    struct dp_op *op = v->op;
    v->busy = false;
    op->start_ns = v->from == 0 ? v->start_ns : op->start_ns;
    op->done_ns = v->end_ns;
    v->copied = v->to;
    if (v->copied == op->parts_total) {
        finish(v, 0);
        return;
    }
    dp_backend_progress(v->t->ends_as->dp, op, v->copied); /* may feed or cancel */
    if (v->cancelled) {
        finish(v, -ECANCELED);
        return;
    }
    start_batch(v);
}

static void cancel_fires(struct loop_timer *timer)
{
    struct mem_move *v = container_of(timer, struct mem_move, cancel_timer);
    finish(v, -ECANCELED);
}

static void cancel_move(struct mem_move *v)
{
    v->cancelled = true;
    if (!v->busy) {
        loop_post(v->t->loop, &v->cancel_timer);
    }
}

static struct transport_mem *of(struct mover *m)
{
    return container_of(m, struct transport_mem, mover);
}

static struct mem_move *move_of(struct dp_op *op)
{
    return (struct mem_move *)(uintptr_t)op->private_words[0];
}

static int mem_submit(struct mover *m, struct dp_op *op)
{
    struct transport_mem *t = of(m);
    uint64_t span;
    if (!op_span(op, &span)) {
        return -EINVAL;
    }
    const uint8_t *src = memory_map_at(t->map, &op->src, span);
    uint8_t *dst = memory_map_at(t->map, &op->dst, span);
    if (!src || !dst) {
        return -EFAULT;
    }
    struct list *first = list_first(&t->idle);
    if (!first) {
        return -EAGAIN;
    }
    list_remove(first);
    struct mem_move *v = container_of(first, struct mem_move, idle);
    v->op = op;
    v->src = src;
    v->dst = dst;
    v->copied = 0;
    v->cancelled = false;
    op->private_words[0] = (uint64_t)(uintptr_t)v;
    start_batch(v);
    return 0;
}

static void mem_feed(struct mover *m, struct dp_op *op)
{
    (void)m;
    start_batch(move_of(op));
}

static void mem_cancel(struct mover *m, struct dp_op *op)
{
    (void)m;
    cancel_move(move_of(op));
}

static void mem_cancel_all(struct mover *m)
{
    struct transport_mem *t = of(m);
    for (uint32_t i = 0; i < t->depth; i++) {
        if (t->moves[i].op) {
            cancel_move(&t->moves[i]);
        }
    }
}

static const struct mover_ops mem_ops = {
    .name = "mem",
    .submit = mem_submit,
    .feed = mem_feed,
    .cancel = mem_cancel,
    .cancel_all = mem_cancel_all,
};

int transport_mem_init(struct transport_mem *t, struct loop *loop, struct work_pool *pool,
                       const struct memory_map *map, uint32_t depth, struct err *e)
{
    assert(depth > 0);
    *t = (struct transport_mem){
        .mover.ops = &mem_ops, .loop = loop, .pool = pool, .map = map, .depth = depth};
    t->ends_as = &t->mover;
    list_init(&t->idle);
    t->moves = calloc(depth, sizeof(*t->moves));
    if (!t->moves) {
        return err_nomem(e);
    }
    for (uint32_t i = 0; i < depth; i++) {
        struct mem_move *v = &t->moves[i];
        v->t = t;
        v->work = (struct work){.run = run_batch, .done = batch_done};
        loop_timer_init(&v->cancel_timer, cancel_fires);
        list_add_tail(&t->idle, &v->idle);
    }
    return 0;
}

void transport_mem_done(struct transport_mem *t)
{
    for (uint32_t i = 0; i < t->depth; i++) {
        assert(!t->moves[i].op);
    }
    free(t->moves);
    t->moves = NULL;
}
