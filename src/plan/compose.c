/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "plan/compose.h"

#include <errno.h>
#include <math.h>

#include "base/units.h"
#include "input/scenario_derive.h"
#include "model/tensor.h"

static uint32_t group_nodes(uint32_t ep_gpus, uint32_t gpus_per_node)
{
    return ep_gpus > gpus_per_node ? ep_gpus / gpus_per_node : 1;
}

static enum cluster_path path_of(const struct scenario_system *s)
{
    static const enum cluster_path paths[] = {
        [PATH_SHORTER_QUEUE] = CLUSTER_SHORTER_QUEUE,
        [PATH_PREFILL] = CLUSTER_PREFILL,
        [PATH_DECODE] = CLUSTER_DECODE,
        [PATH_ROUND_ROBIN] = CLUSTER_PATH_ROUND_ROBIN,
        [PATH_SPLIT] = CLUSTER_SPLIT,
    };
    return s->dual_path ? paths[s->path_policy] : CLUSTER_PREFILL;
}

static enum cluster_reuse reuse_of(const struct scenario_system *s)
{
    static const enum cluster_reuse reuses[] = {
        [DECODE_REUSE_NONE] = CLUSTER_REUSE_NONE,
        [DECODE_REUSE_HBM] = CLUSTER_REUSE_HBM,
        [DECODE_REUSE_DRAM] = CLUSTER_REUSE_DRAM,
    };
    return reuses[s->decode_reuse];
}

static void set_memories(const struct scenario *sc, const struct scenario_derived *d,
                         struct cluster *c)
{
    uint64_t stored = kv_full_block_bytes(&c->stored), block = kv_full_block_bytes(&c->kv);
    uint64_t persist =
        (uint64_t)(COMPOSE_PERSIST_BUFFER_SHARE * (double)sc->cluster.dram_buffer_bytes);
    c->persist_buffer_bytes = persist > stored ? persist : stored;
    c->dram_buffer_bytes = sc->cluster.dram_buffer_bytes - c->persist_buffer_bytes;
    c->storage_blocks = sc->cluster.storage.capacity_bytes / stored;
    if (c->restore == CLUSTER_RESTORE_DIRECT) {
        c->prefill_direct_bytes =
            (uint64_t)(COMPOSE_DIRECT_SHARE * (double)d->prefill.hbm_kv_bytes);
    }
    c->prefill_hbm_bytes = d->prefill.hbm_kv_bytes - c->prefill_direct_bytes;
    c->decode_hbm_blocks = d->decode.hbm_kv_bytes / block;
}

double compose_engine_nic_Bps(const struct scenario *sc)
{
    return sc->cluster.cnic_Bps * sc->system.tp_gpus;
}

uint32_t compose_hbm_copies(const struct scenario *sc)
{
    return sc->system.tp_gpus / tensor_kv_parts(&sc->model, sc->system.tp_gpus);
}

/* Time of a typical request's hits on the NIC over that of its forward: half the longest context,
 * of which 5 % are new, as for beta. */
static double transfer_over_compute(const struct scenario *sc, const struct cluster *c)
{
    double context = fmax((double)sc->workload.max_len_tok / 2, 1), new_tok = context / 20;
    double bytes = (context - new_tok) * (double)c->kv.layer_tok_bytes * c->kv.n_layers;
    double compute_ns =
        timing_alike_ns(c->timing, 1, context - new_tok, new_tok, c->prefill_ep_gpus);
    double Bps = compose_engine_nic_Bps(sc) / compose_hbm_copies(sc);
    return compute_ns > 0 ? bytes / Bps * 1e9 / compute_ns : INFINITY;
}

static uint32_t forward_stages(const struct scenario *sc, const struct cluster *c)
{
    if (sc->system.fidelity != FIDELITY_AUTO) {
        return c->kv.n_layers;
    }
    double ratio = transfer_over_compute(sc, c);
    bool near = ratio < COMPOSE_NEAR_BALANCE && ratio > 1 / COMPOSE_NEAR_BALANCE;
    return near ? COMPOSE_STAGES_NEAR : COMPOSE_STAGES_FAR;
}

static void set_rules(const struct scenario *sc, const struct scenario_derived *d,
                      struct cluster *c)
{
    const struct scenario_system *s = &sc->system;
    c->layerwise = s->layerwise;
    c->scheduler = s->scheduler == SCHEDULER_ADAPTIVE ? CLUSTER_ADAPTIVE : CLUSTER_ROUND_ROBIN;
    c->path = path_of(s);
    c->reuse = reuse_of(s);
    c->promise_decode_hbm = s->hbm_promise == HBM_PROMISE_ASSIGNMENT;
    c->promise_prefill_hbm = s->hbm_promise != HBM_PROMISE_ADMISSION;
    c->decode_in_hbm = s->decode_buffer == DECODE_BUFFER_HBM;
    c->quota_ns = s->packing == PACKING_QUOTA ? units_s_to_ns(s->quota_s) : 0;
    c->forward_tok = s->packing == PACKING_TOKENS ? s->forward_tok : 0;
    c->alpha_tok = d->alpha_tok;
    c->beta_tok = d->beta_tok;
    c->fetch_period_ns = units_s_to_ns(s->fetch_period_s);
    c->fetch_at_forward = s->fetch == FETCH_AT_FORWARD;
    c->scheduler_cost_ns = units_s_to_ns(s->scheduler_cost_s);
    uint32_t stages = forward_stages(sc, c);
    c->stage_layers = (c->kv.n_layers + stages - 1) / stages;
}

static int check_storage(const struct scenario *sc, const struct cluster *c, struct err *err)
{
    uint64_t bytes = sc->cluster.storage.capacity_bytes, block = kv_full_block_bytes(&c->stored);
    if (bytes == 0 || bytes >= block) {
        return 0;
    }
    err_at(err, sc->path, 0, 0);
    err_field(err, "cluster.storage.capacity_bytes");
    return err_set(
        err, -EINVAL,
        "found %llu bytes, expected at least a Full Block, %llu bytes, or 0 for no limit",
        (unsigned long long)bytes, (unsigned long long)block);
}

static enum timing_restore restore_of(const struct scenario *sc)
{
    static const enum timing_restore restores[] = {
        [RESTORE_BY_KV] = RESTORE_NOTHING,
        [RESTORE_BY_HIDDEN_STATES] = RESTORE_PROJECT,
        [RESTORE_BY_COMPRESSED] = RESTORE_EXPAND,
        [RESTORE_BY_GPU_DIRECT] = RESTORE_NOTHING,
    };
    return restores[sc->system.restore];
}

static void set_restore(const struct scenario *sc, struct cluster *c)
{
    static const enum cluster_restore restores[] = {
        [RESTORE_BY_KV] = CLUSTER_RESTORE_KV,
        [RESTORE_BY_HIDDEN_STATES] = CLUSTER_RESTORE_HIDDEN,
        [RESTORE_BY_COMPRESSED] = CLUSTER_RESTORE_COMPRESSED,
        [RESTORE_BY_GPU_DIRECT] = CLUSTER_RESTORE_DIRECT,
    };
    c->restore = restores[sc->system.restore];
    c->stored = c->wire = c->kv;
    if (c->restore == CLUSTER_RESTORE_HIDDEN || c->restore == CLUSTER_RESTORE_COMPRESSED) {
        c->stored.layer_tok_bytes = (uint64_t)scenario_stored_bytes(sc);
    }
    if (c->restore == CLUSTER_RESTORE_COMPRESSED) {
        c->wire = c->stored;
    }
}

static int check_buffer(const struct scenario *sc, const struct cluster *c, struct err *err)
{
    /* One for prompts, one to persist from. */
    uint64_t least = cluster_decode_room_bytes(c, 1) + kv_full_block_bytes(&c->stored);
    if (sc->cluster.dram_buffer_bytes >= least) {
        return 0;
    }
    err_at(err, sc->path, 0, 0);
    err_field(err, "cluster.dram_buffer_bytes");
    return err_set(err, -EINVAL, "found %llu bytes, expected at least two Full Blocks, %llu bytes",
                   (unsigned long long)sc->cluster.dram_buffer_bytes, (unsigned long long)least);
}

static int check_even(const struct scenario *sc, const struct cluster *c, struct err *err)
{
    if (c->prefill_nodes % c->prefill_group_nodes || c->decode_nodes % c->decode_group_nodes) {
        err_at(err, sc->path, 0, 0);
        err_field(err, "system.%s_ep_gpus",
                  c->prefill_nodes % c->prefill_group_nodes ? "prefill" : "decode");
        return err_set(
            err, -EINVAL,
            "EP groups of %u prefill and %u decode nodes do not divide %u prefill and %u "
            "decode nodes",
            c->prefill_group_nodes, c->decode_group_nodes, c->prefill_nodes, c->decode_nodes);
    }
    return 0;
}

int compose_cluster(const struct scenario *sc, struct timing_model *ret_timing,
                    struct cluster *ret_cluster, struct err *err)
{
    struct scenario_derived d;
    scenario_derive(sc, &d);
    *ret_timing = (struct timing_model){.card = sc->model,
                                        .gpu = sc->cluster.gpu,
                                        .config = sc->timing,
                                        .tp = sc->system.tp_gpus,
                                        .restore = restore_of(sc),
                                        .expand_Bps = sc->system.restore_expand_Bps};
    if (sc->system.free_transfers || sc->system.decode_buffer == DECODE_BUFFER_HBM) {
        ret_timing->config.decode_admission_s = 0; /* nothing is copied in */
    }
    double per_layer = sc->model.kv_bytes_per_tok_layer;
    if (per_layer != floor(per_layer)) {
        err_field(err, "model.kv_bytes_per_tok_layer");
        return err_set(err, -EINVAL, "found %.6g, expected a whole number of bytes", per_layer);
    }
    struct cluster c = {
        .prefill_nodes = sc->cluster.prefill_nodes,
        .decode_nodes = sc->cluster.decode_nodes,
        .gpus_per_node = sc->cluster.gpus_per_node / sc->system.tp_gpus,
        .prefill_ep_gpus = d.prefill.ep_gpus,
        .decode_ep_gpus = d.decode.ep_gpus,
        .prefill_group_nodes = group_nodes(d.prefill.ep_gpus, sc->cluster.gpus_per_node),
        .decode_group_nodes = group_nodes(d.decode.ep_gpus, sc->cluster.gpus_per_node),
        .kv = {.n_layers = sc->model.n_layers,
               .block_tok = sc->system.block_tok,
               .layer_tok_bytes = (uint64_t)per_layer},
        .timing = ret_timing,
    };
    set_restore(sc, &c);
    if (check_buffer(sc, &c, err) || check_storage(sc, &c, err)) {
        return err->code;
    }
    set_memories(sc, &d, &c);
    set_rules(sc, &d, &c);
    *ret_cluster = c;
    return check_even(sc, ret_cluster, err);
}

static int too_big(const char *trace, uint32_t session, uint32_t turn, uint64_t needed,
                   const char *unit, uint64_t limit, const char *what, const char *keys,
                   struct err *err)
{
    err_at(err, trace, 0, 0);
    err_field(err, "session %u, turn %u", session, turn);
    return err_set(err, -EINVAL,
                   "needs %llu %s, but %s has %llu; expected a shorter workload.max_len_tok or a "
                   "larger %s",
                   (unsigned long long)needed, unit, what, (unsigned long long)limit, keys);
}

static int check_turn(const struct cluster *c, uint32_t session, uint32_t turn,
                      const struct workload_turn *t, const char *trace, struct err *err)
{
    uint64_t room = cluster_decode_room_bytes(c, t->prompt_tok);
    uint64_t direct =
        c->restore == CLUSTER_RESTORE_DIRECT ? kv_room_bytes(&c->stored, t->prompt_tok) : 0;
    uint64_t prefill = cluster_prefill_hbm_bytes(c, t->prompt_tok);
    uint64_t blocks = cluster_decode_blocks(c, t->prompt_tok, t->gen_tok);
    if (room > c->dram_buffer_bytes) {
        return too_big(trace, session, turn, room, "bytes of KV", c->dram_buffer_bytes,
                       "a node's DRAM buffer (less the persist buffer)",
                       "cluster.dram_buffer_bytes", err);
    }
    if (prefill > c->prefill_hbm_bytes) {
        return too_big(trace, session, turn, prefill, "bytes of KV in a forward",
                       c->prefill_hbm_bytes, "a prefill GPU's HBM (less weights and reserve)",
                       "cluster.hbm_bytes (cluster.gpu)", err);
    }
    if (direct > c->prefill_direct_bytes) {
        return too_big(trace, session, turn, direct, "bytes of KV read straight into a GPU",
                       c->prefill_direct_bytes,
                       "the share for it of a prefill GPU's HBM (less weights and reserve)",
                       "cluster.hbm_bytes (cluster.gpu)", err);
    }
    if (blocks > c->decode_hbm_blocks) {
        return too_big(trace, session, turn, blocks, "KV blocks", c->decode_hbm_blocks,
                       "a decode GPU's HBM (less weights and reserve)",
                       "cluster.hbm_bytes (cluster.gpu)", err);
    }
    return 0;
}

/* What follows agents by their own contexts cannot follow blocks that agents share. */
static int check_private(const struct cluster *c, const char *trace, struct err *err)
{
    bool reuse = c->reuse != CLUSTER_REUSE_NONE;
    if (!reuse && c->storage_blocks == 0) {
        return 0;
    }
    err_at(err, trace, 0, 0);
    err_field(err, "%s", reuse ? "system.decode_reuse" : "cluster.storage.capacity_bytes");
    return err_set(err, -EINVAL,
                   "found a trace with block ids, expected one without, or %s: it follows the "
                   "agents' own contexts, not blocks that they share",
                   reuse ? "\"none\"" : "0");
}

int compose_workload(struct cluster *cluster, const struct workload *w, const char *trace,
                     struct err *err)
{
    uint32_t most_tok = 1;
    cluster->shared_prefixes = false;
    for (uint32_t i = 0; i < w->n_sessions; i++) {
        struct workload_session s;
        w->ops->session(w, i, &s);
        for (uint32_t k = 0; k < s.n_turns; k++) {
            struct workload_turn t;
            w->ops->turn(w, i, k, &t);
            if (check_turn(cluster, i, k, &t, trace, err)) {
                return err->code;
            }
            uint32_t tok = t.prompt_tok + t.gen_tok;
            most_tok = tok > most_tok ? tok : most_tok;
            cluster->shared_prefixes |= t.block_ids != NULL;
        }
    }
    cluster->span_bytes = kv_room_bytes(&cluster->kv, most_tok);
    if (cluster->shared_prefixes && check_private(cluster, trace, err)) {
        return err->code;
    }
    /* At most one span per block of the buffer is in use. */
    uint64_t spans = cluster->dram_buffer_bytes / kv_full_block_bytes(&cluster->kv) + 1;
    cluster->staging_offset_bytes = spans * cluster->span_bytes;
    return 0;
}
