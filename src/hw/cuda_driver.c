/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/cuda_driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define LIBRARY "libcuda.so.1"

struct entry {
    const char *symbol;
    int version; /* of the driver API that the type in struct cuda_api is of */
    size_t slot;
    bool optional;
};

static const struct entry entries[] = {
    {"cuGetErrorName", 6000, offsetof(struct cuda_api, error_name), false},
    {"cuInit", 2000, offsetof(struct cuda_api, init), false},
    {"cuDriverGetVersion", 2020, offsetof(struct cuda_api, driver_version), false},
    {"cuDeviceGetCount", 2000, offsetof(struct cuda_api, device_count), false},
    {"cuDeviceGet", 2000, offsetof(struct cuda_api, device_get), false},
    {"cuDeviceGetName", 2000, offsetof(struct cuda_api, device_name), false},
    {"cuDeviceGetAttribute", 2000, offsetof(struct cuda_api, device_attribute), false},
    {"cuDevicePrimaryCtxRetain", 7000, offsetof(struct cuda_api, context_retain), false},
    {"cuDevicePrimaryCtxRelease", 11000, offsetof(struct cuda_api, context_release), false},
    {"cuCtxSetCurrent", 4000, offsetof(struct cuda_api, context_set), false},
    {"cuModuleLoadData", 2000, offsetof(struct cuda_api, module_load), false},
    {"cuModuleUnload", 2000, offsetof(struct cuda_api, module_unload), false},
    {"cuModuleGetFunction", 2000, offsetof(struct cuda_api, module_function), false},
    {"cuMemAlloc", 3020, offsetof(struct cuda_api, alloc), false},
    {"cuMemFree", 3020, offsetof(struct cuda_api, free), false},
    {"cuMemHostAlloc", 2020, offsetof(struct cuda_api, host_alloc), false},
    {"cuMemFreeHost", 2000, offsetof(struct cuda_api, host_free), false},
    {"cuMemsetD16", 3020, offsetof(struct cuda_api, set16), false},
    {"cuMemcpyHtoD", 3020, offsetof(struct cuda_api, to_gpu_now), false},
    {"cuMemcpyDtoH", 3020, offsetof(struct cuda_api, from_gpu_now), false},
    {"cuMemcpyHtoDAsync", 3020, offsetof(struct cuda_api, to_gpu), false},
    {"cuMemcpyDtoHAsync", 3020, offsetof(struct cuda_api, from_gpu), false},
    {"cuMemcpy2DAsync", 3020, offsetof(struct cuda_api, copy_2d), false},
    {"cuStreamCreate", 2000, offsetof(struct cuda_api, stream_create), false},
    {"cuStreamSynchronize", 2000, offsetof(struct cuda_api, stream_wait), false},
    {"cuStreamDestroy", 4000, offsetof(struct cuda_api, stream_destroy), false},
    {"cuEventCreate", 2000, offsetof(struct cuda_api, event_create), false},
    {"cuEventRecord", 2000, offsetof(struct cuda_api, event_record), false},
    {"cuEventElapsedTime", 2000, offsetof(struct cuda_api, event_ms), false},
    {"cuEventDestroy", 4000, offsetof(struct cuda_api, event_destroy), false},
    {"cuLaunchKernel", 4000, offsetof(struct cuda_api, launch), false},
    {"cuPointerSetAttribute", 6000, offsetof(struct cuda_api, pointer_set), false},
    {"cuMemGetHandleForAddressRange", 11070, offsetof(struct cuda_api, range_handle), true},
};

int cuda_check(const struct cuda_api *api, CUresult result, const char *what, struct err *e)
{
    if (result == CUDA_SUCCESS) {
        return 0;
    }
    const char *name = NULL;
    if (!api->error_name || api->error_name(result, &name) != CUDA_SUCCESS) {
        name = "unknown error";
    }
    return err_set(e, result == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EIO, "CUDA: %s: %s (%d)",
                   what, name, (int)result);
}

static int resolve(struct cuda_api *api, struct err *e)
{
    PFN_cuGetProcAddress_v12000 get;
    void *address = dlsym(api->handle, "cuGetProcAddress_v2");
    if (!address) {
        return err_set(e, -ENODEV,
                       "the CUDA driver is too old: " LIBRARY
                       " has no cuGetProcAddress_v2 (CUDA 12 or later is needed)");
    }
    memcpy(&get, &address, sizeof(get)); /* ISO C has no cast from an object to a function */
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        void *found = NULL;
        CUresult rc =
            get(entries[i].symbol, &found, entries[i].version, CU_GET_PROC_ADDRESS_DEFAULT, NULL);
        if (entries[i].optional && (rc != CUDA_SUCCESS || !found)) {
            continue;
        }
        if (rc != CUDA_SUCCESS || !found) {
            return err_set(e, -ENODEV, "the CUDA driver has no %s of version %d (error %d)",
                           entries[i].symbol, entries[i].version, (int)rc);
        }
        memcpy((char *)api + entries[i].slot, &found, sizeof(found));
    }
    return 0;
}

static int start(struct cuda_api *api, struct err *e)
{
    struct err why = ERR_INIT;
    int rc = cuda_check(api, api->init(0), "cuInit", &why);
    if (rc == 0) {
        rc = cuda_check(api, api->device_count(&api->n_devices), "cuDeviceGetCount", &why);
    }
    if (rc || api->n_devices == 0) {
        return err_set(e, -ENODEV, "no CUDA device can be used: %s",
                       rc ? why.text : "the driver finds none");
    }
    return 0;
}

int cuda_load(struct cuda_api *api, struct err *e)
{
    *api = (struct cuda_api){.handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL)};
    if (!api->handle) {
        return err_set(e, -ENODEV, "no CUDA driver on this machine: %s", dlerror());
    }
    int rc = resolve(api, e);
    rc = rc ? rc : start(api, e);
    if (rc) {
        cuda_unload(api);
    }
    return rc;
}

void cuda_unload(struct cuda_api *api)
{
    if (api->handle) {
        dlclose(api->handle);
        api->handle = NULL;
    }
}
