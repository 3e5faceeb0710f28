/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The few entries of cuBLAS that the probe needs, loaded at run time. Internal to the cuda files.
 */
#ifndef DUALPATH_HW_CUBLAS_H
#define DUALPATH_HW_CUBLAS_H

#include <cublas_api.h>

#include "base/err.h"

struct cublas {
    void *library;
    cublasHandle_t handle;
    cublasStatus_t (*create)(cublasHandle_t *handle);
    cublasStatus_t (*destroy)(cublasHandle_t handle);
    cublasStatus_t (*set_stream)(cublasHandle_t handle, cudaStream_t stream);
    cublasStatus_t (*gemm)(cublasHandle_t handle, cublasOperation_t transa,
                           cublasOperation_t transb, int64_t m, int64_t n, int64_t k,
                           const void *alpha, const void *a, cudaDataType a_type, int64_t lda,
                           const void *b, cudaDataType b_type, int64_t ldb, const void *beta,
                           void *c, cudaDataType c_type, int64_t ldc, cublasComputeType_t compute,
                           cublasGemmAlgo_t algo);
};

/* For the calling thread's context. 0, -ENODEV (no such library, or one before CUDA 12) or -EIO. */
int cublas_open(struct cublas *b, cudaStream_t stream, struct err *e);
void cublas_close(struct cublas *b);

int cublas_check(cublasStatus_t status, const char *what, struct err *e);

#endif
