/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "datapath/block_lru.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define MAX_ENTRIES (1u << 30) /* so that twice as many slots still count in 32 bits */
#define MIN_ENTRIES 64u

struct block_lru_entry {
    struct block_key key;
    uint32_t value;
    uint32_t older, newer; /* in the ring; older: the next free one, once taken out */
};

void block_lru_init(struct block_lru *lru)
{
    *lru = (struct block_lru){0};
}

void block_lru_done(struct block_lru *lru)
{
    free(lru->entries);
    free(lru->slots);
    block_lru_init(lru);
}

static bool same(struct block_key a, struct block_key b)
{
    return a.chain == b.chain && a.block == b.block;
}

static uint32_t home(const struct block_lru *lru, struct block_key key)
{
    return (uint32_t)hash_mix64(hash_mix64(key.chain) + key.block) & (lru->n_slots - 1);
}

/* The slot of the key, or the free slot where it belongs; the table is never full. */
static uint32_t find_slot(const struct block_lru *lru, struct block_key key)
{
    uint32_t at = home(lru, key);
    while (lru->slots[at] && !same(lru->entries[lru->slots[at]].key, key)) {
        at = (at + 1) & (lru->n_slots - 1);
    }
    return at;
}

static void detach(struct block_lru *lru, uint32_t entry)
{
    struct block_lru_entry *e = &lru->entries[entry];
    lru->entries[e->newer].older = e->older;
    lru->entries[e->older].newer = e->newer;
}

static void attach_newest(struct block_lru *lru, uint32_t entry)
{
    struct block_lru_entry *e = &lru->entries[entry], *ring = &lru->entries[0];
    e->older = ring->older;
    e->newer = 0;
    lru->entries[e->older].newer = entry;
    ring->older = entry;
}

static uint32_t entry_of(const struct block_lru *lru, struct block_key key)
{
    return lru->n_slots ? lru->slots[find_slot(lru, key)] : 0;
}

bool block_lru_find(const struct block_lru *lru, struct block_key key, uint32_t *ret_value)
{
    uint32_t entry = entry_of(lru, key);
    if (entry && ret_value) {
        *ret_value = lru->entries[entry].value;
    }
    return entry != 0;
}

bool block_lru_touch(struct block_lru *lru, struct block_key key, uint32_t *ret_value)
{
    uint32_t entry = entry_of(lru, key);
    if (!entry) {
        return false;
    }
    detach(lru, entry);
    attach_newest(lru, entry);
    if (ret_value) {
        *ret_value = lru->entries[entry].value;
    }
    return true;
}

static int grow(struct block_lru *lru)
{
    uint32_t capacity = lru->capacity_entries ? 2 * lru->capacity_entries : MIN_ENTRIES;
    if (capacity > MAX_ENTRIES) {
        return -EOVERFLOW;
    }
    uint32_t *slots = calloc(2 * (size_t)capacity, sizeof(*slots));
    struct block_lru_entry *entries = realloc(lru->entries, capacity * sizeof(*entries));
    lru->entries = entries ? entries : lru->entries;
    if (!slots || !entries) {
        free(slots);
        return -ENOMEM;
    }
    if (lru->capacity_entries == 0) {
        memset(&entries[0], 0, sizeof(entries[0]));
        lru->n_entries = 1;
    }
    free(lru->slots);
    lru->slots = slots;
    lru->n_slots = 2 * capacity;
    lru->capacity_entries = capacity;
    for (uint32_t i = entries[0].older; i != 0; i = entries[i].older) {
        slots[find_slot(lru, entries[i].key)] = i;
    }
    return 0;
}

int block_lru_add(struct block_lru *lru, struct block_key key, uint32_t value)
{
    uint32_t entry = lru->first_free;
    if (!entry && lru->n_entries == lru->capacity_entries) {
        int rc = grow(lru);
        if (rc) {
            return rc;
        }
    }
    if (entry) {
        lru->first_free = lru->entries[entry].older;
    } else {
        entry = lru->n_entries++;
    }
    lru->entries[entry] = (struct block_lru_entry){.key = key, .value = value};
    lru->slots[find_slot(lru, key)] = entry;
    attach_newest(lru, entry);
    lru->n_blocks++;
    return 0;
}

/* Frees a slot and closes the gap: entries behind it that belong at or before it move up. */
static void free_slot(struct block_lru *lru, uint32_t at)
{
    uint32_t mask = lru->n_slots - 1;
    for (uint32_t i = (at + 1) & mask; lru->slots[i]; i = (i + 1) & mask) {
        uint32_t h = home(lru, lru->entries[lru->slots[i]].key);
        if (((i - h) & mask) >= ((i - at) & mask)) {
            lru->slots[at] = lru->slots[i];
            at = i;
        }
    }
    lru->slots[at] = 0;
}

bool block_lru_remove_oldest(struct block_lru *lru, uint32_t *ret_value)
{
    if (lru->n_blocks == 0) {
        return false;
    }
    uint32_t entry = lru->entries[0].newer;
    struct block_lru_entry *e = &lru->entries[entry];
    if (ret_value) {
        *ret_value = e->value;
    }
    free_slot(lru, find_slot(lru, e->key));
    detach(lru, entry);
    e->older = lru->first_free;
    lru->first_free = entry;
    lru->n_blocks--;
    return true;
}
