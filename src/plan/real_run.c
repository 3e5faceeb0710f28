/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "plan/real_run.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "hw/curve_socket.h"
#include "plan/compose.h"
#include "plan/recorder.h"
#include "real/hub.h"

#define PEER_TIMEOUT_NS (10 * NS_PER_S)

struct real_run {
    const struct scenario *scenario;
    struct real_run_options options;
    struct run_config config;
    struct workload *workload;
    struct workload_info info;
    struct recorder recorder;
    bool recording;
    struct hub *hub;
    char directory[300]; /* of this run, removed at the end; "" before it is made */
    char join_path[320];
};

/* What a real run cannot do */

static int check_scenario(const struct scenario *sc, const struct cluster *c, struct err *err)
{
    if (c->prefill_ep_gpus > c->gpus_per_node || c->decode_ep_gpus > c->gpus_per_node) {
        err_field(err, "system.%s_ep_gpus",
                  c->prefill_ep_gpus > c->gpus_per_node ? "prefill" : "decode");
        return err_set(
            err, -EINVAL,
            "found EP groups of %u prefill and %u decode GPUs on nodes of %u; a real run "
            "has none that span nodes",
            c->prefill_ep_gpus, c->decode_ep_gpus, c->gpus_per_node);
    }
    if (c->gpus_per_node > MSG_MAX_GPUS) {
        err_field(err, "cluster.gpus_per_node");
        return err_set(err, -EINVAL, "found %u, expected at most %u in a real run",
                       c->gpus_per_node, MSG_MAX_GPUS);
    }
    if (sc->system.free_transfers) {
        err_field(err, "system.free_transfers");
        return err_set(err, -EINVAL, "found true, but real transfers take time");
    }
    if (c->decode_in_hbm) {
        err_field(err, "system.decode_buffer");
        return err_set(err, -EINVAL,
                       "found \"hbm\", expected \"dram\": in a real run storage is read into DRAM");
    }
    if (c->storage_blocks > 0) {
        err_field(err, "cluster.storage.capacity_bytes");
        return err_set(err, -EINVAL,
                       "found %" PRIu64 ", expected 0: a real run deletes nothing from storage",
                       sc->cluster.storage.capacity_bytes);
    }
    if (sc->system.tp_gpus > 1) {
        err_field(err, "system.tp_gpus");
        return err_set(err, -EINVAL, "found %u, expected 1: an engine of a real run is one GPU",
                       sc->system.tp_gpus);
    }
    if (sc->cluster.dram_cache_bytes > 0) {
        err_field(err, "cluster.dram_cache_bytes");
        return err_set(err, -EINVAL,
                       "found %" PRIu64 ", expected 0: real runs read from storage alone",
                       sc->cluster.dram_cache_bytes);
    }
    if (c->restore != CLUSTER_RESTORE_KV) {
        err_field(err, "system.restore");
        return err_set(err, -EINVAL, "expected \"kv\": a real run has no other yet");
    }
    if (c->kv.layer_tok_bytes % sizeof(float)) {
        err_field(err, "model.kv_bytes_per_tok_layer");
        return err_set(err, -EINVAL,
                       "found %" PRIu64 ", expected a multiple of 4: a real run holds fp32",
                       c->kv.layer_tok_bytes);
    }
    return 0;
}

/* Every block that is read must have been written before by this run: true of private chains, not
 * of blocks that sessions share, as storage keeps a chain per session. */
static int check_workload(const struct cluster *c, const char *trace, struct err *err)
{
    if (c->shared_prefixes) {
        err_field(err, "workload.trace");
        return err_set(
            err, -EINVAL,
            "found a trace with block ids (%s), expected one without: in a real run every "
            "session has a chain of its own in storage",
            trace);
    }
    return 0;
}

/* Configuration of the agents */

static int configure(struct real_run *r, struct err *err)
{
    const struct scenario_hw *hw = &r->scenario->hw;
    struct run_config *c = &r->config;
    c->seed = r->scenario->seed;
    c->heads = hw->heads;
    c->check_every = hw->check_every;
    c->compute_threads = hw->compute_threads;
    c->transport_depth = hw->transport_depth;
    c->storage_depth = hw->storage_depth;
    c->peer_timeout_ns = PEER_TIMEOUT_NS;
    snprintf(c->transport, sizeof(c->transport), "%s", hw->transport);
    snprintf(c->rdma_device, sizeof(c->rdma_device), "%s", hw->rdma_device);
    c->service_level = hw->service_level;
    c->traffic_class = hw->traffic_class;
    snprintf(c->storage_dir, sizeof(c->storage_dir), "%s", r->directory);
    /* A session has one request at a time, so a node never has more than there are sessions. */
    c->n_spans = r->workload->n_sessions;
    c->cluster.staging_offset_bytes = c->n_spans * c->cluster.span_bytes;
    c->cluster.scheduler_cost_ns = 0; /* it takes the time that it takes */
    return curve_secret_new(c->tcp_secret, err);
}

static int make_directory(struct real_run *r, struct err *err)
{
    const char *parent = r->scenario->hw.storage_dir;
    const char *tmp = getenv("TMPDIR");
    if (!*parent && r->options.join_path) {
        err_field(err, "hw.storage_dir");
        return err_set(err, -EINVAL, "found \"\", expected a directory that all nodes see");
    }
    parent = *parent ? parent : tmp && *tmp ? tmp : "/tmp";
    int n = snprintf(r->directory, sizeof(r->directory), "%s/dualpath-XXXXXX", parent);
    if (n < 0 || (size_t)n >= sizeof(r->directory) || !mkdtemp(r->directory)) {
        r->directory[0] = '\0';
        err_field(err, "hw.storage_dir");
        return err_set(err, -EINVAL, "cannot make a directory in %s: %s", parent, strerror(errno));
    }
    if (r->options.join_path) {
        snprintf(r->join_path, sizeof(r->join_path), "%s", r->options.join_path);
    } else {
        snprintf(r->join_path, sizeof(r->join_path), "%s/join.json", r->directory);
    }
    return 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

/* The run */

static void probe(void *self, struct metrics_sample *s)
{
    (void)self; /* agents report at the end only */
    memset(s->used_s, 0, sizeof(s->used_s));
}

static int begin(void *self, struct hub *h)
{
    struct real_run *r = self;
    const struct metrics_probe p = {.self = r, .read = probe};
    int rc = recorder_start(&r->recorder, hub_loop(h), &p);
    r->recording = rc == 0;
    recorder_observe_central(&r->recorder, &hub_central(h)->observer);
    return rc;
}

static void note(void *self, const char *text)
{
    struct real_run *r = self;
    r->options.note(r->options.self, text);
}

static int open_hub(struct real_run *r, struct err *err)
{
    struct hub_options o = {
        .config = &r->config,
        .workload = r->workload,
        .join_path = r->join_path,
        .host = r->options.listen ? r->options.listen : "127.0.0.1",
        .start_agents = !r->options.join_path,
        .join_timeout_ns = units_s_to_ns(r->options.join_timeout_s),
        .stuck_ns = units_s_to_ns(r->scenario->hw.stuck_s),
        .interrupted = r->options.interrupted,
        .self = r,
        .note = note,
        .begin = begin,
    };
    r->recorder = (struct recorder){.scenario = r->scenario,
                                    .cluster = &r->config.cluster,
                                    .workload = r->workload,
                                    .requests_csv = r->options.requests_csv,
                                    .decisions_csv = r->options.decisions_csv};
    recorder_observe_client(&r->recorder, &o.observer);
    return hub_new(&o, &r->hub, err);
}

static int build(struct real_run *r, struct err *err)
{
    const struct scenario *sc = r->scenario;
    struct cluster *c = &r->config.cluster;
    uint64_t context = sc->model.max_context_tok;
    int rc = compose_cluster(sc, &r->config.timing, c, err);
    rc = rc ? rc : check_scenario(sc, c, err);
    rc = rc ? rc
            : workload_build(&sc->workload, (uint32_t)(context < UINT32_MAX ? context : 0),
                             sc->system.block_tok, sc->seed, &r->workload, err);
    if (rc) {
        return rc;
    }
    workload_info(r->workload, &r->info);
    rc = compose_workload(c, r->workload, sc->workload.trace, err);
    rc = rc ? rc : check_workload(c, sc->workload.trace, err);
    rc = rc ? rc : make_directory(r, err);
    rc = rc ? rc : configure(r, err);
    return rc ? rc : open_hub(r, err);
}

int real_run_new(const struct scenario *sc, const struct real_run_options *options,
                 struct real_run **ret, struct err *err)
{
    struct real_run *r = calloc(1, sizeof(*r));
    if (!r) {
        return err_nomem(err);
    }
    r->scenario = sc;
    r->options = *options;
    int rc = build(r, err);
    if (rc) {
        real_run_free(r);
        return rc;
    }
    *ret = r;
    return 0;
}

void real_run_free(struct real_run *r)
{
    if (!r) {
        return;
    }
    hub_free(r->hub);
    if (r->recording) {
        recorder_done(&r->recorder);
    }
    if (r->directory[0]) {
        nftw(r->directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    }
    workload_free(r->workload);
    free(r);
}

const struct workload *real_run_workload(const struct real_run *r)
{
    return r->workload;
}

/* Conservation, over the reports of all agents */

static int equal(struct err *err, const char *what, uint64_t got, uint64_t expected)
{
    if (got == expected) {
        return 0;
    }
    err_field(err, "conservation");
    return err_set(err, -EPROTO, "%s: found %" PRIu64 ", expected %" PRIu64, what, got, expected);
}

static int check_node(const struct agent_report *a, const char *name, struct err *err)
{
    char what[96];
    const struct {
        const char *what;
        uint64_t got;
    } zeros[] = {{"faults", a->faults},
                 {"transfers in flight", a->in_flight},
                 {"room in use", a->room_used},
                 {"requests left", a->requests_left}};
    int rc = 0;
    for (size_t i = 0; i < sizeof(zeros) / sizeof(zeros[0]) && rc == 0; i++) {
        snprintf(what, sizeof(what), "%s: %s", name, zeros[i].what);
        rc = equal(err, what, zeros[i].got, 0);
    }
    for (unsigned c = 0; c < DP_N_CLASSES && rc == 0; c++) {
        snprintf(what, sizeof(what), "%s: bytes of %s", name, dp_class_name((enum dp_class)c));
        rc = equal(err, what, a->bytes_out[c], a->bytes_in[c]);
    }
    return rc;
}

struct totals {
    uint64_t computed_tok, generated_tok, persisted_blocks, read_bytes, written_bytes, pe_bytes;
    uint64_t rows_verified, outputs_checked;
    uint64_t kept_tok; /* hits that decode nodes did not have to read */
};

static int add_up(const struct real_run *r, struct totals *t, struct err *err)
{
    const struct cluster *c = &r->config.cluster;
    uint64_t block_bytes = kv_full_block_bytes(&c->kv);
    int rc = 0;
    for (uint32_t i = 0; i < cluster_nodes(c) && rc == 0; i++) {
        const struct agent_report *a = hub_report(r->hub, i);
        char name[32];
        hub_node_name(c, i, name, sizeof(name));
        rc = check_node(a, name, err);
        t->computed_tok += a->computed_tok;
        t->generated_tok += a->generated_tok;
        t->persisted_blocks += a->persisted_blocks;
        t->kept_tok += a->kept_tok;
        t->read_bytes += a->bytes_out[DP_CLASS_READ];
        t->pe_bytes += cluster_is_prefill(c, i) ? a->bytes_out[DP_CLASS_READ] : 0;
        t->written_bytes += a->blocks_written * block_bytes;
        t->rows_verified += a->rows_verified;
        t->outputs_checked += a->outputs_checked;
    }
    return rc;
}

static int check(const struct real_run *r, struct totals *t, struct err *err)
{
    const struct client_totals *c = &hub_client(r->hub)->totals;
    const struct kv_layout *kv = &r->config.cluster.kv;
    int rc = add_up(r, t, err);
    rc = rc ? rc : equal(err, "requests served", c->requests_over, r->info.n_turns);
    rc = rc ? rc : equal(err, "prompt tokens served", c->served_prompt_tok, c->prompt_tok);
    rc = rc ? rc : equal(err, "tokens generated", c->served_gen_tok, c->gen_tok);
    rc = rc ? rc
            : equal(err, "tokens computed by prefill", t->computed_tok, c->prompt_tok - c->hit_tok);
    rc = rc ? rc
            : equal(err, "tokens from decode steps", t->generated_tok, c->gen_tok - c->requests);
    rc = rc ? rc : equal(err, "blocks persisted", t->persisted_blocks, r->recorder.expected_blocks);
    rc = rc ? rc
            : equal(err, "bytes written to storage", t->written_bytes,
                    t->persisted_blocks * kv_full_block_bytes(kv));
    return rc ? rc
              : equal(err, "bytes read from storage", t->read_bytes,
                      (c->hit_tok - t->kept_tok) * kv->layer_tok_bytes * kv->n_layers);
}

/* The figures that agents report, over the whole run */

static double max_over_mean(const double *v, uint32_t n)
{
    double sum = 0, max = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += v[i];
        max = v[i] > max ? v[i] : max;
    }
    return sum > 0 ? max * n / sum : 1;
}

/* Agents report at the end only: use over the whole run stands for the steady part as well, and
 * what is not measured stays 0. */
static void add_use(const struct real_run *r, double attention_s, const double *snic_bytes,
                    struct result *ret)
{
    const struct cluster *c = &r->config.cluster;
    double jct_s = ret->jct_s > 0 ? ret->jct_s : 1, snic_Bps = r->scenario->cluster.snic_Bps;
    for (uint32_t i = 0; i < cluster_nodes(c); i++) {
        bool prefill = cluster_is_prefill(c, i);
        uint32_t n_nodes = prefill ? c->prefill_nodes : c->decode_nodes;
        ret->utilization[prefill ? RESULT_PE_SNIC : RESULT_DE_SNIC] +=
            snic_bytes[i] / (snic_Bps * n_nodes * jct_s);
    }
    ret->utilization[RESULT_PE_GPU] = attention_s / (c->prefill_nodes * c->gpus_per_node) / jct_s;
    for (unsigned i = 0; i < RESULT_N_RESOURCES; i++) {
        ret->utilization_run[i] = ret->utilization[i];
        if (ret->utilization[i] > ret->utilization[ret->bottleneck]) {
            ret->bottleneck = (enum result_resource)i;
        }
    }
    ret->bottleneck_frac = ret->utilization[ret->bottleneck];
}

static int add_balance(const struct real_run *r, struct result *ret, struct err *err)
{
    const struct cluster *c = &r->config.cluster;
    uint32_t n_nodes = cluster_nodes(c), n_engines = c->prefill_nodes * c->gpus_per_node;
    double *snic = calloc(n_nodes, sizeof(*snic)),
           *attention = calloc(n_engines, sizeof(*attention));
    int rc = snic && attention ? 0 : err_nomem(err);
    double attention_s = 0;
    for (uint32_t i = 0; i < n_nodes && rc == 0; i++) {
        const struct agent_report *a = hub_report(r->hub, i);
        snic[i] =
            (double)(a->blocks_read + a->blocks_written) * (double)kv_full_block_bytes(&c->kv);
        for (uint32_t g = 0; cluster_is_prefill(c, i) && g < c->gpus_per_node; g++) {
            attention[i * c->gpus_per_node + g] = (double)a->attention_ns[g];
            attention_s += (double)a->attention_ns[g] * 1e-9;
        }
    }
    if (rc == 0) {
        uint32_t p = c->prefill_nodes;
        ret->snic_max_avg = max_over_mean(snic, n_nodes);
        ret->pe_snic_max_avg = max_over_mean(snic, p);
        ret->de_snic_max_avg = max_over_mean(snic + p, n_nodes - p);
        ret->attention_max_avg = max_over_mean(attention, n_engines);
        add_use(r, attention_s, snic, ret);
    }
    free(snic);
    free(attention);
    return rc;
}

static int make_result(struct real_run *r, const struct totals *t, struct result *ret,
                       struct err *err)
{
    recorder_result(&r->recorder, "real", r->info.trace->sha256, ret);
    ret->events = hub_loop(r->hub)->n_fired;
    ret->storage_read_bytes = t->read_bytes;
    ret->storage_written_bytes = t->written_bytes;
    ret->pe_path_bytes = t->pe_bytes;
    ret->de_path_bytes = t->read_bytes - t->pe_bytes;
    const struct cluster *c = &r->config.cluster;
    ret->reuse = c->reuse != CLUSTER_REUSE_NONE;
    ret->reused_bytes = t->kept_tok * c->kv.layer_tok_bytes * c->kv.n_layers;
    return add_balance(r, ret, err);
}

static void tell_checks(struct real_run *r, const struct totals *t)
{
    char text[256];
    const struct central *s = hub_central(r->hub);
    snprintf(text, sizeof(text),
             "verified: %" PRIu64 " KV rows, %" PRIu64 " attention outputs; %" PRIu64
             " decisions, hash %016" PRIx64,
             t->rows_verified, t->outputs_checked, s->n_decisions, s->decision_hash);
    note(r, text);
}

int real_run_go(struct real_run *r, struct result *ret, struct err *err)
{
    struct totals t = {0};
    int rc = hub_run(r->hub, err);
    rc = rc ? rc : check(r, &t, err);
    rc = rc ? rc : make_result(r, &t, ret, err);
    if (rc) {
        return rc;
    }
    tell_checks(r, &t);
    if (r->options.series_csv &&
        metrics_write_series(&r->recorder.metrics, r->options.series_csv)) {
        return err_set(err, -EIO, "cannot write the series");
    }
    return 0;
}
