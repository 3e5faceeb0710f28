/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/cuda_gpu.h"

static int create(struct cuda_gpu *g, struct err *e)
{
    const struct cuda_api *api = g->api;
    int rc = cuda_check(api, api->context_set(g->context), "cuCtxSetCurrent", e);
    if (rc == 0) {
        rc = cuda_check(api, api->stream_create(&g->stream, CU_STREAM_NON_BLOCKING),
                        "cuStreamCreate", e);
    }
    for (uint32_t i = 0; rc == 0 && i < CUDA_GPU_MARKS; i++) {
        rc = cuda_check(api, api->event_create(&g->marks[i], CU_EVENT_DEFAULT), "cuEventCreate", e);
    }
    return rc;
}

int cuda_gpu_open(struct cuda_gpu *g, const struct cuda_api *api, uint32_t index, struct err *e)
{
    *g = (struct cuda_gpu){.api = api};
    int rc = cuda_check(api, api->device_get(&g->device, (int)(index % (uint32_t)api->n_devices)),
                        "cuDeviceGet", e);
    if (rc == 0) {
        rc = cuda_check(api, api->context_retain(&g->context, g->device),
                        "cuDevicePrimaryCtxRetain", e);
    }
    rc = rc ? rc : create(g, e);
    if (rc) {
        cuda_gpu_close(g);
    }
    return rc;
}

void cuda_gpu_close(struct cuda_gpu *g)
{
    if (!g->context) {
        return;
    }
    g->api->context_set(g->context);
    for (uint32_t i = 0; i < CUDA_GPU_MARKS; i++) {
        if (g->marks[i]) {
            g->api->event_destroy(g->marks[i]);
        }
    }
    if (g->stream) {
        g->api->stream_destroy(g->stream);
    }
    g->api->context_set(NULL);
    g->api->context_release(g->device);
    g->context = NULL;
}

int cuda_gpu_use(const struct cuda_gpu *g, struct err *e)
{
    return cuda_check(g->api, g->api->context_set(g->context), "cuCtxSetCurrent", e);
}

int cuda_gpu_mark(const struct cuda_gpu *g, uint32_t i, struct err *e)
{
    return cuda_check(g->api, g->api->event_record(g->marks[i], g->stream), "cuEventRecord", e);
}

int cuda_gpu_wait(const struct cuda_gpu *g, struct err *e)
{
    return cuda_check(g->api, g->api->stream_wait(g->stream), "cuStreamSynchronize", e);
}

int cuda_gpu_between_ns(const struct cuda_gpu *g, uint32_t from, uint32_t to, double *ret_ns,
                        struct err *e)
{
    float ms = 0;
    int rc = cuda_check(g->api, g->api->event_ms(&ms, g->marks[from], g->marks[to]),
                        "cuEventElapsedTime", e);
    if (rc == 0) {
        *ret_ns = (double)ms * 1e6;
    }
    return rc;
}
