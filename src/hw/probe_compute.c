/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Forwards against (cached, new) and decode steps against (batch, context), by the engines of a
 * run: with verification and the checks of outputs. Every point twice, by one engine and by all of
 * its kind at once: on threads that share cores or caches both are slower then.
 *
 * Engines rest between two measurements as long as the measurement took. On a machine that others
 * use too, who never rests is given less of the processors than who comes and goes, and engines
 * come and go with their requests. On a quiet machine it makes no difference.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hw/compute_cpu.h"
#include "hw/probe_internal.h"

#define MAX_BATCH   8u
#define BURST_STEPS 8u /* decode steps that count, after one that does not */
#define MAX_CONTEXT 1024u
#define MAX_TOK     (MAX_CONTEXT + 2 * BURST_STEPS)

struct engines {
    const struct probe_config *config;
    struct probe_ground ground;
    struct node_memory *memories, **nodes; /* [n] */
    uint32_t n, n_open;
    struct memory_map map;
    struct ep_barrier barrier;
    struct hw_faults faults;
    struct kv_content content;
    struct attention attention;
    struct compute_cpu cpu;
    struct hw_compute compute;
    bool has_cpu, has_compute;
    uint64_t room_bytes; /* of one sequence */
};

static int open_memories(struct engines *s, struct err *e)
{
    s->n = s->config->prefill_nodes + s->config->decode_nodes;
    s->memories = calloc(s->n, sizeof(*s->memories));
    s->nodes = calloc(s->n, sizeof(struct node_memory *));
    if (!s->memories || !s->nodes) {
        return err_nomem(e);
    }
    s->room_bytes = kv_room_bytes(&s->config->kv, MAX_TOK);
    s->map = (struct memory_map){s->nodes, s->n};
    for (; s->n_open < s->n; s->n_open++) {
        struct node_memory *m = &s->memories[s->n_open];
        int rc = node_memory_init(m, s->n_open, 4096, 1, MAX_BATCH * s->room_bytes, e);
        if (rc) {
            return rc;
        }
        s->nodes[s->n_open] = m;
    }
    return 0;
}

static int open_compute(struct engines *s, struct err *e)
{
    const struct probe_config *c = s->config;
    const struct hw_compute_config config = {.prefill_nodes = c->prefill_nodes,
                                             .decode_nodes = c->decode_nodes,
                                             .gpus_per_node = 1,
                                             .prefill_ep_gpus = 1,
                                             .decode_ep_gpus = 1,
                                             .check_every = c->check_every,
                                             .verify_kv = true};
    const struct hw_compute_parts parts = {.loop = &s->ground.loop,
                                           .pool = &s->ground.pool,
                                           .barrier = &s->barrier,
                                           .map = &s->map,
                                           .faults = &s->faults};
    int rc = kv_content_init(&s->content, 1, &c->kv, e);
    rc = rc ? rc : attention_init(&s->attention, &s->content, c->heads, e);
    rc = rc ? rc : compute_cpu_init(&s->cpu, &s->attention, hw_compute_slots(&config, &s->map), e);
    s->has_cpu = rc == 0;
    ep_barrier_local_init(&s->barrier, &s->ground.loop);
    rc = rc ? rc : hw_compute_init(&s->compute, &config, &parts, &s->attention, &s->cpu.kernel, e);
    s->has_compute = rc == 0;
    return rc;
}

static int open_engines(struct engines *s, struct err *e)
{
    const struct probe_config *c = s->config;
    uint32_t most = c->prefill_nodes > c->decode_nodes ? c->prefill_nodes : c->decode_nodes;
    int rc = probe_ground_init(&s->ground, most * c->compute_threads, e);
    rc = rc ? rc : open_memories(s, e);
    return rc ? rc : open_compute(s, e);
}

static void close_engines(struct engines *s)
{
    if (s->has_compute) {
        hw_compute_done(&s->compute);
    }
    if (s->has_cpu) {
        compute_cpu_done(&s->cpu);
        ep_barrier_done(&s->barrier);
    }
    for (uint32_t i = 0; i < s->n_open; i++) {
        node_memory_done(&s->memories[i]);
    }
    free(s->memories);
    free(s->nodes);
    probe_ground_done(&s->ground);
}

/* The KV that a request finds: what the data path would have brought. */
static struct compute_kv bring(struct engines *s, uint32_t node, uint32_t place, uint32_t tok)
{
    struct compute_kv kv = {.chain_id = place + 1, .hbm_offset_bytes = place * s->room_bytes};
    const struct kv_run run = {kv.chain_id, 0, tok};
    uint8_t *at = s->memories[node].hbm[0].base + kv.hbm_offset_bytes;
    for (uint32_t layer = 0; layer < s->config->kv.n_layers; layer++) {
        kv_content_fill_layer(&s->content, &run, layer, at);
    }
    return kv;
}

static int say(const struct engines *s, const char *what, int rc, struct err *e)
{
    return err_set(e, rc, "%s: %s", what, s->faults.n ? s->faults.last.text : strerror(-rc));
}

/* Forwards */

struct forwards;

struct forward {
    struct compute_forward f;
    struct compute_item item;
    struct forwards *all;
    uint64_t start_ns;
};

struct forwards {
    struct engines *engines;
    struct forward *forwards; /* [prefill nodes] */
    uint32_t n;               /* that compute at once */
    uint64_t n_done;
    double time_ns, cpu_ns;
    uint32_t n_in_flight;
    int status;
};

static void forward_done(struct compute_forward *cf)
{
    struct forward *f = container_of(cf, struct forward, f);
    struct forwards *all = f->all;
    all->n_done++;
    all->time_ns += (double)(wall_now_ns() - f->start_ns);
    all->status = all->status ? all->status : cf->status;
    if (--all->n_in_flight == 0) {
        loop_stop(&all->engines->ground.loop);
    }
}

static void start_forward(struct forward *f)
{
    struct forwards *all = f->all;
    uint32_t engine = (uint32_t)(f - all->forwards);
    uint32_t n_layers = all->engines->config->kv.n_layers;
    f->start_ns = wall_now_ns();
    f->f = (struct compute_forward){.group = engine,
                                    .engine = engine,
                                    .items = &f->item,
                                    .n_items = 1,
                                    .layers_total = n_layers,
                                    .layers_ready = n_layers,
                                    .notify_at = n_layers + 1,
                                    .done = forward_done};
    int rc = compute_forward(&all->engines->compute.port, &f->f);
    all->n_in_flight += rc == 0;
    all->status = all->status ? all->status : rc;
}

/* One forward of every engine, all at once. */
static int forward_round(struct forwards *all)
{
    for (uint32_t i = 0; i < all->n && all->status == 0; i++) {
        start_forward(&all->forwards[i]);
    }
    int rc = all->n_in_flight ? loop_run(&all->engines->ground.loop) : 0;
    return all->status ? all->status : rc;
}

static int forward_rep(struct forwards *all, double *ret_ns, double *ret_cpu_ns)
{
    struct engines *s = all->engines;
    uint64_t end_ns = wall_now_ns() + s->config->rep_ns;
    int rc = 0;
    all->n_done = 0;
    all->time_ns = all->cpu_ns = 0;
    do {
        uint64_t start_ns = wall_now_ns(), start_cpu_ns = probe_cpu_ns();
        rc = probe_go_on(s->config);
        rc = rc ? rc : forward_round(all);
        all->cpu_ns += (double)(probe_cpu_ns() - start_cpu_ns);
        rc = rc ? rc : probe_rest(&s->ground, wall_now_ns() - start_ns);
    } while (rc == 0 && wall_now_ns() < end_ns);
    *ret_ns = all->time_ns / (double)all->n_done;
    *ret_cpu_ns = all->cpu_ns / (double)all->n_done;
    return rc;
}

static int measure_forward(struct engines *s, uint32_t n, uint32_t cached, uint32_t new_tok,
                           struct probe_points *ps, struct err *e)
{
    double ns[PROBE_REPETITIONS], cpu_ns[PROBE_REPETITIONS];
    struct forwards all = {.engines = s, .n = n, .forwards = calloc(n, sizeof(struct forward))};
    if (!all.forwards) {
        return err_nomem(e);
    }
    for (uint32_t i = 0; i < n; i++) {
        all.forwards[i].all = &all;
        all.forwards[i].item = (struct compute_item){
            .cached_tok = cached, .new_tok = new_tok, .kv = bring(s, i, 0, cached)};
    }
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < PROBE_REPETITIONS; i++) {
        rc = forward_rep(&all, &ns[i], &cpu_ns[i]);
    }
    free(all.forwards);
    if (rc) {
        return say(s, "forward", rc, e);
    }
    const struct probe_point p = {.what = PROBE_FORWARD,
                                  .depth = 1,
                                  .nodes = n,
                                  .cached_tok = cached,
                                  .new_tok = new_tok,
                                  .time_ns = probe_stat_of(ns),
                                  .cpu_ns = probe_stat_of(cpu_ns)};
    return probe_points_add(ps, &p, e);
}

/* Decode steps */

struct decodes;

struct sequence {
    struct compute_sequence s;
    struct decodes *all;
};

/* One engine's steps. The first one is not counted: it verifies what was admitted. */
struct decoder {
    uint64_t start_ns, last_ns;
    uint64_t start_cpu_ns, last_cpu_ns;
    bool over;
};

struct decodes {
    struct engines *engines;
    struct decoder *decoders;   /* [decode nodes] */
    struct sequence *sequences; /* [decode nodes * batch], the first of each engine keeps time */
    uint32_t n;                 /* engines at once */
    uint32_t batch, context_tok, n_joined;
    double time_ns, cpu_ns; /* of the bursts of a repetition: of an engine */
    int status;
};

static void keep_time(struct decoder *d, const struct compute_sequence *s)
{
    d->last_ns = wall_now_ns();
    d->last_cpu_ns = probe_cpu_ns();
    if (s->steps_done <= 1) {
        d->start_ns = d->last_ns;
        d->start_cpu_ns = d->last_cpu_ns;
    }
    d->over = s->steps_done > BURST_STEPS;
}

static void stepped(struct compute_sequence *cs)
{
    struct sequence *s = container_of(cs, struct sequence, s);
    struct decodes *all = s->all;
    uint32_t index = (uint32_t)(s - all->sequences);
    struct decoder *d = &all->decoders[index / all->batch];
    if (index % all->batch == 0) {
        keep_time(d, cs);
    }
    all->status = all->status ? all->status : cs->status;
    if (!d->over && all->status == 0) {
        cs->notify_at = cs->steps_done + 1;
        return;
    }
    compute_leave(&all->engines->compute.port, cs);
    if (--all->n_joined == 0) {
        loop_stop(&all->engines->ground.loop);
    }
}

static int join_all(struct decodes *all)
{
    const struct engines *s = all->engines;
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < all->n * all->batch; i++) {
        uint32_t place = i % all->batch;
        struct compute_sequence *cs = &all->sequences[i].s;
        all->sequences[i].all = all;
        *cs = (struct compute_sequence){
            .engine = i / all->batch,
            .context_tok = all->context_tok,
            .kv = {.chain_id = place + 1, .hbm_offset_bytes = place * s->room_bytes},
            .notify_at = 1,
            .notify = stepped};
        rc = compute_join(&all->engines->compute.port, cs);
        all->n_joined += rc == 0;
    }
    return rc;
}

/* All sequences join, decode BURST_STEPS and leave. */
static int decode_burst(struct decodes *all)
{
    uint32_t n = all->n;
    memset(all->decoders, 0, n * sizeof(*all->decoders));
    all->status = join_all(all);
    int rc = all->n_joined ? loop_run(&all->engines->ground.loop) : 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct decoder *d = &all->decoders[i];
        all->time_ns += (double)(d->last_ns - d->start_ns) / n;
        /* The process's: of all engines, which run side by side. */
        all->cpu_ns += (double)(d->last_cpu_ns - d->start_cpu_ns) / n / n;
    }
    return all->status ? all->status : rc;
}

static int decode_rep(struct decodes *all, double *ret_ns, double *ret_cpu_ns)
{
    struct engines *s = all->engines;
    uint64_t end_ns = wall_now_ns() + s->config->rep_ns;
    double bursts = 0;
    int rc;
    all->time_ns = all->cpu_ns = 0;
    do {
        uint64_t start_ns = wall_now_ns();
        rc = probe_go_on(s->config);
        rc = rc ? rc : decode_burst(all);
        rc = rc ? rc : probe_rest(&s->ground, wall_now_ns() - start_ns);
        bursts++;
    } while (rc == 0 && wall_now_ns() < end_ns);
    *ret_ns = all->time_ns / bursts / BURST_STEPS;
    *ret_cpu_ns = all->cpu_ns / bursts / BURST_STEPS;
    return rc;
}

static int run_decodes(struct decodes *all, struct probe_points *ps, struct err *e)
{
    struct engines *s = all->engines;
    double ns[PROBE_REPETITIONS], cpu_ns[PROBE_REPETITIONS];
    for (uint32_t i = 0; i < all->n * all->batch; i++) {
        bring(s, s->config->prefill_nodes + i / all->batch, i % all->batch, all->context_tok);
    }
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < PROBE_REPETITIONS; i++) {
        rc = decode_rep(all, &ns[i], &cpu_ns[i]);
    }
    if (rc) {
        return say(s, "decode step", rc, e);
    }
    const struct probe_point p = {.what = PROBE_DECODE,
                                  .depth = 1,
                                  .nodes = all->n,
                                  .cached_tok = all->context_tok + 1 + BURST_STEPS / 2.0,
                                  .batch = all->batch,
                                  .time_ns = probe_stat_of(ns),
                                  .cpu_ns = probe_stat_of(cpu_ns)};
    return probe_points_add(ps, &p, e);
}

static int measure_decode(struct engines *s, uint32_t n, uint32_t batch, uint32_t context,
                          struct probe_points *ps, struct err *e)
{
    struct decodes all = {.engines = s,
                          .decoders = calloc(n, sizeof(struct decoder)),
                          .sequences = calloc((size_t)n * batch, sizeof(struct sequence)),
                          .n = n,
                          .batch = batch,
                          .context_tok = context};
    int rc = all.decoders && all.sequences ? run_decodes(&all, ps, e) : err_nomem(e);
    free(all.decoders);
    free(all.sequences);
    return rc;
}

static int measure_all(struct engines *s, uint32_t prefill, uint32_t decode,
                       struct probe_points *ps, struct err *e)
{
    static const uint32_t forwards[][2] = {{0, 32},   {0, 128},  {0, 256},  {128, 64},
                                           {256, 32}, {512, 64}, {512, 192}};
    static const uint32_t decodes[][2] = {{1, 128}, {1, 512}, {1, MAX_CONTEXT},
                                          {4, 128}, {4, 512}, {MAX_BATCH, 512}};
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < sizeof(forwards) / sizeof(forwards[0]); i++) {
        rc = measure_forward(s, prefill, forwards[i][0], forwards[i][1], ps, e);
    }
    for (unsigned i = 0; rc == 0 && i < sizeof(decodes) / sizeof(decodes[0]); i++) {
        rc = measure_decode(s, decode, decodes[i][0], decodes[i][1], ps, e);
    }
    return rc;
}

int probe_compute_cpu(const struct probe_config *c, struct probe_points *ps, struct err *e)
{
    struct engines s = {.config = c};
    int rc = open_engines(&s, e);
    rc = rc ? rc : measure_all(&s, 1, 1, ps, e);
    if (rc == 0 && c->prefill_nodes + c->decode_nodes > 2) {
        rc = measure_all(&s, c->prefill_nodes, c->decode_nodes, ps, e);
    }
    close_engines(&s);
    return rc;
}
