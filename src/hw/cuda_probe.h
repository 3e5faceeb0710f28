/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Measurements of a GPU for `dualpath probe`, all by CUDA events, mean over `repeats` after one
 * warm-up. They return 0; -ENODEV with the reason when CUDA was left out of the build, or there is
 * no driver, device or cuBLAS; -ENOMEM; -EIO. They block. */
#ifndef DUALPATH_HW_CUDA_PROBE_H
#define DUALPATH_HW_CUDA_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct cuda_device {
    char name[96];
    int sm;             /* compute capability, e.g. 90 */
    int driver_version; /* CUDA version of the driver, e.g. 13000 */
    uint32_t n_devices;
};
int cuda_probe_device(uint32_t index, struct cuda_device *ret, struct err *e);

/* A copy of bytes between page-locked host memory and the GPU by a copy engine, to compare with
 * RDMA through the GPU's own NIC. Also checks that the bytes got there and back. */
int cuda_probe_copy_ns(uint32_t index, uint64_t bytes, uint32_t repeats, bool to_gpu,
                       double *ret_ns, struct err *e);

/* C[m][n] = A[m][k] B[k][n] in bf16 with fp32 sums, by cuBLAS: the linear part of a layer (2 m n k
 * FLOPs). Also checks the result. k <= 2^24. */
int cuda_probe_gemm_ns(uint32_t index, uint32_t m, uint32_t n, uint32_t k, uint32_t repeats,
                       double *ret_ns, struct err *e);

#endif
