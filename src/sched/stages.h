/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Stages of cluster.stage_layers layers, in which loads, computation and stores of a prefill follow
 * each other; without layer streaming there is one.
 */
#ifndef DUALPATH_SCHED_STAGES_H
#define DUALPATH_SCHED_STAGES_H

#include "sched/cluster.h"

/* Number of arrived layers to hear of next, after n: the first layer of each stage, then all. */
static inline uint32_t next_load_mark(const struct cluster *c, uint32_t n)
{
    if (!c->layerwise) {
        return c->kv.n_layers;
    }
    uint32_t mark = n == 0 ? 1 : (n - 1) / c->stage_layers * c->stage_layers + c->stage_layers + 1;
    return mark < c->kv.n_layers ? mark : c->kv.n_layers;
}

/* The same of computed layers: the last of each stage. */
static inline uint32_t next_compute_mark(const struct cluster *c, uint32_t n)
{
    uint32_t mark = n / c->stage_layers * c->stage_layers + c->stage_layers;
    return mark < c->kv.n_layers ? mark : c->kv.n_layers;
}

#endif
