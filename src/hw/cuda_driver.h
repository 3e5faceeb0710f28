/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The CUDA driver API, loaded at run time: one binary runs with and without a driver. Entries come
 * from cuGetProcAddress() in the version their types are of. Internal to the cuda files: includes
 * cuda.h.
 */
#ifndef DUALPATH_HW_CUDA_DRIVER_H
#define DUALPATH_HW_CUDA_DRIVER_H

#include <cudaTypedefs.h>

#include "base/err.h"

struct cuda_api {
    PFN_cuGetErrorName_v6000 error_name;
    PFN_cuInit_v2000 init;
    PFN_cuDriverGetVersion_v2020 driver_version;
    PFN_cuDeviceGetCount_v2000 device_count;
    PFN_cuDeviceGet_v2000 device_get;
    PFN_cuDeviceGetName_v2000 device_name;
    PFN_cuDeviceGetAttribute_v2000 device_attribute;
    PFN_cuDevicePrimaryCtxRetain_v7000 context_retain;
    PFN_cuDevicePrimaryCtxRelease_v11000 context_release;
    PFN_cuCtxSetCurrent_v4000 context_set;
    PFN_cuModuleLoadData_v2000 module_load;
    PFN_cuModuleUnload_v2000 module_unload;
    PFN_cuModuleGetFunction_v2000 module_function;
    PFN_cuMemAlloc_v3020 alloc;
    PFN_cuMemFree_v3020 free;
    PFN_cuMemHostAlloc_v2020 host_alloc;
    PFN_cuMemFreeHost_v2000 host_free;
    PFN_cuMemsetD16_v3020 set16;
    PFN_cuMemcpyHtoD_v3020 to_gpu_now;
    PFN_cuMemcpyDtoH_v3020 from_gpu_now;
    PFN_cuMemcpyHtoDAsync_v3020 to_gpu;
    PFN_cuMemcpyDtoHAsync_v3020 from_gpu;
    PFN_cuMemcpy2DAsync_v3020 copy_2d;
    PFN_cuStreamCreate_v2000 stream_create;
    PFN_cuStreamSynchronize_v2000 stream_wait;
    PFN_cuStreamDestroy_v4000 stream_destroy;
    PFN_cuEventCreate_v2000 event_create;
    PFN_cuEventRecord_v2000 event_record;
    PFN_cuEventElapsedTime_v2000 event_ms;
    PFN_cuEventDestroy_v4000 event_destroy;
    PFN_cuLaunchKernel_v4000 launch;
    PFN_cuPointerSetAttribute_v6000 pointer_set;
    PFN_cuMemGetHandleForAddressRange_v11070 range_handle; /* NULL: a driver without */
    void *handle;
    int n_devices; /* > 0 */
};

/* 0, or -ENODEV with the reason: no driver, too old a one, no device. It stays loaded until unload.
 */
int cuda_load(struct cuda_api *api, struct err *e);
void cuda_unload(struct cuda_api *api);

/* 0, or the errno for a failed call of name `what`: -ENOMEM when memory is short, else -EIO. */
int cuda_check(const struct cuda_api *api, CUresult result, const char *what, struct err *e);

#endif
