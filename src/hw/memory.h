/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The memories of a node: its DRAM buffer and one HBM region per GPU. Address space is reserved,
 * pages come when they are touched, and go by memory_release(). With CPU compute an HBM region is
 * host memory like the other. KV lies in them as dp.h says; all offsets are bytes from the start of
 * a region. The regions may be shared with other processes of the machine, which attach them.
 *
 * A region on a GPU (gpu_memory.h) has addresses that only the GPU and an RDMA device can use: of
 * the transports, verbs takes it.
 */
#ifndef DUALPATH_HW_MEMORY_H
#define DUALPATH_HW_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "datapath/dp.h"

struct memory_region {
    uint8_t *base;
    uint64_t size_bytes;
    bool on_gpu;
    int dmabuf_fd; /* on_gpu: the whole region as a dma-buf, or -1 */
};

struct node_memory {
    uint32_t node;
    uint32_t n_gpus;
    struct memory_region dram;
    struct memory_region *hbm; /* [n_gpus] */
    int fd;                    /* of memory that others can attach; -1: private */
};

/* Reserves the regions, page aligned. 0, -EINVAL (a size of 0, no GPU) or -ENOMEM. */
int node_memory_init(struct node_memory *m, uint32_t node, uint64_t dram_bytes, uint32_t n_gpus,
                     uint64_t hbm_bytes, struct err *e);
void node_memory_done(struct node_memory *m);

/* As node_memory_init(), in a memfd (named "dualpath-node" and the number) that m->fd holds: DRAM
 * and the HBM regions one behind the other, each from a page on. */
int node_memory_init_shared(struct node_memory *m, uint32_t node, uint64_t dram_bytes,
                            uint32_t n_gpus, uint64_t hbm_bytes, struct err *e);

/* The memory of another process's node, alike but for its HBM, by its fd as that process knows it.
 * 0; -EHOSTUNREACH when there is no such memory on this machine. It stays readable when its process
 * has died. */
int node_memory_attach(struct node_memory *m, uint32_t node, long pid, int fd,
                       const struct node_memory *alike, uint64_t hbm_bytes, struct err *e);

/* From now on r, on a GPU, is the HBM of that gpu: borrowed, and the host memory in its place
 * goes. */
void node_memory_put_on_gpu(struct node_memory *m, uint32_t gpu, const struct memory_region *r);

/* The address of len bytes, or NULL when they do not lie wholly inside the memory (or there is no
 * such GPU). For DRAM gpu names a NIC and must exist too. */
uint8_t *memory_at(const struct node_memory *m, enum dp_tier tier, uint32_t gpu, uint64_t offset,
                   uint64_t len);

/* Gives the pages that lie wholly inside the range back to the system; they read as zeros
 * afterwards. 0, -EFAULT when the range is not inside the memory, -ENOTSUP on a GPU. */
int memory_release(const struct node_memory *m, enum dp_tier tier, uint32_t gpu, uint64_t offset,
                   uint64_t len);

/* The memories this process can reach, by node; NULL
 * where a node is elsewhere. Borrowed, not owned. */
struct memory_map {
    struct node_memory *const *nodes;
    uint32_t n_nodes;
};

uint8_t *memory_map_at(const struct memory_map *map, const struct dp_place *at, uint64_t len);

#endif
