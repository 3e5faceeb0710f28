/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/units.h"
#include "hw/probe_internal.h"
#include "hw/transport_verbs.h"

/* hbm: NULL for host memory. */
static int copies(enum probe_what what, const struct probe_config *c,
                  const struct memory_region *hbm, struct probe_points *ps, struct err *e)
{
    struct probe_ground g;
    struct node_memory memory;
    struct transport_verbs t;
    struct hw_dp dp;
    const struct verbs_options o = {.depth = PROBE_COPY_DEPTH, .spin_ns = 20 * NS_PER_US};
    int rc = probe_ground_init(&g, 1, e);
    rc = rc ? rc : node_memory_init(&memory, 0, PROBE_COPY_HEAP_BYTES, 1, PROBE_COPY_HEAP_BYTES, e);
    if (rc == 0) {
        if (hbm) {
            node_memory_put_on_gpu(&memory, 0, hbm);
        }
        rc = transport_verbs_init(&t, &g.loop, &g.driver, &memory, 1, &o, e);
        if (rc == 0) {
            hw_dp_init(&dp, &g.loop, &t.mover, NULL);
            struct probe_copies pc = {
                .what = what, .ground = &g, .dp = &dp, .dst = {.tier = DP_HBM}};
            rc = probe_copies_measure(&pc, c, ps, e);
            transport_verbs_done(&t);
        }
        node_memory_done(&memory);
    }
    probe_ground_done(&g);
    return rc;
}

int probe_copy_verbs(const struct probe_config *c, struct probe_points *ps, struct err *e)
{
    return copies(PROBE_COPY_VERBS, c, NULL, ps, e);
}

int probe_copy_verbs_gpu(const struct probe_config *c, const struct memory_region *hbm,
                         struct probe_points *ps, struct err *e)
{
    return copies(PROBE_COPY_VERBS_GPU, c, hbm, ps, e);
}
