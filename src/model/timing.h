/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Time of a forward and of a decode step. Pure functions of (card, GPU, configuration); all
 * constants that may be fitted are in struct timing_config, every one physical (an efficiency or a
 * fixed cost).
 *
 * A prefill forward of an EP group of G GPUs (the paper, "Scheduler"):
 *     T = fixed + hypot(floor, sum over layers [ max over GPUs (attention + linear)
 *                                                + experts(all tokens of the group) ])
 *
 * What the host does while the GPUs still compute (launching kernels) makes a forward take the
 * longer of the two, smoothly: with a = 2.86 requests' worth of floor, n requests reach the
 * throughput n * hypot(a, 1) / hypot(a, n), which meets the seven published points (prefill batch
 * efficiency of arXiv 2602.21548, 1 to 3.01) within 4 %; a sum meets them within 8 %. What the
 * kernels do not hide is in fixed, as the served 27B has it (scenarios/paper/README.md).
 *
 * Layers are taken as equal, so a run of k of L layers costs the k/L share of T. EP dispatch and
 * combine are taken as hidden behind the other half batch in a prefill, as long as KV traffic does
 * not stretch them; what is not hidden is in linear_efficiency.
 *
 * Attention takes the time of its kernels and one for each cached token and layer, the same for
 * all models, whose cause is not known: by the published run at scale a turn on 35K cached tokens
 * takes half as long again as one on 20K, with fewer new ones, and by FLOPs alone less (this time
 * makes up a part of that). It counts towards the compute quota, and again for each chunk of a cut
 * prompt, as the FLOPs on cached tokens do.
 *
 * A decode step of the group:
 *     T = hypot(fixed + max over GPUs (attention(batch, context) + linear(batch))
 *                   + experts(batch of the group), sequence * max over GPUs (batch))
 *         + admission * max over GPUs (sequences that join)
 *
 * The work per sequence is the host's, on the tokens of one step and the batch of the next while
 * the GPUs run the step between (sim/sim_compute.h has the lag that comes with that), so here, too,
 * a step takes the longer of the two, smoothly: the published TPOT of the oracle rises with the
 * load the faster the higher it is, for both models.
 *
 * A matrix product takes hypot(FLOPs / (peak * MFU), weight bytes / (HBM * efficiency)): a smooth
 * maximum of the two roofs, so that MFU falls with the number of tokens m as measured kernels do.
 * On H800 with FP8 this gives 0.30 at m = 128 (measured 0.06-0.33), 0.62 for grouped products at
 * 1024 (0.60-0.67) and 0.68 at 4096 (0.62-0.75). GEMMs run at the FP8 peak when weights take <= 1
 * byte per parameter, otherwise at the BF16 peak; attention cores at the BF16 peak; the DSA indexer
 * at the FP8 peak.
 */
#ifndef DUALPATH_MODEL_TIMING_H
#define DUALPATH_MODEL_TIMING_H

#include <stdbool.h>
#include <stdint.h>

#include "model/card.h"
#include "model/gpu.h"

struct timing_config {
    double attention_efficiency; /* scales every prefill attention MFU; 1 = the profile's kernels */
    double linear_efficiency;    /* scales every prefill GEMM MFU; 1 = the profile's kernels */
    double decode_efficiency;    /* scales HBM efficiency and MFU of a decode step */
    double forward_fixed_s;      /* per forward, beside its kernels: sampling, scheduling */
    double forward_floor_s;      /* the host's launches, which go on while the GPU computes */
    double decode_fixed_s;       /* per decode step: launch, sampling */
    double decode_sequence_s;    /* per sequence of the fullest GPU and decode step: the host's work
                                    on it (sampling, detokenising, block tables, sending out),
                                    which goes on while the GPUs compute */
    double decode_admission_s;   /* per sequence that joins the GPU which most join, and the step
                                    that they join: the host's work on copying its KV in (posting
                                    the copies, block tables) */
    double prefill_cached_tok_layer_s; /* per cached token and layer of a prefill, beside the
                                          FLOPs of attention (above) */
    double decode_collective_local_s;  /* per MoE layer and decode step: latency of dispatch +
                                          combine  in an EP group inside one NVLink domain... */
    double decode_collective_remote_s; /* ...and across the NICs */
    double decode_comm_exposed_frac;  /* share of the decode dispatch and combine bytes' time on the
                                         NIC that nothing hides; 1 = no overlap */
    double prefill_comm_exposed_frac; /* share of the time by which KV traffic stretches a prefill's
                                         dispatch and combine that the other half batch does not
                                         hide */
    double tp_reduce_s; /* latency of an all-reduce inside an engine of several GPUs */
    bool free_compute;  /* forwards and steps take no time: only transfers are looked at */
};

/* The documented defaults; the source of each stands in timing.c. */
struct timing_config timing_config_defaults(void);

/* What a GPU has to do with KV that comes from storage before it can use it. */
enum timing_restore {
    RESTORE_NOTHING,
    RESTORE_PROJECT, /* hidden states: the K and V projections of every token and layer */
    RESTORE_EXPAND,  /* compressed KV: expand it */
};

/*
 * tp GPUs make an engine by tensor parallelism (model/tensor.h); 0 or 1: an engine is a GPU. Below,
 * "GPU" then stands for such an engine, and its times are those of each of its GPUs: with the
 * parameters and query heads that one has, KV reads in tensor_kv_parts() parts, the indexer and the
 * time per cached token whole, and, hidden by nothing, two all-reduces a layer of
 *     tp_reduce_s + bytes / (0.8 * NVLink's rate)
 * each. Experts are cut in tp: of group_tok tokens a GPU computes as much as in an EP group of tp.
 */
struct timing_model {
    struct model_card card;
    struct gpu_profile gpu;
    struct timing_config config;
    uint32_t tp;
    enum timing_restore restore;
    double expand_Bps; /* RESTORE_EXPAND: KV bytes that a GPU makes per second; 0 = in no time */
};

/* The part of it that cached tokens take however few new ones there are, beside FLOPs. In ns. */
double timing_cached_ns(const struct timing_model *tm, double cached_tok);

/* Prefill attention of one request on one GPU, all layers: new_tok tokens on cached_tok, with what
 * each cached token costs. 0 without new tokens. In ns. */
double timing_attention_ns(const struct timing_model *tm, double cached_tok, double new_tok);

/* Data-parallel linear work of one GPU for new_tok tokens (projections, dense and shared FFNs), all
 * layers. */
double timing_linear_ns(const struct timing_model *tm, double new_tok);

/* Expert work per GPU when group_tok tokens are spread evenly over group_gpus GPUs, all layers; 0
 * if dense. */
double timing_experts_ns(const struct timing_model *tm, double group_tok, uint32_t group_gpus);

/* Kernels of a forward in which each of group_gpus GPUs has n requests of new_tok tokens on
 * cached_tok: what timing_forward_ns() takes. */
double timing_alike_ns(const struct timing_model *tm, double n, double cached_tok, double new_tok,
                       uint32_t group_gpus);

/*
 * Restoration of the KV of tok tokens on one GPU, all layers.
 *   PROJECT  one product, hypot of its two roofs like the others: card_restore_flops_per_tok() at
 *            the MFU of dense projections, and hidden states read and KV written at the HBM's rate
 *   EXPAND   KV bytes / expand_Bps
 */
double timing_restore_ns(const struct timing_model *tm, double tok);

/* Fixed cost of one forward. */
double timing_forward_fixed_ns(const struct timing_model *tm);

/* A forward whose kernels take busy_ns, its fixed cost apart. */
double timing_forward_ns(const struct timing_model *tm, double busy_ns);

/* Dispatch and combine bytes of a forward on the NIC of a GPU, alone on it; tok_per_gpu on average
 * over the group. */
double timing_prefill_wire_ns(const struct timing_model *tm, double tok_per_gpu,
                              uint32_t group_gpus);

/*
 * What a forward, or a part of it, of compute_ns takes longer when its wire_ns of dispatch and
 * combine take stretch times as long: the exposed share of the delay, or all that goes beyond the
 * computation meant to hide it.
 */
double timing_prefill_late_ns(const struct timing_model *tm, double compute_ns, double wire_ns,
                              double stretch);

/*
 * Attention and linear part of one decode step on one GPU with batch sequences whose contexts sum
 * to context_tok. Linear in context_tok for a fixed batch (so that n steps integrate exactly).
 */
double timing_decode_gpu_ns(const struct timing_model *tm, double batch, double context_tok);

/* A step whose GPUs take gpu_ns, with batch sequences on the fullest of them. */
double timing_decode_step_ns(const struct timing_model *tm, double gpu_ns, double batch);

/* What a step takes longer for the sequences that join it, joining of them the GPU that most do. */
double timing_decode_admission_ns(const struct timing_model *tm, double joining);

/*
 * Expert part of a decode step per GPU plus the fixed cost, group_batch sequences over group_gpus
 * GPUs: weights of the experts expected to be touched, dispatch and combine bytes (8 copies of an
 * FP8 and a BF16 hidden vector for top-8) over the NIC when the group is larger than an NVLink
 * domain, and latencies.
 */
double timing_decode_group_ns(const struct timing_model *tm, double group_batch,
                              uint32_t group_gpus);

/* The part of that which is dispatch and combine bytes on the NIC: what KV traffic can stretch. */
double timing_decode_wire_ns(const struct timing_model *tm, double batch_per_gpu,
                             uint32_t group_gpus);

/*
 * Bytes of weights resident on each GPU when experts are spread over ep_gpus GPUs (1 = all of
 * them; with tensor parallelism, over so many engines). An EP group holds redundant_experts of each
 * layer twice, spread over it; they take room, no time. Embedding and LM head stay in BF16 where
 * the rest is quantised, as in the published checkpoints.
 */
double timing_weight_bytes_per_gpu(const struct timing_model *tm, uint32_t ep_gpus,
                                   uint32_t redundant_experts);

#endif
