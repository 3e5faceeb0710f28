/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Rows sim and packet: the data path in virtual time, fluid and packet by packet. No bytes, no
 * processes. */
#include <check.h>
#include <stdlib.h>

#include "conformance.h"
#include "sim/packet_dp.h"
#include "sim/sim_dp.h"
#include "sim/virtual_driver.h"

struct sim_world {
    struct virtual_driver driver;
    struct loop loop;
    struct sim_dp sd;
    struct packet_dp pd; /* row packet */
};

static void sim_open(struct world *w)
{
    struct sim_dp_config config = {
        .n_nodes = 2,
        .gpus_per_node = 2,
        .cnic_Bps = 50e9,
        .dram_Bps = 500e9,
        .submit = {.threads = 1},
        .storage = {.line_Bps = 50e9, .efficiency_max = 1, .in_service = {1, 1}},
        .transfer_latency_ns = 2000,
        .depth = WORLD_DEPTH,
        .seed = 1,
    };
    struct sim_world *h = calloc(1, sizeof(*h));
    virtual_driver_init(&h->driver, NULL, NULL, NULL);
    ck_assert_int_eq(loop_init(&h->loop, &h->driver.driver, 0), 0);
    ck_assert_int_eq(sim_dp_init(&h->sd, &h->loop, &config), 0);
    w->impl = h;
    w->loop = &h->loop;
}

static void packet_open(struct world *w)
{
    sim_open(w);
    struct sim_world *h = w->impl;
    struct packet_dp_config config = packet_dp_paper_config(VLARB_SPEC, VLARB_SPEC);
    struct err err = ERR_INIT;
    config.lane_buffers = true; /* what is taken out of the middle of a queue, too */
    ck_assert_int_eq(packet_dp_init(&h->pd, &h->sd, &config, &err), 0);
}

static void sim_close(struct world *w)
{
    struct sim_world *h = w->impl;
    if (h->pd.sd) {
        packet_dp_done(&h->pd);
    }
    sim_dp_done(&h->sd);
    loop_done(&h->loop);
    free(h);
}

static struct dp *sim_dp_of(struct world *w, uint32_t node)
{
    (void)node;
    return &((struct sim_world *)w->impl)->sd.dp;
}

const struct backend backend_sim = {
    .name = "sim",
    .open = sim_open,
    .close = sim_close,
    .dp_of = sim_dp_of,
};

const struct backend backend_packet = {
    .name = "packet",
    .open = packet_open,
    .close = sim_close,
    .dp_of = sim_dp_of,
};
