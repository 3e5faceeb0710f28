/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_SHIFT 6u
#define CHUNK_ITEMS (1u << CHUNK_SHIFT)

void pool_init(struct pool *p, size_t item_size)
{
    *p = (struct pool){.item_size = item_size};
}

void pool_done(struct pool *p)
{
    for (uint32_t i = 0; i < p->n_chunks; i++) {
        free(p->chunks[i]);
    }
    free(p->chunks);
    free(p->free_list);
    *p = (struct pool){0};
}

static void grow(struct pool *p)
{
    char **chunks = realloc(p->chunks, (p->n_chunks + 1) * sizeof(*chunks));
    uint32_t *free_list = realloc(p->free_list, (p->capacity + CHUNK_ITEMS) * sizeof(*free_list));
    char *chunk = malloc(CHUNK_ITEMS * p->item_size);
    if (!chunks || !free_list || !chunk) {
        abort();
    }
    p->chunks = chunks;
    p->free_list = free_list;
    p->chunks[p->n_chunks++] = chunk;
    for (uint32_t i = CHUNK_ITEMS; i-- > 0;) {
        p->free_list[p->n_free++] = p->capacity + i;
    }
    p->capacity += CHUNK_ITEMS;
}

void *pool_at(const struct pool *p, uint32_t index)
{
    return p->chunks[index >> CHUNK_SHIFT] + (size_t)(index & (CHUNK_ITEMS - 1)) * p->item_size;
}

void *pool_get(struct pool *p, uint32_t *ret_index)
{
    if (p->n_free == 0) {
        grow(p);
    }
    uint32_t index = p->free_list[--p->n_free];
    p->n_used++;
    p->peak_used = p->n_used > p->peak_used ? p->n_used : p->peak_used;
    void *item = pool_at(p, index);
    memset(item, 0, p->item_size);
    if (ret_index) {
        *ret_index = index;
    }
    return item;
}

void pool_put(struct pool *p, uint32_t index)
{
    assert(p->n_used > 0 && index < p->capacity);
    p->free_list[p->n_free++] = index;
    p->n_used--;
}
