/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/hw_compute.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "hw/hw_compute_internal.h"

/* Engines and their work */

uint8_t *hw_engine_kv(const struct hw_engine *e, const struct compute_kv *kv, uint32_t tok)
{
    const struct kv_layout *l = &e->owner->attention.content.layout;
    if (kv->hbm_offset_bytes % sizeof(float) != 0) {
        return NULL;
    }
    return memory_at(e->memory, DP_HBM, e->gpu, kv->hbm_offset_bytes, kv_room_bytes(l, tok));
}

void hw_engine_work(struct hw_engine *e)
{
    assert(!e->working && !e->member.waiting);
    e->error = ERR_INIT;
    e->attention_ns = 0;
    e->counts = (struct hw_compute_counts){0};
    e->working = true;
    e->owner->n_working++;
    work_pool_push(e->owner->pool, &e->work);
}

static void tell_fault(struct hw_faults *faults, const struct err *e)
{
    faults->n++;
    faults->last = *e;
    if (faults->report) {
        faults->report(faults, NULL, e);
    }
}

void hw_engine_worked(struct hw_engine *e)
{
    struct hw_compute *hc = e->owner;
    e->working = false;
    hc->n_working--;
    hc->counts.outputs_checked += e->counts.outputs_checked;
    hc->counts.rows_verified += e->counts.rows_verified;
    hc->counts.layers += e->counts.layers;
    if (e->error.set) {
        tell_fault(hc->faults, &e->error);
    }
}

/* The port */

static struct hw_compute *hc_of(struct compute_port *port)
{
    return container_of(port, struct hw_compute, port);
}

static struct hw_engine *find_engine(struct hw_compute *hc, enum ep_side side, uint32_t engine)
{
    for (uint32_t i = 0; i < hc->n_engines; i++) {
        struct hw_engine *e = &hc->engines[i];
        if (e->member.side == side && e->engine == engine) {
            return e;
        }
    }
    return NULL;
}

static int port_forward(struct compute_port *port, struct compute_forward *f)
{
    struct hw_compute *hc = hc_of(port);
    if (hc->stopping) {
        return -ESHUTDOWN;
    }
    struct hw_engine *e = find_engine(hc, EP_PREFILL, f->engine);
    return e ? hw_forward_start(e, f) : -EINVAL;
}

static void port_feed(struct compute_port *port, struct compute_forward *f)
{
    hw_forward_feed(find_engine(hc_of(port), EP_PREFILL, f->engine));
}

static int port_join(struct compute_port *port, struct compute_sequence *s)
{
    struct hw_compute *hc = hc_of(port);
    if (hc->stopping) {
        return -ESHUTDOWN;
    }
    struct hw_engine *e = find_engine(hc, EP_DECODE, s->engine);
    if (!e) {
        return -EINVAL;
    }
    return hw_engine_kv(e, &s->kv, s->context_tok + 1) ? hw_decode_join(e, s) : -EFAULT;
}

static void port_leave(struct compute_port *port, struct compute_sequence *s)
{
    hw_decode_leave(find_engine(hc_of(port), EP_DECODE, s->engine), s);
}

static const struct compute_port_ops port_ops = {.name = "hw",
                                                 .forward = port_forward,
                                                 .feed = port_feed,
                                                 .join = port_join,
                                                 .leave = port_leave};

/* Set-up */

static const struct node_memory *node_here(const struct memory_map *map, uint32_t node)
{
    return node < map->n_nodes ? map->nodes[node] : NULL;
}

uint32_t hw_compute_slots(const struct hw_compute_config *config, const struct memory_map *map)
{
    uint32_t n = 0;
    for (uint32_t node = 0; node < config->prefill_nodes + config->decode_nodes; node++) {
        n += node_here(map, node) ? config->gpus_per_node : 0;
    }
    return n;
}

static int init_engine(struct hw_compute *hc, const struct node_memory *memory, uint32_t gpu)
{
    const struct hw_compute_config *c = &hc->config;
    bool prefill = memory->node < c->prefill_nodes;
    uint32_t first = prefill ? 0 : c->prefill_nodes;
    uint32_t ep_gpus = prefill ? c->prefill_ep_gpus : c->decode_ep_gpus;
    struct hw_engine *e = &hc->engines[hc->n_engines];
    *e = (struct hw_engine){.owner = hc,
                            .engine = (memory->node - first) * c->gpus_per_node + gpu,
                            .gpu = gpu,
                            .slot = hc->n_engines,
                            .memory = memory};
    e->member.side = prefill ? EP_PREFILL : EP_DECODE;
    e->member.group = e->engine / ep_gpus;
    e->member.rank = e->engine % ep_gpus;
    e->member.n_ranks = ep_gpus;
    list_init(&e->joining);
    list_init(&e->active);
    (prefill ? hw_forward_engine_init : hw_decode_engine_init)(e);
    hc->n_engines++;
    int rc = attention_scratch_init(&e->scratch, &hc->attention);
    e->out =
        calloc((size_t)HW_COMPUTE_SLICE_TOK * attention_out_values(&hc->attention), sizeof(float));
    return rc || !e->out ? -ENOMEM : ep_attach(hc->barrier, &e->member);
}

static int init_engines(struct hw_compute *hc, const struct memory_map *map)
{
    const struct hw_compute_config *c = &hc->config;
    hc->engines = calloc(hw_compute_slots(c, map), sizeof(*hc->engines));
    if (!hc->engines) {
        return -ENOMEM;
    }
    int rc = 0;
    for (uint32_t node = 0; node < c->prefill_nodes + c->decode_nodes; node++) {
        const struct node_memory *memory = node_here(map, node);
        for (uint32_t gpu = 0; memory && rc == 0 && gpu < c->gpus_per_node; gpu++) {
            rc = init_engine(hc, memory, gpu);
        }
    }
    return rc;
}

static bool counts_agree(const struct hw_compute_config *c, const struct memory_map *map)
{
    uint64_t prefill = (uint64_t)c->prefill_nodes * c->gpus_per_node;
    uint64_t decode = (uint64_t)c->decode_nodes * c->gpus_per_node;
    return c->prefill_ep_gpus > 0 && c->decode_ep_gpus > 0 && prefill % c->prefill_ep_gpus == 0 &&
           decode % c->decode_ep_gpus == 0 && hw_compute_slots(c, map) > 0;
}

static void stop_now(struct loop_timer *t)
{
    struct hw_compute *hc = container_of(t, struct hw_compute, stop_timer);
    for (uint32_t i = 0; i < hc->n_engines; i++) {
        hw_forward_cancel(&hc->engines[i]);
    }
}

int hw_compute_init(struct hw_compute *hc, const struct hw_compute_config *config,
                    const struct hw_compute_parts *parts, const struct attention *attention,
                    struct attention_kernel *kernel, struct err *e)
{
    if (!counts_agree(config, parts->map)) {
        return err_set(e, -EINVAL,
                       "compute: no engine in this process, or EP groups of %u and %u engines do "
                       "not divide %u and %u nodes of %u",
                       config->prefill_ep_gpus, config->decode_ep_gpus, config->prefill_nodes,
                       config->decode_nodes, config->gpus_per_node);
    }
    *hc = (struct hw_compute){.port.ops = &port_ops,
                              .config = *config,
                              .loop = parts->loop,
                              .pool = parts->pool,
                              .barrier = parts->barrier,
                              .kernel = kernel,
                              .faults = parts->faults,
                              .attention = *attention};
    loop_timer_init(&hc->stop_timer, stop_now);
    int rc = init_engines(hc, parts->map);
    if (rc) {
        hw_compute_done(hc);
        return err_set(e, rc, "compute: cannot set up the engines");
    }
    return 0;
}

void hw_compute_done(struct hw_compute *hc)
{
    assert(hc->n_working == 0);
    loop_disarm(hc->loop, &hc->stop_timer);
    for (uint32_t i = 0; i < hc->n_engines; i++) {
        struct hw_engine *e = &hc->engines[i];
        ep_detach(hc->barrier, &e->member);
        attention_scratch_done(&e->scratch);
        free(e->out);
    }
    free(hc->engines);
    hc->engines = NULL;
    hc->n_engines = 0;
}

void hw_compute_stop(struct hw_compute *hc)
{
    hc->stopping = true;
    loop_post(hc->loop, &hc->stop_timer);
}

bool hw_compute_idle(const struct hw_compute *hc)
{
    bool forwards = false;
    for (uint32_t i = 0; i < hc->n_engines; i++) {
        forwards = forwards || hc->engines[i].forward;
    }
    return !forwards && hc->n_working == 0;
}
