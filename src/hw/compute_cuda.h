/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Attention on GPUs. The engine's HBM region of memory.h stays host memory that transports write
 * to; each region has a mirror of the same size in the memory of a GPU, and a task copies in what
 * arrived and copies out the KV it made, through the copy engines. (The paper's system has the NIC
 * write into the GPU instead; comparing the two is what the times are for.) Outputs agree with the
 * reference within attention_tolerance().
 *
 * Engine `gpu` of a node computes on device gpu modulo the number of devices.
 */
#ifndef DUALPATH_HW_COMPUTE_CUDA_H
#define DUALPATH_HW_COMPUTE_CUDA_H

#include "hw/hw_compute.h"

struct compute_cuda;

/* Totals of one slot, by events on its stream. */
struct compute_cuda_times {
    uint64_t tasks;
    uint64_t to_gpu_bytes, from_gpu_bytes;
    double to_gpu_ns, kernels_ns, from_gpu_ns;
};

/*
 * One slot for each engine in this process, in hw_compute's order. 0; -ENODEV with the reason when
 * CUDA was left out of the build, or there is no driver or device; -EINVAL: rows too long for the
 * kernel; -ENOMEM; -EIO. On success *ret is freed with compute_cuda_free() once hw_compute is done.
 */
int compute_cuda_new(const struct attention *attention, const struct hw_compute_config *config,
                     const struct memory_map *map, struct compute_cuda **ret, struct err *e);
void compute_cuda_free(struct compute_cuda *c);

struct attention_kernel *compute_cuda_kernel(struct compute_cuda *c);

/* While hw_compute is idle. */
void compute_cuda_times(const struct compute_cuda *c, uint32_t slot,
                        struct compute_cuda_times *ret);

#endif
