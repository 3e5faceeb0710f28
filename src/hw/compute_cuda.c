/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/compute_cuda.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "hw/attention_fatbin.h"
#include "hw/cuda_gpu.h"
#include "hw/kernels/attention_params.h"

struct slot {
    struct cuda_gpu gpu;
    CUmodule module;
    CUfunction fill, attend;
    CUdeviceptr mirror; /* of the engine's HBM region */
    CUdeviceptr out;    /* [HW_COMPUTE_SLICE_TOK][heads][value_dim] */
    struct compute_cuda_times times;
};

struct compute_cuda {
    struct attention_kernel kernel;
    struct attention attention;
    struct cuda_api api;
    struct slot *slots;
    uint32_t n_slots;
};

enum mark { BEGIN, ARRIVED, COMPUTED, RETURNED };

static const struct kv_layout *layout_of(const struct compute_cuda *c)
{
    return &c->attention.content.layout;
}

/* Copies */

/* The layer's part of n whole Full Blocks from block 0 on, one row per block. */
static int copy_in_blocks(struct compute_cuda *c, struct slot *s, const struct attention_task *t,
                          uint32_t n, struct err *e)
{
    const struct kv_layout *l = layout_of(c);
    uint64_t at = kv_row_offset(l, 0, t->layer);
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = t->kv + at,
                          .srcPitch = kv_full_block_bytes(l),
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = s->mirror + t->hbm_offset_bytes + at,
                          .dstPitch = kv_full_block_bytes(l),
                          .WidthInBytes = l->block_tok * l->layer_tok_bytes,
                          .Height = n};
    s->times.to_gpu_bytes += copy.WidthInBytes * copy.Height;
    return cuda_check(&c->api, c->api.copy_2d(&copy, s->gpu.stream), "cuMemcpy2DAsync", e);
}

static int copy_in(struct compute_cuda *c, struct slot *s, const struct attention_task *t,
                   struct err *e)
{
    const struct kv_layout *l = layout_of(c);
    uint32_t whole = t->arrived_tok / l->block_tok, rest = t->arrived_tok % l->block_tok;
    int rc = whole > 0 ? copy_in_blocks(c, s, t, whole, e) : 0;
    if (rc || rest == 0) {
        return rc;
    }
    uint64_t at = kv_row_offset(l, whole * l->block_tok, t->layer);
    uint64_t bytes = rest * l->layer_tok_bytes;
    s->times.to_gpu_bytes += bytes;
    return cuda_check(
        &c->api,
        c->api.to_gpu(s->mirror + t->hbm_offset_bytes + at, t->kv + at, bytes, s->gpu.stream),
        "cuMemcpyHtoDAsync", e);
}

/* The new rows, a piece per block. */
static int copy_out_kv(struct compute_cuda *c, struct slot *s, const struct attention_task *t,
                       struct err *e)
{
    const struct kv_layout *l = layout_of(c);
    uint32_t end = t->first_tok + t->n_tok;
    int rc = 0;
    for (uint32_t tok = t->first_tok, n; rc == 0 && tok < end; tok += n) {
        n = l->block_tok - tok % l->block_tok;
        n = n < end - tok ? n : end - tok;
        uint64_t at = kv_row_offset(l, tok, t->layer), bytes = n * l->layer_tok_bytes;
        s->times.from_gpu_bytes += bytes;
        rc = cuda_check(
            &c->api,
            c->api.from_gpu(t->kv + at, s->mirror + t->hbm_offset_bytes + at, bytes, s->gpu.stream),
            "cuMemcpyDtoHAsync", e);
    }
    return rc;
}

static int copy_out(struct compute_cuda *c, struct slot *s, const struct attention_task *t,
                    float *ret_out, struct err *e)
{
    size_t bytes = (size_t)t->n_tok * attention_out_values(&c->attention) * sizeof(float);
    s->times.from_gpu_bytes += bytes;
    int rc = copy_out_kv(c, s, t, e);
    return rc ? rc
              : cuda_check(&c->api, c->api.from_gpu(ret_out, s->out, bytes, s->gpu.stream),
                           "cuMemcpyDtoHAsync", e);
}

/* Kernels */

static struct attention_params params_of(const struct compute_cuda *c, const struct slot *s,
                                         const struct attention_task *t)
{
    const struct attention *a = &c->attention;
    return (struct attention_params){.seed = a->content.seed,
                                     .chain_id = t->chain_id,
                                     .kv = (float *)(uintptr_t)(s->mirror + t->hbm_offset_bytes),
                                     .out = (float *)(uintptr_t)s->out,
                                     .n_layers = a->content.layout.n_layers,
                                     .block_tok = a->content.layout.block_tok,
                                     .dim = a->content.dim,
                                     .heads = a->heads,
                                     .value_dim = a->value_dim,
                                     .layer = t->layer,
                                     .first_tok = t->first_tok,
                                     .n_tok = t->n_tok,
                                     .scale = a->scale};
}

static int launch(struct compute_cuda *c, struct slot *s, CUfunction f, uint32_t blocks_y,
                  struct attention_params *p, struct err *e)
{
    void *arguments[] = {p};
    return cuda_check(&c->api,
                      c->api.launch(f, p->n_tok, blocks_y, 1, ATTENTION_LANES * ATTENTION_WARPS, 1,
                                    1, 0, s->gpu.stream, arguments, NULL),
                      "cuLaunchKernel", e);
}

static int run(struct compute_cuda *c, struct slot *s, const struct attention_task *t,
               float *ret_out, struct err *e)
{
    struct attention_params p = params_of(c, s, t);
    int rc = cuda_gpu_mark(&s->gpu, BEGIN, e);
    rc = rc ? rc : copy_in(c, s, t, e);
    rc = rc ? rc : cuda_gpu_mark(&s->gpu, ARRIVED, e);
    rc = rc ? rc : launch(c, s, s->fill, 1, &p, e);
    rc = rc ? rc : launch(c, s, s->attend, p.heads, &p, e);
    rc = rc ? rc : cuda_gpu_mark(&s->gpu, COMPUTED, e);
    rc = rc ? rc : copy_out(c, s, t, ret_out, e);
    return rc ? rc : cuda_gpu_mark(&s->gpu, RETURNED, e);
}

static int add_times(struct slot *s, struct err *e)
{
    double in = 0, kernels = 0, out = 0;
    int rc = cuda_gpu_between_ns(&s->gpu, BEGIN, ARRIVED, &in, e);
    rc = rc ? rc : cuda_gpu_between_ns(&s->gpu, ARRIVED, COMPUTED, &kernels, e);
    rc = rc ? rc : cuda_gpu_between_ns(&s->gpu, COMPUTED, RETURNED, &out, e);
    s->times.tasks++;
    s->times.to_gpu_ns += in;
    s->times.kernels_ns += kernels;
    s->times.from_gpu_ns += out;
    return rc;
}

static int attend(struct attention_kernel *k, uint32_t slot, const struct attention_task *t,
                  float *ret_out, struct err *e)
{
    struct compute_cuda *c = container_of(k, struct compute_cuda, kernel);
    struct slot *s = &c->slots[slot];
    assert(t->n_tok <= HW_COMPUTE_SLICE_TOK);
    int rc = cuda_gpu_use(&s->gpu, e);
    if (rc) {
        return rc;
    }
    rc = run(c, s, t, ret_out, e);
    /* Also after a failure: nothing may be left that writes to the caller's memory. */
    int wait_rc = cuda_gpu_wait(&s->gpu, e);
    rc = rc ? rc : wait_rc;
    return rc ? rc : add_times(s, e);
}

static const struct attention_kernel_ops ops = {.name = "cuda", .attend = attend};

/* Set-up */

static int load_kernels(struct compute_cuda *c, struct slot *s, struct err *e)
{
    const struct cuda_api *api = &c->api;
    int rc = cuda_check(api, api->module_load(&s->module, attention_fatbin), "cuModuleLoadData", e);
    if (rc == 0) {
        rc = cuda_check(api, api->module_function(&s->fill, s->module, "fill_kv"),
                        "cuModuleGetFunction", e);
    }
    if (rc == 0) {
        rc = cuda_check(api, api->module_function(&s->attend, s->module, "attend"),
                        "cuModuleGetFunction", e);
    }
    return rc;
}

static int open_slot(struct compute_cuda *c, uint32_t gpu, uint64_t hbm_bytes, struct err *e)
{
    struct slot *s = &c->slots[c->n_slots];
    int rc = cuda_gpu_open(&s->gpu, &c->api, gpu, e);
    if (rc) {
        return rc;
    }
    c->n_slots++;
    size_t out = (size_t)HW_COMPUTE_SLICE_TOK * attention_out_values(&c->attention) * sizeof(float);
    rc = load_kernels(c, s, e);
    rc = rc ? rc : cuda_check(&c->api, c->api.alloc(&s->mirror, hbm_bytes), "cuMemAlloc", e);
    return rc ? rc : cuda_check(&c->api, c->api.alloc(&s->out, out), "cuMemAlloc", e);
}

static void close_slot(struct compute_cuda *c, struct slot *s)
{
    c->api.context_set(s->gpu.context);
    if (s->out) {
        c->api.free(s->out);
    }
    if (s->mirror) {
        c->api.free(s->mirror);
    }
    if (s->module) {
        c->api.module_unload(s->module);
    }
    cuda_gpu_close(&s->gpu);
}

static int open_slots(struct compute_cuda *c, const struct hw_compute_config *config,
                      const struct memory_map *map, struct err *e)
{
    c->slots = calloc(hw_compute_slots(config, map), sizeof(*c->slots));
    if (!c->slots) {
        return err_nomem(e);
    }
    int rc = 0;
    for (uint32_t node = 0; node < config->prefill_nodes + config->decode_nodes; node++) {
        const struct node_memory *m = node < map->n_nodes ? map->nodes[node] : NULL;
        for (uint32_t gpu = 0; m && rc == 0 && gpu < config->gpus_per_node; gpu++) {
            rc = open_slot(c, gpu, m->hbm[gpu].size_bytes, e);
        }
    }
    return rc;
}

int compute_cuda_new(const struct attention *attention, const struct hw_compute_config *config,
                     const struct memory_map *map, struct compute_cuda **ret, struct err *e)
{
    if (attention->content.dim > ATTENTION_MAX_DIM) {
        return err_set(e, -EINVAL,
                       "KV of %" PRIu32 " fp32 values per token and layer: the CUDA kernel takes "
                       "up to %d",
                       attention->content.dim, ATTENTION_MAX_DIM);
    }
    struct compute_cuda *c = calloc(1, sizeof(*c));
    if (!c) {
        return err_nomem(e);
    }
    c->kernel.ops = &ops;
    c->attention = *attention;
    int rc = cuda_load(&c->api, e);
    rc = rc ? rc : open_slots(c, config, map, e);
    if (rc) {
        compute_cuda_free(c);
        return rc;
    }
    *ret = c;
    return 0;
}

void compute_cuda_free(struct compute_cuda *c)
{
    if (!c) {
        return;
    }
    for (uint32_t i = 0; i < c->n_slots; i++) {
        close_slot(c, &c->slots[i]);
    }
    free(c->slots);
    cuda_unload(&c->api);
    free(c);
}

struct attention_kernel *compute_cuda_kernel(struct compute_cuda *c)
{
    return &c->kernel;
}

void compute_cuda_times(const struct compute_cuda *c, uint32_t slot, struct compute_cuda_times *ret)
{
    *ret = c->slots[slot].times;
}
