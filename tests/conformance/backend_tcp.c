/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Row tcp: two nodes that reach only their own memory and talk through loopback sockets. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "hw/transport_tcp.h"
#include "hw_world.h"

struct tcp_world {
    struct work_pool pool;
    struct transport_tcp tcp[2];
    struct node_memory *nodes[2][2];
    struct memory_map maps[2];
};

static void tcp_open(struct world *w)
{
    struct err e = ERR_INIT;
    struct hw_world *h = hw_world_open(w);
    struct tcp_world *m = h->transports = calloc(1, sizeof(*m));
    ck_assert_int_eq(work_pool_init(&m->pool, &h->loop, &h->driver, 2, &e), 0);
    for (uint32_t i = 0; i < 2; i++) {
        struct tcp_options o = {.node = i, .listen_host = "127.0.0.1", .depth = WORLD_DEPTH};
        memset(o.secret, 42, sizeof(o.secret));
        m->nodes[i][i] = &h->memories[i];
        m->maps[i] = (struct memory_map){m->nodes[i], 2};
        int rc =
            transport_tcp_init(&m->tcp[i], &h->loop, &h->driver, &m->pool, &m->maps[i], &o, &e);
        ck_assert_int_eq(rc, 0);
        hw_dp_init(&h->dps[i], &h->loop, &m->tcp[i].mover, NULL);
    }
    for (uint32_t i = 0; i < 2; i++) {
        uint16_t port = transport_tcp_port(&m->tcp[1 - i]);
        ck_assert_int_eq(transport_tcp_add_peer(&m->tcp[i], 1 - i, "127.0.0.1", port, &e), 0);
    }
}

static void tcp_close(struct world *w)
{
    struct hw_world *h = w->impl;
    struct tcp_world *m = h->transports;
    transport_tcp_done(&m->tcp[0]);
    if (!h->dead_1) {
        transport_tcp_done(&m->tcp[1]);
    }
    work_pool_done(&m->pool);
    hw_world_close(h);
}

static void tcp_kill_1(struct world *w)
{
    struct hw_world *h = w->impl;
    transport_tcp_done(&((struct tcp_world *)h->transports)->tcp[1]);
    h->dead_1 = true;
}

const struct backend backend_tcp = {
    .name = "tcp",
    .open = tcp_open,
    .close = tcp_close,
    .dp_of = hw_world_dp_of,
    .bytes = hw_world_bytes,
    .stop = hw_world_stop,
    .kill_1 = tcp_kill_1,
};
