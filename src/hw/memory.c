/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int reserve(struct memory_region *r, uint64_t size_bytes)
{
    void *p = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
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

int node_memory_init(struct node_memory *m, uint32_t node, uint64_t dram_bytes, uint32_t n_gpus,
                     uint64_t hbm_bytes, struct err *e)
{
    *m = (struct node_memory){.node = node, .n_gpus = n_gpus};
    if (dram_bytes == 0 || hbm_bytes == 0 || n_gpus == 0) {
        return err_set(e, -EINVAL, "node %" PRIu32 ": a memory or the number of GPUs is 0", node);
    }
    m->hbm = calloc(n_gpus, sizeof(*m->hbm));
    if (!m->hbm) {
        return err_nomem(e);
    }
    int rc = reserve(&m->dram, dram_bytes);
    for (uint32_t g = 0; g < n_gpus && rc == 0; g++) {
        rc = reserve(&m->hbm[g], hbm_bytes);
    }
    if (rc) {
        node_memory_done(m);
        return err_set(e, rc,
                       "node %" PRIu32 ": cannot reserve %" PRIu64 " bytes of DRAM and %" PRIu32
                       " x %" PRIu64 " of HBM: %s",
                       node, dram_bytes, n_gpus, hbm_bytes, strerror(-rc));
    }
    return 0;
}

void node_memory_done(struct node_memory *m)
{
    unreserve(&m->dram);
    for (uint32_t g = 0; m->hbm && g < m->n_gpus; g++) {
        unreserve(&m->hbm[g]);
    }
    free(m->hbm);
    m->hbm = NULL;
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
    return madvise(first + skip, whole, MADV_DONTNEED) ? -errno : 0;
}

uint8_t *memory_map_at(const struct memory_map *map, const struct dp_place *at, uint64_t len)
{
    if (at->node >= map->n_nodes || !map->nodes[at->node]) {
        return NULL;
    }
    return memory_at(map->nodes[at->node], (enum dp_tier)at->tier, at->gpu, at->offset_bytes, len);
}
