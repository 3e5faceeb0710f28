/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/hw_dp.h"

#include <errno.h>

#include "base/list.h"

static struct hw_dp *of(struct dp *dp)
{
    return container_of(dp, struct hw_dp, dp);
}

static struct mover *mover_of(struct hw_dp *h, const struct dp_op *op)
{
    return op->kind == DP_COPY ? h->transport : h->storage;
}

static int hw_submit(struct dp *dp, struct dp_op *op)
{
    struct hw_dp *h = of(dp);
    struct mover *m = mover_of(h, op);
    if (h->stopping) {
        return -ESHUTDOWN;
    }
    if (!m) {
        return -ENODEV;
    }
    if (op->kind == DP_STORAGE_READ && op->dst.tier != DP_DRAM) {
        return -ENOTSUP; /* storage is read into host memory */
    }
    op->submit_ns = loop_now_ns(h->loop);
    op->start_ns = 0;
    op->done_ns = 0;
    return m->ops->submit(m, op);
}

static void hw_feed(struct dp *dp, struct dp_op *op)
{
    struct mover *m = mover_of(of(dp), op);
    m->ops->feed(m, op);
}

static void hw_cancel(struct dp *dp, struct dp_op *op)
{
    struct mover *m = mover_of(of(dp), op);
    m->ops->cancel(m, op);
}

static void hw_forget_node(struct dp *dp, uint32_t node)
{
    struct mover *m = of(dp)->transport;
    if (m->ops->forget_node) {
        m->ops->forget_node(m, node);
    }
}

static const struct dp_ops hw_dp_ops = {.name = "real",
                                        .submit = hw_submit,
                                        .feed = hw_feed,
                                        .cancel = hw_cancel,
                                        .forget_node = hw_forget_node};

void hw_dp_init(struct hw_dp *h, struct loop *loop, struct mover *transport, struct mover *storage)
{
    *h = (struct hw_dp){.loop = loop, .transport = transport, .storage = storage};
    dp_init(&h->dp, &hw_dp_ops);
    transport->dp = &h->dp;
    transport->faults = &h->faults;
    if (storage) {
        storage->dp = &h->dp;
        storage->faults = &h->faults;
    }
}

void hw_dp_stop(struct hw_dp *h)
{
    h->stopping = true;
    h->transport->ops->cancel_all(h->transport);
    if (h->storage) {
        h->storage->ops->cancel_all(h->storage);
    }
}
