/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check_suite.h"
#include "input/cards.h"
#include "input/scenario_derive.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))
#define HF           "tests/unit/data/hf/"

/*
 * Published or derived from the publications, not by this program: parameters in billions (total,
 * active with the LM head) and KV-cache bytes per token over all layers.
 */
static const struct {
    const char *name, *hf;
    double total_b, active_b;
    unsigned long kv_bytes;
} models[] = {
    {"deepseek-v3.2", HF "deepseek_v32.json", 671.9, 37.5, 48068},
    {"deepseek-v3", HF "deepseek_v3.json", 671, 36.6, 40016},
    {"ds-27b", NULL, 27.2, 4.29, 21720},
    {"qwen2.5-32b", HF "qwen2.json", 32.8, 32.0, 262144},
    {"llama-3.3-70b", HF "llama.json", 70.6, 69.5, 327680},
    {"qwen3-235b-a22b", HF "qwen3_moe_235b.json", 235, 21.6, 96256},
    {"qwen3-coder-480b", HF "qwen3_moe_480b.json", 480, 34.5, 126976},
    {"glm-4.6", HF "glm4_moe.json", 353, 32.9, 188416},
    {"kimi-k2", HF "kimi_k2.json", 1026, 31.7, 40016},
    {"minimax-m2", HF "minimax_m2.json", 229, 10.4, 126976},
    {"gpt-oss-120b", HF "gpt_oss.json", 117, 5.1, 18432},
    /* No model of the world; by hand: 4 x (94208 attention + 393216 FFN) + 2 x 262144. */
    {"toy-mla", NULL, 0.003063808, 0.002801664, 1152},
};

static struct model_card read_card(const char *name)
{
    struct model_card card;
    struct err err = ERR_INIT;
    char text[1400] = "";
    int ret = card_read(name, &card, &err);
    err_format(&err, text, sizeof(text));
    ck_assert_msg(ret == 0, "%s", text);
    return card;
}

static void check_card(const struct model_card *card, int i)
{
    ck_assert_double_eq_tol(card->total_params / 1e9, models[i].total_b, 0.01 * models[i].total_b);
    ck_assert_double_eq_tol(card->active_params / 1e9, models[i].active_b,
                            0.01 * models[i].active_b);
    ck_assert_uint_eq(card_kv_bytes_per_tok(card), models[i].kv_bytes);
}

START_TEST(test_shipped_models)
{
    struct model_card card = read_card(models[_i].name);
    ck_assert_str_eq(card.name, models[_i].name);
    ck_assert_str_ne(card.source, "");
    check_card(&card, _i);
}
END_TEST

START_TEST(test_hf_models)
{
    if (!models[_i].hf) {
        return;
    }
    struct model_card hf = read_card(models[_i].hf), ours = read_card(models[_i].name);
    check_card(&hf, _i);
    /* Two descriptions of one model: everything but names, sources, limits and precision agrees. */
    memcpy(hf.name, ours.name, sizeof(hf.name));
    memcpy(hf.source, ours.source, sizeof(hf.source));
    ck_assert_double_eq_tol(hf.total_params, ours.total_params, 1);
    ck_assert_double_eq_tol(hf.active_params, ours.active_params, 1);
    ck_assert_double_eq(hf.kv_bytes_per_tok_layer, ours.kv_bytes_per_tok_layer);
    ck_assert_double_eq(hf.indexer_bytes_per_tok_layer, ours.indexer_bytes_per_tok_layer);
    ck_assert_uint_eq(hf.n_layers, ours.n_layers);
    ck_assert_uint_eq(hf.n_dense_layers, ours.n_dense_layers);
    ck_assert_uint_eq(hf.n_window_layers, ours.n_window_layers);
    ck_assert_uint_eq(hf.window_tok, ours.window_tok);
    ck_assert_uint_eq(hf.sparse_topk, ours.sparse_topk);
    ck_assert_int_eq(hf.attention, ours.attention);
    ck_assert_int_eq(hf.expert_parallel, ours.expert_parallel);
    ck_assert_double_eq(hf.mla_core_scale, ours.mla_core_scale);
}
END_TEST

START_TEST(test_hf_weights)
{
    ck_assert_double_eq(read_card(HF "deepseek_v3.json").weight_bytes_per_param, 1);
    ck_assert_double_eq(read_card(HF "llama.json").weight_bytes_per_param, 2);
    ck_assert_double_eq_tol(read_card(HF "gpt_oss.json").weight_bytes_per_param,
                            read_card("gpt-oss-120b").weight_bytes_per_param, 0.001);
}
END_TEST

START_TEST(test_all_shipped_are_tested)
{
    struct err err = ERR_INIT;
    char **names;
    size_t n = 0;
    ck_assert_int_eq(cards_names("models", &names, &err), 0);
    for (; names[n]; n++) {
        ck_assert(n == 0 || strcmp(names[n - 1], names[n]) < 0);
    }
    ck_assert_uint_eq(n, COUNT(models));
    cards_names_free(names);
}
END_TEST

START_TEST(test_gpus)
{
    static const char *const expected[] = {"a100", "b200", "h100", "h20", "h200", "h800", NULL};
    struct err err = ERR_INIT;
    char **names;
    ck_assert_int_eq(cards_names("gpus", &names, &err), 0);
    for (size_t i = 0; expected[i]; i++) {
        struct gpu_profile gpu;
        ck_assert_str_eq(names[i], expected[i]);
        ck_assert_int_eq(gpu_read(names[i], &gpu, &err), 0);
        ck_assert_str_eq(gpu.name, names[i]);
    }
    cards_names_free(names);
}
END_TEST

/* DualPath's argument: from Ampere to Blackwell compute grew 28.8 times, the NIC 2.0, HBM 2.4. */
START_TEST(test_io_compute_trend)
{
    struct gpu_profile a100, b200;
    struct err err = ERR_INIT;
    const char *from, *to;
    ck_assert_int_eq(gpu_read("a100", &a100, &err), 0);
    ck_assert_int_eq(gpu_read("b200", &b200, &err), 0);
    double compute = gpu_peak_flops(&b200, &to) / gpu_peak_flops(&a100, &from);
    ck_assert_str_eq(from, "bf16");
    ck_assert_str_eq(to, "fp4");
    ck_assert_double_eq_tol(compute, 28.8, 0.05);
    ck_assert_double_eq_tol(b200.nic_Bps / a100.nic_Bps, 2.0, 1e-9);
    ck_assert_double_eq_tol(b200.hbm_bytes / a100.hbm_bytes, 2.4, 1e-9);
    ck_assert_double_eq_tol(compute / (b200.nic_Bps / a100.nic_Bps), 14.4, 0.05);
}
END_TEST

/*
 * Of a 50 GB/s SNIC at the Full Blocks of the paper's three models: no slower than the published
 * Basic runs read on average (agents * turns * mean context of table 2 * KV bytes / JCT / prefill
 * nodes: 27B 48K 4,096 agents in 7,316 s; 660B 64K 4,096 in 19,382 s; Qwen 64K 128 in 4,969 s), no
 * faster than 3FS's own 42 GiB/s of a client.
 */
START_TEST(test_3fs_efficiency)
{
    static const struct {
        double kv_bytes_per_tok, context_tok, jct_s, nodes;
    } runs[] = {{21720, 4096. * 106 * 25120, 7316, 1},
                {48068, 4096. * 157 * 32721, 19382, 2},
                {262144, 128. * 157 * 32721, 4969, 1}};
    struct storage_profile s;
    struct err err = ERR_INIT;
    ck_assert_int_eq(storage_read("3fs", &s, &err), 0);
    for (size_t i = 0; i < COUNT(runs); i++) {
        double block = 64 * runs[i].kv_bytes_per_tok;
        double Bps = 50e9 * s.efficiency_max * block / (block + s.half_size_bytes);
        ck_assert_double_ge(Bps, runs[i].context_tok * runs[i].kv_bytes_per_tok / runs[i].jct_s /
                                     runs[i].nodes);
        ck_assert_double_le(Bps, 42 * 0x1p30);
    }
    /* What one request's reads reach, against the rate that was fitted to the 660B's cells: 15 GB/s
     * of the line, known to 15 %. */
    ck_assert_double_eq_tol(storage_stream_Bps(&s, 64 * 48068), 15e9, 0.15 * 15e9);
}
END_TEST

START_TEST(test_storage_profiles)
{
    static const char *const names[] = {"3fs", "local-nvme", "parallel-fs", "remote-dram"};
    for (size_t i = 0; i < COUNT(names); i++) {
        struct storage_profile s;
        struct err err = ERR_INIT;
        ck_assert_int_eq(storage_read(names[i], &s, &err), 0);
        ck_assert_str_eq(s.name, names[i]);
    }
}
END_TEST

static char scratch[64];

/* Reads text as a file and checks that the whole message equals expected after the file's name. */
static void expect_error(int (*read)(const char *path, struct err *err), const char *text,
                         const char *expected)
{
    struct err err = ERR_INIT;
    char message[1400];
    snprintf(scratch, sizeof(scratch), "/tmp/test_cards_%ld.json", (long)getpid());
    FILE *fp = fopen(scratch, "w");
    ck_assert_ptr_nonnull(fp);
    fputs(text, fp);
    fclose(fp);
    int ret = read(scratch, &err);
    unlink(scratch);
    err_format(&err, message, sizeof(message));
    ck_assert_int_lt(ret, 0);
    ck_assert_int_eq(strncmp(message, scratch, strlen(scratch)), 0);
    ck_assert_str_eq(message + strlen(scratch), expected);
}

static int read_gpu(const char *path, struct err *err)
{
    struct gpu_profile gpu;
    return gpu_read(path, &gpu, err);
}

static int read_model(const char *path, struct err *err)
{
    struct model_card card;
    return card_read(path, &card, err);
}

#define GPU_HEAD "{\"schema\": \"dualpath/gpu/1\",\n \"name\": \"x\", \"source\": \"y\",\n"
static const struct {
    const char *text, *expected;
} bad_gpus[] = {
    {"[]", ":1:1: found an array, expected an object"},
    {"{\"name\": \"x\"}", ":1:1: schema: missing, expected \"dualpath/gpu/1\""},
    {"{\"schema\": \"dualpath/model/1\"}",
     ":1:2: schema: found the string \"dualpath/model/1\", expected \"dualpath/gpu/1\""},
    {GPU_HEAD " \"bf16_flop\": 1}", ":3:2: bf16_flop: unknown key, did you mean \"bf16_flops\"?"},
    {GPU_HEAD " \"fp8_flops\": 1}",
     ":1:1: bf16_flops: missing, expected a number above 0, in FLOP per second, as a number or "
     "with a unit (989TFLOPS)"},
    {GPU_HEAD " \"bf16_flops\": -3}",
     ":3:2: bf16_flops: found the number -3, expected a number above 0, in FLOP per second, as a "
     "number or with a unit (989TFLOPS)"},
    {GPU_HEAD " \"bf16_flops\": \"989TB/s\"}",
     ":3:2: bf16_flops: found the string \"989TB/s\", expected a number above 0, in FLOP per "
     "second, as a number or with a unit (989TFLOPS)"},
    {GPU_HEAD " \"bf16_flops\": {\"valeu\": 3, \"source\": \"\"}}",
     ":3:2: bf16_flops: unknown key \"valeu\", did you mean \"value\"?"},
    {GPU_HEAD " \"bf16_flops\": {\"value\": 3}}",
     ":3:2: bf16_flops: found an object, expected \"value\" and a string \"source\" in it"},
};

START_TEST(test_bad_gpus)
{
    expect_error(read_gpu, bad_gpus[_i].text, bad_gpus[_i].expected);
}
END_TEST

#define CARD_HEAD                                                                                  \
    "{\"schema\": \"dualpath/model/1\", \"name\": \"x\", \"source\": \"y\",\n"                     \
    "\"n_layers\": 2, \"hidden\": 64, \"n_heads\": 4, \"vocab\": 100, \"max_context_tok\": 99,\n"  \
    "\"weight_bytes_per_param\": 2, "
#define HF_SHAPES                                                                                  \
    "\"num_hidden_layers\": 2, \"hidden_size\": 64, \"num_attention_heads\": 4,\n"                 \
    "\"num_key_value_heads\": 2, \"intermediate_size\": 9, \"vocab_size\": 9, "                    \
    "\"max_position_embeddings\": 9,\n"
#define HF_LLAMA "{\"model_type\": \"llama\"," HF_SHAPES
static const struct {
    const char *text, *expected;
} bad_models[] = {
    {CARD_HEAD "\"kv_dtype\": \"bf16\",\n\"attention\": \"gqq\"}",
     ":4:1: attention: found the string \"gqq\", expected one of \"gqa\", \"mla\", \"dsa\""},
    {CARD_HEAD "\"kv_dtype\": \"bf16\",\n\"attention\": \"gqa\"}",
     ":1:1: dense_width: missing or 0, a dense FFN layer needs a whole number above 0"},
    {CARD_HEAD "\"kv_dtype\": \"bf16\",\n\"attention\": \"gqa\", \"dense_width\": 1}",
     ":1:1: n_kv_heads: missing or 0, grouped-query attention needs a whole number above 0"},
    {CARD_HEAD "\"kv_dtype\": \"bf16\",\n\"attention\": \"gqa\", \"dense_width\": 1, "
               "\"head_dim\": 8,\n\"n_kv_heads\": 3}",
     ":5:1: n_kv_heads: found 3, expected a divisor of the 4 query heads"},
    {CARD_HEAD "\"attention\": \"gqa\", \"dense_width\": 1, \"head_dim\": 8, \"n_kv_heads\": 2,\n"
               "\"kv_dtype\": \"int9\"}",
     ":4:1: kv_dtype: found the string \"int9\", expected \"fp8\", \"bf16\" or \"fp16\" (or a "
     "kv_bytes_per_tok_layer of its own)"},
    {CARD_HEAD "\"kv_dtype\": \"fp8\", \"attention\": \"gqa\", \"n_experts\": 4,\n"
               "\"experts_per_tok\": 5, \"expert_width\": 8, \"head_dim\": 8, \"n_kv_heads\": 2}",
     ":4:1: experts_per_tok: found 5, expected at most the 4 experts there are"},
    {CARD_HEAD "\n\"n_window_layers\": 1.5}",
     ":1:1: kv_dtype: missing, expected a string of at most 15 bytes"},
    {"{\"model_type\": \"gpt2\"}",
     ":1:2: model_type: found the string \"gpt2\", expected one of the families deepseek_v32, "
     "deepseek_v3, kimi_k2, qwen2, qwen3_moe, glm4_moe, llama, gpt_oss, minimax_m2"},
    {"{\"model_type\": \"llama\",\n\"num_hidden_layers\": \"80\"}",
     ":2:1: num_hidden_layers: found the string \"80\", expected a whole number from 1 to "
     "16777216"},
    {HF_LLAMA "\"quantization_config\": {\n\"quant_method\": \"awq\"}}",
     ":4:1: quantization_config.quant_method: found the string \"awq\", expected \"fp8\" or "
     "\"mxfp4\""},
    {HF_LLAMA "\"quantization_config\": 8}",
     ":3:1: quantization_config: no quant_method in it, expected \"fp8\" or \"mxfp4\""},
    {"{\"model_type\": \"qwen2\"," HF_SHAPES "\"use_sliding_window\": true}",
     ":3:1: use_sliding_window: found true, only models where it is false can be modelled"},
    {"{\"model_type\": \"gpt_oss\", \"num_local_experts\": 4, \"num_experts_per_tok\": 2," HF_SHAPES
     "\"layer_types\": [\"full_attention\",\n\"linear_attention\"]}",
     ":4:1: layer_types[1]: found the string \"linear_attention\", expected \"full_attention\" or "
     "\"sliding_attention\""},
};

START_TEST(test_bad_models)
{
    expect_error(read_model, bad_models[_i].text, bad_models[_i].expected);
}
END_TEST

START_TEST(test_unknown_name)
{
    struct model_card card;
    struct err err = ERR_INIT;
    ck_assert_int_eq(card_read("qwen25-32b", &card, &err), -ENOENT);
    ck_assert_ptr_nonnull(strstr(err.text, "did you mean \"qwen2.5-32b\"?"));
    err = ERR_INIT;
    ck_assert_int_eq(card_read("./no/such.json", &card, &err), -ENOENT);
    ck_assert_str_eq(err.source, "./no/such.json");
}
END_TEST

START_TEST(test_data_dir_from_environment)
{
    struct err err = ERR_INIT;
    char **names;
    const char *old = getenv("DUALPATH_DATA");
    char *saved = old ? strdup(old) : NULL;
    setenv("DUALPATH_DATA", "/nonexistent", 1);
    ck_assert_ptr_null(cards_data_dir());
    ck_assert_int_eq(cards_names("models", &names, &err), -ENOENT);
    ck_assert_str_eq(err.field, "DUALPATH_DATA");
    setenv("DUALPATH_DATA", "scenarios", 1);
    ck_assert_str_eq(cards_data_dir(), "scenarios");
    if (saved) {
        setenv("DUALPATH_DATA", saved, 1);
    } else {
        unsetenv("DUALPATH_DATA");
    }
    free(saved);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cards");
    TCase *tcase = tcase_create("cards");
    tcase_add_loop_test(tcase, test_shipped_models, 0, COUNT(models));
    tcase_add_loop_test(tcase, test_hf_models, 0, COUNT(models));
    tcase_add_test(tcase, test_hf_weights);
    tcase_add_test(tcase, test_all_shipped_are_tested);
    tcase_add_test(tcase, test_gpus);
    tcase_add_test(tcase, test_io_compute_trend);
    tcase_add_test(tcase, test_3fs_efficiency);
    tcase_add_test(tcase, test_storage_profiles);
    tcase_add_loop_test(tcase, test_bad_gpus, 0, COUNT(bad_gpus));
    tcase_add_loop_test(tcase, test_bad_models, 0, COUNT(bad_models));
    tcase_add_test(tcase, test_unknown_name);
    tcase_add_test(tcase, test_data_dir_from_environment);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
