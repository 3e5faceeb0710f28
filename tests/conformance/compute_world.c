/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "compute_world.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

#define PATIENCE_NS (60 * NS_PER_S)

const char *world_kernel = "cpu";

static void bark(struct loop_timer *t)
{
    (void)t;
    ck_abort_msg("not everything has completed, and nothing more happens");
}

struct hw_compute_config world_config(void)
{
    return (struct hw_compute_config){.prefill_nodes = 1,
                                      .decode_nodes = 1,
                                      .gpus_per_node = 2,
                                      .prefill_ep_gpus = 2,
                                      .decode_ep_gpus = 2,
                                      .check_every = 1,
                                      .verify_kv = true};
}

static void init_memory(struct world *w, uint32_t n_nodes, uint32_t n_gpus)
{
    struct err e = ERR_INIT;
    uint64_t hbm = WORLD_SPANS * kv_room_bytes(&w->attention.content.layout, WORLD_SPAN_TOK);
    w->n_nodes = n_nodes;
    w->memory = calloc(n_nodes, sizeof(*w->memory));
    w->nodes = calloc(n_nodes, sizeof(*w->nodes));
    ck_assert(w->memory && w->nodes);
    for (uint32_t n = 0; n < n_nodes; n++) {
        ck_assert_int_eq(node_memory_init(&w->memory[n], n, 4096, n_gpus, hbm, &e), 0);
        w->nodes[n] = &w->memory[n];
    }
    w->map = (struct memory_map){.nodes = w->nodes, .n_nodes = n_nodes};
}

static void init_kernel(struct world *w, const struct hw_compute_config *config)
{
    struct err e = ERR_INIT;
    int rc;
    if (strcmp(world_kernel, "cuda") == 0) {
        rc = compute_cuda_new(&w->attention, config, &w->map, &w->cuda, &e);
        w->kernel = rc ? NULL : compute_cuda_kernel(w->cuda);
    } else {
        rc = compute_cpu_init(&w->cpu, &w->attention, hw_compute_slots(config, &w->map), &e);
        w->kernel = &w->cpu.kernel;
    }
    ck_assert_msg(rc == 0, "%s", e.text);
}

void world_init(struct world *w, const struct hw_compute_config *config)
{
    struct err e = ERR_INIT;
    struct kv_layout l = {WORLD_LAYERS, WORLD_BLOCK_TOK, 36 * sizeof(float)};
    struct kv_content c;
    *w = (struct world){0};
    ck_assert_int_eq(kv_content_init(&c, 1, &l, &e), 0);
    ck_assert_int_eq(attention_init(&w->attention, &c, 2, &e), 0);
    ck_assert_int_eq(wall_driver_init(&w->driver, &e), 0);
    ck_assert_int_eq(loop_init(&w->loop, &w->driver.driver, 0), 0);
    wall_driver_attach(&w->driver, &w->loop);
    ck_assert_int_eq(work_pool_init(&w->pool, &w->loop, &w->driver, 2, &e), 0);
    ep_barrier_local_init(&w->barrier, &w->loop);
    init_memory(w, config->prefill_nodes + config->decode_nodes, config->gpus_per_node);
    init_kernel(w, config);
    struct hw_compute_parts parts = {&w->loop, &w->pool, &w->barrier, &w->map, &w->faults};
    ck_assert_int_eq(hw_compute_init(&w->hc, config, &parts, &w->attention, w->kernel, &e), 0);
    loop_timer_init(&w->watchdog, bark);
}

static void stop_loop(struct loop_timer *t)
{
    loop_stop(&container_of(t, struct world, watchdog)->loop);
}

void world_run_for_ms(struct world *w, uint32_t ms)
{
    w->watchdog.fire = stop_loop;
    loop_arm(&w->loop, &w->watchdog, wall_now_ns() + ms * NS_PER_MS);
    ck_assert_int_eq(loop_run(&w->loop), 0);
    loop_disarm(&w->loop, &w->watchdog);
    w->watchdog.fire = bark;
}

void world_run(struct world *w)
{
    if (w->pending == 0) {
        return;
    }
    loop_arm(&w->loop, &w->watchdog, wall_now_ns() + PATIENCE_NS);
    ck_assert_int_eq(loop_run(&w->loop), 0);
    loop_disarm(&w->loop, &w->watchdog);
    ck_assert_uint_eq(w->pending, 0);
}

void world_one_less(struct world *w)
{
    ck_assert_uint_gt(w->pending, 0);
    if (--w->pending == 0) {
        loop_stop(&w->loop);
    }
}

void world_done(struct world *w)
{
    hw_compute_stop(&w->hc);
    do {
        world_run_for_ms(w, 1);
    } while (!hw_compute_idle(&w->hc));
    hw_compute_done(&w->hc);
    compute_cpu_done(&w->cpu);
    compute_cuda_free(w->cuda);
    ep_barrier_done(&w->barrier);
    work_pool_done(&w->pool);
    for (uint32_t n = 0; n < w->n_nodes; n++) {
        node_memory_done(&w->memory[n]);
    }
    free(w->memory);
    free(w->nodes);
    wall_driver_done(&w->driver);
    loop_done(&w->loop);
}

struct compute_kv world_kv(const struct world *w, uint64_t chain_id, uint32_t span)
{
    ck_assert_uint_lt(span, WORLD_SPANS);
    return (struct compute_kv){
        .chain_id = chain_id,
        .hbm_offset_bytes = span * kv_room_bytes(&w->attention.content.layout, WORLD_SPAN_TOK)};
}

uint8_t *world_at(const struct world *w, uint32_t node, uint32_t gpu, const struct compute_kv *kv)
{
    return w->memory[node].hbm[gpu].base + kv->hbm_offset_bytes;
}

void world_bring(const struct world *w, uint32_t node, uint32_t gpu, const struct compute_kv *kv,
                 uint32_t layer, uint32_t n_tok)
{
    struct kv_run run = {kv->chain_id, 0, n_tok};
    kv_content_fill_layer(&w->attention.content, &run, layer, world_at(w, node, gpu, kv));
}

void world_bring_all(const struct world *w, uint32_t node, uint32_t gpu,
                     const struct compute_kv *kv, uint32_t n_tok)
{
    for (uint32_t layer = 0; layer < WORLD_LAYERS; layer++) {
        world_bring(w, node, gpu, kv, layer, n_tok);
    }
}

void world_check_kv(const struct world *w, uint32_t node, uint32_t gpu, const struct compute_kv *kv,
                    uint32_t n_tok)
{
    struct kv_run run = {kv->chain_id, 0, n_tok};
    for (uint32_t layer = 0; layer < WORLD_LAYERS; layer++) {
        struct err e = ERR_INIT;
        ck_assert_msg(kv_content_verify_layer(&w->attention.content, &run, layer,
                                              world_at(w, node, gpu, kv), &e) == 0,
                      "%s", e.text);
    }
}
