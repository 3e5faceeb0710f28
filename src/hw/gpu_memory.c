/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/gpu_memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "hw/cuda_gpu.h"

struct gpu_memory {
    struct cuda_api api;
    struct cuda_gpu gpu;
    CUdeviceptr allocated; /* 0: not yet */
    struct memory_region region;
};

/* A dma-buf covers whole pages, so the region starts at one and room is left for its end. */
static int allocate(struct gpu_memory *m, uint64_t bytes, struct err *e)
{
    const struct cuda_api *api = &m->api;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (bytes == 0 || bytes > UINT64_MAX - 2 * page) {
        return err_set(e, -EINVAL, "GPU memory of %" PRIu64 " bytes", bytes);
    }
    int rc = cuda_check(api, api->alloc(&m->allocated, bytes + 2 * page), "cuMemAlloc", e);
    if (rc) {
        return rc;
    }
    m->region.base = (uint8_t *)(uintptr_t)((m->allocated + page - 1) / page * page);
    m->region.size_bytes = bytes;
    unsigned int yes = 1;
    return cuda_check(api, api->pointer_set(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, m->allocated),
                      "cuPointerSetAttribute", e);
}

/* Whether it works shows in dmabuf_fd: without one there is another way. */
static void export(struct gpu_memory *m)
{
    const struct cuda_api *api = &m->api;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    int offered = 0, fd = -1;
    m->region.dmabuf_fd = -1;
    if (api->range_handle &&
        api->device_attribute(&offered, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, m->gpu.device) ==
            CUDA_SUCCESS &&
        offered &&
        api->range_handle(&fd, (CUdeviceptr)(uintptr_t)m->region.base,
                          (m->region.size_bytes + page - 1) / page * page,
                          CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0) == CUDA_SUCCESS) {
        m->region.dmabuf_fd = fd;
    }
}

static int open_device(struct gpu_memory *m, uint32_t index, struct err *e)
{
    int rc = cuda_load(&m->api, e);
    if (rc == 0 && index >= (uint32_t)m->api.n_devices) {
        rc = err_set(e, -ENODEV, "CUDA device %" PRIu32 " of %d", index, m->api.n_devices);
    }
    return rc ? rc : cuda_gpu_open(&m->gpu, &m->api, index, e);
}

int gpu_memory_new(uint32_t index, uint64_t bytes, struct gpu_memory **ret, struct err *e)
{
    struct gpu_memory *m = calloc(1, sizeof(*m));
    if (!m) {
        return err_nomem(e);
    }
    m->region.on_gpu = true;
    m->region.dmabuf_fd = -1;
    int rc = open_device(m, index, e);
    rc = rc ? rc : allocate(m, bytes, e);
    if (rc) {
        gpu_memory_free(m);
        return rc;
    }
    export(m);
    *ret = m;
    return 0;
}

void gpu_memory_free(struct gpu_memory *m)
{
    if (!m) {
        return;
    }
    if (m->region.dmabuf_fd >= 0) {
        close(m->region.dmabuf_fd);
    }
    if (m->allocated) {
        m->api.context_set(m->gpu.context);
        m->api.free(m->allocated);
    }
    cuda_gpu_close(&m->gpu);
    cuda_unload(&m->api);
    free(m);
}

const struct memory_region *gpu_memory_region(const struct gpu_memory *m)
{
    return &m->region;
}
