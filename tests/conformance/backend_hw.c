/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Rows mem and tcp: two nodes in one process, on one loop; over tcp they talk through loopback sockets. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "conformance.h"
#include "hw/hw_dp.h"
#include "hw/transport_mem.h"
#include "hw/transport_tcp.h"

struct hw_world {
    struct wall_driver driver;
    struct loop loop;
    struct work_pool pool;
    struct node_memory memories[2];
    struct node_memory *nodes[2][2]; /* what node i can reach */
    struct memory_map maps[2];
    struct hw_dp dps[2];
    struct transport_mem mem;
    struct transport_tcp tcp[2];
    bool dead_1;
};

static struct hw_world *open_common(struct world *w)
{
    struct err e = ERR_INIT;
    struct hw_world *h = calloc(1, sizeof(*h));
    ck_assert_int_eq(wall_driver_init(&h->driver, &e), 0);
    ck_assert_int_eq(loop_init(&h->loop, &h->driver.driver, 0), 0);
    wall_driver_attach(&h->driver, &h->loop);
    ck_assert_int_eq(work_pool_init(&h->pool, &h->loop, &h->driver, 2, &e), 0);
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_int_eq(node_memory_init(&h->memories[i], i, MEMORY_BYTES, 2, MEMORY_BYTES, &e),
                         0);
        h->maps[i] = (struct memory_map){.nodes = h->nodes[i], .n_nodes = 2};
    }
    w->impl = h;
    w->loop = &h->loop;
    return h;
}

static void close_common(struct hw_world *h)
{
    work_pool_done(&h->pool);
    wall_driver_done(&h->driver);
    loop_done(&h->loop);
    node_memory_done(&h->memories[0]);
    node_memory_done(&h->memories[1]);
    free(h);
}

static uint8_t *hw_bytes(struct world *w, const struct dp_place *at, uint64_t len)
{
    struct hw_world *h = w->impl;
    return memory_at(&h->memories[at->node], (enum dp_tier)at->tier, at->gpu, at->offset_bytes,
                     len);
}

static void mem_open(struct world *w)
{
    struct err e = ERR_INIT;
    struct hw_world *h = open_common(w);
    h->nodes[0][0] = &h->memories[0];
    h->nodes[0][1] = &h->memories[1];
    ck_assert_int_eq(transport_mem_init(&h->mem, &h->loop, &h->pool, &h->maps[0], WORLD_DEPTH, &e),
                     0);
    hw_dp_init(&h->dps[0], &h->loop, &h->mem.mover, NULL);
}

static void mem_close(struct world *w)
{
    struct hw_world *h = w->impl;
    transport_mem_done(&h->mem);
    close_common(h);
}

static struct dp *mem_dp_of(struct world *w, uint32_t node)
{
    (void)node;
    return &((struct hw_world *)w->impl)->dps[0].dp;
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
    .bytes = hw_bytes,
    .stop = mem_stop,
};

static void tcp_open(struct world *w)
{
    struct err e = ERR_INIT;
    struct hw_world *h = open_common(w);
    for (uint32_t i = 0; i < 2; i++) {
        struct tcp_options o = {.node = i, .listen_host = "127.0.0.1", .depth = WORLD_DEPTH};
        memset(o.secret, 42, sizeof(o.secret));
        h->nodes[i][i] = &h->memories[i];
        ck_assert_int_eq(
            transport_tcp_init(&h->tcp[i], &h->loop, &h->driver, &h->pool, &h->maps[i], &o, &e), 0);
        hw_dp_init(&h->dps[i], &h->loop, &h->tcp[i].mover, NULL);
    }
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_int_eq(transport_tcp_add_peer(&h->tcp[i], 1 - i, "127.0.0.1",
                                                transport_tcp_port(&h->tcp[1 - i]), &e),
                         0);
    }
}

static void tcp_close(struct world *w)
{
    struct hw_world *h = w->impl;
    transport_tcp_done(&h->tcp[0]);
    if (!h->dead_1) {
        transport_tcp_done(&h->tcp[1]);
    }
    close_common(h);
}

static struct dp *tcp_dp_of(struct world *w, uint32_t node)
{
    return &((struct hw_world *)w->impl)->dps[node].dp;
}

static void tcp_stop(struct world *w)
{
    hw_dp_stop(&((struct hw_world *)w->impl)->dps[0]);
    hw_dp_stop(&((struct hw_world *)w->impl)->dps[1]);
}

static void tcp_kill_1(struct world *w)
{
    struct hw_world *h = w->impl;
    transport_tcp_done(&h->tcp[1]);
    h->dead_1 = true;
}

const struct backend backend_tcp = {
    .name = "tcp",
    .open = tcp_open,
    .close = tcp_close,
    .dp_of = tcp_dp_of,
    .bytes = hw_bytes,
    .stop = tcp_stop,
    .kill_1 = tcp_kill_1,
};
