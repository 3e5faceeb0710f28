/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/virtual_driver.h"

#include <errno.h>

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
    d->now_ns = deadline_ns;
    return 0;
}

static const struct loop_driver_ops ops = {.now_ns = now_ns, .wait = wait_until};

void virtual_driver_init(struct virtual_driver *d, const atomic_bool *interrupted)
{
    *d = (struct virtual_driver){.driver.ops = &ops, .interrupted = interrupted};
}
