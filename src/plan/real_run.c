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
#include "input/scenario_keys.h"
#include "plan/compose.h"
#include "plan/real_figures.h"
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

/* What hw.retry cannot do: see sched/retry.h. */
static int check_retry(const struct cluster *c, struct err *err)
{
    bool prefill_spans = c->gpus_per_node % c->prefill_ep_gpus != 0;
    if (prefill_spans || c->gpus_per_node % c->decode_ep_gpus != 0) {
        err_field(err, "system.%s_ep_gpus", prefill_spans ? "prefill" : "decode");
        return err_set(err, -EINVAL,
                       "found EP groups of %u prefill and %u decode GPUs on nodes of %u; with "
                       "hw.retry none may span nodes, as one that has lost a member never meets "
                       "again",
                       c->prefill_ep_gpus, c->decode_ep_gpus, c->gpus_per_node);
    }
    if (c->reuse != CLUSTER_REUSE_NONE) {
        err_field(err, "system.decode_reuse");
        return err_set(err, -EINVAL,
                       "found that decode nodes keep KV; with hw.retry they must not, as what a "
                       "dead one has kept is not forgotten");
    }
    return 0;
}

static int check_hw(const struct scenario *sc, const struct cluster *c, struct err *err)
{
    const struct scenario_hw *hw = &sc->hw;
    bool rdma = *hw->rdma_device || hw->service_level || hw->traffic_class;
    if (rdma && strcmp(hw->transport, "verbs") != 0) {
        err_field(err, *hw->rdma_device    ? "hw.rdma_device"
                       : hw->service_level ? "hw.service_level"
                                           : "hw.traffic_class");
        return err_set(err, -EINVAL, "found a value, but hw.transport is \"%s\", not verbs",
                       hw->transport);
    }
    return hw->retry ? check_retry(c, err) : 0;
}

static int check_scenario(const struct scenario *sc, const struct cluster *c, struct err *err)
{
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
        return err_set(err, -EINVAL,
                       "found \"%s\", expected \"kv\": nodes of a real run store KV as it is and "
                       "read it into DRAM",
                       scenario_key_find("system.restore")->words[sc->system.restore]);
    }
    if (c->kv.layer_tok_bytes % sizeof(float)) {
        err_field(err, "model.kv_bytes_per_tok_layer");
        return err_set(err, -EINVAL,
                       "found %" PRIu64 ", expected a multiple of 4: a real run holds fp32",
                       c->kv.layer_tok_bytes);
    }
    return check_hw(sc, c, err);
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
    snprintf(c->compute, sizeof(c->compute), "%s", hw->compute);
    snprintf(c->transport, sizeof(c->transport), "%s", hw->transport);
    snprintf(c->rdma_device, sizeof(c->rdma_device), "%s", hw->rdma_device);
    c->service_level = hw->service_level;
    c->traffic_class = hw->traffic_class;
    snprintf(c->storage, sizeof(c->storage), "%s", hw->storage);
    snprintf(c->storage_dir, sizeof(c->storage_dir), "%s", r->directory);
    /* A session has one request at a time, so a node never has more than there are sessions. */
    c->n_spans = r->workload->n_sessions;
    c->cluster.retry = hw->retry;
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
    remove(path); /* what stays shows in its directory */
    return 0;
}

static void remove_directory(struct real_run *r)
{
    char text[400];
    nftw(r->directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    if (rmdir(r->directory) && errno != ENOENT) {
        snprintf(text, sizeof(text), "%s cannot be removed: %s", r->directory, strerror(errno));
        r->options.note(r->options.self, text);
    }
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
        remove_directory(r);
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

/* deaths: of other nodes, which leave faults and transfers that failed. */
static int check_node(const struct agent_report *a, const char *name, bool deaths, struct err *err)
{
    char what[96];
    const struct {
        const char *what;
        uint64_t got;
    } zeros[] = {{"faults", deaths ? 0 : a->faults},
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
        rc = equal(err, what, a->bytes_out[c] + (deaths ? a->bytes_failed[c] : 0), a->bytes_in[c]);
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
        if (hub_node_died(r->hub, i, NULL)) {
            continue;
        }
        hub_node_name(c, i, name, sizeof(name));
        rc = check_node(a, name, hub_deaths(r->hub) > 0, err);
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
    if (rc || hub_deaths(r->hub) > 0) {
        return rc; /* what the dead have done nobody tells, and some was done twice */
    }
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

static int add_figures(const struct real_run *r, struct result *ret, struct err *err)
{
    uint32_t n = cluster_nodes(&r->config.cluster);
    const struct agent_report **reports = calloc(n, sizeof(*reports));
    if (!reports) {
        return err_nomem(err);
    }
    for (uint32_t i = 0; i < n; i++) {
        reports[i] = hub_report(r->hub, i);
    }
    int rc = real_figures(&r->config.cluster, &r->scenario->cluster, reports, ret, err);
    free(reports);
    return rc;
}

static int add_retry(struct real_run *r, struct result *ret, struct err *err)
{
    const struct client_totals *t = &hub_client(r->hub)->totals;
    const struct cluster *c = &r->config.cluster;
    ret->deaths = calloc(hub_deaths(r->hub) + 1, sizeof(*ret->deaths));
    if (!ret->deaths) {
        return err_nomem(err);
    }
    for (uint32_t i = 0; i < cluster_nodes(c); i++) {
        uint64_t at_ns;
        if (hub_node_died(r->hub, i, &at_ns)) {
            struct result_death *d = &ret->deaths[ret->n_deaths++];
            hub_node_name(c, i, d->node, sizeof(d->node));
            d->at_s = (double)(at_ns - hub_start_ns(r->hub)) * 1e-9;
        }
    }
    ret->retry = true;
    ret->requests_rerun = t->reruns;
    ret->answers_not_durable = t->not_durable;
    return 0;
}

static int make_result(struct real_run *r, const struct totals *t, struct result *ret,
                       struct err *err)
{
    const struct cluster *c = &r->config.cluster;
    recorder_result(&r->recorder, "real", r->info.trace->sha256, ret);
    ret->events = hub_loop(r->hub)->n_fired;
    ret->storage_read_bytes = t->read_bytes;
    ret->storage_written_bytes = t->written_bytes;
    ret->pe_path_bytes = t->pe_bytes;
    ret->de_path_bytes = t->read_bytes - t->pe_bytes;
    ret->reuse = c->reuse != CLUSTER_REUSE_NONE;
    ret->reused_tok = t->kept_tok;
    ret->reused_bytes = t->kept_tok * c->kv.layer_tok_bytes * c->kv.n_layers;
    int rc = add_figures(r, ret, err);
    return rc || !c->retry ? rc : add_retry(r, ret, err);
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
        result_done(ret);
        return err_set(err, -EIO, "cannot write the series");
    }
    return 0;
}
