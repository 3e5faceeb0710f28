/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Private when fd is -1. */
static int reserve(struct memory_region *r, uint64_t size_bytes, int fd, uint64_t offset_bytes)
{
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *p = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, fd,
                   (off_t)offset_bytes);
    if (p == MAP_FAILED) {
        return -errno;
    }
    *r = (struct memory_region){.base = p, .size_bytes = size_bytes};
    return 0;
}

static void unreserve(struct memory_region *r)
{
    if (r->base && !r->on_gpu) {
        munmap(r->base, r->size_bytes);
    }
    r->base = NULL;
}

static uint64_t whole_pages(uint64_t bytes)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

/* Of the file behind shared regions. */
static uint64_t shared_bytes(uint64_t dram_bytes, uint32_t n_gpus, uint64_t hbm_bytes)
{
    return whole_pages(dram_bytes) + n_gpus * whole_pages(hbm_bytes);
}

static int reserve_all(struct node_memory *m, uint64_t dram_bytes, uint64_t hbm_bytes, int fd)
{
    int rc = reserve(&m->dram, dram_bytes, fd, 0);
    for (uint32_t g = 0; g < m->n_gpus && rc == 0; g++) {
        rc = reserve(&m->hbm[g], hbm_bytes, fd, shared_bytes(dram_bytes, g, hbm_bytes));
    }
    return rc;
}

static int begin(struct node_memory *m, uint32_t node, uint64_t dram_bytes, uint32_t n_gpus,
                 uint64_t hbm_bytes, struct err *e)
{
    *m = (struct node_memory){.node = node, .n_gpus = n_gpus, .fd = -1};
    if (dram_bytes == 0 || hbm_bytes == 0 || n_gpus == 0) {
        return err_set(e, -EINVAL, "node %" PRIu32 ": a memory or the number of GPUs is 0", node);
    }
    m->hbm = calloc(n_gpus, sizeof(*m->hbm));
    return m->hbm ? 0 : err_nomem(e);
}

static int finish(struct node_memory *m, int rc, uint64_t dram_bytes, uint64_t hbm_bytes,
                  struct err *e)
{
    if (rc == 0) {
        return 0;
    }
    node_memory_done(m);
    return err_set(e, rc,
                   "node %" PRIu32 ": cannot reserve %" PRIu64 " bytes of DRAM and %" PRIu32
                   " x %" PRIu64 " of HBM: %s",
                   m->node, dram_bytes, m->n_gpus, hbm_bytes, strerror(-rc));
}

int node_memory_init(struct node_memory *m, uint32_t node, uint64_t dram_bytes, uint32_t n_gpus,
                     uint64_t hbm_bytes, struct err *e)
{
    int rc = begin(m, node, dram_bytes, n_gpus, hbm_bytes, e);
    return rc ? rc : finish(m, reserve_all(m, dram_bytes, hbm_bytes, -1), dram_bytes, hbm_bytes, e);
}

static void shared_name(uint32_t node, char name[32])
{
    snprintf(name, 32, "dualpath-node%" PRIu32, node);
}

int node_memory_init_shared(struct node_memory *m, uint32_t node, uint64_t dram_bytes,
                            uint32_t n_gpus, uint64_t hbm_bytes, struct err *e)
{
    char name[32];
    int rc = begin(m, node, dram_bytes, n_gpus, hbm_bytes, e);
    if (rc) {
        return rc;
    }
    shared_name(node, name);
    m->fd = memfd_create(name, MFD_CLOEXEC);
    rc = m->fd < 0 || ftruncate(m->fd, (off_t)shared_bytes(dram_bytes, n_gpus, hbm_bytes)) ? -errno
                                                                                           : 0;
    rc = rc ? rc : reserve_all(m, dram_bytes, hbm_bytes, m->fd);
    return finish(m, rc, dram_bytes, hbm_bytes, e);
}

/* Opens it, if it is what it has to be: process ids are used again. */
static int open_shared(uint32_t node, long pid, int fd, uint64_t bytes)
{
    char name[32], path[64], target[128], expected[64];
    struct stat st;
    shared_name(node, name);
    snprintf(path, sizeof(path), "/proc/%ld/fd/%d", pid, fd);
    snprintf(expected, sizeof(expected), "/memfd:%s (deleted)", name);
    ssize_t len = readlink(path, target, sizeof(target) - 1);
    target[len < 0 ? 0 : len] = '\0';
    int own = strcmp(target, expected) == 0 ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (own >= 0 && (fstat(own, &st) || (uint64_t)st.st_size != bytes)) {
        close(own);
        return -1;
    }
    return own;
}

int node_memory_attach(struct node_memory *m, uint32_t node, long pid, int fd,
                       const struct node_memory *alike, uint64_t hbm_bytes, struct err *e)
{
    uint64_t dram_bytes = alike->dram.size_bytes;
    int rc = begin(m, node, dram_bytes, alike->n_gpus, hbm_bytes, e);
    if (rc) {
        return rc;
    }
    int own = open_shared(node, pid, fd, shared_bytes(dram_bytes, alike->n_gpus, hbm_bytes));
    if (own < 0) {
        node_memory_done(m);
        return err_set(e, -EHOSTUNREACH,
                       "node %" PRIu32 ": no memory of a process %ld on this machine", node, pid);
    }
    rc = reserve_all(m, dram_bytes, hbm_bytes, own);
    close(own);
    return finish(m, rc, dram_bytes, hbm_bytes, e);
}

void node_memory_done(struct node_memory *m)
{
    unreserve(&m->dram);
    for (uint32_t g = 0; m->hbm && g < m->n_gpus; g++) {
        unreserve(&m->hbm[g]);
    }
    free(m->hbm);
    m->hbm = NULL;
    if (m->fd >= 0) {
        close(m->fd);
    }
    m->fd = -1;
}

void node_memory_put_on_gpu(struct node_memory *m, uint32_t gpu, const struct memory_region *r)
{
    unreserve(&m->hbm[gpu]);
    m->hbm[gpu] = *r;
}

static const struct memory_region *region(const struct node_memory *m, enum dp_tier tier,
                                          uint32_t gpu)
{
    return tier == DP_DRAM ? &m->dram : &m->hbm[gpu];
}

uint8_t *memory_at(const struct node_memory *m, enum dp_tier tier, uint32_t gpu, uint64_t offset,
                   uint64_t len)
{
    if (gpu >= m->n_gpus || (tier != DP_DRAM && tier != DP_HBM)) {
        return NULL;
    }
    const struct memory_region *r = region(m, tier, gpu);
    if (len > r->size_bytes || offset > r->size_bytes - len) {
        return NULL;
    }
    return r->base + offset;
}

int memory_release(const struct node_memory *m, enum dp_tier tier, uint32_t gpu, uint64_t offset,
                   uint64_t len)
{
    uint8_t *first = memory_at(m, tier, gpu, offset, len);
    if (!first) {
        return -EFAULT;
    }
    if (region(m, tier, gpu)->on_gpu) {
        return -ENOTSUP;
    }
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t skip = (page - (uintptr_t)first % page) % page;
    if (skip >= len || len - skip < page) {
        return 0;
    }
    size_t whole = (size_t)((len - skip) / page * page);
    return madvise(first + skip, whole, m->fd < 0 ? MADV_DONTNEED : MADV_REMOVE) ? -errno : 0;
}

uint8_t *memory_map_at(const struct memory_map *map, const struct dp_place *at, uint64_t len)
{
    if (at->node >= map->n_nodes || !map->nodes[at->node]) {
        return NULL;
    }
    return memory_at(map->nodes[at->node], (enum dp_tier)at->tier, at->gpu, at->offset_bytes, len);
}
