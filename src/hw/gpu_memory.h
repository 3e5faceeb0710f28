/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Memory of a GPU that an RDMA device can reach: allocated by the CUDA driver, and exported as a
 * dma-buf where the driver does that (CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED: open kernel modules,
 * kernel 5.12 and later), for ibv_reg_dmabuf_mr(). Where it does not, the region has no dma-buf,
 * and verbs_device tries nvidia-peermem. Copies that CUDA calls synchronous wait for such memory
 * (CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, as the GPUDirect RDMA documentation asks).
 */
#ifndef DUALPATH_HW_GPU_MEMORY_H
#define DUALPATH_HW_GPU_MEMORY_H

#include "base/err.h"
#include "hw/memory.h"

struct gpu_memory;

/* bytes on device number index. 0 and *ret; -ENODEV with the reason when CUDA was left out of the
 * build, or there is no driver or no such device; another negative errno. */
int gpu_memory_new(uint32_t index, uint64_t bytes, struct gpu_memory **ret, struct err *e);
void gpu_memory_free(struct gpu_memory *m); /* NULL: nothing */

/* For node_memory_put_on_gpu(); goes with m. */
const struct memory_region *gpu_memory_region(const struct gpu_memory *m);

#endif
