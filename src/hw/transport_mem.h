/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Transport by memory copies on worker threads, between memories that this process holds: all nodes
 * of a small world in one process, or the local copies of a node whose other copies go over a
 * network.
 */
#ifndef DUALPATH_HW_TRANSPORT_MEM_H
#define DUALPATH_HW_TRANSPORT_MEM_H

#include "hw/memory.h"
#include "hw/mover.h"
#include "hw/work_pool.h"

struct mem_move;

struct transport_mem {
    struct mover mover;
    struct mover
        *ends_as; /* whose dp gets the completions: &mover, or a transport that embeds this one */
    struct loop *loop;
    struct work_pool *pool;
    const struct memory_map *map;
    uint32_t depth;
    struct mem_move *moves; /* [depth] */
    struct list idle;
};

/*
 * depth > 0: ops in flight before -EAGAIN. pool, map and loop outlive the transport. 0 or -ENOMEM.
 * submit() gives -EFAULT when the op does not lie inside the memories or they are not in this
 * process, and -EINVAL when the pieces of a part overlap.
 */
int transport_mem_init(struct transport_mem *t, struct loop *loop, struct work_pool *pool,
                       const struct memory_map *map, uint32_t depth, struct err *e);
void transport_mem_done(struct transport_mem *t); /* nothing in flight */

#endif
