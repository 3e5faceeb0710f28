/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A libcuda.so.1 without a GPU: device memory is host memory, streams do at once what they are
 * told, and the kernels are src/hw/kernels/attention.cu on one lane of one warp. Enough to run all
 * of compute_cuda.c and its copies on any machine. FAKE_CUDA=stub: the tool kit's stub library;
 * FAKE_CUDA=none: no device.
 * FAKE_CUDA_DMABUF: see has_dmabuf().
 */
#define _GNU_SOURCE
#include <cudaTypedefs.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define ATTENTION_LANES 1
#define ATTENTION_WARPS 1
#define __global__
#define __device__
#define __shared__                         static _Thread_local
#define __syncthreads()                    ((void)0)
#define __shfl_xor_sync(mask, x, distance) (x)

struct index3 {
    uint32_t x, y;
};
static _Thread_local struct index3 threadIdx, blockIdx;

#include "hw/kernels/attention_params.h"

void fill_kv(struct attention_params p);
void attend(struct attention_params p);

#include "hw/kernels/attention.cu"

#define REAL_BLOCK_THREADS 128 /* what attention_params.h says without the two defines above */

static const char *mode(void)
{
    const char *m = getenv("FAKE_CUDA");
    return m ? m : "";
}

/* FAKE_CUDA_DMABUF: refused (offered, but it fails) or absent (not offered). Else a file that is
 * empty: it only has to be one. */
static int has_dmabuf(void)
{
    const char *m = getenv("FAKE_CUDA_DMABUF");
    return !m || strcmp(m, "absent") != 0;
}

static CUresult CUDAAPI get_error_name(CUresult rc, const char **name)
{
    *name = rc == CUDA_ERROR_STUB_LIBRARY ? "CUDA_ERROR_STUB_LIBRARY" : "CUDA_ERROR_FAKE";
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI init(unsigned int flags)
{
    (void)flags;
    return strcmp(mode(), "stub") == 0 ? CUDA_ERROR_STUB_LIBRARY : CUDA_SUCCESS;
}

static CUresult CUDAAPI driver_version(int *version)
{
    *version = 12000;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI device_count(int *n)
{
    *n = strcmp(mode(), "none") == 0 ? 0 : 2;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI device_get(CUdevice *device, int index)
{
    *device = index;
    return index < 2 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult CUDAAPI device_name(char *name, int size, CUdevice device)
{
    (void)device;
    strncpy(name, "fake", (size_t)size);
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI device_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    (void)device;
    *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9
             : attribute == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED      ? has_dmabuf()
                                                                       : 0;
    return CUDA_SUCCESS;
}

/* Contexts: one per device, and calls need one. */
static char contexts[2];
static _Thread_local CUcontext current;

static CUresult CUDAAPI context_retain(CUcontext *context, CUdevice device)
{
    *context = (CUcontext)(void *)&contexts[device];
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI context_release(CUdevice device)
{
    (void)device;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI context_set(CUcontext context)
{
    current = context;
    return CUDA_SUCCESS;
}

#define NEED_CONTEXT()                                                                             \
    if (!current)                                                                                  \
    return CUDA_ERROR_INVALID_CONTEXT

/* Memory */

static CUresult CUDAAPI mem_alloc(CUdeviceptr *p, size_t bytes)
{
    NEED_CONTEXT();
    /* Not zeros: nothing may rely on what fresh memory holds. */
    void *memory = malloc(bytes);
    if (memory) {
        memset(memory, 0xa5, bytes);
    }
    *p = (CUdeviceptr)(uintptr_t)memory;
    return memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult CUDAAPI mem_free(CUdeviceptr p)
{
    NEED_CONTEXT();
    free((void *)(uintptr_t)p);
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI host_alloc(void **p, size_t bytes, unsigned int flags)
{
    NEED_CONTEXT();
    (void)flags;
    *p = malloc(bytes);
    return *p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult CUDAAPI host_free(void *p)
{
    free(p);
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI set16(CUdeviceptr p, unsigned short value, size_t n)
{
    unsigned short *to = (unsigned short *)(uintptr_t)p;
    for (size_t i = 0; i < n; i++) {
        to[i] = value;
    }
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI to_gpu_now(CUdeviceptr to, const void *from, size_t bytes)
{
    NEED_CONTEXT();
    memcpy((void *)(uintptr_t)to, from, bytes);
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI from_gpu_now(void *to, CUdeviceptr from, size_t bytes)
{
    NEED_CONTEXT();
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI to_gpu(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    (void)stream;
    return to_gpu_now(to, from, bytes);
}

static CUresult CUDAAPI from_gpu(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    (void)stream;
    return from_gpu_now(to, from, bytes);
}

static CUresult CUDAAPI copy_2d(const CUDA_MEMCPY2D *c, CUstream stream)
{
    (void)stream;
    NEED_CONTEXT();
    if (c->srcMemoryType != CU_MEMORYTYPE_HOST || c->dstMemoryType != CU_MEMORYTYPE_DEVICE ||
        c->WidthInBytes > c->srcPitch || c->WidthInBytes > c->dstPitch) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t y = 0; y < c->Height; y++) {
        memcpy((char *)(uintptr_t)c->dstDevice + y * c->dstPitch,
               (const char *)c->srcHost + y * c->srcPitch, c->WidthInBytes);
    }
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI pointer_set(const void *value, CUpointer_attribute attribute, CUdeviceptr p)
{
    NEED_CONTEXT();
    return p && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && *(const unsigned int *)value == 1
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

static CUresult CUDAAPI range_handle(void *handle, CUdeviceptr p, size_t bytes,
                                     CUmemRangeHandleType type, unsigned long long flags)
{
    NEED_CONTEXT();
    const char *m = getenv("FAKE_CUDA_DMABUF");
    if (p % 4096 || bytes % 4096 || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (m && strcmp(m, "refused") == 0) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    int fd = memfd_create("dmabuf", MFD_CLOEXEC);
    memcpy(handle, &fd, sizeof(fd));
    return fd < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

/* Streams, events, kernels */

static CUresult CUDAAPI stream_create(CUstream *stream, unsigned int flags)
{
    NEED_CONTEXT();
    (void)flags;
    *stream = malloc(1);
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI stream_wait(CUstream stream)
{
    (void)stream;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI stream_destroy(CUstream stream)
{
    free(stream);
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI event_create(CUevent *event, unsigned int flags)
{
    NEED_CONTEXT();
    (void)flags;
    *event = calloc(1, sizeof(struct timespec));
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI event_record(CUevent event, CUstream stream)
{
    (void)stream;
    clock_gettime(CLOCK_MONOTONIC, (struct timespec *)(void *)event);
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI event_ms(float *ms, CUevent from, CUevent to)
{
    const struct timespec *a = (const void *)from, *b = (const void *)to;
    *ms = (float)((double)(b->tv_sec - a->tv_sec) * 1e3 + (double)(b->tv_nsec - a->tv_nsec) / 1e6);
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI event_destroy(CUevent event)
{
    free(event);
    return CUDA_SUCCESS;
}

static char functions[2];

static CUresult CUDAAPI module_load(CUmodule *module, const void *image)
{
    NEED_CONTEXT();
    static const unsigned char magic[4] = {0x50, 0xed, 0x55, 0xba}; /* of a fat binary */
    *module = (CUmodule)(void *)functions;
    return memcmp(image, magic, sizeof(magic)) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

static CUresult CUDAAPI module_unload(CUmodule module)
{
    (void)module;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI module_function(CUfunction *f, CUmodule module, const char *name)
{
    (void)module;
    if (strcmp(name, "fill_kv") != 0 && strcmp(name, "attend") != 0) {
        return CUDA_ERROR_NOT_FOUND;
    }
    *f = (CUfunction)(void *)&functions[strcmp(name, "attend") == 0];
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI launch(CUfunction f, unsigned int grid_x, unsigned int grid_y,
                               unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                               unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                               void **arguments, void **extra)
{
    NEED_CONTEXT();
    (void)stream;
    if (grid_z != 1 || block_x != REAL_BLOCK_THREADS || block_y != 1 || block_z != 1 ||
        shared_bytes != 0 || extra) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const struct attention_params *p = arguments[0];
    for (blockIdx.x = 0; blockIdx.x < grid_x; blockIdx.x++) {
        for (blockIdx.y = 0; blockIdx.y < grid_y; blockIdx.y++) {
            if ((char *)(void *)f == &functions[1]) {
                attend(*p);
            } else {
                fill_kv(*p);
            }
        }
    }
    return CUDA_SUCCESS;
}

struct entry {
    const char *symbol;
    void (*function)(void);
};

#define ENTRY(symbol, function)                                                                    \
    {                                                                                              \
        symbol, (void (*)(void))function                                                           \
    }

static const struct entry entries[] = {
    ENTRY("cuGetErrorName", get_error_name),
    ENTRY("cuInit", init),
    ENTRY("cuDriverGetVersion", driver_version),
    ENTRY("cuDeviceGetCount", device_count),
    ENTRY("cuDeviceGet", device_get),
    ENTRY("cuDeviceGetName", device_name),
    ENTRY("cuDeviceGetAttribute", device_attribute),
    ENTRY("cuDevicePrimaryCtxRetain", context_retain),
    ENTRY("cuDevicePrimaryCtxRelease", context_release),
    ENTRY("cuCtxSetCurrent", context_set),
    ENTRY("cuModuleLoadData", module_load),
    ENTRY("cuModuleUnload", module_unload),
    ENTRY("cuModuleGetFunction", module_function),
    ENTRY("cuMemAlloc", mem_alloc),
    ENTRY("cuMemFree", mem_free),
    ENTRY("cuMemHostAlloc", host_alloc),
    ENTRY("cuMemFreeHost", host_free),
    ENTRY("cuMemsetD16", set16),
    ENTRY("cuMemcpyHtoD", to_gpu_now),
    ENTRY("cuMemcpyDtoH", from_gpu_now),
    ENTRY("cuMemcpyHtoDAsync", to_gpu),
    ENTRY("cuMemcpyDtoHAsync", from_gpu),
    ENTRY("cuMemcpy2DAsync", copy_2d),
    ENTRY("cuStreamCreate", stream_create),
    ENTRY("cuStreamSynchronize", stream_wait),
    ENTRY("cuStreamDestroy", stream_destroy),
    ENTRY("cuEventCreate", event_create),
    ENTRY("cuEventRecord", event_record),
    ENTRY("cuEventElapsedTime", event_ms),
    ENTRY("cuEventDestroy", event_destroy),
    ENTRY("cuLaunchKernel", launch),
    ENTRY("cuPointerSetAttribute", pointer_set),
    ENTRY("cuMemGetHandleForAddressRange", range_handle),
};

CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **ret, int version, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult *status)
{
    (void)version;
    (void)flags;
    (void)status;
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        if (strcmp(symbol, entries[i].symbol) == 0) {
            memcpy(ret, &entries[i].function, sizeof(*ret));
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_NOT_FOUND;
}
