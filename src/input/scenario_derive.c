/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "input/scenario_derive.h"

#include <math.h>

#include "model/tensor.h"

static struct timing_model timing_of(const struct scenario *sc)
{
    return (struct timing_model){
        .card = sc->model, .gpu = sc->cluster.gpu, .config = sc->timing, .tp = sc->system.tp_gpus};
}

/* Rounds down, and keeps what no real scenario reaches inside the type. */
static uint64_t whole(double value)
{
    return value >= 0x1p63 ? UINT64_C(1) << 63 : value > 0 ? (uint64_t)value : 0;
}

double storage_efficiency(const struct storage_profile *storage, double bytes)
{
    return storage->efficiency_max * bytes / (bytes + storage->half_size_bytes);
}

double storage_stream_Bps(const struct storage_profile *storage, double bytes)
{
    double own = storage->stream_Bps, latency_s = storage->latency_median_s;
    if (storage->stream_ios == 0 || latency_s <= 0) {
        return own;
    }
    double in_flight = storage->stream_ios * bytes / latency_s / storage_efficiency(storage, bytes);
    return own > 0 ? fmin(own, in_flight) : in_flight;
}

double scenario_stored_bytes(const struct scenario *sc)
{
    switch (sc->system.restore) {
    case RESTORE_BY_HIDDEN_STATES:
        return (double)card_hidden_bytes_per_tok_layer(&sc->model);
    case RESTORE_BY_COMPRESSED:
        return ceil(sc->system.restore_ratio * sc->model.kv_bytes_per_tok_layer);
    case RESTORE_BY_KV:
    case RESTORE_BY_GPU_DIRECT:
        break;
    }
    return sc->model.kv_bytes_per_tok_layer;
}

double scenario_cached_s(const struct scenario *sc)
{
    struct timing_model tm = timing_of(sc);
    return timing_cached_ns(&tm, (double)sc->workload.max_len_tok) * 1e-9;
}

uint64_t scenario_beta_tok(const struct scenario *sc)
{
    struct timing_model tm = timing_of(sc);
    double context = fmax((double)sc->workload.max_len_tok / 2, 1);
    double new_tok = context / 20;
    double busy_ns =
        timing_alike_ns(&tm, 1, context - new_tok, new_tok, sc->system.prefill_ep_gpus);
    double ns = timing_forward_fixed_ns(&tm) + timing_forward_ns(&tm, busy_ns);
    if (sc->timing.free_compute) {
        /* What is left to hold a GPU up is its NIC. */
        ns = context * sc->model.n_layers * sc->model.kv_bytes_per_tok_layer /
             sc->cluster.cnic_Bps * 1e9;
    }
    return whole(fmax(sc->system.beta_s * 1e9 * context / ns, 1));
}

static struct scenario_side derive_side(const struct scenario *sc, uint32_t nodes, uint32_t ep_gpus,
                                        double reserve_frac, uint64_t kv_bytes_per_tok)
{
    struct timing_model tm = timing_of(sc);
    struct scenario_side side = {.nodes = nodes,
                                 .engines =
                                     nodes * (sc->cluster.gpus_per_node / sc->system.tp_gpus),
                                 .ep_gpus = ep_gpus,
                                 .reserve_bytes = (double)sc->cluster.hbm_bytes * reserve_frac};
    side.ep_groups = side.engines / ep_gpus;
    side.weight_bytes = timing_weight_bytes_per_gpu(&tm, ep_gpus, sc->system.redundant_experts);
    side.hbm_kv_bytes =
        whole((double)sc->cluster.hbm_bytes - side.reserve_bytes - side.weight_bytes) *
        tensor_kv_parts(&sc->model, sc->system.tp_gpus);
    side.hbm_kv_tok = side.hbm_kv_bytes / kv_bytes_per_tok;
    return side;
}

void scenario_derive(const struct scenario *sc, struct scenario_derived *ret)
{
    uint64_t per_tok = card_kv_bytes_per_tok(&sc->model);
    per_tok = per_tok ? per_tok : 1; /* a card of less than a byte per token */
    double stored = scenario_stored_bytes(sc);
    uint64_t stored_per_tok = (uint64_t)llround(stored * sc->model.n_layers);
    stored_per_tok = stored_per_tok ? stored_per_tok : 1;
    struct scenario_derived d = {.kv_bytes_per_tok = per_tok,
                                 .stored_bytes_per_tok = stored_per_tok,
                                 .kv_parts = tensor_kv_parts(&sc->model, sc->system.tp_gpus)};
    d.full_block_bytes = stored_per_tok * sc->system.block_tok;
    d.layer_block_bytes = (uint64_t)ceil(stored * (double)sc->system.block_tok);
    double reserve = sc->system.hbm_reserve_frac;
    d.prefill =
        derive_side(sc, sc->cluster.prefill_nodes, sc->system.prefill_ep_gpus, reserve, per_tok);
    d.decode = derive_side(sc, sc->cluster.decode_nodes, sc->system.decode_ep_gpus,
                           reserve + sc->system.decode_reserve_frac, per_tok);
    d.dram_buffer_tok = sc->cluster.dram_buffer_bytes / per_tok;
    d.request_kv_bytes = whole((double)per_tok * (double)sc->workload.max_len_tok);
    d.storage_efficiency = storage_efficiency(&sc->cluster.storage, (double)d.full_block_bytes);
    d.storage_read_Bps = sc->cluster.snic_Bps * d.storage_efficiency;
    d.stream_Bps =
        sc->system.tp_gpus * storage_stream_Bps(&sc->cluster.storage, (double)d.full_block_bytes);
    d.alpha_tok = whole(fmax(sc->system.alpha_s * d.storage_read_Bps / (double)stored_per_tok, 1));
    d.beta_tok = scenario_beta_tok(sc);
    *ret = d;
}
