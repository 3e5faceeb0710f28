/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/virtual_driver.h"

#include <errno.h>

#define WAITS_PER_TICK 16384u

static uint64_t now_ns(struct loop_driver *d)
{
    return ((struct virtual_driver *)d)->now_ns;
}

static int wait_until(struct loop_driver *driver, uint64_t deadline_ns)
{
    struct virtual_driver *d = (struct virtual_driver *)driver;
    if (deadline_ns == LOOP_NEVER || (d->interrupted && atomic_load(d->interrupted))) {
        return -ECANCELED;
    }
    if (d->tick && ++d->n_waits % WAITS_PER_TICK == 0) {
        d->tick(d->tick_arg);
    }
    d->now_ns = deadline_ns;
    return 0;
}

static const struct loop_driver_ops ops = {.now_ns = now_ns, .wait = wait_until};

void virtual_driver_init(struct virtual_driver *d, const atomic_bool *interrupted,
                         void (*tick)(void *arg), void *tick_arg)
{
    *d = (struct virtual_driver){
        .driver.ops = &ops, .interrupted = interrupted, .tick = tick, .tick_arg = tick_arg};
}
