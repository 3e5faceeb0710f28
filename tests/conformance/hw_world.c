/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw_world.h"

#include <check.h>
#include <stdlib.h>

struct hw_world *hw_world_open(struct world *w)
{
    struct err e = ERR_INIT;
    struct hw_world *h = calloc(1, sizeof(*h));
    ck_assert_int_eq(wall_driver_init(&h->driver, &e), 0);
    ck_assert_int_eq(loop_init(&h->loop, &h->driver.driver, 0), 0);
    wall_driver_attach(&h->driver, &h->loop);
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_int_eq(node_memory_init(&h->memories[i], i, MEMORY_BYTES, 2, MEMORY_BYTES, &e),
                         0);
    }
    w->impl = h;
    w->loop = &h->loop;
    return h;
}

void hw_world_close(struct hw_world *h)
{
    wall_driver_done(&h->driver);
    loop_done(&h->loop);
    node_memory_done(&h->memories[0]);
    node_memory_done(&h->memories[1]);
    free(h->transports);
    free(h);
}

uint8_t *hw_world_bytes(struct world *w, const struct dp_place *at, uint64_t len)
{
    struct hw_world *h = w->impl;
    return memory_at(&h->memories[at->node], (enum dp_tier)at->tier, at->gpu, at->offset_bytes,
                     len);
}

struct dp *hw_world_dp_of(struct world *w, uint32_t node)
{
    return &((struct hw_world *)w->impl)->dps[node].dp;
}

void hw_world_stop(struct world *w)
{
    struct hw_world *h = w->impl;
    hw_dp_stop(&h->dps[0]);
    hw_dp_stop(&h->dps[1]);
}
