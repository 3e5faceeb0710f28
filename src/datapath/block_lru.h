/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * KV blocks in the order of their last use: what a cache with LRU eviction needs to know. It holds
 * no bytes and has no size of its own; the owner takes the oldest block out when it wants room. All
 * calls take constant time (one open-addressing table, one ring of entries).
 *
 * A block is its position in a chain (datapath/dp.h): the owner sees to it that equal keys are
 * equal content.
 */
#ifndef DUALPATH_DATAPATH_BLOCK_LRU_H
#define DUALPATH_DATAPATH_BLOCK_LRU_H

#include <stdbool.h>
#include <stdint.h>

struct block_key {
    uint64_t chain;
    uint32_t block;
};

struct block_lru_entry;

struct block_lru {
    struct block_lru_entry *entries; /* entry 0 closes the ring */
    uint32_t *slots;                 /* numbers of entries, 0 = free; at most half used */
    uint32_t n_slots, n_entries, capacity_entries;
    uint32_t first_free; /* of the entries taken out; 0 = none */
    uint32_t n_blocks;
};

/* Empty, and nothing is allocated. block_lru_done() leaves it so. */
void block_lru_init(struct block_lru *lru);
void block_lru_done(struct block_lru *lru);

/* Whether the block is there; *ret_value (may be NULL) is then the value it was added with. */
bool block_lru_find(const struct block_lru *lru, struct block_key key, uint32_t *ret_value);

/* The same; a block that is there becomes the one used last. */
bool block_lru_touch(struct block_lru *lru, struct block_key key, uint32_t *ret_value);

/* Adds a block that is not there as the one used last. 0, -ENOMEM, or -EOVERFLOW at 2^30 blocks. */
int block_lru_add(struct block_lru *lru, struct block_key key, uint32_t value);

/* Takes out the block unused for longest; false when there is none. */
bool block_lru_remove_oldest(struct block_lru *lru, uint32_t *ret_value);

#endif
