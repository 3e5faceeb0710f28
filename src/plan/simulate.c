/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "plan/simulate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "input/scenario_derive.h"
#include "plan/compose.h"
#include "plan/packet_mode.h"
#include "plan/simulation.h"

/* With requests in the system, none comes or finishes for this long: the run is stuck. Longer than
 * any transfer or forward that makes sense; looked at every so often. */
#define STUCK_AFTER_S 200000
#define WATCH_EVERY_S 10000

#define ASK_EVERY_S 10

/* The client's observer is the recorder, which is part of the simulation. */
static struct simulation *simulation_of(void *observer)
{
    return container_of((struct recorder *)observer, struct simulation, recorder);
}

static void all_over(void *self)
{
    struct simulation *s = simulation_of(self);
    s->over = true;
    loop_stop(&s->loop);
}

static void fault(void *self, const struct msg_fault *f, uint32_t node)
{
    struct simulation *s = simulation_of(self);
    err_set(&s->fault, f->status < 0 ? f->status : -EIO, "node %u, request %u: %s failed: %s", node,
            f->request, f->what, strerror(-f->status));
    loop_stop(&s->loop);
}

static void client_busy(void *self, bool busy)
{
    simulation_busy(simulation_of(self), busy);
}

/* Sessions are left, but nothing has arrived and nothing will. */
static bool nobody_comes(const struct client *c)
{
    return c->totals.sessions_over < c->totals.sessions && c->requests.n_used == 0 &&
           !loop_armed(&c->arrival_timer);
}

static void watch(struct loop_timer *t)
{
    struct simulation *s = container_of(t, struct simulation, watchdog);
    const struct client *c = &s->client;
    uint64_t now_ns = loop_now_ns(&s->loop);
    uint64_t progress = c->totals.requests + c->totals.requests_over;
    if (c->in_system == 0 || progress != s->watched_progress) {
        s->watched_progress = progress;
        s->progress_ns = now_ns;
    }
    if (now_ns - s->progress_ns >= STUCK_AFTER_S * NS_PER_S) {
        err_set(&s->fault, -EDEADLK,
                "stuck: %" PRIu64 " requests in the system, and for %d s of simulated time none "
                "came or finished",
                c->in_system, STUCK_AFTER_S);
        loop_stop(&s->loop);
    } else if (nobody_comes(c)) {
        err_set(&s->fault, -EDEADLK, "stuck: %" PRIu64 " sessions never started",
                c->totals.sessions - c->totals.sessions_over);
        loop_stop(&s->loop);
    } else {
        loop_arm(&s->loop, t, now_ns + WATCH_EVERY_S * NS_PER_S);
    }
}

static void ask_enough(struct loop_timer *t)
{
    struct simulation *s = container_of(t, struct simulation, enough_timer);
    s->enough = s->options.enough(s->options.enough_arg, &s->recorder.metrics);
    if (s->enough) {
        loop_stop(&s->loop);
    } else {
        loop_arm(&s->loop, t, loop_now_ns(&s->loop) + ASK_EVERY_S * NS_PER_S);
    }
}

static void tick(void *arg)
{
    struct simulation *s = arg;
    struct simulation_progress p = {.simulated_s = (double)loop_now_ns(&s->loop) * 1e-9,
                                    .events = s->loop.n_fired,
                                    .requests_over = s->client.totals.requests_over,
                                    .requests_total = s->n_turns};
    s->options.progress(s->options.progress_arg, &p);
}

static struct storage_config storage_of(const struct scenario *sc)
{
    const struct storage_profile *p = &sc->cluster.storage;
    struct scenario_derived d;
    scenario_derive(sc, &d);
    return (struct storage_config){.line_Bps = sc->cluster.snic_Bps,
                                   .efficiency_max = p->efficiency_max,
                                   .half_size_bytes = p->half_size_bytes,
                                   .stream_Bps = d.stream_Bps,
                                   .latency_in_rate = p->stream_ios > 0,
                                   .latency_median_s = p->latency_median_s,
                                   .latency_sigma = p->latency_sigma,
                                   .read_queues = p->read_queues,
                                   .in_service = {p->reads_in_service, p->writes_in_service}};
}

static enum vlarb_mode qos_mode(enum qos_other other, enum qos_mode port)
{
    static const enum vlarb_mode modes[] = {
        [QOS_SPEC] = VLARB_SPEC, [QOS_LOW_ONLY] = VLARB_LOW_ONLY, [QOS_NONE] = VLARB_NONE};
    return modes[other == QOS_OTHER_SAME ? port : (enum qos_mode)(other - QOS_OTHER_SPEC)];
}

static struct sim_isolation_config isolation_of(const struct scenario_system *s)
{
    return (struct sim_isolation_config){.port = qos_mode(QOS_OTHER_SAME, s->qos),
                                         .egress = qos_mode(s->qos_switch, s->qos),
                                         .local = qos_mode(s->qos_loopback, s->qos),
                                         .kv_queue_pairs = s->kv_queue_pairs,
                                         .pcie_classes = s->qos_pcie,
                                         .reads_on_pcie = s->restore == RESTORE_BY_GPU_DIRECT};
}

static struct sim_submit_config submit_of(const struct scenario_system *s)
{
    double batched_s = s->submit_batched_s + s->submit_doorbell_s / s->submit_batch;
    double nic_s = s->submit == SUBMIT_RDMA ? s->submit_rdma_s : batched_s;
    bool cuda = s->submit == SUBMIT_CUDA_MEMCPY;
    return (struct sim_submit_config){.request_s = nic_s,
                                      .local_request_s = cuda ? s->submit_cuda_s : nic_s,
                                      .threads = s->submit_threads,
                                      .local_past_nic = cuda};
}

static int build_tier(struct simulation *s)
{
    const struct cluster *c = &s->cluster;
    const struct dram_tier_config config = {.node_bytes = s->scenario->cluster.dram_cache_bytes,
                                            .block_bytes = kv_full_block_bytes(&c->kv),
                                            .keys = block_keys_of,
                                            .self = &s->block_keys};
    if (config.node_bytes == 0) {
        return 0;
    }
    block_keys_init(&s->block_keys, s->workload, &s->client.trie, c->kv.block_tok);
    return dram_tier_init(&s->tier, &s->dp, &config);
}

static int build_ports(struct simulation *s, struct err *err)
{
    const struct scenario *sc = s->scenario;
    const struct cluster *c = &s->cluster;
    struct sim_dp_config dp = {
        .n_nodes = cluster_nodes(c),
        .gpus_per_node = c->gpus_per_node,
        .cnic_Bps = compose_engine_nic_Bps(sc),
        .hbm_copies = compose_hbm_copies(sc),
        .dram_Bps = sc->cluster.dram_Bps,
        .storage = storage_of(sc),
        .answers = {.self = &s->compute,
                    .ns = sc->system.buffer_answer == BUFFER_ANSWER_WITH_STEP
                              ? sim_compute_answer_ns
                              : NULL},
        .cluster_Bps = sc->cluster.storage.cluster_Bps,
        .transfer_latency_ns = units_s_to_ns(sc->system.transfer_latency_s),
        .free_transfers = sc->system.free_transfers,
        .submit = submit_of(&sc->system),
        .isolation = isolation_of(&sc->system),
        .seed = sc->seed,
    };
    struct sim_compute_config compute = {
        .prefill_groups = c->prefill_nodes * c->gpus_per_node / c->prefill_ep_gpus,
        .prefill_group_gpus = c->prefill_ep_gpus,
        .decode_groups = c->decode_nodes * c->gpus_per_node / c->decode_ep_gpus,
        .decode_group_gpus = c->decode_ep_gpus,
        .stage_layers = c->stage_layers,
        .decode_lag_steps = sc->system.decode_lag_steps,
        .links = sc->system.fidelity == FIDELITY_PACKET ? &s->bursts.links : &s->dp.links,
    };
    int rc = sim_dp_init(&s->dp, &s->loop, &dp);
    rc = rc ? rc : build_tier(s);
    if (rc == 0 && sc->system.fidelity == FIDELITY_PACKET) {
        rc = packet_mode_build(s, err);
    }
    rc = rc ? rc
            : sim_messages_init(&s->messages, &s->loop, cluster_nodes(c) + MSG_NODE(0),
                                units_s_to_ns(sc->system.message_latency_s));
    return rc ? rc : sim_compute_init(&s->compute, &s->loop, &s->timing, &compute);
}

static int build_nodes(struct simulation *s)
{
    const struct cluster *c = &s->cluster;
    struct node_ports ports = {.loop = &s->loop,
                               .dp = &s->dp.dp,
                               .messages = &s->messages.port,
                               .compute = &s->compute.port};
    s->prefill = calloc(c->prefill_nodes, sizeof(*s->prefill));
    s->decode = calloc(c->decode_nodes, sizeof(*s->decode));
    if (!s->prefill || !s->decode) {
        return -ENOMEM;
    }
    for (; s->n_prefill < c->prefill_nodes; s->n_prefill++) {
        int rc = prefill_node_init(&s->prefill[s->n_prefill], c, &ports, s->n_prefill);
        if (rc) {
            return rc;
        }
    }
    for (; s->n_decode < c->decode_nodes; s->n_decode++) {
        int rc =
            decode_node_init(&s->decode[s->n_decode], c, &ports, c->prefill_nodes + s->n_decode);
        if (rc) {
            return rc;
        }
    }
    return 0;
}

static int build(struct simulation *s, struct err *err)
{
    const struct cluster *c = &s->cluster;
    struct client_observer observer;
    s->recorder = (struct recorder){.scenario = s->scenario,
                                    .cluster = c,
                                    .workload = s->workload,
                                    .requests_csv = s->options.requests_csv,
                                    .decisions_csv = s->options.decisions_csv};
    recorder_observe_client(&s->recorder, &observer);
    observer.all_over = all_over;
    observer.fault = fault;
    observer.busy = client_busy;
    simulation_idle_init(s);
    struct metrics_probe probe = {.self = s, .read = simulation_probe};
    virtual_driver_init(&s->driver, s->options.interrupted, s->options.progress ? tick : NULL, s);
    int rc = loop_init(&s->loop, &s->driver.driver, s->scenario->tie_seed);
    rc = rc ? rc : build_ports(s, err);
    rc = rc ? rc : build_nodes(s);
    rc = rc ? rc : central_init(&s->central, c, &s->loop, &s->messages.port);
    rc = rc ? rc : client_init(&s->client, c, s->workload, &s->loop, &s->messages.port, &observer);
    rc = rc ? rc : recorder_start(&s->recorder, &s->loop, &probe);
    recorder_observe_central(&s->recorder, &s->central.observer);
    loop_timer_init(&s->watchdog, watch);
    loop_timer_init(&s->enough_timer, ask_enough);
    if (rc == 0) {
        loop_arm(&s->loop, &s->watchdog, WATCH_EVERY_S * NS_PER_S);
    }
    if (rc == 0 && s->options.enough) {
        loop_arm(&s->loop, &s->enough_timer, ASK_EVERY_S * NS_PER_S);
    }
    return rc;
}

int simulation_new(const struct scenario *sc, const struct simulation_options *options,
                   struct simulation **ret_simulation, struct err *err)
{
    struct simulation *s = calloc(1, sizeof(*s));
    if (!s) {
        return err_nomem(err);
    }
    s->scenario = sc;
    s->options = *options;
    uint64_t context = sc->model.max_context_tok;
    int rc = compose_cluster(sc, &s->timing, &s->cluster, err);
    rc = rc ? rc
            : workload_build(&sc->workload, (uint32_t)(context < UINT32_MAX ? context : 0),
                             sc->system.block_tok, sc->seed, &s->workload, err);
    rc = rc ? rc : compose_workload(&s->cluster, s->workload, sc->workload.trace, err);
    if (rc == 0) {
        struct workload_info info;
        workload_info(s->workload, &info);
        s->n_turns = info.n_turns;
        rc = sc->system.fidelity == FIDELITY_PACKET
                 ? packet_mode_check(&s->cluster, s->workload, err)
                 : 0;
        rc = rc ? rc : build(s, err);
        rc = rc ? err_set(err, rc, "cannot build the simulation: %s", strerror(-rc)) : 0;
    }
    if (rc) {
        simulation_free(s);
        return rc;
    }
    *ret_simulation = s;
    return 0;
}

void simulation_free(struct simulation *s)
{
    if (!s) {
        return;
    }
    for (uint32_t i = 0; i < s->n_prefill; i++) {
        prefill_node_done(&s->prefill[i]);
    }
    for (uint32_t i = 0; i < s->n_decode; i++) {
        decode_node_done(&s->decode[i]);
    }
    free(s->prefill);
    free(s->decode);
    if (s->loop.heap) {
        recorder_done(&s->recorder);
        client_done(&s->client);
        central_done(&s->central);
        sim_compute_done(&s->compute);
        sim_messages_done(&s->messages);
        packet_mode_done(s);
        if (s->dp.tier) {
            dram_tier_done(&s->tier);
            block_keys_done(&s->block_keys);
        }
        sim_dp_done(&s->dp);
        loop_done(&s->loop);
    }
    workload_free(s->workload);
    free(s);
}

const struct workload *simulation_workload(const struct simulation *s)
{
    return s->workload;
}

int simulation_run(struct simulation *s, struct result *ret, struct err *err)
{
    int rc = loop_run(&s->loop);
    if (s->fault.set) {
        *err = s->fault;
        return err->code;
    }
    if (rc == -ECANCELED && s->options.interrupted && atomic_load(s->options.interrupted)) {
        return err_set(err, -ECANCELED, "interrupted at %.6g s of simulated time",
                       (double)loop_now_ns(&s->loop) * 1e-9);
    }
    if (!s->over && !s->enough) {
        return err_set(err, -EDEADLK,
                       "the run ended with %" PRIu64 " of %" PRIu64 " requests served",
                       s->client.totals.requests_over, s->n_turns);
    }
    rc = s->enough ? 0 : simulation_check(s, err);
    if (rc) {
        return rc;
    }
    simulation_result(s, ret);
    if (s->options.series_csv &&
        metrics_write_series(&s->recorder.metrics, s->options.series_csv)) {
        return err_set(err, -EIO, "cannot write the series");
    }
    return 0;
}
