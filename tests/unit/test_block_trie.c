/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The block trie against a list of all inserted chains, searched one by one. */
#include "check_suite.h"
#include "datapath/block_trie.h"

#include <check.h>
#include <stdbool.h>

#include "base/hash.h"

#define CHAINS 400
#define LENGTH 12

struct chain {
    uint32_t scope, n;
    uint64_t ids[LENGTH];
};

/* Few ids, so that chains share prefixes and the same id stands after different ones. */
static struct chain make_chain(uint64_t seed)
{
    struct chain c = {.scope = (uint32_t)(hash_mix64(seed) % 3),
                      .n = (uint32_t)(hash_mix64(seed + 1) % LENGTH)};
    for (uint32_t i = 0; i < c.n; i++) {
        c.ids[i] = hash_mix64(seed * 31 + i) % 3 + (i == 4 ? UINT64_MAX - 2 : 0);
    }
    return c;
}

static uint32_t common(const struct chain *a, const struct chain *b)
{
    uint32_t i = 0;
    while (a->scope == b->scope && i < a->n && i < b->n && a->ids[i] == b->ids[i]) {
        i++;
    }
    return i;
}

START_TEST(matches_like_a_list_of_chains)
{
    struct block_trie trie;
    struct chain chains[CHAINS];
    uint32_t nodes = 0;
    bool scopes[3] = {false, false, false};
    block_trie_init(&trie);
    for (uint32_t i = 0; i < CHAINS; i++) {
        chains[i] = make_chain(1000 + i);
        uint32_t best = 0;
        for (uint32_t j = 0; j < i; j++) {
            uint32_t n = common(&chains[i], &chains[j]);
            best = n > best ? n : best;
        }
        const struct chain *c = &chains[i];
        uint32_t path[LENGTH];
        ck_assert_uint_eq(block_trie_match(&trie, c->scope, c->ids, c->n, NULL), best);
        ck_assert_uint_eq(block_trie_path(&trie, c->scope, c->ids, c->n, path), best);
        ck_assert_int_eq(block_trie_insert(&trie, c->scope, c->ids, c->n, NULL), 0);
        nodes += c->n - best + !scopes[c->scope];
        scopes[c->scope] = true;
        ck_assert_uint_eq(trie.n_nodes, nodes);
    }
    for (uint32_t i = 0; i < CHAINS; i++) {
        uint32_t n = chains[i].n;
        ck_assert_uint_eq(block_trie_match(&trie, chains[i].scope, chains[i].ids, n, NULL), n);
    }
    block_trie_done(&trie);
}
END_TEST

START_TEST(values_follow_the_chain)
{
    static const uint64_t ids[] = {7, 7, 7};
    struct block_trie trie;
    uint32_t node, reached, path[3];
    block_trie_init(&trie);
    ck_assert_uint_eq(block_trie_match(&trie, 5, ids, 3, &reached), 0);
    ck_assert_uint_eq(reached, BLOCK_TRIE_NONE);
    ck_assert_uint_eq(block_trie_root(&trie, 5), BLOCK_TRIE_NONE);
    ck_assert_int_eq(block_trie_insert(&trie, 5, ids, 3, &node), 0);
    ck_assert_uint_eq(block_trie_match(&trie, 5, ids, 2, &reached), 2);
    ck_assert_uint_eq(reached, block_trie_parent(&trie, node));
    ck_assert_uint_eq(block_trie_path(&trie, 5, ids, 3, path), 3);
    ck_assert_uint_eq(path[2], node);
    ck_assert_uint_eq(path[1], reached);
    for (uint32_t v = 10; node != BLOCK_TRIE_NONE; node = block_trie_parent(&trie, node), v++) {
        ck_assert_uint_eq(block_trie_value(&trie, node), 0);
        block_trie_set_value(&trie, node, v);
    }
    ck_assert_uint_eq(block_trie_value(&trie, path[0]), 12);
    ck_assert_uint_eq(block_trie_value(&trie, block_trie_root(&trie, 5)), 13);
    /* Growth keeps values and node numbers. */
    for (uint64_t i = 0; i < 1000; i++) {
        ck_assert_int_eq(block_trie_insert(&trie, 6, &i, 1, NULL), 0);
    }
    ck_assert_uint_eq(block_trie_value(&trie, path[2]), 10);
    ck_assert_uint_eq(block_trie_child(&trie, path[1], 7), path[2]);
    ck_assert_uint_eq(block_trie_child(&trie, path[2], 7), BLOCK_TRIE_NONE);
    block_trie_done(&trie);
}
END_TEST

/* Ids made from counters that run like the node numbers must not meet in one slot: that would take
 * minutes, and the test's time limit is seconds. */
START_TEST(ids_like_node_numbers_stay_fast)
{
    struct block_trie trie;
    int failed = 0;
    block_trie_init(&trie);
    for (uint32_t chain = 0; chain < 6; chain++) {
        uint32_t node;
        ck_assert_int_eq(block_trie_add_root(&trie, chain, &node), 0);
        for (uint32_t i = 0; i < 100000; i++) {
            uint64_t id = chain == 0   ? hash_mix64(node)
                          : chain == 1 ? node
                          : chain == 2 ? hash_mix64(i)
                          : chain == 3 ? i
                          : chain == 4 ? ~(uint64_t)node
                                       : (uint64_t)node << 32;
            failed |= block_trie_add_child(&trie, node, id, &node);
        }
    }
    ck_assert_int_eq(failed, 0);
    ck_assert_uint_eq(trie.n_nodes, 600006);
    block_trie_done(&trie);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("block_trie");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, matches_like_a_list_of_chains);
    tcase_add_test(tc, values_follow_the_chain);
    tcase_add_test(tc, ids_like_node_numbers_stay_fast);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
