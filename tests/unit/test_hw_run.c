/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Scheduler, engines and client as the simulator runs them, on real ports in one process: wall
 * clock, memory copies, files, attention on the CPU. Every byte that arrives and every output is
 * checked; the message port is the simulator's, which needs only a loop.
 */
#define _GNU_SOURCE
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "check_suite.h"
#include "hw/compute_cpu.h"
#include "hw/hw_dp.h"
#include "hw/storage_uring.h"
#include "hw/transport_mem.h"
#include "sched/central.h"
#include "sched/client.h"
#include "sched/decode_node.h"
#include "sched/prefill_node.h"
#include "sim/sim_messages.h"

#define N_NODES     4u /* two of each kind */
#define N_SESSIONS  12u
#define N_TURNS     3u
#define PATIENCE_NS (500 * NS_PER_S) /* only what hangs lasts that long */

/* The workload: private chains that grow from turn to turn. */

static void get_session(const struct workload *w, uint32_t session, struct workload_session *ret)
{
    (void)w;
    *ret = (struct workload_session){.arrival_ns = session * NS_PER_MS,
                                     .n_turns = N_TURNS,
                                     .scope = session,
                                     .parent = WORKLOAD_NONE};
}

static uint32_t gen_tok(uint32_t session, uint32_t turn)
{
    return 1 + (session * 5 + turn * 7) % 23;
}

static void get_turn(const struct workload *w, uint32_t session, uint32_t turn,
                     struct workload_turn *ret)
{
    (void)w;
    uint32_t prompt = 0;
    for (uint32_t k = 0; k <= turn; k++) {
        prompt += 20 + (session * 13 + k * 31) % 60 + (k > 0 ? gen_tok(session, k - 1) : 0);
    }
    *ret = (struct workload_turn){.prompt_tok = prompt, .gen_tok = gen_tok(session, turn)};
}

static const struct workload_ops workload_ops = {.session = get_session, .turn = get_turn};

struct run {
    struct cluster cluster;
    struct timing_model timing;
    struct workload workload;
    struct wall_driver driver;
    struct loop loop;
    struct work_pool copies, computes;
    struct node_memory memory[N_NODES], *nodes[N_NODES];
    struct memory_map map;
    char directory[256];
    struct transport_mem transport;
    struct storage_uring storage;
    struct hw_dp dp;
    struct ep_barrier barrier;
    struct hw_faults faults;
    struct attention attention;
    struct compute_cpu cpu;
    struct hw_compute compute;
    struct sim_messages messages;
    struct prefill_node prefill[2];
    struct decode_node decode[2];
    struct central central;
    struct client client;
    struct loop_timer watchdog;
    uint32_t n_turns;
    bool over;
};

struct variant {
    bool layerwise;
    enum cluster_path path;
    uint32_t ep_gpus;
    enum cluster_reuse reuse;
};

static const struct variant variants[] = {
    {false, CLUSTER_PREFILL, 1, CLUSTER_REUSE_NONE}, /* basic */
    {true, CLUSTER_PREFILL, 2, CLUSTER_REUSE_NONE},
    {true, CLUSTER_DECODE, 4, CLUSTER_REUSE_NONE},
    {true, CLUSTER_PATH_ROUND_ROBIN, 2, CLUSTER_REUSE_NONE},
    {true, CLUSTER_SPLIT, 2, CLUSTER_REUSE_NONE},
    {false, CLUSTER_SPLIT, 1, CLUSTER_REUSE_NONE},
    {true, CLUSTER_DECODE, 2, CLUSTER_REUSE_HBM},
    {true, CLUSTER_SPLIT, 1, CLUSTER_REUSE_DRAM},
};

static void init_cluster(struct run *r, const struct variant *v)
{
    r->timing = (struct timing_model){.card = {.attention = ATTENTION_GQA,
                                               .n_layers = 4,
                                               .n_heads = 4,
                                               .n_kv_heads = 1,
                                               .head_dim = 32},
                                      .gpu = {.bf16_flops = 1e12,
                                              .fp8_flops = 1e12,
                                              .mfu_attention_prefill = 1,
                                              .mfu_indexer_prefill = 1},
                                      .config = timing_config_defaults()};
    struct kv_layout kv = {4, 16, 36 * sizeof(float)};
    uint64_t block = kv_full_block_bytes(&kv), span = kv_room_bytes(&kv, 512);
    r->cluster = (struct cluster){
        .prefill_nodes = 2,
        .decode_nodes = 2,
        .gpus_per_node = 2,
        .prefill_ep_gpus = v->ep_gpus,
        .decode_ep_gpus = v->ep_gpus,
        .prefill_group_nodes = v->ep_gpus > 2 ? 2 : 1,
        .decode_group_nodes = v->ep_gpus > 2 ? 2 : 1,
        .kv = kv,
        .wire = kv,
        .stored = kv,
        .stage_layers = 1,
        .timing = &r->timing,
        .layerwise = v->layerwise,
        .scheduler = CLUSTER_ADAPTIVE,
        .path = v->path,
        .reuse = v->reuse,
        .promise_decode_hbm = true,
        .quota_ns = (uint64_t)timing_attention_ns(&r->timing, 64, 64), /* prompts come in chunks */
        .alpha_tok = 1000,
        .beta_tok = 1000,
        .fetch_period_ns = NS_PER_MS,
        .scheduler_cost_ns = 1000,
        .dram_buffer_bytes = 40 * block,
        .persist_buffer_bytes = 4 * block,
        .prefill_hbm_bytes = 40 * block,
        .decode_hbm_blocks = 40,
        .span_bytes = span,
        .staging_offset_bytes = N_SESSIONS * span};
}

static void init_ground(struct run *r)
{
    struct err e = ERR_INIT;
    const struct cluster *c = &r->cluster;
    ck_assert_int_eq(wall_driver_init(&r->driver, &e), 0);
    ck_assert_int_eq(loop_init(&r->loop, &r->driver.driver, 0), 0);
    wall_driver_attach(&r->driver, &r->loop);
    ck_assert_int_eq(work_pool_init(&r->copies, &r->loop, &r->driver, 1, &e), 0);
    ck_assert_int_eq(work_pool_init(&r->computes, &r->loop, &r->driver, 2, &e), 0);
    uint64_t staging = (uint64_t)N_SESSIONS * 8 * kv_full_block_bytes(&c->kv);
    for (uint32_t i = 0; i < N_NODES; i++) {
        ck_assert_int_eq(node_memory_init(&r->memory[i], i, c->staging_offset_bytes + staging, 2,
                                          2 * N_SESSIONS * c->span_bytes, &e),
                         0);
        r->nodes[i] = &r->memory[i];
    }
    r->map = (struct memory_map){r->nodes, N_NODES};
}

static void init_paths(struct run *r)
{
    struct err e = ERR_INIT;
    const char *tmp = getenv("TMPDIR");
    snprintf(r->directory, sizeof(r->directory), "%s/test_hw_run.XXXXXX", tmp ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(r->directory));
    struct storage_options storage = {.directory = r->directory,
                                      .block_bytes = kv_full_block_bytes(&r->cluster.kv),
                                      .queue_depth = 16,
                                      .max_ops = 64};
    ck_assert_int_eq(transport_mem_init(&r->transport, &r->loop, &r->copies, &r->map, 64, &e), 0);
    ck_assert_msg(storage_uring_init(&r->storage, &r->loop, &r->driver, &r->copies, &r->map,
                                     &storage, &e) == 0,
                  "%s", e.text);
    hw_dp_init(&r->dp, &r->loop, &r->transport.mover, &r->storage.mover);
}

static void init_compute(struct run *r)
{
    struct err e = ERR_INIT;
    const struct cluster *c = &r->cluster;
    struct kv_content content;
    ck_assert_int_eq(kv_content_init(&content, 2024, &c->kv, &e), 0);
    ck_assert_int_eq(attention_init(&r->attention, &content, 2, &e), 0);
    struct hw_compute_config config = {.prefill_nodes = c->prefill_nodes,
                                       .decode_nodes = c->decode_nodes,
                                       .gpus_per_node = c->gpus_per_node,
                                       .prefill_ep_gpus = c->prefill_ep_gpus,
                                       .decode_ep_gpus = c->decode_ep_gpus,
                                       .check_every = 1,
                                       .verify_kv = true};
    ep_barrier_local_init(&r->barrier, &r->loop);
    struct hw_compute_parts parts = {&r->loop, &r->computes, &r->barrier, &r->map, &r->faults};
    ck_assert_int_eq(
        compute_cpu_init(&r->cpu, &r->attention, hw_compute_slots(&config, &r->map), &e), 0);
    ck_assert_int_eq(
        hw_compute_init(&r->compute, &config, &parts, &r->attention, &r->cpu.kernel, &e), 0);
}

static void turn_arrived(void *self)
{
    (void)self;
}

static void turn_over(void *self, const struct client_turn *t)
{
    struct run *r = self;
    ck_assert(t->arrival_ns <= t->first_ns && t->first_ns <= t->last_ns);
    r->n_turns++;
}

static void session_over(void *self, uint32_t session, uint64_t arrival_ns, uint64_t end_ns)
{
    (void)self;
    (void)session;
    ck_assert_uint_lt(arrival_ns, end_ns);
}

static void all_over(void *self)
{
    struct run *r = self;
    r->over = true;
    loop_stop(&r->loop);
}

static void fault(void *self, const struct msg_fault *f, uint32_t node)
{
    struct run *r = self;
    ck_abort_msg("node %u, request %u: %s: %s; %s; %s", node, f->request, f->what,
                 strerror(-f->status), r->faults.last.text, r->dp.faults.last.text);
}

static void bark(struct loop_timer *t)
{
    struct run *r = container_of(t, struct run, watchdog);
    ck_abort_msg("stuck after %u turns", r->n_turns);
}

static void init_agents(struct run *r)
{
    const struct cluster *c = &r->cluster;
    struct client_observer observer = {r,        turn_arrived, turn_over, session_over,
                                       all_over, fault,        NULL};
    r->workload = (struct workload){&workload_ops, N_SESSIONS, c->kv.block_tok};
    ck_assert_int_eq(sim_messages_init(&r->messages, &r->loop, MSG_NODE(N_NODES), 0), 0);
    struct node_ports ports = {&r->loop, &r->dp.dp, &r->messages.port, &r->compute.port};
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_int_eq(prefill_node_init(&r->prefill[i], c, &ports, i), 0);
        ck_assert_int_eq(decode_node_init(&r->decode[i], c, &ports, 2 + i), 0);
    }
    ck_assert_int_eq(central_init(&r->central, c, &r->loop, &r->messages.port), 0);
    ck_assert_int_eq(
        client_init(&r->client, c, &r->workload, &r->loop, &r->messages.port, &observer), 0);
    loop_timer_init(&r->watchdog, bark);
    loop_arm(&r->loop, &r->watchdog, wall_now_ns() + PATIENCE_NS);
}

static void remove_directory(const char *path)
{
    DIR *d = opendir(path);
    ck_assert_ptr_nonnull(d);
    for (struct dirent *entry; (entry = readdir(d));) {
        unlinkat(dirfd(d), entry->d_name, 0);
    }
    closedir(d);
    rmdir(path);
}

static void done(struct run *r)
{
    loop_disarm(&r->loop, &r->watchdog);
    client_done(&r->client);
    central_done(&r->central);
    for (uint32_t i = 0; i < 2; i++) {
        prefill_node_done(&r->prefill[i]);
        decode_node_done(&r->decode[i]);
    }
    sim_messages_done(&r->messages);
    hw_compute_stop(&r->compute);
    ck_assert(hw_compute_idle(&r->compute)); /* all requests are over */
    hw_compute_done(&r->compute);
    compute_cpu_done(&r->cpu);
    ep_barrier_done(&r->barrier);
    storage_uring_done(&r->storage);
    transport_mem_done(&r->transport);
    work_pool_done(&r->computes);
    work_pool_done(&r->copies);
    for (uint32_t i = 0; i < N_NODES; i++) {
        node_memory_done(&r->memory[i]);
    }
    wall_driver_done(&r->driver);
    loop_done(&r->loop);
    remove_directory(r->directory);
}

static void check(const struct run *r)
{
    const struct client_totals *t = &r->client.totals;
    const struct hw_compute_counts *n = &r->compute.counts;
    ck_assert(r->over);
    ck_assert_uint_eq(r->n_turns, N_SESSIONS * N_TURNS);
    ck_assert_uint_eq(r->faults.n + r->dp.faults.n, 0);
    ck_assert_uint_gt(t->hit_tok, 0);
    /* Each miss once by a prefill, each token but the first of a request once by decoding. */
    uint64_t computed = t->prompt_tok - t->hit_tok + t->gen_tok - t->requests;
    ck_assert_uint_eq(n->outputs_checked, computed * r->cluster.kv.n_layers);
    /* At least the hits before their prefill; admissions come on top. */
    ck_assert_uint_gt(n->rows_verified, t->hit_tok * r->cluster.kv.n_layers);
    uint64_t chunks = r->prefill[0].n_chunks + r->prefill[1].n_chunks;
    ck_assert_uint_gt(chunks, t->requests); /* some prompts were cut */
    uint64_t kept_tok = r->decode[0].kept_counts.hit_tok + r->decode[1].kept_counts.hit_tok;
    ck_assert(kept_tok == 0 || r->cluster.reuse != CLUSTER_REUSE_NONE);
    ck_assert_uint_eq(r->storage.counters.blocks_read,
                      (t->hit_tok - kept_tok) / r->cluster.kv.block_tok);
}

START_TEST(test_run)
{
    struct run *r = calloc(1, sizeof(*r));
    ck_assert_ptr_nonnull(r);
    init_cluster(r, &variants[_i]);
    init_ground(r);
    init_paths(r);
    init_compute(r);
    init_agents(r);
    ck_assert_int_eq(loop_run(&r->loop), 0);
    check(r);
    done(r);
    free(r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("hw_run");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 600);
    tcase_add_loop_test(t, test_run, 0, sizeof(variants) / sizeof(variants[0]));
    suite_add_tcase(s, t);
    return run_suite(s);
}
