/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "model/timing.h"

#include <math.h>

#include "model/collectives.h"
#include "model/tensor.h"

/* Embedding and LM head are kept in BF16 by the FP8 and MXFP4 checkpoints (DeepSeek-V3, gpt-oss).
 */
#define HEAD_BYTES_PER_PARAM 2.0

/* BF16 latent and rope key, as the dense MLA decode kernels read them. */
#define MLA_DECODE_BYTES 2.0

/* Assumed: share of NVLink's rate that a large all-reduce's ring reaches, as nccl-tests report. */
#define REDUCE_EFFICIENCY 0.8

struct timing_config timing_config_defaults(void)
{
    return (struct timing_config){
        /* Whole systems take 1.7-1.8 times the time of their kernels alone (vendor profile of
         * V3.2-class prefill; production 3.5, the paper's run average 2.6): 1 / 1.75. */
        .attention_efficiency = 0.57,
        .linear_efficiency = 0.57,
        .decode_efficiency = 1,
        /* Assumed: about 20 launches of 5 us per layer over 61 layers, and the batch's CPU work. */
        .forward_fixed_s = 10e-3,
        /* Assumed: CPU work and sampling of a step replayed as one graph. */
        .decode_fixed_s = 2e-3,
        /* Not seen in kernels; a profile fitted to a whole system brings them. */
        .forward_floor_s = 0,
        .prefill_cached_tok_layer_s = 0,
        .decode_sequence_s = 0,
        .decode_admission_s = 0,
        /* What remains of 27B's step of 8-9 ms (EP8) and of V3.2's 32 ms (EP32) at no load, after
         * 2.1 and 14.4 ms of weights and the 2 ms above, over 29 and 58 MoE layers. */
        .decode_collective_local_s = 0.15e-3,
        .decode_collective_remote_s = 0.27e-3,
        .decode_comm_exposed_frac = 1,
        /* Assumed: half a delay is hidden by the other half batch, which itself waits for its own.
         */
        .prefill_comm_exposed_frac = 0.5,
        /* Assumed: one-shot all-reduces of 8 GPUs over NVLink take about 10 us when small. */
        .tp_reduce_s = 10e-6,
    };
}

static double to_ns(double s)
{
    return s * 1e9;
}

static double gemm_peak(const struct timing_model *tm)
{
    return tm->card.weight_bytes_per_param <= 1 ? tm->gpu.fp8_flops : tm->gpu.bf16_flops;
}

static double hbm_rate(const struct timing_model *tm)
{
    return tm->gpu.hbm_Bps * tm->gpu.hbm_efficiency;
}

/* GPUs of an engine. */
static uint32_t engine_gpus(const struct timing_model *tm)
{
    return tm->tp > 1 ? tm->tp : 1;
}

/* All-reduces of tok tokens, all layers. */
static double reduce_s(const struct timing_model *tm, double tok)
{
    double bytes = tensor_reduce_bytes(&tm->card, tok, tm->tp);
    return bytes > 0 ? 2.0 * tm->card.n_layers * tm->config.tp_reduce_s +
                           bytes / (tm->gpu.nvlink_Bps * REDUCE_EFFICIENCY)
                     : 0;
}

/* Parameters of one GPU's data-parallel products for one token: all it meets but routed experts. */
static double linear_params(const struct timing_model *tm, const struct card_params *p)
{
    return tensor_params(&tm->card, tm->card.active_params - p->routed_active, tm->tp);
}

static double linear_bytes(const struct timing_model *tm, const struct card_params *p)
{
    double w = tm->card.weight_bytes_per_param;
    double head = p->head / engine_gpus(tm);
    return (linear_params(tm, p) - head) * w + head * fmax(w, HEAD_BYTES_PER_PARAM);
}

/*
 * Bytes of expert weights one of group_gpus GPUs reads for tok tokens of the group: experts are
 * taken as chosen independently and evenly, so one of E is missed by a token with probability 1 -
 * k/E.
 */
static double expert_bytes(const struct timing_model *tm, const struct card_params *p, double tok,
                           uint32_t group_gpus)
{
    double missed = pow(1 - (double)tm->card.experts_per_tok / tm->card.n_experts, tok);
    return p->routed * tm->card.weight_bytes_per_param * (1 - missed) / group_gpus;
}

static double cached_s(const struct timing_model *tm, double cached_tok)
{
    return tm->config.prefill_cached_tok_layer_s * tm->card.n_layers * cached_tok;
}

double timing_cached_ns(const struct timing_model *tm, double cached_tok)
{
    return tm->config.free_compute ? 0 : to_ns(cached_s(tm, cached_tok));
}

double timing_attention_ns(const struct timing_model *tm, double cached_tok, double new_tok)
{
    if (new_tok <= 0 || tm->config.free_compute) {
        return 0;
    }
    const struct gpu_profile *gpu = &tm->gpu;
    double mfu =
        tm->card.attention == ATTENTION_DSA ? gpu->mfu_sparse_prefill : gpu->mfu_attention_prefill;
    double core_s =
        card_core_flops(&tm->card, cached_tok, new_tok) / engine_gpus(tm) / (gpu->bf16_flops * mfu);
    double indexer_s = card_indexer_flops(&tm->card, cached_tok, new_tok) /
                       (gpu->fp8_flops * gpu->mfu_indexer_prefill);
    return to_ns((core_s + indexer_s) / tm->config.attention_efficiency + cached_s(tm, cached_tok));
}

double timing_linear_ns(const struct timing_model *tm, double new_tok)
{
    if (new_tok <= 0 || tm->config.free_compute) {
        return 0;
    }
    struct card_params p = card_count_params(&tm->card);
    double rate = gemm_peak(tm) * tm->gpu.mfu_gemm * tm->config.linear_efficiency;
    return to_ns(
        hypot(2 * linear_params(tm, &p) * new_tok / rate, linear_bytes(tm, &p) / hbm_rate(tm)) +
        reduce_s(tm, new_tok));
}

double timing_experts_ns(const struct timing_model *tm, double group_tok, uint32_t group_gpus)
{
    if (card_moe_layers(&tm->card) == 0 || group_tok <= 0 || tm->config.free_compute) {
        return 0;
    }
    struct card_params p = card_count_params(&tm->card);
    double rate = gemm_peak(tm) * tm->gpu.mfu_grouped_gemm * tm->config.linear_efficiency;
    group_gpus *= engine_gpus(tm);
    return to_ns(hypot(2 * p.routed_active * group_tok / group_gpus / rate,
                       expert_bytes(tm, &p, group_tok, group_gpus) / hbm_rate(tm)));
}

double timing_alike_ns(const struct timing_model *tm, double n, double cached_tok, double new_tok,
                       uint32_t group_gpus)
{
    return n * timing_attention_ns(tm, cached_tok, new_tok) + timing_linear_ns(tm, n * new_tok) +
           timing_experts_ns(tm, n * new_tok * group_gpus, group_gpus);
}

static double project_s(const struct timing_model *tm, double tok)
{
    double rate = gemm_peak(tm) * tm->gpu.mfu_gemm * tm->config.linear_efficiency;
    double bytes = (double)card_hidden_bytes_per_tok_layer(&tm->card) * tm->card.n_layers +
                   (double)card_kv_bytes_per_tok(&tm->card);
    return hypot(card_restore_flops_per_tok(&tm->card) * tok / rate, bytes * tok / hbm_rate(tm));
}

double timing_restore_ns(const struct timing_model *tm, double tok)
{
    if (tm->config.free_compute || tok <= 0) {
        return 0;
    }
    switch (tm->restore) {
    case RESTORE_PROJECT:
        return to_ns(project_s(tm, tok));
    case RESTORE_EXPAND:
        return tm->expand_Bps > 0
                   ? to_ns(tok * (double)card_kv_bytes_per_tok(&tm->card) / tm->expand_Bps)
                   : 0;
    case RESTORE_NOTHING:
        break;
    }
    return 0;
}

double timing_forward_fixed_ns(const struct timing_model *tm)
{
    return tm->config.free_compute ? 0 : to_ns(tm->config.forward_fixed_s);
}

double timing_forward_ns(const struct timing_model *tm, double busy_ns)
{
    return tm->config.free_compute ? 0 : hypot(to_ns(tm->config.forward_floor_s), busy_ns);
}

double timing_prefill_wire_ns(const struct timing_model *tm, double tok_per_gpu,
                              uint32_t group_gpus)
{
    return to_ns(tok_per_gpu *
                 collective_prefill_bytes_per_tok(&tm->card, group_gpus, tm->gpu.nvlink_gpus) /
                 tm->gpu.nic_Bps);
}

double timing_prefill_late_ns(const struct timing_model *tm, double compute_ns, double wire_ns,
                              double stretch)
{
    return fmax(tm->config.prefill_comm_exposed_frac * wire_ns * (stretch - 1),
                fmax(wire_ns * stretch - compute_ns, 0));
}

/* One kernel's keys of all layers: the slower of its arithmetic and its reads. Linear in keys. */
static double decode_kernel_s(const struct timing_model *tm, double keys, double flops_per_key,
                              double flops_rate, double bytes_per_key)
{
    return keys * fmax(flops_per_key / flops_rate, bytes_per_key / hbm_rate(tm)) /
           tm->config.decode_efficiency;
}

static double decode_gqa_s(const struct timing_model *tm, double batch, double context_tok)
{
    const struct model_card *card = &tm->card;
    double full = card_full_layers(card);
    double keys = full * context_tok + (double)card->n_window_layers * card->window_tok * batch;
    double bytes = full > 0 ? card->kv_bytes_per_tok_layer * card->n_layers / full : 0;
    return decode_kernel_s(tm, keys, 4.0 * card->n_heads * card->head_dim / engine_gpus(tm),
                           tm->gpu.bf16_flops * tm->gpu.mfu_attention_decode,
                           bytes / tensor_kv_parts(card, tm->tp));
}

static double latent_flops_per_key(const struct timing_model *tm)
{
    const struct model_card *card = &tm->card;
    return 2.0 * card->n_heads * (2.0 * card->kv_lora_rank + card->rope_dim) / engine_gpus(tm);
}

static double decode_mla_s(const struct timing_model *tm, double context_tok)
{
    const struct model_card *card = &tm->card;
    return decode_kernel_s(tm, card->n_layers * context_tok, latent_flops_per_key(tm),
                           tm->gpu.bf16_flops * tm->gpu.mfu_attention_decode,
                           MLA_DECODE_BYTES * (card->kv_lora_rank + card->rope_dim));
}

/* The sparse kernel pads shorter contexts to top-k keys, so its time does not depend on context. */
static double decode_dsa_s(const struct timing_model *tm, double batch, double context_tok)
{
    const struct model_card *card = &tm->card;
    double core_s =
        decode_kernel_s(tm, (double)card->n_layers * card->sparse_topk * batch,
                        latent_flops_per_key(tm), tm->gpu.bf16_flops * tm->gpu.mfu_sparse_decode,
                        card->kv_bytes_per_tok_layer - card->indexer_bytes_per_tok_layer);
    double indexer_s = decode_kernel_s(
        tm, card->n_layers * context_tok, 2.0 * card->indexer_heads * card->indexer_dim,
        tm->gpu.fp8_flops * tm->gpu.mfu_indexer_prefill, card->indexer_bytes_per_tok_layer);
    return core_s + indexer_s;
}

static double decode_attention_s(const struct timing_model *tm, double batch, double context_tok)
{
    switch (tm->card.attention) {
    case ATTENTION_MLA:
        return decode_mla_s(tm, context_tok);
    case ATTENTION_DSA:
        return decode_dsa_s(tm, batch, context_tok);
    case ATTENTION_GQA:
        break;
    }
    return decode_gqa_s(tm, batch, context_tok);
}

double timing_decode_gpu_ns(const struct timing_model *tm, double batch, double context_tok)
{
    if (batch <= 0 || tm->config.free_compute) {
        return 0;
    }
    struct card_params p = card_count_params(&tm->card);
    double gemm_s = hypot(2 * linear_params(tm, &p) * batch / (gemm_peak(tm) * tm->gpu.mfu_gemm),
                          linear_bytes(tm, &p) / hbm_rate(tm));
    return to_ns(gemm_s / tm->config.decode_efficiency +
                 decode_attention_s(tm, batch, context_tok) + reduce_s(tm, batch));
}

double timing_decode_step_ns(const struct timing_model *tm, double gpu_ns, double batch)
{
    return tm->config.free_compute ? 0 : hypot(gpu_ns, to_ns(tm->config.decode_sequence_s * batch));
}

double timing_decode_admission_ns(const struct timing_model *tm, double joining)
{
    return tm->config.free_compute ? 0 : to_ns(tm->config.decode_admission_s * joining);
}

double timing_decode_wire_ns(const struct timing_model *tm, double batch_per_gpu,
                             uint32_t group_gpus)
{
    double bytes =
        collective_decode_bytes_per_tok(&tm->card, group_gpus, tm->gpu.nvlink_gpus) * batch_per_gpu;
    return to_ns(tm->config.decode_comm_exposed_frac * bytes / tm->gpu.nic_Bps);
}

/* Dispatch and combine of one GPU's share: latency per MoE layer, and bytes once they leave NVLink.
 */
static double decode_comm_s(const struct timing_model *tm, double batch_per_gpu,
                            uint32_t group_gpus)
{
    const struct timing_config *config = &tm->config;
    double layers = card_moe_layers(&tm->card);
    if (group_gpus <= 1) {
        return 0;
    }
    if (group_gpus <= tm->gpu.nvlink_gpus) {
        return layers * config->decode_collective_local_s;
    }
    return layers * config->decode_collective_remote_s +
           timing_decode_wire_ns(tm, batch_per_gpu, group_gpus) * 1e-9;
}

double timing_decode_group_ns(const struct timing_model *tm, double group_batch,
                              uint32_t group_gpus)
{
    if (tm->config.free_compute) {
        return 0;
    }
    double step_s = tm->config.decode_fixed_s;
    if (card_moe_layers(&tm->card) > 0 && group_batch > 0) {
        struct card_params p = card_count_params(&tm->card);
        uint32_t gpus = group_gpus * engine_gpus(tm);
        double rate = gemm_peak(tm) * tm->gpu.mfu_grouped_gemm;
        step_s += hypot(2 * p.routed_active * (group_batch / gpus) / rate,
                        expert_bytes(tm, &p, group_batch, gpus) / hbm_rate(tm)) /
                  tm->config.decode_efficiency;
        step_s += decode_comm_s(tm, group_batch / group_gpus, group_gpus);
    }
    return to_ns(step_s);
}

double timing_weight_bytes_per_gpu(const struct timing_model *tm, uint32_t ep_gpus,
                                   uint32_t redundant_experts)
{
    struct card_params p = card_count_params(&tm->card);
    double copies =
        p.routed > 0 && ep_gpus > 1 ? 1 + (double)redundant_experts / tm->card.n_experts : 1;
    double w = tm->card.weight_bytes_per_param;
    double tables = p.head + p.embedding;
    double rest = tensor_params(&tm->card, tm->card.total_params - p.routed - tables, tm->tp);
    return tables / engine_gpus(tm) * fmax(w, HEAD_BYTES_PER_PARAM) +
           (rest + copies * p.routed / (ep_gpus * engine_gpus(tm))) * w;
}
