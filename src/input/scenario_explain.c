/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "input/scenario_explain.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "input/scenario_derive.h"
#include "input/scenario_keys.h"

struct text {
    char s[64];
};

static struct text quantity(enum unit_kind unit, double value)
{
    struct text t;
    quantity_format_short(unit, value, t.s, sizeof(t.s));
    return t;
}

static void explain_side(const struct scenario *sc, const struct scenario_side *side,
                         const char *name, FILE *out)
{
    if (sc->system.tp_gpus > 1) {
        fprintf(out, "  %-8s %u node%s x %u GPUs = %u engine%s of %u GPUs (tensor parallelism)\n",
                name, side->nodes, side->nodes == 1 ? "" : "s", sc->cluster.gpus_per_node,
                side->engines, side->engines == 1 ? "" : "s", sc->system.tp_gpus);
        return;
    }
    fprintf(out, "  %-8s %u node%s x %u GPUs = %u engines in %u EP group%s of %u GPU%s\n", name,
            side->nodes, side->nodes == 1 ? "" : "s", sc->cluster.gpus_per_node, side->engines,
            side->ep_groups, side->ep_groups == 1 ? "" : "s", side->ep_gpus,
            side->ep_gpus == 1 ? "" : "s");
}

static void explain_kv(const struct scenario *sc, const struct scenario_derived *d, FILE *out)
{
    fprintf(out, "KV-cache of %s\n", sc->model.name);
    fprintf(out, "  per token   %" PRIu64 " B = %u layers x %.10g B (%s)\n", d->kv_bytes_per_tok,
            sc->model.n_layers, sc->model.kv_bytes_per_tok_layer, sc->model.kv_dtype);
    fprintf(out, "  Full Block  %" PRIu64 " B = %u tok x %" PRIu64 " B, the unit of storage I/O\n",
            d->full_block_bytes, sc->system.block_tok, d->stored_bytes_per_tok);
    fprintf(out, "  Layer Block %" PRIu64 " B, the unit of streaming\n", d->layer_block_bytes);
    fprintf(out, "  a request of workload.max_len_tok = %" PRIu64 " tok: %s\n",
            sc->workload.max_len_tok, quantity(UNIT_BYTES, (double)d->request_kv_bytes).s);
}

static void explain_hbm(const struct scenario *sc, const struct scenario_side *side,
                        uint32_t kv_parts, const char *name, FILE *out)
{
    double hbm = (double)sc->cluster.hbm_bytes;
    char parts[40] = "";
    if (kv_parts > 1) {
        snprintf(parts, sizeof(parts), " (x %u in an engine)", kv_parts);
    }
    fprintf(out,
            "  HBM of a %s GPU: %s - %s weights - %s reserve = %s of KV%s = %" PRIu64
            " tok = %.1f requests of max_len_tok\n",
            name, quantity(UNIT_BYTES, hbm).s, quantity(UNIT_BYTES, side->weight_bytes).s,
            quantity(UNIT_BYTES, side->reserve_bytes).s,
            quantity(UNIT_BYTES, (double)side->hbm_kv_bytes / kv_parts).s, parts, side->hbm_kv_tok,
            (double)side->hbm_kv_tok / (double)sc->workload.max_len_tok);
}

static void explain_limits(const struct scenario *sc, const struct scenario_derived *d, FILE *out)
{
    fprintf(out, "  storage read of a node: %s = %s x %.3f (profile %s, I/O of %s)\n",
            quantity(UNIT_BPS, d->storage_read_Bps).s, quantity(UNIT_BPS, sc->cluster.snic_Bps).s,
            d->storage_efficiency, sc->cluster.storage.name,
            quantity(UNIT_BYTES, (double)d->full_block_bytes).s);
    if (d->stream_Bps > 0) {
        fprintf(
            out, "  one request's reads alone: %s\n",
            quantity(UNIT_BPS, fmin(d->stream_Bps, sc->cluster.snic_Bps) * d->storage_efficiency)
                .s);
    }
    fprintf(out,
            "  alpha = %" PRIu64 " tok: what that reads in %s; a longer read queue is avoided\n",
            d->alpha_tok, quantity(UNIT_S, sc->system.alpha_s).s);
    fprintf(out,
            "  beta  = %" PRIu64 " tok: what a prefill GPU processes in %s, contexts of %" PRIu64
            " tok of which 5 %% are new; more is never assigned\n",
            d->beta_tok, quantity(UNIT_S, sc->system.beta_s).s, sc->workload.max_len_tok / 2);
}

static void explain_origin(const struct scenario *sc, const struct scenario_origin *origin,
                           FILE *out)
{
    static const char *const names[] = {
        [SCENARIO_BY_DEFAULT] = "default", [SCENARIO_BY_PROFILE] = "profile",
        [SCENARIO_BY_PRESET] = "preset",   [SCENARIO_BY_RULE] = "automatic",
        [SCENARIO_BY_SET] = "--set",
    };
    if (origin->by == SCENARIO_BY_FILE || origin->by == SCENARIO_BY_CALIBRATION) {
        const char *path = origin->by == SCENARIO_BY_FILE ? sc->path : sc->profile;
        const char *slash = strrchr(path, '/');
        fprintf(out, "%s%s:%u:%u",
                origin->by == SCENARIO_BY_FILE ? "" : "calibrated: ", slash ? slash + 1 : path,
                origin->line, origin->column);
    } else {
        fprintf(out, "%s", names[origin->by]);
    }
}

static const char *profile_name(const struct scenario *sc, const struct scenario_key *key)
{
    return strcmp(key->path, "model.base") == 0             ? sc->model.name
           : strcmp(key->path, "cluster.gpu.base") == 0     ? sc->cluster.gpu.name
           : strcmp(key->path, "cluster.storage.base") == 0 ? sc->cluster.storage.name
                                                            : "";
}

static void explain_key(const struct scenario *sc, const struct scenario_notes *notes, size_t i,
                        FILE *out)
{
    const struct scenario_key *key = &scenario_keys[i];
    enum scenario_by by = notes->origins[i].by;
    char value[300];
    if (key->type == KEY_NAME && !key->stands_for_group) {
        return; /* the schema and the description */
    }
    if (key->type == KEY_NAME) {
        snprintf(value, sizeof(value), "%s", profile_name(sc, key));
    } else {
        scenario_key_format(key, sc, value, sizeof(value));
    }
    fprintf(out, "  %-36s %-16s ", key->path, value[0] ? value : "\"\"");
    explain_origin(sc, &notes->origins[i], out);
    if (by == SCENARIO_BY_PRESET) {
        fprintf(out, " %s", sc->system.preset);
    } else if (by != SCENARIO_BY_FILE && by != SCENARIO_BY_CALIBRATION && by != SCENARIO_BY_SET &&
               key->source) {
        fprintf(out, ": %s", key->source);
    }
    fprintf(out, "\n");
}

void scenario_explain(const struct scenario *sc, const struct scenario_notes *notes, FILE *out)
{
    struct scenario_derived d;
    scenario_derive(sc, &d);
    fprintf(out, "Scenario %s\n  sha256 %s\n\n", sc->path, sc->sha256);
    fprintf(out, "Topology: %uP%uD, an engine is %s (%s) with a CNIC of %s\n",
            sc->cluster.prefill_nodes, sc->cluster.decode_nodes,
            sc->system.tp_gpus > 1 ? "several GPUs, each" : "a GPU", sc->cluster.gpu.name,
            quantity(UNIT_BPS, sc->cluster.cnic_Bps).s);
    explain_side(sc, &d.prefill, "prefill", out);
    explain_side(sc, &d.decode, "decode", out);
    fprintf(out, "\n");
    explain_kv(sc, &d, out);
    fprintf(out, "\nCapacities\n");
    explain_hbm(sc, &d.prefill, d.kv_parts, "prefill", out);
    explain_hbm(sc, &d.decode, d.kv_parts, "decode", out);
    fprintf(out, "  DRAM buffer of a node: %s = %" PRIu64 " tok = %.1f requests of max_len_tok\n",
            quantity(UNIT_BYTES, (double)sc->cluster.dram_buffer_bytes).s, d.dram_buffer_tok,
            (double)d.dram_buffer_tok / (double)sc->workload.max_len_tok);
    if (sc->cluster.dram_cache_bytes > 0) {
        double all = (double)sc->cluster.dram_cache_bytes *
                     (sc->cluster.prefill_nodes + sc->cluster.decode_nodes);
        fprintf(out, "  DRAM cache, beside the buffer: %s of every node, %s in all = %.0f tok\n",
                quantity(UNIT_BYTES, (double)sc->cluster.dram_cache_bytes).s,
                quantity(UNIT_BYTES, all).s, all / (double)d.kv_bytes_per_tok);
    }
    fprintf(out, "\nLimits\n");
    explain_limits(sc, &d, out);
    fprintf(out, "\nKeys: value, who set it, source of a default\n");
    for (size_t i = 0; i < scenario_n_keys; i++) {
        explain_key(sc, notes, i, out);
    }
}
