/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Row verbs: two nodes on one RDMA device; their cards change hands directly. */
#include <check.h>
#include <stdlib.h>

#include "base/units.h"
#include "hw/transport_verbs.h"
#include "hw_world.h"

struct verbs_world {
    struct transport_verbs verbs[2];
};

static bool verbs_is_here(void)
{
    int n = 0;
    struct ibv_device **list = ibv_get_device_list(&n);
    if (list) {
        ibv_free_device_list(list);
    }
    return list && n > 0;
}

static void verbs_open(struct world *w)
{
    struct err e = ERR_INIT;
    struct hw_world *h = hw_world_open(w);
    struct verbs_world *m = h->transports = calloc(1, sizeof(*m));
    uint8_t *cards[2];
    for (uint32_t i = 0; i < 2; i++) {
        struct verbs_options o = {.node = i,
                                  .depth = WORLD_DEPTH,
                                  .send_depth = 64,
                                  .spin_ns = 20 * NS_PER_US,
                                  .keepalive_ns = 100 * NS_PER_MS,
                                  .retries = 3,
                                  .service_level = {1, 2, 3, 4, 5},
                                  .traffic_class = {32, 64, 96, 128, 160}};
        int rc =
            transport_verbs_init(&m->verbs[i], &h->loop, &h->driver, &h->memories[i], 2, &o, &e);
        ck_assert_msg(rc == 0, "%s", e.text);
        hw_dp_init(&h->dps[i], &h->loop, &m->verbs[i].mover, NULL);
        cards[i] = malloc(transport_verbs_card_bytes(&m->verbs[i]));
        ck_assert_int_eq(transport_verbs_offer(&m->verbs[i], 1 - i, cards[i], &e), 0);
    }
    for (uint32_t i = 0; i < 2; i++) {
        int rc = transport_verbs_connect(&m->verbs[i], 1 - i, cards[1 - i],
                                         transport_verbs_card_bytes(&m->verbs[1 - i]), &e);
        ck_assert_msg(rc == 0, "%s", e.text);
    }
    free(cards[0]);
    free(cards[1]);
}

static void verbs_close(struct world *w)
{
    struct hw_world *h = w->impl;
    struct verbs_world *m = h->transports;
    transport_verbs_done(&m->verbs[0]);
    if (!h->dead_1) {
        transport_verbs_done(&m->verbs[1]);
    }
    hw_world_close(h);
}

static void verbs_kill_1(struct world *w)
{
    struct hw_world *h = w->impl;
    transport_verbs_done(&((struct verbs_world *)h->transports)->verbs[1]);
    h->dead_1 = true;
}

const struct backend backend_verbs = {
    .name = "verbs",
    .is_here = verbs_is_here,
    .open = verbs_open,
    .close = verbs_close,
    .dp_of = hw_world_dp_of,
    .bytes = hw_world_bytes,
    .stop = hw_world_stop,
    .kill_1 = verbs_kill_1,
};
