/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check_suite.h"
#include "hw/attention.h"

struct shape {
    uint32_t block_tok, dim, heads;
};

static const struct shape shapes[] = {{1, 1, 1},   {5, 3, 2},   {16, 9, 1},
                                      {32, 32, 4}, {48, 36, 3}, {64, 72, 2}};
#define N_SHAPES (sizeof(shapes) / sizeof(shapes[0]))
#define LAYERS   2u
#define CHAIN    9u

struct world {
    struct attention a;
    struct attention_scratch s;
    uint8_t *kv;
};

static void world_init(struct world *w, const struct shape *shape, uint32_t tok)
{
    struct kv_layout l = {LAYERS, shape->block_tok, shape->dim * sizeof(float)};
    struct kv_content c;
    struct err e = ERR_INIT;
    ck_assert_int_eq(kv_content_init(&c, 5, &l, &e), 0);
    ck_assert_int_eq(attention_init(&w->a, &c, shape->heads, &e), 0);
    ck_assert_int_eq(attention_scratch_init(&w->s, &w->a), 0);
    w->kv = malloc(kv_room_bytes(&l, tok));
    ck_assert_ptr_nonnull(w->kv);
    for (uint32_t b = 0; b < kv_blocks(&l, tok); b++) {
        kv_content_full_block(&c, CHAIN, b, w->kv + b * kv_full_block_bytes(&l));
    }
}

static void world_done(struct world *w)
{
    attention_scratch_done(&w->s);
    free(w->kv);
}

/* The formula in the header, two passes, in double. */
static void naive(const struct attention *a, uint32_t tok, uint32_t layer, uint32_t head,
                  double *out)
{
    uint32_t dim = a->content.dim;
    float *q = malloc(dim * sizeof(float)), *row = malloc(dim * sizeof(float));
    ck_assert(q && row);
    kv_content_query(&a->content, CHAIN, tok, layer, head, q);
    double sum = 0;
    memset(out, 0, a->value_dim * sizeof(double));
    for (uint32_t j = 0; j <= tok; j++) {
        kv_content_row(&a->content, CHAIN, j, layer, row);
        double s = 0;
        for (uint32_t i = 0; i < dim; i++) {
            s += (double)q[i] * (double)row[i];
        }
        double p = exp(s / sqrt(dim));
        sum += p;
        for (uint32_t i = 0; i < a->value_dim; i++) {
            out[i] += p * (double)row[i];
        }
    }
    for (uint32_t i = 0; i < a->value_dim; i++) {
        out[i] /= sum;
    }
    free(q);
    free(row);
}

START_TEST(test_formula)
{
    struct world w;
    world_init(&w, &shapes[_i], 300);
    const uint32_t toks[] = {0, 1, 7, 31, 32, 33, 100, 299};
    double *expected = malloc(w.a.value_dim * sizeof(double));
    ck_assert_ptr_nonnull(expected);
    for (size_t i = 0; i < sizeof(toks) / sizeof(toks[0]); i++) {
        attention_token(&w.a, CHAIN, toks[i], 1, w.kv, &w.s);
        double tolerance = attention_tolerance(&w.a, toks[i] + 1);
        ck_assert_double_lt(tolerance, 1e-3);
        for (uint32_t h = 0; h < w.a.heads; h++) {
            naive(&w.a, toks[i], 1, h, expected);
            for (uint32_t v = 0; v < w.a.value_dim; v++) {
                double found = (double)w.s.out[h * w.a.value_dim + v];
                ck_assert_double_le(fabs(found - expected[v]), tolerance);
            }
        }
    }
    free(expected);
    world_done(&w);
}
END_TEST

START_TEST(test_memory_equals_reference_bit_for_bit)
{
    struct world w;
    world_init(&w, &shapes[_i], 200);
    size_t bytes = attention_out_values(&w.a) * sizeof(float);
    float *out = malloc(bytes);
    ck_assert_ptr_nonnull(out);
    for (uint32_t tok = 0; tok < 200; tok++) {
        attention_token(&w.a, CHAIN, tok, tok % LAYERS, w.kv, &w.s);
        memcpy(out, w.s.out, bytes);
        attention_reference(&w.a, CHAIN, tok, tok % LAYERS, &w.s);
        ck_assert_mem_eq(out, w.s.out, bytes);
    }
    free(out);
    world_done(&w);
}
END_TEST

/* A token in another's place, or KV of another chain, layer or position, changes the output. */
START_TEST(test_wrong_rows_show)
{
    struct world w;
    world_init(&w, &shapes[_i], 100);
    const struct kv_content *c = &w.a.content;
    size_t bytes = attention_out_values(&w.a) * sizeof(float);
    for (uint32_t tok = 0; tok < 100; tok += 9) {
        float *row = (float *)(void *)(w.kv + kv_row_offset(&c->layout, tok, 0));
        kv_content_row(c, CHAIN, tok, 1, row);
        float *out = malloc(bytes);
        ck_assert_ptr_nonnull(out);
        attention_token(&w.a, CHAIN, 99, 0, w.kv, &w.s);
        memcpy(out, w.s.out, bytes);
        attention_reference(&w.a, CHAIN, 99, 0, &w.s);
        ck_assert_mem_ne(out, w.s.out, bytes);
        kv_content_row(c, CHAIN, tok, 0, row);
        free(out);
    }
    world_done(&w);
}
END_TEST

START_TEST(test_no_heads)
{
    struct kv_layout l = {1, 1, 4};
    struct kv_content c;
    struct attention a;
    struct err e = ERR_INIT;
    ck_assert_int_eq(kv_content_init(&c, 5, &l, &e), 0);
    ck_assert_int_eq(attention_init(&a, &c, 0, &e), -EINVAL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("attention");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, test_formula, 0, N_SHAPES);
    tcase_add_loop_test(t, test_memory_equals_reference_bit_for_bit, 0, N_SHAPES);
    tcase_add_loop_test(t, test_wrong_rows_show, 0, N_SHAPES);
    tcase_add_test(t, test_no_heads);
    suite_add_tcase(s, t);
    return run_suite(s);
}
