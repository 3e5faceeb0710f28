/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/cuda_probe.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "hw/cublas.h"
#include "hw/cuda_gpu.h"

#define BF16_ONE 0x3f80

static int open_gpu(struct cuda_api *api, struct cuda_gpu *g, uint32_t index, struct err *e)
{
    int rc = cuda_load(api, e);
    if (rc == 0 && index >= (uint32_t)api->n_devices) {
        rc = err_set(e, -ENODEV, "CUDA device %" PRIu32 " of %d", index, api->n_devices);
    }
    rc = rc ? rc : cuda_gpu_open(g, api, index, e);
    if (rc) {
        cuda_unload(api);
    }
    return rc;
}

static void close_gpu(struct cuda_api *api, struct cuda_gpu *g)
{
    cuda_gpu_close(g);
    cuda_unload(api);
}

static int describe(const struct cuda_api *api, const struct cuda_gpu *g, struct cuda_device *d,
                    struct err *e)
{
    int major = 0, minor = 0;
    d->n_devices = (uint32_t)api->n_devices;
    int rc = cuda_check(api, api->device_name(d->name, sizeof(d->name), g->device),
                        "cuDeviceGetName", e);
    if (rc == 0) {
        rc = cuda_check(api, api->driver_version(&d->driver_version), "cuDriverGetVersion", e);
    }
    if (rc == 0) {
        rc = cuda_check(
            api,
            api->device_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, g->device),
            "cuDeviceGetAttribute", e);
    }
    if (rc == 0) {
        rc = cuda_check(
            api,
            api->device_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, g->device),
            "cuDeviceGetAttribute", e);
    }
    d->sm = 10 * major + minor;
    return rc;
}

int cuda_probe_device(uint32_t index, struct cuda_device *ret, struct err *e)
{
    struct cuda_api api;
    struct cuda_gpu gpu;
    struct cuda_device d = {0};
    int rc = open_gpu(&api, &gpu, index, e);
    if (rc) {
        return rc;
    }
    rc = describe(&api, &gpu, &d, e);
    close_gpu(&api, &gpu);
    if (rc == 0) {
        *ret = d;
    }
    return rc;
}

/* What is repeated: one operation put into the GPU's stream. */
struct task {
    int (*run)(const struct task *t, struct err *e);
    const struct cuda_gpu *gpu;
};

static int time_task(const struct task *t, uint32_t repeats, double *ret_ns, struct err *e)
{
    double total_ns = 0;
    if (repeats == 0) {
        return err_set(e, -EINVAL, "a measurement of 0 repeats");
    }
    int rc = t->run(t, e);
    rc = rc ? rc : cuda_gpu_mark(t->gpu, 0, e);
    for (uint32_t i = 0; rc == 0 && i < repeats; i++) {
        rc = t->run(t, e);
    }
    rc = rc ? rc : cuda_gpu_mark(t->gpu, 1, e);
    int wait_rc = cuda_gpu_wait(t->gpu, e);
    rc = rc ? rc : wait_rc;
    rc = rc ? rc : cuda_gpu_between_ns(t->gpu, 0, 1, &total_ns, e);
    if (rc == 0) {
        *ret_ns = total_ns / repeats;
    }
    return rc;
}

/* Copies */

struct copy_task {
    struct task task;
    uint8_t *host;
    CUdeviceptr device;
    uint64_t bytes;
    bool to_gpu;
};

static int run_copy(const struct task *t, struct err *e)
{
    const struct copy_task *c = (const struct copy_task *)t;
    const struct cuda_api *api = t->gpu->api;
    CUresult result = c->to_gpu ? api->to_gpu(c->device, c->host, c->bytes, t->gpu->stream)
                                : api->from_gpu(c->host, c->device, c->bytes, t->gpu->stream);
    return cuda_check(api, result, c->to_gpu ? "cuMemcpyHtoDAsync" : "cuMemcpyDtoHAsync", e);
}

static int alloc_copy(struct copy_task *c, struct err *e)
{
    const struct cuda_api *api = c->task.gpu->api;
    void *host = NULL;
    int rc = cuda_check(api, api->host_alloc(&host, c->bytes, 0), "cuMemHostAlloc", e);
    c->host = host;
    return rc ? rc : cuda_check(api, api->alloc(&c->device, c->bytes), "cuMemAlloc", e);
}

static void free_copy(struct copy_task *c)
{
    const struct cuda_api *api = c->task.gpu->api;
    if (c->device) {
        api->free(c->device);
    }
    if (c->host) {
        api->host_free(c->host);
    }
}

static void fill_pattern(uint8_t *p, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++) {
        p[i] = (uint8_t)hash_mix64(i);
    }
}

static bool is_pattern(const uint8_t *p, uint64_t bytes)
{
    uint64_t i = 0;
    while (i < bytes && p[i] == (uint8_t)hash_mix64(i)) {
        i++;
    }
    return i == bytes;
}

static int measure_copy(struct copy_task *c, uint32_t repeats, double *ret_ns, struct err *e)
{
    const struct cuda_api *api = c->task.gpu->api;
    fill_pattern(c->host, c->bytes);
    int rc = cuda_check(api, api->to_gpu_now(c->device, c->host, c->bytes), "cuMemcpyHtoD", e);
    if (rc == 0 && !c->to_gpu) {
        memset(c->host, 0, c->bytes);
    }
    rc = rc ? rc : time_task(&c->task, repeats, ret_ns, e);
    if (rc == 0 && c->to_gpu) {
        memset(c->host, 0, c->bytes);
        rc = cuda_check(api, api->from_gpu_now(c->host, c->device, c->bytes), "cuMemcpyDtoH", e);
    }
    if (rc == 0 && !is_pattern(c->host, c->bytes)) {
        rc = err_set(e, -EIO, "a copy of %" PRIu64 " bytes brought other bytes", c->bytes);
    }
    return rc;
}

int cuda_probe_copy_ns(uint32_t index, uint64_t bytes, uint32_t repeats, bool to_gpu,
                       double *ret_ns, struct err *e)
{
    struct cuda_api api;
    struct cuda_gpu gpu;
    int rc = open_gpu(&api, &gpu, index, e);
    if (rc) {
        return rc;
    }
    struct copy_task c = {.task = {.run = run_copy, .gpu = &gpu}, .bytes = bytes, .to_gpu = to_gpu};
    rc = alloc_copy(&c, e);
    rc = rc ? rc : measure_copy(&c, repeats, ret_ns, e);
    free_copy(&c);
    close_gpu(&api, &gpu);
    return rc;
}

/* GEMM of ones: every element of the result is k. */

struct gemm_task {
    struct task task;
    struct cublas blas;
    CUdeviceptr a, b, c;
    uint32_t m, n, k;
};

static void *at(CUdeviceptr p)
{
    return (void *)(uintptr_t)p;
}

static int run_gemm(const struct task *t, struct err *e)
{
    const struct gemm_task *g = (const struct gemm_task *)t;
    const float one = 1, zero = 0;
    return cublas_check(g->blas.gemm(g->blas.handle, CUBLAS_OP_N, CUBLAS_OP_N, g->m, g->n, g->k,
                                     &one, at(g->a), CUDA_R_16BF, g->m, at(g->b), CUDA_R_16BF, g->k,
                                     &zero, at(g->c), CUDA_R_32F, g->m, CUBLAS_COMPUTE_32F,
                                     CUBLAS_GEMM_DEFAULT),
                        "cublasGemmEx", e);
}

static int alloc_ones(const struct cuda_api *api, CUdeviceptr *p, uint64_t n, struct err *e)
{
    int rc = cuda_check(api, api->alloc(p, 2 * n), "cuMemAlloc", e);
    return rc ? rc : cuda_check(api, api->set16(*p, BF16_ONE, n), "cuMemsetD16", e);
}

static int alloc_gemm(struct gemm_task *g, struct err *e)
{
    const struct cuda_api *api = g->task.gpu->api;
    int rc = alloc_ones(api, &g->a, (uint64_t)g->m * g->k, e);
    rc = rc ? rc : alloc_ones(api, &g->b, (uint64_t)g->k * g->n, e);
    rc = rc ? rc : cuda_check(api, api->alloc(&g->c, sizeof(float) * g->m * g->n), "cuMemAlloc", e);
    return rc ? rc : cublas_open(&g->blas, g->task.gpu->stream, e);
}

static void free_gemm(struct gemm_task *g)
{
    const struct cuda_api *api = g->task.gpu->api;
    cublas_close(&g->blas);
    CUdeviceptr p[] = {g->a, g->b, g->c};
    for (size_t i = 0; i < sizeof(p) / sizeof(p[0]); i++) {
        if (p[i]) {
            api->free(p[i]);
        }
    }
}

static int check_gemm(const struct gemm_task *g, struct err *e)
{
    const struct cuda_api *api = g->task.gpu->api;
    uint64_t last = (uint64_t)g->m * g->n - 1;
    float first_value = 0, last_value = 0;
    int rc =
        cuda_check(api, api->from_gpu_now(&first_value, g->c, sizeof(float)), "cuMemcpyDtoH", e);
    if (rc == 0) {
        rc = cuda_check(api,
                        api->from_gpu_now(&last_value, g->c + last * sizeof(float), sizeof(float)),
                        "cuMemcpyDtoH", e);
    }
    if (rc == 0 && !(first_value == (float)g->k && last_value == (float)g->k)) {
        rc = err_set(e, -EIO, "a product of ones over %" PRIu32 " gave %g and %g", g->k,
                     (double)first_value, (double)last_value);
    }
    return rc;
}

int cuda_probe_gemm_ns(uint32_t index, uint32_t m, uint32_t n, uint32_t k, uint32_t repeats,
                       double *ret_ns, struct err *e)
{
    struct cuda_api api;
    struct cuda_gpu gpu;
    if (m == 0 || n == 0 || k == 0 || k > 1u << 24) {
        return err_set(e, -EINVAL, "a product of %" PRIu32 " x %" PRIu32 " over %" PRIu32, m, n, k);
    }
    int rc = open_gpu(&api, &gpu, index, e);
    if (rc) {
        return rc;
    }
    struct gemm_task g = {.task = {.run = run_gemm, .gpu = &gpu}, .m = m, .n = n, .k = k};
    rc = alloc_gemm(&g, e);
    rc = rc ? rc : time_task(&g.task, repeats, ret_ns, e);
    rc = rc ? rc : check_gemm(&g, e);
    free_gemm(&g);
    close_gpu(&api, &gpu);
    return rc;
}
