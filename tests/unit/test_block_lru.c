/* SPDX-License-Identifier: GPL-3.0-or-later */
/* KV blocks in the order of their last use, against an array that is searched from end to end. */
#include <check.h>
#include <string.h>

#include "base/hash.h"
#include "check_suite.h"
#include "datapath/block_lru.h"

#define MOST 600u

struct naive {
    struct block_key key[MOST]; /* oldest first */
    uint32_t value[MOST];
    uint32_t n;
};

static uint32_t naive_at(const struct naive *v, struct block_key k)
{
    uint32_t i = 0;
    while (i < v->n && (v->key[i].chain != k.chain || v->key[i].block != k.block)) {
        i++;
    }
    return i;
}

static void naive_remove(struct naive *v, uint32_t at)
{
    v->n--;
    memmove(&v->key[at], &v->key[at + 1], (v->n - at) * sizeof(v->key[0]));
    memmove(&v->value[at], &v->value[at + 1], (v->n - at) * sizeof(v->value[0]));
}

static void naive_add(struct naive *v, struct block_key k, uint32_t value)
{
    v->key[v->n] = k;
    v->value[v->n++] = value;
}

/* One step on both; small sets of keys so that they meet often, and full 64-bit chains. */
static void step(struct block_lru *lru, struct naive *v, uint64_t draw, uint32_t capacity)
{
    struct block_key k = {hash_mix64(draw >> 8 & 31), draw >> 16 & 31};
    uint32_t at = naive_at(v, k), found = 0, value = (uint32_t)(draw >> 32);
    bool there = at < v->n;
    ck_assert_int_eq(block_lru_find(lru, k, &found), there);
    ck_assert(!there || found == v->value[at]);
    if (draw % 4 == 0) {
        return; /* looked at only */
    }
    found = 0;
    ck_assert_int_eq(block_lru_touch(lru, k, &found), there);
    if (there) {
        ck_assert_uint_eq(found, v->value[at]);
        value = found;
        naive_remove(v, at);
    } else {
        ck_assert_int_eq(block_lru_add(lru, k, value), 0);
    }
    naive_add(v, k, value);
    while (v->n > capacity) {
        ck_assert(block_lru_remove_oldest(lru, &found));
        ck_assert_uint_eq(found, v->value[0]);
        naive_remove(v, 0);
    }
    ck_assert_uint_eq(lru->n_blocks, v->n);
}

START_TEST(test_random_sequences)
{
    static const uint32_t capacities[] = {0, 1, 2, 7, 63, 64, 65, 200, 511};
    for (size_t c = 0; c < sizeof(capacities) / sizeof(capacities[0]); c++) {
        struct block_lru lru;
        struct naive v = {0};
        block_lru_init(&lru);
        for (uint64_t i = 0; i < 20000; i++) {
            step(&lru, &v, hash_mix64(c << 32 | i), capacities[c]);
        }
        while (v.n > 0) {
            uint32_t found;
            ck_assert(block_lru_remove_oldest(&lru, &found));
            ck_assert_uint_eq(found, v.value[0]);
            naive_remove(&v, 0);
        }
        ck_assert(!block_lru_remove_oldest(&lru, NULL));
        block_lru_done(&lru);
    }
}
END_TEST

/* Neighbouring blocks of a chain and the same block of other chains are different. */
START_TEST(test_keys)
{
    struct block_lru lru;
    uint32_t value;
    block_lru_init(&lru);
    ck_assert(!block_lru_find(&lru, (struct block_key){0, 0}, &value));
    for (uint32_t chain = 0; chain < 300; chain++) {
        for (uint32_t block = 0; block < 300; block++) {
            ck_assert_int_eq(
                block_lru_add(&lru, (struct block_key){chain, block}, chain * 1000 + block), 0);
        }
    }
    for (uint32_t chain = 0; chain < 300; chain++) {
        for (uint32_t block = 0; block < 300; block++) {
            ck_assert(block_lru_find(&lru, (struct block_key){chain, block}, &value));
            ck_assert_uint_eq(value, chain * 1000 + block);
        }
    }
    ck_assert(!block_lru_find(&lru, (struct block_key){300, 0}, &value));
    ck_assert(!block_lru_find(&lru, (struct block_key){0, 300}, &value));
    block_lru_done(&lru);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("block_lru");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, test_random_sequences);
    tcase_add_test(tc, test_keys);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
