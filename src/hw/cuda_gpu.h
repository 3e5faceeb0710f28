/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One GPU: its primary context, a stream, and events for times. Internal to the cuda files. */
#ifndef DUALPATH_HW_CUDA_GPU_H
#define DUALPATH_HW_CUDA_GPU_H

#include <stdint.h>

#include "hw/cuda_driver.h"

#define CUDA_GPU_MARKS 4u

struct cuda_gpu {
    const struct cuda_api *api;
    CUdevice device;
    CUcontext context; /* NULL: not open */
    CUstream stream;
    CUevent marks[CUDA_GPU_MARKS];
};

/* Opens device number `index` modulo the number of devices, and makes it the calling thread's. */
int cuda_gpu_open(struct cuda_gpu *g, const struct cuda_api *api, uint32_t index, struct err *e);
void cuda_gpu_close(struct cuda_gpu *g);

/* Makes it the calling thread's. */
int cuda_gpu_use(const struct cuda_gpu *g, struct err *e);

/* Puts mark i into the stream; after cuda_gpu_wait(), ns between two marks. */
int cuda_gpu_mark(const struct cuda_gpu *g, uint32_t i, struct err *e);
int cuda_gpu_wait(const struct cuda_gpu *g, struct err *e);
int cuda_gpu_between_ns(const struct cuda_gpu *g, uint32_t from, uint32_t to, double *ret_ns,
                        struct err *e);

#endif
