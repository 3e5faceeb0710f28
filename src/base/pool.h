/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A pool of equal items with stable addresses and small dense indexes: grows by chunks, never
 * shrinks, recycles last-freed first. After warm-up nothing is allocated.
 */
#ifndef DUALPATH_BASE_POOL_H
#define DUALPATH_BASE_POOL_H

#include <stddef.h>
#include <stdint.h>

struct pool {
    size_t item_size;
    char **chunks;
    uint32_t n_chunks;
    uint32_t *free_list; /* indexes */
    uint32_t n_free, capacity;
    uint32_t n_used, peak_used;
};

void pool_init(struct pool *p, size_t item_size);
void pool_done(struct pool *p);

/* A zeroed item; its index goes to *ret_index unless NULL. Aborts when out of memory. */
void *pool_get(struct pool *p, uint32_t *ret_index);
void pool_put(struct pool *p, uint32_t index);
void *pool_at(const struct pool *p, uint32_t index);

#endif
