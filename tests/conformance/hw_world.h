/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the rows on hardware share: two nodes in one process, on one loop. */
#ifndef DUALPATH_TESTS_HW_WORLD_H
#define DUALPATH_TESTS_HW_WORLD_H

#include "conformance.h"
#include "hw/hw_dp.h"
#include "hw/memory.h"
#include "hw/wall_driver.h"

struct hw_world {
    struct wall_driver driver;
    struct loop loop;
    struct node_memory memories[2];
    struct hw_dp dps[2]; /* both the first one where one data path serves both nodes */
    void *transports;    /* the row's own */
    bool dead_1;
};

struct hw_world *hw_world_open(struct world *w);
void hw_world_close(struct hw_world *h);

/* For struct backend. */
uint8_t *hw_world_bytes(struct world *w, const struct dp_place *at, uint64_t len);
struct dp *hw_world_dp_of(struct world *w, uint32_t node);
void hw_world_stop(struct world *w);

#endif
