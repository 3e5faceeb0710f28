/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/probe_measure.h"

#include <errno.h>
#include <stdio.h>

#include "hw/gpu_memory.h"

#define GPU_REPEATS 20

static void note_absent(const char *what, const struct err *why)
{
    fprintf(stderr, "dualpath: note: %s not measured: %s\n", what, why->text);
}

static int measure_verbs(const struct probe_config *c, bool needed, struct probe_points *ps,
                         struct err *err)
{
    struct err why = ERR_INIT;
    int rc = probe_copy_verbs(c, ps, &why);
    if (rc == -ENODEV && !needed) {
        note_absent("RDMA", &why);
        return 0;
    }
    return rc ? err_set(err, rc, "%s", why.text) : 0;
}

static int add_gpu_point(struct probe_measured *m, struct probe_gpu_point p, int rc)
{
    if (rc == 0 && m->n_gpu_points < PROBE_GPU_POINTS) {
        m->gpu_points[m->n_gpu_points++] = p;
    }
    return rc;
}

static int measure_gpu_copies(struct probe_measured *m, struct err *err)
{
    static const uint64_t sizes[] = {4096, 65536, 1 << 20, 64 << 20};
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        bool to_gpu = i % 2 == 0;
        struct probe_gpu_point p = {.what = to_gpu ? "copy to GPU" : "copy from GPU",
                                    .bytes = sizes[i / 2]};
        rc = cuda_probe_copy_ns(0, p.bytes, GPU_REPEATS, to_gpu, &p.ns, err);
        rc = add_gpu_point(m, p, rc);
    }
    return rc;
}

/* Square layers of a large model, from a few tokens to a full chunk. */
static int measure_gemms(struct probe_measured *m, struct err *err)
{
    static const uint32_t tokens[] = {16, 128, 1024, 4096};
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < sizeof(tokens) / sizeof(tokens[0]); i++) {
        struct probe_gpu_point p = {.what = "GEMM", .m = tokens[i], .n = 7168, .k = 7168};
        rc = cuda_probe_gemm_ns(0, p.m, p.n, p.k, GPU_REPEATS, &p.ns, err);
        rc = add_gpu_point(m, p, rc);
    }
    return rc;
}

static int measure_gpu(struct probe_measured *m, struct err *err)
{
    struct err why = ERR_INIT;
    int rc = cuda_probe_device(0, &m->gpu, &why);
    rc = rc ? rc : measure_gpu_copies(m, &why);
    rc = rc ? rc : measure_gemms(m, &why);
    if (rc == -ENODEV) {
        note_absent(m->gpu.n_devices ? "part of the GPU" : "GPU", &why);
        return 0;
    }
    return rc ? err_set(err, rc, "GPU: %s", why.text) : 0;
}

/* RDMA into a GPU, beside the copy engine: for the reader, a run does not need it. */
static int measure_verbs_gpu(const struct probe_config *c, struct probe_points *ps)
{
    struct err why = ERR_INIT;
    struct gpu_memory *m = NULL;
    int rc = gpu_memory_new(0, PROBE_GPU_MEMORY_BYTES, &m, &why);
    rc = rc ? rc : probe_copy_verbs_gpu(c, gpu_memory_region(m), ps, &why);
    gpu_memory_free(m);
    if (rc && rc != -ECANCELED) {
        note_absent("RDMA to a GPU", &why);
    }
    return rc == -ECANCELED ? rc : 0;
}

int probe_measure(const struct probe_config *c, bool need_verbs, struct probe_measured *ret,
                  struct err *err)
{
    *ret = (struct probe_measured){0};
    int rc = probe_storage(c, &ret->points, err);
    rc = rc ? rc : probe_copy_mem(c, &ret->points, err);
    rc = rc ? rc : probe_copy_tcp(c, &ret->points, err);
    rc = rc ? rc : measure_verbs(c, need_verbs, &ret->points, err);
    rc = rc ? rc : probe_messages(c, &ret->points, err);
    rc = rc ? rc : probe_compute_cpu(c, &ret->points, err);
    rc = rc ? rc : measure_gpu(ret, err);
    return rc || ret->gpu.n_devices == 0 ? rc : measure_verbs_gpu(c, &ret->points);
}

void probe_measured_done(struct probe_measured *m)
{
    probe_points_done(&m->points);
}
