/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "datapath/block_trie.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define MAX_NODES (1u << 30) /* so that twice as many slots still count in 32 bits */
#define MIN_NODES 64u

/* The child's number is stored plus one, so that a zeroed slot is a free one. A root hangs below
 * BLOCK_TRIE_NONE, with the scope as its id. */
struct block_trie_edge {
    uint64_t id;
    uint32_t parent;
    uint32_t child_plus_1;
};

struct block_trie_node {
    uint32_t parent;
    uint32_t value;
};

void block_trie_init(struct block_trie *trie)
{
    *trie = (struct block_trie){0};
}

void block_trie_done(struct block_trie *trie)
{
    free(trie->edges);
    free(trie->nodes);
    block_trie_init(trie);
}

/* The parent enters by an odd multiplier and not by hash_mix64(): callers make ids with that
 * function from counters that run like node numbers, and the two would cancel out. */
static uint64_t edge_hash(uint32_t parent, uint64_t id)
{
    return hash_mix64(id + parent * UINT64_C(0xd6e8feb86659fd93));
}

/* The slot of the edge, or the free slot where it belongs; the table is never full. */
static struct block_trie_edge *find_slot(struct block_trie_edge *edges, uint32_t n_slots,
                                         uint32_t parent, uint64_t id)
{
    uint32_t mask = n_slots - 1;
    uint32_t at = (uint32_t)edge_hash(parent, id) & mask;
    while (edges[at].child_plus_1 && (edges[at].id != id || edges[at].parent != parent)) {
        at = (at + 1) & mask;
    }
    return &edges[at];
}

static int grow(struct block_trie *trie)
{
    if (trie->n_nodes >= MAX_NODES) {
        return -EOVERFLOW;
    }
    uint32_t capacity = trie->capacity_nodes ? 2 * trie->capacity_nodes : MIN_NODES;
    struct block_trie_node *nodes = realloc(trie->nodes, capacity * sizeof(*nodes));
    if (!nodes) {
        return -ENOMEM;
    }
    trie->nodes = nodes;
    struct block_trie_edge *edges = calloc(2 * (size_t)capacity, sizeof(*edges));
    if (!edges) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < trie->n_slots; i++) {
        const struct block_trie_edge *e = &trie->edges[i];
        if (e->child_plus_1) {
            *find_slot(edges, 2 * capacity, e->parent, e->id) = *e;
        }
    }
    free(trie->edges);
    trie->edges = edges;
    trie->n_slots = 2 * capacity;
    trie->capacity_nodes = capacity;
    return 0;
}

uint32_t block_trie_child(const struct block_trie *trie, uint32_t parent, uint64_t id)
{
    if (!trie->n_slots) {
        return BLOCK_TRIE_NONE;
    }
    /* A free slot holds 0, which wraps to BLOCK_TRIE_NONE. */
    return find_slot(trie->edges, trie->n_slots, parent, id)->child_plus_1 - 1;
}

int block_trie_add_child(struct block_trie *trie, uint32_t parent, uint64_t id, uint32_t *ret_node)
{
    uint32_t child = block_trie_child(trie, parent, id);
    if (child == BLOCK_TRIE_NONE) {
        if (trie->n_nodes == trie->capacity_nodes) {
            int rc = grow(trie);
            if (rc < 0) {
                return rc;
            }
        }
        child = trie->n_nodes++;
        trie->nodes[child] = (struct block_trie_node){.parent = parent};
        *find_slot(trie->edges, trie->n_slots, parent, id) =
            (struct block_trie_edge){.id = id, .parent = parent, .child_plus_1 = child + 1};
    }
    *ret_node = child;
    return 0;
}

uint32_t block_trie_root(const struct block_trie *trie, uint32_t scope)
{
    return block_trie_child(trie, BLOCK_TRIE_NONE, scope);
}

int block_trie_add_root(struct block_trie *trie, uint32_t scope, uint32_t *ret_node)
{
    return block_trie_add_child(trie, BLOCK_TRIE_NONE, scope, ret_node);
}

uint32_t block_trie_match(const struct block_trie *trie, uint32_t scope, const uint64_t *ids,
                          uint32_t n, uint32_t *ret_node)
{
    uint32_t node = block_trie_root(trie, scope), run = 0;
    while (node != BLOCK_TRIE_NONE && run < n) {
        uint32_t child = block_trie_child(trie, node, ids[run]);
        if (child == BLOCK_TRIE_NONE) {
            break;
        }
        node = child;
        run++;
    }
    if (ret_node) {
        *ret_node = node;
    }
    return run;
}

uint32_t block_trie_path(const struct block_trie *trie, uint32_t scope, const uint64_t *ids,
                         uint32_t n, uint32_t *nodes)
{
    uint32_t node = block_trie_root(trie, scope), run = 0;
    while (node != BLOCK_TRIE_NONE && run < n) {
        node = block_trie_child(trie, node, ids[run]);
        if (node != BLOCK_TRIE_NONE) {
            nodes[run++] = node;
        }
    }
    return run;
}

int block_trie_insert(struct block_trie *trie, uint32_t scope, const uint64_t *ids, uint32_t n,
                      uint32_t *ret_node)
{
    uint32_t node;
    int rc = block_trie_add_root(trie, scope, &node);
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        rc = block_trie_add_child(trie, node, ids[i], &node);
    }
    if (rc == 0 && ret_node) {
        *ret_node = node;
    }
    return rc;
}

uint32_t block_trie_value(const struct block_trie *trie, uint32_t node)
{
    return trie->nodes[node].value;
}

void block_trie_set_value(struct block_trie *trie, uint32_t node, uint32_t value)
{
    trie->nodes[node].value = value;
}

uint32_t block_trie_parent(const struct block_trie *trie, uint32_t node)
{
    return trie->nodes[node].parent;
}
