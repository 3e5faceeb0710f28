/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the kernels of attention.cu are told; passed by value, hence the same for C and CUDA. */
#ifndef DUALPATH_HW_KERNELS_ATTENTION_PARAMS_H
#define DUALPATH_HW_KERNELS_ATTENTION_PARAMS_H

#include <stdint.h>

#define ATTENTION_MAX_DIM 1024 /* values of a row: bounded by shared memory and registers */

/* Threads of a block. A test that runs the kernels on the CPU has fewer. */
#ifndef ATTENTION_LANES
#define ATTENTION_LANES 32
#define ATTENTION_WARPS 4
#endif

struct attention_params {
    uint64_t seed, chain_id;
    float *kv;  /* place of token 0 in device memory */
    float *out; /* [n_tok][heads][value_dim] */
    uint32_t n_layers, block_tok, dim;
    uint32_t heads, value_dim;
    uint32_t layer, first_tok, n_tok;
    float scale;
};

#endif
