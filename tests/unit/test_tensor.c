/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tensor parallelism: what a GPU of an engine holds, computes and sends, from the models'
 * shapes. */
#include <check.h>
#include <math.h>

#include "check_suite.h"
#include "input/cards.h"
#include "model/tensor.h"
#include "model/timing.h"

static struct timing_model model(const char *name, uint32_t tp)
{
    struct timing_model tm = {.config = timing_config_defaults(), .tp = tp};
    struct err err = ERR_INIT;
    ck_assert_int_eq(card_read(name, &tm.card, &err), 0);
    ck_assert_int_eq(gpu_read("h800", &tm.gpu, &err), 0);
    return tm;
}

static void near(double found, double expected)
{
    ck_assert_double_eq_tol(found / expected, 1, 1e-12);
}

/* Qwen2.5-32B: everything is cut in 8, its 8 KV heads too. */
START_TEST(test_grouped_queries)
{
    struct timing_model one = model("qwen2.5-32b", 1), eight = model("qwen2.5-32b", 8);
    ck_assert_uint_eq(tensor_kv_parts(&one.card, 1), 1);
    ck_assert_uint_eq(tensor_kv_parts(&one.card, 8), 8);
    ck_assert_uint_eq(tensor_kv_parts(&one.card, 2), 2);
    near(tensor_params(&one.card, 8e9, 8), 1e9);
    near(timing_weight_bytes_per_gpu(&eight, 1, 0), timing_weight_bytes_per_gpu(&one, 1, 0) / 8);
    double attention_ns = timing_attention_ns(&one, 20000, 500) / 8;
    near(timing_attention_ns(&eight, 20000, 500), attention_ns);
    eight.config.prefill_cached_tok_layer_s = 15e-9; /* each of them handles all cached tokens */
    near(timing_attention_ns(&eight, 20000, 500), attention_ns + 64 * 15.0 * 20000);
    /* 64 layers, hidden 5120, two all-reduces of BF16 in a ring of 8 at 0.8 x 200 GB/s. */
    double reduce_ns = 128 * 10e3 + 2 * 7.0 / 8 * 128 * 1000 * 5120 * 2 / (0.8 * 200);
    near(timing_linear_ns(&eight, 1000), timing_linear_ns(&one, 1000) / 8 + reduce_ns);
    double decode_ns = 128 * 10e3 + 2 * 7.0 / 8 * 128 * 16 * 5120 * 2 / (0.8 * 200);
    near(timing_decode_gpu_ns(&eight, 16, 16 * 30000),
         timing_decode_gpu_ns(&one, 16, 16 * 30000) / 8 + decode_ns);
}
END_TEST

/* More GPUs than KV heads: 64 query heads on 4 KV heads of 128, hidden 4096, 94 layers. */
START_TEST(test_few_kv_heads)
{
    struct timing_model one = model("qwen3-235b-a22b", 1);
    ck_assert_uint_eq(one.card.n_kv_heads, 4);
    ck_assert_uint_eq(tensor_kv_parts(&one.card, 8), 4);
    double kv = 2.0 * 4096 * 128 * 4 * 94, router = 94.0 * 4096 * 128;
    near(tensor_params(&one.card, 10e9, 8), router + kv / 4 + (10e9 - router - kv) / 8);
}
END_TEST

/*
 * DeepSeek-V3.2: the latent (hidden 7168 to 1536 and to 512 + 64), the indexer (1536 to 64 x 128,
 * 7168 to 128 + 64) and the router (58 layers, 256 experts) stay whole.
 */
START_TEST(test_latent)
{
    struct timing_model one = model("deepseek-v3.2", 1), eight = model("deepseek-v3.2", 8);
    double whole = 61.0 * (7168.0 * (1536 + 576) + 1536.0 * 64 * 128 + 7168.0 * (128 + 64)) +
                   58.0 * 7168 * 256;
    ck_assert_uint_eq(tensor_kv_parts(&one.card, 8), 1);
    near(tensor_params(&one.card, 20e9, 8), whole + (20e9 - whole) / 8);
    /* One byte a parameter; embedding and head in two. */
    double tables = 2.0 * 129280 * 7168, all = one.card.total_params;
    near(timing_weight_bytes_per_gpu(&eight, 1, 0),
         whole + (all - tables - whole) / 8 + 2 * tables / 8);
    /* Which is more than an 80 GB GPU has. */
    ck_assert_double_gt(timing_weight_bytes_per_gpu(&eight, 1, 0), 80e9);
    /* Prefill: the indexer is not cut. */
    double core = card_core_flops(&one.card, 30000, 400) / (989e12 * 0.64);
    double indexer = card_indexer_flops(&one.card, 30000, 400) / (1979e12 * 0.585);
    near(timing_attention_ns(&one, 30000, 400), (core + indexer) / 0.57 * 1e9);
    near(timing_attention_ns(&eight, 30000, 400), (core / 8 + indexer) / 0.57 * 1e9);
    /* Decode: reads of KV are not cut, so longer contexts cost the same. */
    near(timing_decode_gpu_ns(&eight, 8, 8 * 40000) - timing_decode_gpu_ns(&eight, 8, 8 * 20000),
         timing_decode_gpu_ns(&one, 8, 8 * 40000) - timing_decode_gpu_ns(&one, 8, 8 * 20000));
    /* Experts: an eighth, as in an EP group of 8 on the same tokens. */
    near(timing_experts_ns(&eight, 3000, 1), timing_experts_ns(&one, 3000, 8));
}
END_TEST

START_TEST(test_one_is_none)
{
    struct timing_model none = model("deepseek-v3.2", 0), one = model("deepseek-v3.2", 1);
    ck_assert_double_eq(tensor_params(&one.card, 20e9, 1), 20e9);
    ck_assert_double_eq(tensor_reduce_bytes(&one.card, 1000, 1), 0);
    ck_assert_double_eq(timing_linear_ns(&none, 100), timing_linear_ns(&one, 100));
    ck_assert_double_eq(timing_decode_group_ns(&none, 64, 32),
                        timing_decode_group_ns(&one, 64, 32));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tensor");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, test_grouped_queries);
    tcase_add_test(tc, test_few_kv_heads);
    tcase_add_test(tc, test_latent);
    tcase_add_test(tc, test_one_is_none);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
