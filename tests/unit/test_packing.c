/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How much of a request goes into a forward: by new tokens, and by predicted attention time. */
#include <check.h>

#include "check_suite.h"
#include "model/gpu.h"
#include "sched/packing.h"

#define BLOCK_TOK 64u

static struct timing_model timing(void)
{
    return (struct timing_model){
        .card = {.n_layers = 4, .n_heads = 8, .n_kv_heads = 8, .head_dim = 128},
        .gpu = {.bf16_flops = 1e15,
                .fp8_flops = 2e15,
                .mfu_attention_prefill = 0.5,
                .mfu_indexer_prefill = 0.5,
                .mfu_sparse_prefill = 0.5},
        .config = timing_config_defaults(),
        .tp = 1,
    };
}

/* Whole requests as long as they fit, then whole blocks of the next, then nothing. */
START_TEST(test_tokens)
{
    struct timing_model tm = timing();
    struct cluster c = {.timing = &tm, .kv = {.block_tok = BLOCK_TOK}, .forward_tok = 1000};
    struct packing p = packing_begin(&c);
    ck_assert_double_eq(packing_fill(&p), 0);
    ck_assert_uint_eq(packing_fit(&p, 50000, 1000), 1000);
    ck_assert_uint_eq(packing_fit(&p, 50000, 1001), 960);
    packing_take(&p, 50000, 700);
    ck_assert_double_eq_tol(packing_fill(&p), 0.7, 1e-12);
    ck_assert_uint_eq(packing_fit(&p, 0, 300), 300);
    ck_assert_uint_eq(packing_fit(&p, 0, 301), 256);
    packing_take(&p, 0, 256);
    ck_assert_uint_eq(packing_fit(&p, 0, 45), 0);
    ck_assert_uint_eq(packing_fit(&p, 0, 44), 44);
    packing_take(&p, 0, 64); /* what fits nowhere goes through all the same */
    ck_assert_double_eq(packing_fill(&p), 1);
    ck_assert_uint_eq(packing_fit(&p, 0, 1), 0);
}
END_TEST

/* The largest multiple of a block whose attention time is left, found by trying each. */
START_TEST(test_quota)
{
    struct timing_model tm = timing();
    for (uint32_t cached_tok = 0; cached_tok < 40000; cached_tok += 7919) {
        struct cluster c = {
            .timing = &tm,
            .kv = {.block_tok = BLOCK_TOK},
            .quota_ns = (uint64_t)timing_attention_ns(&tm, cached_tok, 20 * BLOCK_TOK + 13)};
        struct packing p = packing_begin(&c);
        uint32_t expected = 0;
        while (timing_attention_ns(&tm, cached_tok, expected + BLOCK_TOK) <= (double)c.quota_ns) {
            expected += BLOCK_TOK;
        }
        ck_assert_uint_eq(expected, 20 * BLOCK_TOK);
        ck_assert_uint_eq(packing_fit(&p, cached_tok, 100000), expected);
        ck_assert_uint_eq(packing_fit(&p, cached_tok, expected + 1), expected + 1);
        packing_take(&p, cached_tok, expected);
        double used = timing_attention_ns(&tm, cached_tok, expected) / (double)c.quota_ns;
        ck_assert_double_eq_tol(packing_fill(&p), used, 1e-9);
        ck_assert_uint_eq(packing_fit(&p, 1u << 20, 5000), 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("packing");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, test_tokens);
    tcase_add_test(tc, test_quota);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
