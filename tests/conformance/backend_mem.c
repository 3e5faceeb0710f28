/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Row mem: one data path moves the bytes of both nodes. */
#include <check.h>
#include <stdlib.h>

#include "hw/transport_mem.h"
#include "hw_world.h"

struct mem_world {
    struct work_pool pool;
    struct transport_mem mem;
    struct node_memory *nodes[2];
    struct memory_map map;
};

static void mem_open(struct world *w)
{
    struct err e = ERR_INIT;
    struct hw_world *h = hw_world_open(w);
    struct mem_world *m = h->transports = calloc(1, sizeof(*m));
    ck_assert_int_eq(work_pool_init(&m->pool, &h->loop, &h->driver, 2, &e), 0);
    m->nodes[0] = &h->memories[0];
    m->nodes[1] = &h->memories[1];
    m->map = (struct memory_map){m->nodes, 2};
    ck_assert_int_eq(transport_mem_init(&m->mem, &h->loop, &m->pool, &m->map, WORLD_DEPTH, &e), 0);
    hw_dp_init(&h->dps[0], &h->loop, &m->mem.mover, NULL);
}

static void mem_close(struct world *w)
{
    struct hw_world *h = w->impl;
    struct mem_world *m = h->transports;
    transport_mem_done(&m->mem);
    work_pool_done(&m->pool);
    hw_world_close(h);
}

static struct dp *mem_dp_of(struct world *w, uint32_t node)
{
    (void)node;
    return hw_world_dp_of(w, 0);
}

static void mem_stop(struct world *w)
{
    hw_dp_stop(&((struct hw_world *)w->impl)->dps[0]);
}

const struct backend backend_mem = {
    .name = "mem",
    .open = mem_open,
    .close = mem_close,
    .dp_of = mem_dp_of,
    .bytes = hw_world_bytes,
    .stop = mem_stop,
};
