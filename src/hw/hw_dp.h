/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The data path of a real machine: a `struct dp` whose copies go to a transport and whose storage
 * ops go to a store. One per process.
 *
 * Closing: hw_dp_stop(), then run the loop until dp.n_in_flight is 0, then free the movers.
 */
#ifndef DUALPATH_HW_HW_DP_H
#define DUALPATH_HW_HW_DP_H

#include "base/loop.h"
#include "datapath/dp.h"
#include "hw/mover.h"

struct hw_dp {
    struct dp dp;
    struct loop *loop;
    struct mover *transport; /* not owned */
    struct mover *storage;   /* not owned; NULL: storage ops get -ENODEV */
    struct hw_faults faults;
    bool stopping;
};

void hw_dp_init(struct hw_dp *h, struct loop *loop, struct mover *transport, struct mover *storage);

/* No op is accepted any more (-ESHUTDOWN); those in flight are cancelled. */
void hw_dp_stop(struct hw_dp *h);

#endif
