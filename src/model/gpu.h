/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the simulator knows of a GPU: peaks and the kernel efficiencies reached on it. */
#ifndef DUALPATH_MODEL_GPU_H
#define DUALPATH_MODEL_GPU_H

#include <stdint.h>

struct gpu_profile {
    char name[64];
    double bf16_flops, fp8_flops; /* dense peak, FLOP/s; fp8 = bf16 where the GPU has no FP8 */
    double fp4_flops;             /* fp8 where the GPU has no FP4; only for the I/O-compute ratio */
    double hbm_Bps;
    double hbm_bytes;
    double nic_Bps; /* compute NIC that ships with it, for the I/O-compute ratio */
    /* Fractions of peak (or of bandwidth) reached; see scenarios/gpus/(name).json for the source of
     * each. */
    double mfu_attention_prefill; /* FlashAttention / MLA core */
    double mfu_indexer_prefill;   /* DSA indexer, of the FP8 peak */
    double mfu_sparse_prefill;    /* DSA sparse core */
    double mfu_gemm;              /* dense projections, large m */
    double mfu_grouped_gemm;      /* experts, >= 1024 tokens per GPU */
    double mfu_attention_decode;  /* dense GQA / MLA decode core, of the BF16 peak */
    double mfu_sparse_decode;     /* DSA decode core, of the BF16 peak */
    double hbm_efficiency;        /* reached share of hbm_Bps */
    double nvlink_Bps;    /* of a GPU, each direction; 0 = not known, no tensor parallelism */
    uint32_t nvlink_gpus; /* GPUs of one NVLink domain: EP groups up to this size avoid the NICs */
    char source[256];
};

/* The highest dense peak and the type it is reached with: "bf16", "fp8" or "fp4". */
double gpu_peak_flops(const struct gpu_profile *gpu, const char **ret_dtype);

#endif
