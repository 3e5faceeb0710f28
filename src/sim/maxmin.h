/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Max-min fair rates of flows over shared resources, kept up to date incrementally.
 *
 * An allocation is max-min fair if and only if it is feasible and every flow either runs at its cap
 * or has a bottleneck: a saturated resource on which no other flow is faster (Bertsekas & Gallager,
 * Data Networks, 6.5.2). maxmin_solve() re-solves only the flows on what changed, holds the others,
 * and checks that certificate for everything the new rates touch; flows that lost it join the set,
 * and the set is solved again. The result is the max-min allocation itself, not an approximation.
 *
 * There is no time here: sim/network.h turns rates into bytes and events.
 */
#ifndef DUALPATH_SIM_MAXMIN_H
#define DUALPATH_SIM_MAXMIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

#define MAXMIN_MAX_LINKS 4
#define MAXMIN_NO_CAP    1e300

struct maxmin_resource {
    double capacity_Bps;
    double used_Bps;
    struct list links;       /* struct maxmin_link.node */
    uint32_t n_bottlenecked; /* flows whose bottleneck this is */
    /* Scratch of one solve. */
    bool dirty, in_scope, is_bottleneck;
    double residual_Bps, level_Bps;
    uint32_t n_open;
    uint32_t n_updates;
};

struct maxmin_link {
    struct list node;
    struct maxmin_flow *flow;
    struct maxmin_resource *resource;
};

struct maxmin_flow {
    double rate_Bps;
    double cap_Bps;                     /* MAXMIN_NO_CAP when there is none */
    struct maxmin_resource *bottleneck; /* NULL: runs at its cap, or not solved yet */
    struct maxmin_link links[MAXMIN_MAX_LINKS];
    uint8_t n_links;
    bool in_set, open, fresh;
    double old_rate_Bps;
    void *owner;
};

struct maxmin {
    struct maxmin_flow **set;       /* flows being solved */
    struct maxmin_resource **scope; /* resources of those flows */
    struct maxmin_resource **dirty;
    struct maxmin_flow **fresh; /* added since the last solve */
    uint32_t n_set, n_scope, n_dirty, n_fresh;
    uint32_t cap_set, cap_scope, cap_dirty, cap_fresh;
    uint64_t n_solves, n_rounds, n_flow_updates;
};

void maxmin_init(struct maxmin *m);
void maxmin_done(struct maxmin *m);

void maxmin_resource_init(struct maxmin_resource *r, double capacity_Bps);

/* flow->cap_Bps and flow->owner are the caller's; resources must be distinct, n <=
 * MAXMIN_MAX_LINKS. The rate is 0 until the next maxmin_solve(). Adding and removing only mark what
 * has changed. */
void maxmin_add(struct maxmin *m, struct maxmin_flow *flow,
                struct maxmin_resource *const *resources, unsigned n);
void maxmin_remove(struct maxmin *m, struct maxmin_flow *flow);
void maxmin_set_capacity(struct maxmin *m, struct maxmin_resource *r, double capacity_Bps);

/* Calls changed(flow, arg) for every flow whose rate is another one than before. */
void maxmin_solve(struct maxmin *m, void (*changed)(struct maxmin_flow *flow, void *arg),
                  void *arg);

/* The certificate for one resource and its flows, to a relative tolerance: none above its cap, none
 * below its fair share. For tests; built with DUALPATH_CHECK_CERTIFICATE (meson option
 * check_certificate, on in debug builds) maxmin_solve() asserts it for all that it has touched. */
bool maxmin_certified(const struct maxmin_resource *r, double tolerance);

#endif
