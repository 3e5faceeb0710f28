/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What depends on several keys: automatic values, contradictions, and whether it all fits. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "input/scenario_derive.h"
#include "input/scenario_reading.h"

/* Assumed: the sizes of the EP groups are unpublished. 32 leaves V3.2 28 GB of 80 for KV. */
#define PREFILL_EP_AUTO 16
#define DECODE_EP_AUTO  32

/* The longest set of the agent-trace generator. */
#define GENERATOR_LONGEST_TOK 65536

static bool is_generator(const char *trace)
{
    return strcmp(trace, "deepseek-coding") == 0;
}

static bool is_explicit(struct scenario_reading *r, const char *path)
{
    enum scenario_by by = scenario_origin_of(r, path)->by;
    return by == SCENARIO_BY_FILE || by == SCENARIO_BY_SET;
}

/* The largest group of at most cap GPUs that divides the engines, preferably of whole nodes. */
static uint32_t auto_ep_gpus(const struct scenario *sc, uint32_t nodes, uint32_t cap)
{
    uint32_t node_gpus = sc->cluster.gpus_per_node, engines = nodes * node_gpus;
    if (!sc->model.expert_parallel || sc->system.tp_gpus > 1) {
        return 1;
    }
    for (uint32_t gpus = cap - cap % node_gpus; gpus > 0; gpus -= node_gpus) {
        if (engines % gpus == 0) {
            return gpus;
        }
    }
    for (uint32_t gpus = cap; gpus > 1; gpus--) {
        if (engines % gpus == 0) {
            return gpus;
        }
    }
    return 1;
}

static void mark(struct scenario_reading *r, const char *path, enum scenario_by by)
{
    *scenario_origin_of(r, path) = (struct scenario_origin){.by = by};
}

/* A changed shape or type of the KV-cache changes its bytes, unless those are set as well. */
static int resolve_kv_layout(struct scenario_reading *r)
{
    static const char *const shapes[] = {
        "model.kv_dtype",    "model.attention",    "model.n_kv_heads",
        "model.head_dim",    "model.kv_lora_rank", "model.rope_dim",
        "model.indexer_dim", "model.n_layers",     "model.n_window_layers",
    };
    bool changed = false;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        changed = changed || is_explicit(r, shapes[i]);
    }
    if (!changed || is_explicit(r, "model.kv_bytes_per_tok_layer")) {
        return 0;
    }
    double indexer_bytes = r->sc.model.indexer_bytes_per_tok_layer;
    if (card_set_kv_layout(&r->sc.model) < 0) {
        return scenario_key_error(r, scenario_key_find("model.kv_dtype"),
                                  "found \"%s\", expected one of \"fp8\", \"bf16\", \"fp16\"",
                                  r->sc.model.kv_dtype);
    }
    mark(r, "model.kv_bytes_per_tok_layer", SCENARIO_BY_RULE);
    if (is_explicit(r, "model.indexer_bytes_per_tok_layer")) {
        r->sc.model.indexer_bytes_per_tok_layer = indexer_bytes;
    } else {
        mark(r, "model.indexer_bytes_per_tok_layer", SCENARIO_BY_RULE);
    }
    return 0;
}

int scenario_resolve(struct scenario_reading *r)
{
    struct scenario *sc = &r->sc;
    if (sc->cluster.hbm_bytes == 0) {
        sc->cluster.hbm_bytes = (uint64_t)sc->cluster.gpu.hbm_bytes;
        mark(r, "cluster.hbm_bytes", SCENARIO_BY_PROFILE);
    }
    if (sc->workload.max_len_tok == 0) {
        bool cut =
            is_generator(sc->workload.trace) && sc->model.max_context_tok > GENERATOR_LONGEST_TOK;
        sc->workload.max_len_tok = cut ? GENERATOR_LONGEST_TOK : sc->model.max_context_tok;
        mark(r, "workload.max_len_tok", SCENARIO_BY_RULE);
    }
    if (sc->system.prefill_ep_gpus == 0) {
        sc->system.prefill_ep_gpus = auto_ep_gpus(sc, sc->cluster.prefill_nodes, PREFILL_EP_AUTO);
        mark(r, "system.prefill_ep_gpus", SCENARIO_BY_RULE);
    }
    if (sc->system.decode_ep_gpus == 0) {
        sc->system.decode_ep_gpus = auto_ep_gpus(sc, sc->cluster.decode_nodes, DECODE_EP_AUTO);
        mark(r, "system.decode_ep_gpus", SCENARIO_BY_RULE);
    }
    /* Switching the second path off settles the policy, unless that is set as well. */
    if (!sc->system.dual_path && !is_explicit(r, "system.path_policy")) {
        if (sc->system.path_policy != PATH_PREFILL) {
            mark(r, "system.path_policy", SCENARIO_BY_RULE);
        }
        sc->system.path_policy = PATH_PREFILL;
    }
    return resolve_kv_layout(r);
}

static int check_policies(struct scenario_reading *r)
{
    const struct scenario *sc = &r->sc;
    if (!sc->system.dual_path && sc->system.path_policy != PATH_PREFILL) {
        const struct scenario_key *key = scenario_key_find("system.path_policy");
        bool said = is_explicit(r, "system.dual_path");
        return scenario_key_error(
            r, key,
            "found \"%s\", expected \"prefill\": there is one path only, as system.dual_path is "
            "false%s%s%s",
            key->words[sc->system.path_policy], said ? "" : " by the preset \"",
            said ? "" : sc->system.preset, said ? "" : "\"");
    }
    return 0;
}

/* What decode nodes keep, and where they gather prompts. */
static int check_decode(struct scenario_reading *r)
{
    const struct scenario_system *s = &r->sc.system;
    const struct scenario_key *reuse = scenario_key_find("system.decode_reuse");
    if (s->decode_reuse != DECODE_REUSE_NONE && !s->dual_path) {
        return scenario_key_error(r, reuse,
                                  "found \"%s\", expected \"none\": system.dual_path is false, so "
                                  "that no hit may come from a decode node",
                                  reuse->words[s->decode_reuse]);
    }
    if (s->decode_reuse == DECODE_REUSE_HBM && s->hbm_promise != HBM_PROMISE_ASSIGNMENT) {
        const struct scenario_key *promise = scenario_key_find("system.hbm_promise");
        return scenario_key_error(r, reuse,
                                  "found \"hbm\", expected \"dram\" or \"none\", or "
                                  "system.hbm_promise=assignment: it is \"%s\", so that requests "
                                  "that hold kept HBM could wait for each other's",
                                  promise->words[s->hbm_promise]);
    }
    if (s->decode_reuse == DECODE_REUSE_DRAM && s->decode_buffer == DECODE_BUFFER_HBM) {
        return scenario_key_error(
            r, reuse,
            "found \"dram\", expected \"hbm\" or \"none\": "
            "system.decode_buffer is \"hbm\", so that no prompt comes to DRAM");
    }
    return 0;
}

/* What is stored does not go with every other option. */
static int check_restore_alone(struct scenario_reading *r, const struct scenario_key *key,
                               const char *word)
{
    const struct scenario_system *s = &r->sc.system;
    const struct {
        bool set;
        const char *what;
    } others[] = {{s->fidelity == FIDELITY_PACKET, "system.fidelity \"packet\""},
                  {s->path_policy == PATH_SPLIT, "system.path_policy \"split\""},
                  {s->decode_buffer != DECODE_BUFFER_DRAM, "system.decode_buffer \"hbm\""},
                  {s->decode_reuse != DECODE_REUSE_NONE, "system.decode_reuse"},
                  {s->tp_gpus > 1, "system.tp_gpus above 1"},
                  {r->sc.cluster.dram_cache_bytes > 0, "cluster.dram_cache_bytes"}};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (others[i].set) {
            return scenario_key_error(r, key, "found \"%s\", expected \"kv\" with %s", word,
                                      others[i].what);
        }
    }
    return 0;
}

/* A ratio is rounded up to whole bytes: below one there is nothing left of it. */
static int check_ratio(struct scenario_reading *r)
{
    double ratio = r->sc.system.restore_ratio, bytes = r->sc.model.kv_bytes_per_tok_layer;
    if (r->sc.system.restore != RESTORE_BY_COMPRESSED || ratio * bytes >= 1) {
        return 0;
    }
    return scenario_key_error(r, scenario_key_find("system.restore_ratio"),
                              "found %g, expected at least 1/%g: a token has %g bytes of KV in a "
                              "layer, and stored are whole bytes",
                              ratio, bytes, bytes);
}

static int check_restore(struct scenario_reading *r)
{
    const struct scenario *sc = &r->sc;
    const struct scenario_key *key = scenario_key_find("system.restore");
    const char *word = key->words[sc->system.restore];
    if (sc->system.restore == RESTORE_BY_KV) {
        return 0;
    }
    if (sc->system.restore == RESTORE_BY_GPU_DIRECT && !sc->system.layerwise) {
        return scenario_key_error(
            r, key,
            "found \"%s\", expected system.layerwise true with it: HBM holds the "
            "hits of whole prompts, the rest is streamed",
            word);
    }
    if (sc->system.restore == RESTORE_BY_HIDDEN_STATES && card_full_layers(&sc->model) == 0) {
        return scenario_key_error(r, key, "found \"%s\", but %s stores no KV", word,
                                  sc->model.name);
    }
    int ret = check_ratio(r);
    return ret < 0 ? ret : check_restore_alone(r, key, word);
}

static int check_arrival(struct scenario_reading *r)
{
    const struct scenario *sc = &r->sc;
    const struct scenario_key *aps = scenario_key_find("workload.arrival.aps");
    if (sc->workload.arrival == ARRIVAL_POISSON && !(sc->workload.aps > 0)) {
        return scenario_key_error(
            r, aps, "found %g, expected agents per second above 0: arrival is poisson",
            sc->workload.aps);
    }
    if (sc->workload.arrival != ARRIVAL_POISSON && sc->workload.aps > 0) {
        return scenario_key_error(
            r, aps, "found %g, expected no rate: arrival is %s, only \"poisson\" has one",
            sc->workload.aps,
            scenario_key_find("workload.arrival.kind")->words[sc->workload.arrival]);
    }
    if (sc->workload.arrival == ARRIVAL_RECORDED && is_generator(sc->workload.trace)) {
        return scenario_key_error(r, scenario_key_find("workload.arrival.kind"),
                                  "found \"recorded\", expected \"offline\" or \"poisson\": the "
                                  "generator %s records no times",
                                  sc->workload.trace);
    }
    return 0;
}

static int check_trace(struct scenario_reading *r)
{
    struct scenario_workload *w = &r->sc.workload;
    if (is_generator(w->trace)) {
        snprintf(w->trace_path, sizeof(w->trace_path), "%s", w->trace);
        return 0;
    }
    int ret = scenario_find_file(r->source, w->trace, w->trace_path, sizeof(w->trace_path));
    if (ret < 0) {
        return scenario_key_error(r, scenario_key_find("workload.trace"),
                                  "found \"%s\", expected a trace file or directory (from the "
                                  "scenario's directory or the current one) or the generator "
                                  "\"deepseek-coding\": %s",
                                  w->trace, strerror(-ret));
    }
    return 0;
}

static int check_card(struct scenario_reading *r)
{
    const struct model_card *m = &r->sc.model;
    if (m->n_dense_layers > m->n_layers) {
        return scenario_key_error(r, scenario_key_find("model.n_dense_layers"),
                                  "found %u, expected at most the %u layers of the model",
                                  m->n_dense_layers, m->n_layers);
    }
    if (m->n_window_layers > m->n_layers) {
        return scenario_key_error(r, scenario_key_find("model.n_window_layers"),
                                  "found %u, expected at most the %u layers of the model",
                                  m->n_window_layers, m->n_layers);
    }
    if (m->experts_per_tok > m->n_experts) {
        return scenario_key_error(r, scenario_key_find("model.experts_per_tok"),
                                  "found %u, expected at most the model's %u experts",
                                  m->experts_per_tok, m->n_experts);
    }
    if (m->active_params > m->total_params) {
        return scenario_key_error(r, scenario_key_find("model.active_params"),
                                  "found %g, expected at most the %g parameters in total",
                                  m->active_params, m->total_params);
    }
    return 0;
}

/* Query heads and engines must come out even, and the GPUs of an engine share an NVLink domain. */
static int check_tp(struct scenario_reading *r)
{
    const struct scenario *sc = &r->sc;
    const struct scenario_key *key = scenario_key_find("system.tp_gpus");
    uint32_t tp = sc->system.tp_gpus, gpus = sc->cluster.gpus_per_node;
    const struct gpu_profile *gpu = &sc->cluster.gpu;
    if (tp == 1) {
        return 0;
    }
    if (gpus % tp != 0 || tp > gpu->nvlink_gpus) {
        return scenario_key_error(r, key,
                                  "found %u, expected a divisor of the %u GPUs of a node within an "
                                  "NVLink domain of %u",
                                  tp, gpus, gpu->nvlink_gpus);
    }
    if (sc->model.n_heads % tp != 0) {
        return scenario_key_error(r, key, "found %u, expected a divisor of the model's %u heads",
                                  tp, sc->model.n_heads);
    }
    uint32_t kv = sc->model.n_kv_heads;
    if (sc->model.attention == ATTENTION_GQA && (kv == 0 || (kv % tp != 0 && tp % kv != 0))) {
        return scenario_key_error(
            r, key, "found %u, expected a divisor or a multiple of the model's %u KV heads", tp,
            kv);
    }
    if (!(gpu->nvlink_Bps > 0)) {
        return scenario_key_error(r, scenario_key_find("cluster.gpu.nvlink_Bps"),
                                  "found 0, expected NVLink's rate: system.tp_gpus is %u", tp);
    }
    if (sc->system.fidelity == FIDELITY_PACKET) {
        return scenario_key_error(r, key, "found %u, expected 1 with system.fidelity \"packet\"",
                                  tp);
    }
    return 0;
}

static int check_ep(struct scenario_reading *r, const char *path, uint32_t ep_gpus, uint32_t nodes)
{
    const struct scenario_key *key = scenario_key_find(path);
    uint32_t engines = nodes * r->sc.cluster.gpus_per_node;
    if (ep_gpus > 1 && r->sc.system.tp_gpus > 1) {
        return scenario_key_error(r, key,
                                  "found %u, expected 1: with system.tp_gpus %u each expert is cut "
                                  "over the engine's GPUs",
                                  ep_gpus, r->sc.system.tp_gpus);
    }
    if (ep_gpus > 1 && !r->sc.model.expert_parallel) {
        return scenario_key_error(r, key,
                                  "found %u, expected 1: the model %s is not expert-parallel",
                                  ep_gpus, r->sc.model.name);
    }
    if (ep_gpus > engines) {
        return scenario_key_error(r, key, "found %u, expected at most the %u GPUs of %u node%s",
                                  ep_gpus, engines, nodes, nodes == 1 ? "" : "s");
    }
    if (engines % ep_gpus != 0) {
        return scenario_key_error(r, key,
                                  "found %u, expected a divisor of the %u GPUs of %u node%s",
                                  ep_gpus, engines, nodes, nodes == 1 ? "" : "s");
    }
    return 0;
}

/* Why a GPU holds so much, and which keys change it. */
static void weights_advice(const struct scenario_reading *r, const char *ep_path,
                           const struct scenario_side *side, char *buf, size_t size)
{
    const struct scenario_cluster *c = &r->sc.cluster;
    uint32_t tp = r->sc.system.tp_gpus;
    if (tp > 1) {
        bool more = tp < c->gpus_per_node && tp < c->gpu.nvlink_gpus;
        snprintf(buf, size,
                 " (tensor parallelism over %u); expected more HBM (cluster.gpu, "
                 "cluster.hbm_bytes)%s",
                 tp, more ? ", a larger system.tp_gpus" : "");
        return;
    }
    if (r->sc.model.expert_parallel) {
        snprintf(buf, size,
                 " (experts spread over %u GPU%s); expected more HBM (cluster.gpu, "
                 "cluster.hbm_bytes), a larger EP group (more nodes, %s)",
                 side->ep_gpus, side->ep_gpus == 1 ? "" : "s", ep_path);
        return;
    }
    snprintf(buf, size,
             ", all of %s; expected more HBM (cluster.gpu, cluster.hbm_bytes), tensor parallelism "
             "(system.tp_gpus)",
             r->sc.model.name);
}

static int check_reserves(struct scenario_reading *r)
{
    const struct scenario_system *s = &r->sc.system;
    if (s->hbm_reserve_frac + s->decode_reserve_frac < 1) {
        return 0;
    }
    return scenario_key_error(r, scenario_key_find("system.decode_reserve_frac"),
                              "found %g, expected less than %g: with system.hbm_reserve_frac all "
                              "of a decode engine's HBM would be reserved",
                              s->decode_reserve_frac, 1 - s->hbm_reserve_frac);
}

static int check_weights(struct scenario_reading *r, const char *ep_path, const char *what,
                         const struct scenario_side *side)
{
    char hbm[32], weights[32], reserve[32], advice[320];
    double hbm_bytes = (double)r->sc.cluster.hbm_bytes;
    if (hbm_bytes - side->reserve_bytes > side->weight_bytes) {
        return 0;
    }
    quantity_format_short(UNIT_BYTES, hbm_bytes, hbm, sizeof(hbm));
    quantity_format_short(UNIT_BYTES, side->weight_bytes, weights, sizeof(weights));
    quantity_format_short(UNIT_BYTES, side->reserve_bytes, reserve, sizeof(reserve));
    weights_advice(r, ep_path, side, advice, sizeof(advice));
    return scenario_key_error(
        r, scenario_key_find(is_explicit(r, ep_path) ? ep_path : "cluster.hbm_bytes"),
        "the weights do not fit: %s of HBM per GPU less %s of reserve, but each %s GPU holds %s of "
        "weights%s or fewer bytes per parameter (model.weight_bytes_per_param)",
        hbm, reserve, what, weights, advice);
}

/* Packets are simulated for copies of engines only. */
static int check_cache(struct scenario_reading *r)
{
    const struct scenario *sc = &r->sc;
    if (sc->cluster.dram_cache_bytes > 0 && sc->system.fidelity == FIDELITY_PACKET) {
        return scenario_key_error(r, scenario_key_find("cluster.dram_cache_bytes"),
                                  "found %llu, expected 0 with system.fidelity \"packet\"; take "
                                  "\"layer\" or \"auto\"",
                                  (unsigned long long)sc->cluster.dram_cache_bytes);
    }
    if (sc->cluster.dram_cache_bytes > 0 && sc->system.decode_buffer == DECODE_BUFFER_HBM) {
        return scenario_key_error(r, scenario_key_find("cluster.dram_cache_bytes"),
                                  "found %llu, expected 0 with system.decode_buffer \"hbm\": the "
                                  "cache is copied to and from DRAM buffers",
                                  (unsigned long long)sc->cluster.dram_cache_bytes);
    }
    return 0;
}

int scenario_check(struct scenario_reading *r)
{
    const struct scenario *sc = &r->sc;
    int ret = check_policies(r);
    ret = ret < 0 ? ret : check_decode(r);
    ret = ret < 0 ? ret : check_restore(r);
    ret = ret < 0 ? ret : check_arrival(r);
    ret = ret < 0 ? ret : check_trace(r);
    ret = ret < 0 ? ret : check_card(r);
    ret = ret < 0 ? ret : check_cache(r);
    ret = ret < 0 ? ret : check_tp(r);
    ret = ret < 0 ? ret
                  : check_ep(r, "system.prefill_ep_gpus", sc->system.prefill_ep_gpus,
                             sc->cluster.prefill_nodes);
    ret = ret < 0 ? ret
                  : check_ep(r, "system.decode_ep_gpus", sc->system.decode_ep_gpus,
                             sc->cluster.decode_nodes);
    if (ret < 0) {
        return ret;
    }
    struct scenario_derived d;
    scenario_derive(sc, &d);
    ret = check_reserves(r);
    ret = ret < 0 ? ret : check_weights(r, "system.prefill_ep_gpus", "prefill", &d.prefill);
    return ret < 0 ? ret : check_weights(r, "system.decode_ep_gpus", "decode", &d.decode);
}
