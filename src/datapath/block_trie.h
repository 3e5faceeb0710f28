/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The storage index: a trie of Full Blocks, one node per block (DualPath, section 4). A node is a
 * block together with everything before it, so two prompts share a node exactly when they share the
 * whole prefix; the same id after another prefix is another node. Block ids of different scopes
 * never meet.
 *
 * All edges live in one open-addressing table keyed (parent node, block id): one cache line per
 * step. Nodes are numbered from 0 in the order of their creation and are never removed.
 */
#ifndef DUALPATH_DATAPATH_BLOCK_TRIE_H
#define DUALPATH_DATAPATH_BLOCK_TRIE_H

#include <stdint.h>

#define BLOCK_TRIE_NONE UINT32_MAX

struct block_trie_edge;
struct block_trie_node;

struct block_trie {
    struct block_trie_edge *edges; /* n_slots of them, a power of two, at most half used */
    struct block_trie_node *nodes;
    uint32_t n_slots, n_nodes, capacity_nodes;
};

/* An empty trie allocates nothing. block_trie_done() leaves one. */
void block_trie_init(struct block_trie *trie);
void block_trie_done(struct block_trie *trie);

/* The root of a scope, or BLOCK_TRIE_NONE when nothing was ever inserted there. */
uint32_t block_trie_root(const struct block_trie *trie, uint32_t scope);

/* The node of block id after parent (a node or a root), or BLOCK_TRIE_NONE. */
uint32_t block_trie_child(const struct block_trie *trie, uint32_t parent, uint64_t id);

/* The same, created (value 0) when missing. Returns 0, -ENOMEM, or -EOVERFLOW at 2^30 nodes. */
int block_trie_add_root(struct block_trie *trie, uint32_t scope, uint32_t *ret_node);
int block_trie_add_child(struct block_trie *trie, uint32_t parent, uint64_t id, uint32_t *ret_node);

/*
 * The number of leading ids present in the scope. *ret_node (may be NULL) is the last node of that
 * run: the root when no id matches, BLOCK_TRIE_NONE when the scope is empty.
 */
uint32_t block_trie_match(const struct block_trie *trie, uint32_t scope, const uint64_t *ids,
                          uint32_t n, uint32_t *ret_node);

/* The same, also writing the nodes of the run to nodes[0..n). */
uint32_t block_trie_path(const struct block_trie *trie, uint32_t scope, const uint64_t *ids,
                         uint32_t n, uint32_t *nodes);

/* Makes the whole chain present. *ret_node (may be NULL) is its last node. Errors as add_child;
 * what was created before an error stays. */
int block_trie_insert(struct block_trie *trie, uint32_t scope, const uint64_t *ids, uint32_t n,
                      uint32_t *ret_node);

/* One 32-bit value per node, for the owner of the trie; 0 when the node is made. A chain is walked
 * from its last node with block_trie_parent(), BLOCK_TRIE_NONE above the root. */
uint32_t block_trie_value(const struct block_trie *trie, uint32_t node);
void block_trie_set_value(struct block_trie *trie, uint32_t node, uint32_t value);
uint32_t block_trie_parent(const struct block_trie *trie, uint32_t node);

#endif
