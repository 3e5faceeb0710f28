/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sched/compute.h"

#include <assert.h>
#include <errno.h>

int compute_forward(struct compute_port *port, struct compute_forward *f)
{
    if (f->in_flight || f->layers_total == 0 || f->layers_ready > f->layers_total || !f->done) {
        return -EINVAL;
    }
    f->layers_done = 0;
    f->status = 0;
    f->in_flight = true;
    int rc = port->ops->forward(port, f);
    f->in_flight = rc == 0;
    return rc;
}

void compute_feed(struct compute_port *port, struct compute_forward *f, uint32_t layers_ready)
{
    assert(f->in_flight && layers_ready <= f->layers_total);
    if (layers_ready > f->layers_ready) {
        f->layers_ready = layers_ready;
        port->ops->feed(port, f);
    }
}

int compute_join(struct compute_port *port, struct compute_sequence *s)
{
    if (s->joined || !s->notify || s->notify_at == 0) {
        return -EINVAL;
    }
    s->steps_done = 0;
    s->status = 0;
    s->joined = true;
    int rc = port->ops->join(port, s);
    s->joined = rc == 0;
    return rc;
}

void compute_leave(struct compute_port *port, struct compute_sequence *s)
{
    assert(s->joined);
    port->ops->leave(port, s);
    s->joined = false;
}

void compute_backend_progress(struct compute_forward *f, uint32_t layers_done)
{
    assert(f->in_flight && layers_done <= f->layers_total);
    f->layers_done = layers_done;
    if (f->progress && layers_done >= f->notify_at) {
        f->progress(f);
    }
}

void compute_backend_done(struct compute_forward *f, int status)
{
    assert(f->in_flight); /* exactly once */
    f->status = status;
    f->in_flight = false;
    f->done(f);
}
