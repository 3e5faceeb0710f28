/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "datapath/dp.h"

#include <assert.h>
#include <errno.h>

static bool pieces_add_up(const struct dp_op *op)
{
    uint64_t before_last, total;
    return op->segments > 0 &&
           !__builtin_mul_overflow(op->segment_bytes, op->segments - 1, &before_last) &&
           before_last < op->part_bytes && op->part_bytes - before_last <= op->segment_bytes &&
           !__builtin_mul_overflow(op->part_bytes, op->parts_total, &total);
}

static bool op_is_sound(const struct dp_op *op)
{
    if (op->in_flight || op->waiting || !op->done || op->part_bytes == 0 || op->parts_total == 0 ||
        op->parts_ready > op->parts_total || op->traffic_class >= DP_N_CLASSES ||
        !pieces_add_up(op)) {
        return false;
    }
    switch (op->kind) {
    case DP_STORAGE_READ:
        return true;
    case DP_STORAGE_WRITE:
        return op->src.tier == DP_DRAM;
    case DP_COPY:
        return op->src.node != op->dst.node || op->src.gpu != op->dst.gpu ||
               op->src.tier != op->dst.tier;
    }
    return false;
}

void dp_init(struct dp *dp, const struct dp_ops *ops)
{
    *dp = (struct dp){.ops = ops};
    list_init(&dp->blocked);
}

static int start(struct dp *dp, struct dp_op *op)
{
    op->parts_done = 0;
    op->answer_ns = 0;
    op->status = 0;
    op->in_flight = true;
    int rc = dp->ops->submit(dp, op);
    if (rc) {
        op->in_flight = false;
        return rc;
    }
    struct dp_account *a = &dp->accounts[op->traffic_class];
    a->ops_in++;
    a->bytes_in += dp_op_bytes(op);
    dp->n_in_flight++;
    return 0;
}

int dp_submit(struct dp *dp, struct dp_op *op)
{
    return op_is_sound(op) ? start(dp, op) : -EINVAL;
}

static bool same_line(const struct dp_op *a, const struct dp_op *b)
{
    bool copy = a->kind == DP_COPY;
    return copy == (b->kind == DP_COPY) && (!copy || a->dst.node == b->dst.node);
}

static struct dp_op *blocked_op(struct list *link)
{
    return container_of(link, struct dp_op, blocked);
}

/* The first of the line in which op would wait, or NULL. */
static struct dp_op *line_of(struct dp *dp, const struct dp_op *op)
{
    list_for_each (pos, &dp->blocked) {
        if (same_line(blocked_op(pos), op)) {
            return blocked_op(pos);
        }
    }
    return NULL;
}

int dp_submit_or_wait(struct dp *dp, struct dp_op *op)
{
    if (!op_is_sound(op)) {
        return -EINVAL;
    }
    struct dp_op *first = line_of(dp, op);
    int rc = first ? -EAGAIN : start(dp, op);
    if (rc == -EAGAIN) {
        op->waiting = true;
        op->cancelled = false;
        list_init(&op->line);
        list_add_tail(first ? &first->line : &dp->blocked, &op->blocked);
        return 0;
    }
    return rc;
}

/* Takes the first of a line out; the one behind it, if any, takes its place, and is returned. */
static struct dp_op *advance_line(struct dp_op *first)
{
    struct list *next = list_first(&first->line);
    first->waiting = false;
    if (!next) {
        list_remove(&first->blocked);
        return NULL;
    }
    list_remove(next);
    list_add_tail(&first->blocked, next); /* before it, that is, in its place */
    list_remove(&first->blocked);
    struct dp_op *second = blocked_op(next);
    list_init(&second->line);
    list_move_all(&first->line, &second->line);
    return second;
}

/* As many of the line as there is room for. An op that the backend now refuses for another reason
 * ends with that error. */
static void start_line(struct dp *dp, struct dp_op *first)
{
    while (first) {
        int rc = first->cancelled ? -ECANCELED : start(dp, first);
        if (rc == -EAGAIN) {
            return;
        }
        struct dp_op *op = first;
        first = advance_line(op);
        if (rc) {
            op->status = rc;
            op->done(op);
        }
    }
}

static void rotate(struct list *lines)
{
    struct list *first = list_first(lines);
    if (first) {
        list_remove(first);
        list_add_tail(lines, first);
    }
}

/* Room may have come: all lines have their turn, each time another one the first. */
static void start_blocked(struct dp *dp)
{
    unsigned n = 0;
    list_for_each (pos, &dp->blocked) {
        n++;
    }
    for (; n > 0 && !list_empty(&dp->blocked); n--) {
        struct dp_op *first = blocked_op(list_first(&dp->blocked));
        rotate(&dp->blocked);
        start_line(dp, first);
    }
    rotate(&dp->blocked);
}

void dp_feed(struct dp *dp, struct dp_op *op, uint32_t parts_ready)
{
    assert(parts_ready <= op->parts_total);
    if (parts_ready > op->parts_ready) {
        op->parts_ready = parts_ready;
        if (op->in_flight) {
            dp->ops->feed(dp, op);
        }
    }
}

void dp_cancel(struct dp *dp, struct dp_op *op)
{
    if (op->in_flight) {
        dp->ops->cancel(dp, op);
    } else if (op->waiting) {
        op->cancelled = true; /* it ends when its turn comes, with the next completion */
    }
}

void dp_forget_node(struct dp *dp, uint32_t node)
{
    if (dp->ops->forget_node) {
        dp->ops->forget_node(dp, node);
    }
}

static void report_progress(struct dp_op *op, uint32_t parts_done)
{
    assert(parts_done <= op->parts_ready);
    if (parts_done <= op->parts_done) {
        return;
    }
    op->parts_done = parts_done;
    if (op->progress && parts_done >= op->notify_at) {
        op->progress(op);
    }
}

void dp_backend_progress(struct dp *dp, struct dp_op *op, uint32_t parts_done)
{
    (void)dp;
    assert(op->in_flight);
    report_progress(op, parts_done);
}

void dp_backend_done(struct dp *dp, struct dp_op *op, int status)
{
    assert(op->in_flight); /* exactly once */
    assert(status != 0 || op->parts_ready == op->parts_total);
    struct dp_account *a = &dp->accounts[op->traffic_class];
    a->ops_out++;
    /* The backend has let go: a cancel from the last progress() is harmless. */
    op->in_flight = false;
    if (status == 0) {
        report_progress(op, op->parts_total);
        a->bytes_out += dp_op_bytes(op);
    } else {
        a->bytes_failed += dp_op_bytes(op);
    }
    dp->n_in_flight--;
    op->status = status;
    op->done(op);
    start_blocked(dp);
}

const char *dp_class_name(enum dp_class traffic_class)
{
    static const char *const names[DP_N_CLASSES] = {
        [DP_CLASS_READ] = "read",   [DP_CLASS_LOAD] = "load",       [DP_CLASS_STORE] = "store",
        [DP_CLASS_ADMIT] = "admit", [DP_CLASS_PERSIST] = "persist",
    };
    return names[traffic_class];
}
