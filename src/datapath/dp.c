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

int dp_submit_or_wait(struct dp *dp, struct dp_op *op)
{
    if (!op_is_sound(op)) {
        return -EINVAL;
    }
    int rc = list_empty(&dp->blocked) ? start(dp, op) : -EAGAIN;
    if (rc == -EAGAIN) {
        op->waiting = true;
        op->cancelled = false;
        list_add_tail(&dp->blocked, &op->blocked);
        return 0;
    }
    return rc;
}

/* Room may have come: the first in line go first. An op that the backend now refuses for another
 * reason ends with that error. */
static void start_blocked(struct dp *dp)
{
    while (!list_empty(&dp->blocked)) {
        struct dp_op *op = container_of(list_first(&dp->blocked), struct dp_op, blocked);
        int rc = op->cancelled ? -ECANCELED : start(dp, op);
        if (rc == -EAGAIN) {
            return;
        }
        list_remove(&op->blocked);
        op->waiting = false;
        if (rc) {
            op->status = rc;
            op->done(op);
        }
    }
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
