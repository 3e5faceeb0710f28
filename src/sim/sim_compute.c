/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/sim_compute.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "model/collectives.h"
#include "sim/sim_decode.h"

static uint32_t layers_total(const struct sim_forward_group *g)
{
    return g->joined[0]->layers_total;
}

static uint32_t layers_ready(const struct sim_forward_group *g)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t r = 0; r < g->sc->config.prefill_group_gpus; r++) {
        uint32_t ready = g->joined[r]->layers_ready;
        least = ready < least ? ready : least;
    }
    return least;
}

static struct sim_gpus prefill_gpus(const struct sim_forward_group *g)
{
    const struct sim_compute *sc = g->sc;
    uint32_t n = sc->config.prefill_group_gpus, domain = sc->timing->gpu.nvlink_gpus;
    return (struct sim_gpus){.first = (uint32_t)(g - sc->forwards) * n,
                             .n = n,
                             .queue_pairs = collective_prefill_queue_pairs(n, domain)};
}

static double late_ns(const struct sim_forward_group *g, double stretch)
{
    return timing_prefill_late_ns(g->sc->timing, g->stage_ns, g->stage_wire_ns, stretch);
}

/* The collectives of the stage load the NICs until the next call, at the pace that the stage before
 * lets expect. Returns the delay that is certain. */
static double enter_links(struct sim_forward_group *g, double stage_ns, double share)
{
    const struct sim_links *links = g->sc->config.links;
    g->stage_ns = stage_ns;
    g->stage_wire_ns = g->wire_ns * share;
    g->met_links = !links || g->stage_wire_ns <= 0;
    if (g->met_links) {
        return 0;
    }
    struct sim_gpus gpus = prefill_gpus(g);
    g->expected = links->expected(links->self, &gpus);
    g->stretch = fmax(g->stretch, g->expected);
    links->load(links->self, &gpus,
                g->stage_wire_ns / (stage_ns + late_ns(g, g->stretch)) *
                    g->sc->timing->gpu.nic_Bps);
    return late_ns(g, g->expected);
}

/* The stage has run its time: how much longer it takes for the KV traffic it met. */
static double meet_links(struct sim_forward_group *g)
{
    const struct sim_links *links = g->sc->config.links;
    if (g->met_links) {
        return 0;
    }
    struct sim_gpus gpus = prefill_gpus(g);
    g->met_links = true;
    g->stretch = links->met(links->self, &gpus);
    g->sc->prefill_collectives.alone_ns += g->stage_wire_ns;
    g->sc->prefill_collectives.stretched_ns += g->stage_wire_ns * g->stretch;
    g->sc->prefill_collectives.late_ns += late_ns(g, g->stretch);
    return late_ns(g, g->stretch) - late_ns(g, g->expected);
}

static void leave_links(struct sim_forward_group *g)
{
    const struct sim_links *links = g->sc->config.links;
    if (links && g->wire_ns > 0) {
        struct sim_gpus gpus = prefill_gpus(g);
        links->load(links->self, &gpus, 0);
    }
}

/* Time of the forward of the joined batches, and each engine's own attention time. */
static double forward_compute_ns(struct sim_forward_group *g)
{
    const struct timing_model *tm = g->sc->timing;
    uint32_t n_gpus = g->sc->config.prefill_group_gpus;
    double slowest = 0, group_tok = 0;
    g->fill = 0;
    for (uint32_t r = 0; r < n_gpus; r++) {
        struct compute_forward *f = g->joined[r];
        double tok = 0, restored_tok = 0;
        f->attention_ns = 0;
        for (uint32_t i = 0; i < f->n_items; i++) {
            f->attention_ns += timing_attention_ns(tm, f->items[i].cached_tok, f->items[i].new_tok);
            tok += f->items[i].new_tok;
            restored_tok += f->items[i].restored_tok;
        }
        g->fill = f->fill > g->fill ? f->fill : g->fill;
        double own =
            f->attention_ns + timing_linear_ns(tm, tok) + timing_restore_ns(tm, restored_tok);
        slowest = own > slowest ? own : slowest;
        group_tok += tok;
    }
    g->wire_ns =
        tm->config.free_compute ? 0 : timing_prefill_wire_ns(tm, group_tok / n_gpus, n_gpus);
    return timing_forward_ns(tm, slowest + timing_experts_ns(tm, group_tok, n_gpus));
}

static void start_stage_if_ready(struct sim_forward_group *g, double extra_ns)
{
    uint32_t total = layers_total(g);
    if (layers_ready(g) < g->layer + 1) {
        g->stage_end = 0;
        leave_links(g);
        return;
    }
    uint32_t end = g->layer + g->sc->config.stage_layers;
    g->stage_end = end < total ? end : total;
    double share = (double)(g->stage_end - g->layer) / total;
    double ns = g->compute_ns * share + extra_ns;
    ns += enter_links(g, ns, share);
    loop_arm(g->sc->loop, &g->timer, loop_now_ns(g->sc->loop) + (uint64_t)llround(ns));
}

static void start_forward(struct sim_forward_group *g)
{
    uint64_t now = loop_now_ns(g->sc->loop);
    g->running = true;
    g->layer = 0;
    g->all_ready_ns = layers_ready(g) == layers_total(g) ? now : LOOP_NEVER;
    g->compute_ns = forward_compute_ns(g);
    g->sc->n_forwards++;
    for (uint32_t r = 0; r < g->sc->config.prefill_group_gpus; r++) {
        g->joined[r]->start_ns = now;
    }
    start_stage_if_ready(g, timing_forward_fixed_ns(g->sc->timing));
}

/* Idle engines count: the others' time is what they wait for. */
static void add_balance(struct sim_forward_group *g, double forward_ns)
{
    uint32_t n = g->sc->config.prefill_group_gpus;
    double sum = 0, most = 0;
    for (uint32_t r = 0; r < n; r++) {
        sum += g->joined[r]->attention_ns;
        most = fmax(most, g->joined[r]->attention_ns);
    }
    if (sum > 0) {
        g->attention_max_avg_ns += most * n / sum * forward_ns;
        g->attending_ns += forward_ns;
    }
}

static void finish_forward(struct sim_forward_group *g)
{
    uint64_t now = loop_now_ns(g->sc->loop);
    double forward_ns = (double)(now - g->joined[0]->start_ns);
    g->busy_ns += forward_ns;
    g->full_ns += g->fill * forward_ns;
    add_balance(g, forward_ns);
    g->running = false;
    g->n_joined = 0;
    leave_links(g);
    for (uint32_t r = 0; r < g->sc->config.prefill_group_gpus; r++) {
        struct compute_forward *f = g->joined[r];
        g->joined[r] = NULL;
        f->done_ns = now;
        compute_backend_done(f, 0);
    }
}

double sim_forward_full_ns(const struct sim_forward_group *g)
{
    uint64_t now = loop_now_ns(g->sc->loop);
    return g->full_ns + (g->running ? g->fill * (double)(now - g->joined[0]->start_ns) : 0);
}

/* The earliest end that the arrival of the last layer's KV allows. */
static uint64_t earliest_end_ns(const struct sim_forward_group *g)
{
    if (g->all_ready_ns == LOOP_NEVER) {
        return LOOP_NEVER;
    }
    return g->all_ready_ns + (uint64_t)llround(g->compute_ns / layers_total(g));
}

static void stage_over(struct loop_timer *t)
{
    struct sim_forward_group *g = container_of(t, struct sim_forward_group, timer);
    uint32_t total = layers_total(g);
    double more_ns = meet_links(g);
    if (more_ns >= 1) {
        loop_arm(g->sc->loop, &g->timer, loop_after_ns(g->sc->loop, more_ns));
        return;
    }
    if (g->stage_end == total) {
        uint64_t end_ns = earliest_end_ns(g);
        if (end_ns > loop_now_ns(g->sc->loop)) {
            if (end_ns != LOOP_NEVER) {
                loop_arm(g->sc->loop, &g->timer, end_ns);
            }
            return; /* the last KV's arrival arms it */
        }
    }
    g->layer = g->stage_end;
    for (uint32_t r = 0; r < g->sc->config.prefill_group_gpus; r++) {
        compute_backend_progress(g->joined[r], g->layer);
    }
    if (g->layer == total) {
        finish_forward(g);
    } else {
        start_stage_if_ready(g, 0);
    }
}

static int sim_forward(struct compute_port *port, struct compute_forward *f)
{
    struct sim_compute *sc = sim_compute_of(port);
    if (f->group >= sc->config.prefill_groups || f->rank >= sc->config.prefill_group_gpus ||
        sc->forwards[f->group].joined[f->rank]) {
        return -EINVAL;
    }
    struct sim_forward_group *g = &sc->forwards[f->group];
    g->joined[f->rank] = f;
    f->submit_ns = loop_now_ns(sc->loop);
    if (++g->n_joined == sc->config.prefill_group_gpus) {
        start_forward(g);
    }
    return 0;
}

static void sim_feed(struct compute_port *port, struct compute_forward *f)
{
    struct sim_forward_group *g = &sim_compute_of(port)->forwards[f->group];
    if (!g->running) {
        return;
    }
    uint64_t now = loop_now_ns(g->sc->loop);
    if (g->all_ready_ns == LOOP_NEVER && layers_ready(g) == layers_total(g)) {
        g->all_ready_ns = now;
        if (g->stage_end == layers_total(g) && !loop_armed(&g->timer)) {
            loop_arm(g->sc->loop, &g->timer, earliest_end_ns(g));
        }
    }
    if (g->stage_end == 0) {
        start_stage_if_ready(g, g->layer == 0 ? timing_forward_fixed_ns(g->sc->timing) : 0);
    }
}

static const struct compute_port_ops ops = {.name = "sim",
                                            .forward = sim_forward,
                                            .feed = sim_feed,
                                            .join = sim_decode_join,
                                            .leave = sim_decode_leave};

static int init_forward_groups(struct sim_compute *sc)
{
    sc->forwards = calloc(sc->config.prefill_groups, sizeof(*sc->forwards));
    for (uint32_t i = 0; sc->forwards && i < sc->config.prefill_groups; i++) {
        struct sim_forward_group *g = &sc->forwards[i];
        g->sc = sc;
        loop_timer_init(&g->timer, stage_over);
        g->joined = calloc(sc->config.prefill_group_gpus, sizeof(struct compute_forward *));
        if (!g->joined) {
            return -ENOMEM;
        }
    }
    return sc->forwards ? 0 : -ENOMEM;
}

int sim_compute_init(struct sim_compute *sc, struct loop *loop, const struct timing_model *timing,
                     const struct sim_compute_config *config)
{
    *sc = (struct sim_compute){.port.ops = &ops, .loop = loop, .timing = timing, .config = *config};
    if (init_forward_groups(sc) || sim_decode_init(sc)) {
        sim_compute_done(sc);
        return -ENOMEM;
    }
    return 0;
}

void sim_compute_done(struct sim_compute *sc)
{
    for (uint32_t i = 0; sc->forwards && i < sc->config.prefill_groups; i++) {
        free(sc->forwards[i].joined);
    }
    free(sc->forwards);
    sim_decode_done(sc);
}
