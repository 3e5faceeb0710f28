/* SPDX-License-Identifier: GPL-3.0-or-later */
/* compute_cuda.h, cuda_probe.h and gpu_memory.h of a build without CUDA. */
#include <errno.h>
#include <stddef.h>

#include "hw/compute_cuda.h"
#include "hw/cuda_probe.h"
#include "hw/gpu_memory.h"

static int absent(struct err *e)
{
    return err_set(e, -ENODEV,
                   "this program was built without CUDA (meson option cuda; needs nvcc)");
}

int compute_cuda_new(const struct attention *attention, const struct hw_compute_config *config,
                     const struct memory_map *map, struct compute_cuda **ret, struct err *e)
{
    (void)attention;
    (void)config;
    (void)map;
    (void)ret;
    return absent(e);
}

void compute_cuda_free(struct compute_cuda *c)
{
    (void)c;
}

struct attention_kernel *compute_cuda_kernel(struct compute_cuda *c)
{
    (void)c;
    return NULL;
}

void compute_cuda_times(const struct compute_cuda *c, uint32_t slot, struct compute_cuda_times *ret)
{
    (void)c;
    (void)slot;
    *ret = (struct compute_cuda_times){0};
}

int cuda_probe_device(uint32_t index, struct cuda_device *ret, struct err *e)
{
    (void)index;
    (void)ret;
    return absent(e);
}

int cuda_probe_copy_ns(uint32_t index, uint64_t bytes, uint32_t repeats, bool to_gpu,
                       double *ret_ns, struct err *e)
{
    (void)index;
    (void)bytes;
    (void)repeats;
    (void)to_gpu;
    (void)ret_ns;
    return absent(e);
}

int cuda_probe_gemm_ns(uint32_t index, uint32_t m, uint32_t n, uint32_t k, uint32_t repeats,
                       double *ret_ns, struct err *e)
{
    (void)index;
    (void)m;
    (void)n;
    (void)k;
    (void)repeats;
    (void)ret_ns;
    return absent(e);
}

int gpu_memory_new(uint32_t index, uint64_t bytes, struct gpu_memory **ret, struct err *e)
{
    (void)index;
    (void)bytes;
    (void)ret;
    return absent(e);
}

void gpu_memory_free(struct gpu_memory *m)
{
    (void)m;
}

const struct memory_region *gpu_memory_region(const struct gpu_memory *m)
{
    (void)m;
    return NULL;
}
