/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "real/machine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

#define COPY_THREADS                                                                               \
    2 /* memory copies and checksums; the time on a small machine goes into attention */

static bool is_prefill(const struct machine *m)
{
    return cluster_is_prefill(&m->config->cluster, m->id);
}

static struct node *node_of(struct machine *m)
{
    return is_prefill(m) ? &m->prefill.node : &m->decode.node;
}

static int init_memory(struct machine *m, struct err *err)
{
    const struct cluster *c = &m->config->cluster;
    uint64_t hbm_bytes = run_config_hbm_bytes(m->config, m->id);
    uint64_t staging_bytes = c->persist_buffer_bytes + kv_full_block_bytes(&c->kv);
    m->memories = calloc(cluster_nodes(c), sizeof(struct node_memory *));
    if (!m->memories) {
        return err_nomem(err);
    }
    bool shared = strcmp(m->config->transport, "mem") == 0;
    int rc = (shared ? node_memory_init_shared
                     : node_memory_init)(&m->memory, m->id, c->staging_offset_bytes + staging_bytes,
                                         c->gpus_per_node, hbm_bytes, err);
    if (rc == 0) {
        m->memories[m->id] = &m->memory;
        m->map = (struct memory_map){.nodes = m->memories, .n_nodes = cluster_nodes(c)};
        m->stage = MACHINE_MEMORY;
    }
    return rc;
}

static int init_pools(struct machine *m, struct err *err)
{
    int rc = work_pool_init(&m->copy_pool, m->loop, m->driver, COPY_THREADS, err);
    if (rc) {
        return rc;
    }
    m->stage = MACHINE_COPY_POOL;
    rc = work_pool_init(&m->compute_pool, m->loop, m->driver, m->config->compute_threads, err);
    m->stage = rc ? m->stage : MACHINE_COMPUTE_POOL;
    return rc;
}

static int init_links(struct machine *m, const char *host, struct err *err)
{
    const struct links_parts parts = {.config = m->config,
                                      .node = m->id,
                                      .host = host,
                                      .loop = m->loop,
                                      .driver = m->driver,
                                      .pool = &m->copy_pool,
                                      .map = &m->map};
    int rc = links_open(&m->links, &parts, err);
    m->stage = rc ? m->stage : MACHINE_LINKS;
    return rc;
}

static int init_storage(struct machine *m, struct err *err)
{
    bool usrbio = strcmp(m->config->storage, "usrbio") == 0;
    const struct storage_options o = {.slots = usrbio ? &storage_usrbio : NULL,
                                      .directory = m->config->storage_dir,
                                      .block_bytes = kv_full_block_bytes(&m->config->cluster.kv),
                                      .queue_depth = m->config->storage_depth,
                                      .max_ops = 4 * m->config->storage_depth};
    int rc = storage_uring_init(&m->storage, m->loop, m->driver, &m->copy_pool, &m->map, &o, err);
    if (rc == 0) {
        hw_dp_init(&m->dp, m->loop, m->links.mover, &m->storage.mover);
        m->stage = MACHINE_STORAGE;
    }
    return rc;
}

/* Messages for the node and its barrier come to one endpoint. */

static void door_send(struct msg_port *port, const struct msg *m, uint64_t delay_ns)
{
    msg_send(container_of(port, struct machine, door)->messages, m, delay_ns);
}

static void on_message(void *self, const struct msg *m)
{
    struct machine *mc = self;
    if (m->type != MSG_MEET) {
        mc->handler(mc->handler_self, m);
        return;
    }
    int rc = mc->spans ? ep_barrier_net_take(&mc->barrier_net, m) : -EPROTO;
    if (rc) {
        node_fault(node_of(mc), 0, rc, "meeting of an EP group");
    }
}

static int door_attach(struct msg_port *port, uint32_t endpoint, msg_handler *handler, void *self)
{
    struct machine *m = container_of(port, struct machine, door);
    m->handler = handler;
    m->handler_self = self;
    return m->messages->ops->attach(m->messages, endpoint, on_message, m);
}

static const struct msg_port_ops door_ops = {
    .name = "node", .send = door_send, .attach = door_attach};

static struct ep_barrier *barrier_of(struct machine *m)
{
    return m->spans ? &m->barrier_net.barrier : &m->barrier;
}

static void init_barrier(struct machine *m)
{
    const struct cluster *c = &m->config->cluster;
    uint32_t ep_gpus = is_prefill(m) ? c->prefill_ep_gpus : c->decode_ep_gpus;
    m->spans = c->gpus_per_node % ep_gpus != 0;
    if (m->spans) {
        ep_barrier_net_init(&m->barrier_net, c->prefill_nodes, c->gpus_per_node, m->id, m->loop,
                            m->messages);
    } else {
        ep_barrier_local_init(&m->barrier, m->loop);
    }
}

static int init_kernel(struct machine *m, const struct hw_compute_config *config,
                       const struct attention *attention, struct err *err)
{
    int rc = strcmp(m->config->compute, "cuda") == 0
                 ? compute_cuda_new(attention, config, &m->map, &m->cuda, err)
                 : compute_cpu_init(&m->cpu, attention, hw_compute_slots(config, &m->map), err);
    if (rc) {
        err_field(err, "hw.compute");
        return rc;
    }
    m->stage = MACHINE_KERNEL;
    return 0;
}

static int init_compute(struct machine *m, struct err *err)
{
    const struct cluster *c = &m->config->cluster;
    const struct hw_compute_config config = {.prefill_nodes = c->prefill_nodes,
                                             .decode_nodes = c->decode_nodes,
                                             .gpus_per_node = c->gpus_per_node,
                                             .prefill_ep_gpus = c->prefill_ep_gpus,
                                             .decode_ep_gpus = c->decode_ep_gpus,
                                             .check_every = m->config->check_every,
                                             .verify_kv = true};
    init_barrier(m);
    const struct hw_compute_parts parts = {.loop = m->loop,
                                           .pool = &m->compute_pool,
                                           .barrier = barrier_of(m),
                                           .map = &m->map,
                                           .faults = &m->dp.faults};
    struct kv_content content;
    struct attention attention;
    int rc = kv_content_init(&content, m->config->seed, &c->kv, err);
    rc = rc ? rc : attention_init(&attention, &content, m->config->heads, err);
    rc = rc ? rc : init_kernel(m, &config, &attention, err);
    if (rc) {
        return rc;
    }
    struct attention_kernel *kernel = m->cuda ? compute_cuda_kernel(m->cuda) : &m->cpu.kernel;
    rc = hw_compute_init(&m->compute, &config, &parts, &attention, kernel, err);
    m->stage = rc ? m->stage : MACHINE_COMPUTE;
    return rc;
}

static int init_node(struct machine *m, struct err *err)
{
    const struct node_ports ports = {
        .loop = m->loop, .dp = &m->dp.dp, .messages = &m->door, .compute = &m->compute.port};
    int rc = is_prefill(m) ? prefill_node_init(&m->prefill, &m->config->cluster, &ports, m->id)
                           : decode_node_init(&m->decode, &m->config->cluster, &ports, m->id);
    if (rc) {
        return err_set(err, rc, "cannot build node %u: %s", m->id, strerror(-rc));
    }
    m->stage = MACHINE_NODE;
    return 0;
}

int machine_init(struct machine *m, const struct run_config *config, uint32_t id, struct loop *loop,
                 struct wall_driver *driver, struct msg_port *messages, const char *host,
                 struct err *err)
{
    memset(m, 0, sizeof(*m));
    m->config = config;
    m->id = id;
    m->loop = loop;
    m->driver = driver;
    m->messages = messages;
    m->door.ops = &door_ops;
    int rc = init_memory(m, err);
    rc = rc ? rc : init_pools(m, err);
    rc = rc ? rc : init_links(m, host, err);
    rc = rc ? rc : init_storage(m, err);
    rc = rc ? rc : init_compute(m, err);
    return rc ? rc : init_node(m, err);
}

void machine_start(struct machine *m)
{
    node_restart_fetches(node_of(m));
}

/* The end */

static uint64_t room_used(const struct machine *m)
{
    if (is_prefill(m)) {
        uint64_t used = m->prefill.dram.used;
        for (uint32_t gpu = 0; gpu < m->config->cluster.gpus_per_node; gpu++) {
            used += slots_used(&m->prefill.engines[gpu].hbm_slots);
        }
        return used;
    }
    /* What is kept for turns that may come is nobody's. */
    uint64_t used = m->decode.dram.used - m->decode.dram.idle + m->decode.staging.used;
    for (uint32_t gpu = 0; gpu < m->config->cluster.gpus_per_node; gpu++) {
        used += m->decode.hbm[gpu].used - m->decode.hbm[gpu].idle;
    }
    return used;
}

static uint64_t requests_left(const struct machine *m)
{
    return is_prefill(m) ? m->prefill.requests.n_used
                         : m->decode.requests.n_used + m->decode.block_copies.n_used;
}

bool machine_is_quiet(const struct machine *m)
{
    return m->dp.dp.n_in_flight == 0 && list_empty(&m->dp.dp.blocked) && room_used(m) == 0 &&
           requests_left(m) == 0;
}

static void report_node(const struct machine *m, struct agent_report *r)
{
    if (is_prefill(m)) {
        r->computed_tok = m->prefill.computed_tok;
        r->chunks = m->prefill.n_chunks;
        for (uint32_t gpu = 0; gpu < m->config->cluster.gpus_per_node; gpu++) {
            r->attention_ns[gpu] = m->prefill.engines[gpu].attention_ns;
            r->gpu_used_ns[gpu] = m->prefill.engines[gpu].full_ns;
        }
    } else {
        r->generated_tok = m->decode.generated_tok;
        r->persisted_blocks = m->decode.persisted_blocks;
        for (uint32_t gpu = 0; gpu < m->config->cluster.gpus_per_node; gpu++) {
            r->gpu_used_ns[gpu] = (uint64_t)(space_full_s(&m->decode.hbm[gpu]) * NS_PER_S);
        }
        r->kept_tok = m->decode.kept_counts.hit_tok;
    }
}

void machine_report(const struct machine *m, struct agent_report *ret)
{
    struct agent_report r = {.blocks_read = m->storage.counters.blocks_read,
                             .blocks_written = m->storage.counters.blocks_written,
                             .rows_verified = m->compute.counts.rows_verified,
                             .outputs_checked = m->compute.counts.outputs_checked,
                             .forwards = m->compute.n_forwards,
                             .steps = m->compute.n_steps,
                             .faults = m->dp.faults.n,
                             .in_flight = m->dp.dp.n_in_flight,
                             .room_used = room_used(m),
                             .requests_left = requests_left(m)};
    for (unsigned c = 0; c < DP_N_CLASSES; c++) {
        const struct dp_account *a = &m->dp.dp.accounts[c];
        r.bytes_in[c] = a->bytes_in;
        r.bytes_out[c] = a->bytes_out;
        r.bytes_failed[c] = a->bytes_failed;
        r.ops[c] = a->ops_out;
    }
    report_node(m, &r);
    *ret = r;
}

void machine_stop(struct machine *m)
{
    if (m->stage == MACHINE_NODE) {
        node_stop(node_of(m));
    }
    if (m->stage >= MACHINE_COMPUTE) {
        hw_compute_stop(&m->compute);
    }
    if (m->stage >= MACHINE_STORAGE) {
        hw_dp_stop(&m->dp);
    }
}

bool machine_is_idle(const struct machine *m)
{
    return (m->stage < MACHINE_COMPUTE || hw_compute_idle(&m->compute)) &&
           (m->stage < MACHINE_STORAGE || m->dp.dp.n_in_flight == 0);
}

void machine_done(struct machine *m)
{
    if (m->stage >= MACHINE_NODE && is_prefill(m)) {
        prefill_node_done(&m->prefill);
    } else if (m->stage >= MACHINE_NODE) {
        decode_node_done(&m->decode);
    }
    if (m->stage >= MACHINE_COMPUTE) {
        hw_compute_done(&m->compute);
    }
    if (m->stage >= MACHINE_KERNEL) {
        ep_barrier_done(barrier_of(m));
        if (m->cuda) {
            compute_cuda_free(m->cuda);
        } else {
            compute_cpu_done(&m->cpu);
        }
    }
    if (m->stage >= MACHINE_STORAGE) {
        storage_uring_done(&m->storage);
    }
    if (m->stage >= MACHINE_LINKS) {
        links_close(&m->links);
    }
    if (m->stage >= MACHINE_COMPUTE_POOL) {
        work_pool_done(&m->compute_pool);
    }
    if (m->stage >= MACHINE_COPY_POOL) {
        work_pool_done(&m->copy_pool);
    }
    if (m->stage >= MACHINE_MEMORY) {
        node_memory_done(&m->memory);
    }
    free(m->memories);
    m->memories = NULL;
    m->stage = MACHINE_NOTHING;
}
