/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Time of a forward and of a decode step. Pure functions of (card, GPU, configuration); all constants
 * that may be fitted are in struct timing_config, every one physical (an efficiency or a fixed cost).
 *
 * A prefill forward of an EP group of G GPUs (facts/dualpath, "Scheduler"):
 *     T = fixed + sum over layers [ max over GPUs (attention + linear) + experts(all tokens of the group) ]
 * Layers are taken as equal, so a run of k of L layers costs the k/L share of each sum.
 * A decode step of the group:
 *     T = fixed + max over GPUs (attention(batch, context) + linear(batch)) + experts(batch of the group)
 */
#ifndef DUALPATH_MODEL_TIMING_H
#define DUALPATH_MODEL_TIMING_H

#include <stdint.h>

#include "model/card.h"
#include "model/gpu.h"

struct timing_config {
    double attention_efficiency; /* scales every prefill attention MFU; 1 = the profile's kernels */
    double linear_efficiency;    /* scales every prefill GEMM MFU; 1 = the profile's kernels */
    double decode_efficiency;    /* scales HBM efficiency and MFU of a decode step */
    double forward_fixed_s;      /* per forward: launch, sampling, scheduling */
    double decode_fixed_s;       /* per decode step: launch, sampling, collectives' latency */
};

struct timing_model {
    struct model_card card;
    struct gpu_profile gpu;
    struct timing_config config;
};

/* Prefill attention of one request on one GPU, all layers: new_tok tokens on cached_tok. In ns. */
double timing_attention_ns(const struct timing_model *tm, double cached_tok, double new_tok);

/* Data-parallel linear work of one GPU for new_tok tokens (projections, dense and shared FFNs), all layers. */
double timing_linear_ns(const struct timing_model *tm, double new_tok);

/* Expert work per GPU when group_tok tokens are spread evenly over group_gpus GPUs, all layers; 0 if dense. */
double timing_experts_ns(const struct timing_model *tm, double group_tok, uint32_t group_gpus);

/* Fixed cost of one forward. */
double timing_forward_fixed_ns(const struct timing_model *tm);

/*
 * Attention and linear part of one decode step on one GPU with batch sequences whose contexts sum to
 * context_tok. Linear in context_tok for a fixed batch (so that n steps integrate exactly).
 */
double timing_decode_gpu_ns(const struct timing_model *tm, double batch, double context_tok);

/* Expert part of a decode step per GPU plus the fixed cost, group_batch sequences over group_gpus GPUs. */
double timing_decode_group_ns(const struct timing_model *tm, double group_batch, uint32_t group_gpus);

/* Bytes of weights resident on each GPU when experts are spread over ep_gpus GPUs (1 = all of them). */
double timing_weight_bytes_per_gpu(const struct timing_model *tm, uint32_t ep_gpus);

#endif
