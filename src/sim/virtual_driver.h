/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Virtual time: waiting jumps to the deadline. Ends the loop when nothing will ever happen, or on
 * request. */
#ifndef DUALPATH_SIM_VIRTUAL_DRIVER_H
#define DUALPATH_SIM_VIRTUAL_DRIVER_H

#include <stdatomic.h>

#include "base/loop.h"

struct virtual_driver {
    struct loop_driver driver;
    uint64_t now_ns;
    const atomic_bool
        *interrupted; /* NULL, or set by a signal handler: the loop then returns -ECANCELED */
    void (*tick)(
        void *arg); /* NULL, or called now and then (by number of waits): for a progress bar */
    void *tick_arg;
    uint32_t n_waits;
};

void virtual_driver_init(struct virtual_driver *d, const atomic_bool *interrupted,
                         void (*tick)(void *arg), void *tick_arg);

#endif
