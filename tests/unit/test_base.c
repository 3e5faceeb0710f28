/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Pool, map of ids, histogram, room in a memory, layout of KV: each against a plain reference. */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hist.h"
#include "base/idmap.h"
#include "base/pool.h"
#include "check_suite.h"
#include "datapath/kv_layout.h"
#include "datapath/space.h"
#include "sim/virtual_driver.h"

/* A small generator of its own, so that the tests do not hang on the one under test elsewhere. */
static uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

START_TEST(test_pool)
{
    enum { ITEMS = 500, SIZE = 24 };
    struct pool p;
    uint32_t index[ITEMS];
    char *at[ITEMS];
    pool_init(&p, SIZE);
    for (uint32_t i = 0; i < ITEMS; i++) {
        at[i] = pool_get(&p, &index[i]);
        for (int k = 0; k < SIZE; k++) {
            ck_assert_int_eq(at[i][k], 0);
        }
        memset(at[i], (int)(i % 100) + 1, SIZE);
        ck_assert_ptr_eq(pool_at(&p, index[i]), at[i]);
        ck_assert_uint_lt(index[i], ITEMS + 64); /* dense */
    }
    for (uint32_t i = 0; i < ITEMS; i++) { /* stable, and nobody wrote into another's */
        ck_assert_int_eq(at[i][0], (int)(i % 100) + 1);
        ck_assert_int_eq(at[i][SIZE - 1], (int)(i % 100) + 1);
    }
    uint32_t capacity = p.capacity, again;
    pool_put(&p, index[7]);
    pool_put(&p, index[300]);
    ck_assert_ptr_eq(pool_get(&p, &again), at[300]); /* last freed first, zeroed */
    ck_assert_uint_eq(again, index[300]);
    ck_assert_int_eq(at[300][0], 0);
    ck_assert_uint_eq(p.n_used, ITEMS - 1);
    ck_assert_uint_eq(p.peak_used, ITEMS);
    ck_assert_uint_eq(p.capacity, capacity);
    pool_done(&p);
}
END_TEST

/* Against an array, with deletions, ids that collide in the low bits among them. */
START_TEST(test_idmap)
{
    enum { IDS = 600 };
    struct idmap m;
    uint32_t expected[IDS] = {0}; /* value, 0 = absent */
    uint64_t state = 1;
    uint32_t n = 0;
    idmap_init(&m);
    for (int step = 0; step < 40000; step++) {
        uint32_t i = next_random(&state) % IDS, id = i * 65536u + (i & 1), value;
        if (expected[i]) {
            ck_assert(idmap_get(&m, id, &value));
            ck_assert_uint_eq(value, expected[i]);
            idmap_remove(&m, id);
            expected[i] = 0;
            n--;
        } else {
            ck_assert(!idmap_get(&m, id, &value));
            expected[i] = next_random(&state) | 1;
            idmap_put(&m, id, expected[i]);
            n++;
        }
        ck_assert_uint_eq(m.n, n);
    }
    for (uint32_t i = 0; i < IDS; i++) {
        uint32_t value = 0;
        ck_assert_int_eq(idmap_get(&m, i * 65536u + (i & 1), &value), expected[i] != 0);
        ck_assert_uint_eq(value, expected[i]);
    }
    idmap_done(&m);
}
END_TEST

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Quantiles against the sorted samples: within 0.1 % over thirteen decades; the rest exact. */
START_TEST(test_hist)
{
    enum { SAMPLES = 20001 };
    static const double quantiles[] = {0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1};
    static uint64_t ns[SAMPLES];
    struct hist h;
    uint64_t state = 5;
    double sum = 0;
    ck_assert_int_eq(hist_init(&h), 0);
    for (int i = 0; i < SAMPLES; i++) {
        ns[i] = (uint64_t)exp(30.0 * next_random(&state) / 0x80000000u);
        hist_add(&h, ns[i]);
        sum += (double)ns[i];
    }
    qsort(ns, SAMPLES, sizeof(ns[0]), compare_u64);
    for (size_t i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++) {
        double rank = ceil(quantiles[i] * SAMPLES);
        double exact = (double)ns[rank < 1 ? 0 : (int)rank - 1] * 1e-9;
        ck_assert_double_eq_tol(hist_quantile_s(&h, quantiles[i]), exact, 1e-3 * exact);
    }
    ck_assert_double_eq_tol(hist_mean_s(&h), sum / SAMPLES * 1e-9, 1e-12 * sum / SAMPLES);
    ck_assert_double_eq(hist_max_s(&h), (double)ns[SAMPLES - 1] * 1e-9);
    ck_assert_double_eq_tol(hist_share_below(&h, (double)ns[SAMPLES / 4] * 1e-9), 0.25, 1e-3);
    hist_done(&h);
}
END_TEST

START_TEST(test_hist_ends)
{
    struct hist h;
    ck_assert_int_eq(hist_init(&h), 0);
    ck_assert_double_eq(hist_quantile_s(&h, 0.5), 0);
    ck_assert_double_eq(hist_share_below(&h, 1), 1);
    hist_add(&h, 0);
    hist_add(&h, 511); /* below 2^9 every ns has a bucket */
    hist_add(&h, UINT64_MAX);
    hist_add(&h, UINT64_MAX);
    ck_assert_double_eq(hist_quantile_s(&h, 0.25), 0);
    ck_assert_double_eq_tol(hist_quantile_s(&h, 0.5), 511e-9, 1e-18);
    ck_assert_double_eq_tol(hist_mean_s(&h), 0x1p63 * 1e-9, 1);
    ck_assert_double_eq_tol(hist_quantile_s(&h, 1), 0x1p64 * 1e-9, 0x1p64 * 1e-12);
    hist_done(&h);
}
END_TEST

/* Room */

struct idle_claims {
    struct space_claim *idle[2];
    int n, asked;
};

static bool reclaim(struct space *s, struct space_claim *claim)
{
    struct idle_claims *c = s->owner;
    (void)claim;
    c->asked++;
    if (c->n == 0) {
        return false;
    }
    struct space_claim *victim = c->idle[--c->n];
    space_set_idle(s, victim->amount, false);
    space_give(s, victim, victim->amount);
    return true;
}

struct test_claim {
    struct space_claim claim;
    int *clock, granted_at;
};

static void granted(struct space_claim *c)
{
    struct test_claim *t = container_of(c, struct test_claim, claim);
    t->granted_at = ++*t->clock;
}

/* Idle room is nobody's use of capacity, and goes to whoever waits: no more than needed, and only
 * when the head of the queue does not fit otherwise. A claim may grow another one. */
START_TEST(test_idle_space)
{
    struct virtual_driver d;
    struct loop l;
    struct space s;
    int clock = 0;
    struct test_claim c[4];
    static const uint64_t amounts[4] = {40, 30, 20, 35};
    virtual_driver_init(&d, NULL, NULL, NULL);
    ck_assert_int_eq(loop_init(&l, &d.driver, 0), 0);
    space_init(&s, &l, 100);
    struct idle_claims idle = {.n = 0};
    s.reclaim = reclaim;
    s.owner = &idle;
    for (int i = 0; i < 4; i++) {
        c[i] = (struct test_claim){.claim = {.amount = amounts[i], .granted = granted},
                                   .clock = &clock};
    }
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(space_ask(&s, &c[i].claim), 0);
    }
    loop_run(&l);
    ck_assert_uint_eq(s.used, 90);
    ck_assert_int_eq(space_ask(&s, &c[3].claim), 0);
    loop_run(&l);
    ck_assert_int_eq(idle.asked, 0); /* none is idle */
    for (int i = 0; i < 2; i++) {
        idle.idle[idle.n++] = &c[i].claim;
        space_set_idle(&s, c[i].claim.amount, true);
    }
    ck_assert_uint_eq(s.idle, 70);
    loop_run(&l);
    ck_assert_int_eq(c[3].granted_at, 4); /* the 30 of the last one are enough */
    ck_assert_int_eq(idle.n, 1);
    ck_assert_uint_eq(s.idle, 40);
    ck_assert_uint_eq(s.used, 95);
    ck_assert_uint_eq(c[3].claim.slot, 1);
    c[1].claim = (struct space_claim){.amount = 45, .granted = granted, .into = &c[2].claim};
    ck_assert_int_eq(space_ask(&s, &c[1].claim), 0);
    loop_run(&l);
    ck_assert_uint_eq(c[2].claim.amount, 65);
    ck_assert_uint_eq(c[1].claim.amount, 0);
    ck_assert_uint_eq(s.used, 100);
    ck_assert_uint_eq(s.idle, 0);
    ck_assert_uint_eq(s.taken_total - s.given_total, s.used);
    space_done(&s);
    loop_done(&l);
}
END_TEST

START_TEST(test_space)
{
    struct virtual_driver d;
    struct loop l;
    struct space s;
    int clock = 0;
    struct test_claim c[4];
    static const uint64_t amounts[4] = {60, 50, 10, 40};
    virtual_driver_init(&d, NULL, NULL, NULL);
    ck_assert_int_eq(loop_init(&l, &d.driver, 0), 0);
    space_init(&s, &l, 100);
    for (int i = 0; i < 4; i++) {
        c[i] = (struct test_claim){.claim = {.amount = amounts[i], .granted = granted},
                                   .clock = &clock};
        ck_assert_int_eq(space_ask(&s, &c[i].claim), 0);
        ck_assert_int_eq(c[i].granted_at, 0); /* never from inside the call */
    }
    loop_run(&l);
    ck_assert_int_eq(c[0].granted_at, 1);
    ck_assert_int_eq(c[2].granted_at, 0); /* would fit, but the one before it does not */
    space_give(&s, &c[0].claim, 10);
    loop_run(&l);
    ck_assert_int_eq(c[1].granted_at, 2); /* 50 + 50 */
    ck_assert_int_eq(c[2].granted_at, 0);
    space_give(&s, &c[0].claim, 50); /* its last: the slot is free as well */
    loop_run(&l);
    ck_assert_int_eq(c[2].granted_at, 3);
    ck_assert_int_eq(c[3].granted_at, 4);
    ck_assert_uint_eq(c[1].claim.slot, 1);
    ck_assert_uint_eq(c[2].claim.slot, 0); /* the first one's */
    ck_assert_uint_eq(c[3].claim.slot, 2);
    ck_assert_uint_eq(s.used, 100);
    ck_assert_uint_eq(s.peak, 100);
    ck_assert_uint_eq(s.taken_total, 160);
    ck_assert_uint_eq(s.given_total, 60);
    struct test_claim never = {.claim = {.amount = 101, .granted = granted}, .clock = &clock};
    ck_assert_int_eq(space_ask(&s, &never.claim), -ENOSPC);
    space_done(&s);
    loop_done(&l);
}
END_TEST

/* Layout */

/* The byte of (token, layer, byte in token), from the words of the header. */
static uint64_t byte_at(const struct kv_layout *l, uint32_t tok, uint32_t layer, uint64_t byte)
{
    uint64_t layer_block = l->block_tok * l->layer_tok_bytes;
    return tok / l->block_tok * (layer_block * l->n_layers) + layer * layer_block +
           tok % l->block_tok * l->layer_tok_bytes + byte;
}

/* Every byte that an op of layers moves, part by part and piece by piece, is the right one,
 * once. */
START_TEST(test_kv_layers)
{
    const struct kv_layout l = {.n_layers = 3, .block_tok = 4, .layer_tok_bytes = 5};
    struct dp_op op = {0};
    const struct dp_place src = {.offset_bytes = 1000}, dst = {.offset_bytes = 7000};
    for (uint32_t n_tok = 1; n_tok <= 13; n_tok++) {
        kv_shape_layers(&op, &l, 8, n_tok, src, dst);
        ck_assert_uint_eq(op.parts_total, 3);
        ck_assert_uint_eq(dp_op_bytes(&op), 3 * n_tok * 5);
        ck_assert_uint_eq(op.src.offset_bytes - 1000, op.dst.offset_bytes - 7000);
        for (uint32_t part = 0; part < 3; part++) {
            for (uint64_t b = 0; b < op.part_bytes; b++) {
                uint64_t at = op.src.offset_bytes + part * op.part_stride_bytes +
                              b / op.segment_bytes * op.segment_stride_bytes + b % op.segment_bytes;
                uint32_t tok = 8 + (uint32_t)(b / 5);
                ck_assert_uint_eq(at, 1000 + byte_at(&l, tok, part, b % 5));
            }
            ck_assert_uint_eq((op.part_bytes + op.segment_bytes - 1) / op.segment_bytes,
                              op.segments);
        }
    }
}
END_TEST

START_TEST(test_kv_blocks)
{
    const struct kv_layout l = {.n_layers = 3, .block_tok = 4, .layer_tok_bytes = 5};
    struct dp_op op = {0};
    const struct dp_place src = {.offset_bytes = 1000}, dst = {.offset_bytes = 7000};
    kv_shape_blocks(&op, &l, 2, 3, src, dst);
    ck_assert_uint_eq(op.part_bytes, 60);
    ck_assert_uint_eq(op.parts_total, 3);
    ck_assert_uint_eq(op.parts_ready, 3);
    ck_assert_uint_eq(op.chain.first_block, 2);
    ck_assert_uint_eq(op.src.offset_bytes, 1000 + byte_at(&l, 8, 0, 0));
    ck_assert_uint_eq(op.dst.offset_bytes, 7000 + byte_at(&l, 8, 0, 0));
    ck_assert_uint_eq(op.part_stride_bytes, byte_at(&l, 4, 0, 0));
    ck_assert_uint_eq(kv_blocks(&l, 8), 2);
    ck_assert_uint_eq(kv_blocks(&l, 9), 3);
    ck_assert_uint_eq(kv_room_bytes(&l, 9), 180);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, test_pool);
    tcase_add_test(tc, test_idmap);
    tcase_add_test(tc, test_hist);
    tcase_add_test(tc, test_hist_ends);
    tcase_add_test(tc, test_space);
    tcase_add_test(tc, test_idle_space);
    tcase_add_test(tc, test_kv_layers);
    tcase_add_test(tc, test_kv_blocks);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
