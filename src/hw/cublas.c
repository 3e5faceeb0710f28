/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/cublas.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

/* Newest first; the 64-bit entry came with 12. */
static const char *const libraries[] = {"libcublas.so.13", "libcublas.so.12"};

struct entry {
    const char *symbol;
    size_t slot;
};

static const struct entry entries[] = {
    {"cublasCreate_v2", offsetof(struct cublas, create)},
    {"cublasDestroy_v2", offsetof(struct cublas, destroy)},
    {"cublasSetStream_v2", offsetof(struct cublas, set_stream)},
    {"cublasGemmEx_64", offsetof(struct cublas, gemm)},
};

int cublas_check(cublasStatus_t status, const char *what, struct err *e)
{
    if (status == CUBLAS_STATUS_SUCCESS) {
        return 0;
    }
    return err_set(e, status == CUBLAS_STATUS_ALLOC_FAILED ? -ENOMEM : -EIO,
                   "cuBLAS: %s: status %d", what, (int)status);
}

static int load(struct cublas *b, struct err *e)
{
    for (size_t i = 0; !b->library && i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        b->library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
    }
    if (!b->library) {
        return err_set(e, -ENODEV, "no cuBLAS: %s", dlerror());
    }
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        void *found = dlsym(b->library, entries[i].symbol);
        if (!found) {
            return err_set(e, -ENODEV, "cuBLAS has no %s", entries[i].symbol);
        }
        memcpy((char *)b + entries[i].slot, &found, sizeof(found));
    }
    return 0;
}

int cublas_open(struct cublas *b, cudaStream_t stream, struct err *e)
{
    *b = (struct cublas){0};
    int rc = load(b, e);
    rc = rc ? rc : cublas_check(b->create(&b->handle), "cublasCreate", e);
    rc = rc ? rc : cublas_check(b->set_stream(b->handle, stream), "cublasSetStream", e);
    if (rc) {
        cublas_close(b);
    }
    return rc;
}

void cublas_close(struct cublas *b)
{
    if (b->handle) {
        b->destroy(b->handle);
        b->handle = NULL;
    }
    if (b->library) {
        dlclose(b->library);
        b->library = NULL;
    }
}
