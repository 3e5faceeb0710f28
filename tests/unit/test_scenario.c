/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Scenarios: defaults, presets, --set on every key, units, derived limits, the hash. */
#include "check_suite.h"
#include "input/scenario.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input/json_file.h"
#include "input/scenario_derive.h"
#include "input/scenario_explain.h"
#include "input/scenario_keys.h"
#include "input/scenario_reading.h"
#include "unit/scenario_test.h"

/* The figures of the parameter sheet and of the paper's set-up, written out here once more. */
START_TEST(defaults)
{
    parse_ok(MINIMAL, NULL, NULL);
    ck_assert_uint_eq(sc.seed, 1);
    ck_assert_uint_eq(sc.tie_seed, 0);
    ck_assert_uint_eq(sc.cluster.prefill_nodes, 1);
    ck_assert_uint_eq(sc.cluster.decode_nodes, 1);
    ck_assert_uint_eq(sc.cluster.gpus_per_node, 8);
    ck_assert_double_eq_tol(sc.cluster.cnic_Bps, 48.5e9, 1);
    ck_assert_double_eq_tol(sc.cluster.snic_Bps, 50e9, 1);
    ck_assert_double_eq_tol(sc.cluster.dram_Bps, 500e9, 1);
    ck_assert_uint_eq(sc.cluster.dram_buffer_bytes, 80000000000);
    ck_assert_uint_eq(sc.cluster.hbm_bytes, (uint64_t)sc.cluster.gpu.hbm_bytes);
    ck_assert_str_eq(sc.system.preset, "dualpath");
    ck_assert_double_eq_tol(sc.system.quota_s, 0.3, 1e-12);
    ck_assert_double_eq_tol(sc.system.alpha_s, 3, 1e-12);
    ck_assert_double_eq_tol(sc.system.beta_s, 5, 1e-12);
    ck_assert_double_eq_tol(sc.system.fetch_period_s, 0.05, 1e-12);
    ck_assert_double_eq_tol(sc.system.message_latency_s, 20e-6, 1e-15);
    ck_assert_double_eq_tol(sc.system.scheduler_cost_s, 5e-6, 1e-15);
    ck_assert_double_eq_tol(sc.system.transfer_latency_s, 2e-6, 1e-15);
    ck_assert_uint_eq(sc.system.block_tok, 64);
    ck_assert_double_eq_tol(sc.system.hbm_reserve_frac, 0.1, 1e-12);
    ck_assert_uint_eq(sc.workload.max_len_tok, 32768);
    ck_assert_uint_eq(sc.workload.agents, 0);
    ck_assert_int_eq(sc.workload.arrival, ARRIVAL_OFFLINE);
    ck_assert_double_eq_tol(sc.slo.ttft_s, 4, 1e-12);
    ck_assert_double_eq_tol(sc.slo.tpot_s, 0.05, 1e-12);
    ck_assert_double_eq_tol(sc.cost.gpu_hour_usd, 2, 1e-12);
    ck_assert_str_eq(sc.cluster.gpu.name, "h800");
    ck_assert_str_eq(sc.cluster.storage.name, "3fs");
    ck_assert_uint_eq(notes.n_warnings, 0);
    ck_assert_int_eq(origin("cluster.cnic_Bps")->by, SCENARIO_BY_DEFAULT);
    ck_assert_int_eq(origin("model.base")->by, SCENARIO_BY_FILE);
    ck_assert_int_eq(origin("model.hidden")->by, SCENARIO_BY_PROFILE);
}
END_TEST

/* Every row must say where it stands, what it is for, and where its default comes from. */
START_TEST(table_is_complete)
{
    for (size_t i = 0; i < scenario_n_keys; i++) {
        const struct scenario_key *k = &scenario_keys[i];
        bool required = !k->fallback && !k->from_profile;
        ck_assert_msg(k->doc && k->doc[0], "%s", k->path);
        ck_assert_msg(required || (k->source && k->source[0]), "%s", k->path);
        ck_assert_ptr_eq(scenario_key_find(k->path), k);
        for (size_t j = 0; j < i; j++) {
            ck_assert_msg(k->type == KEY_NAME || scenario_keys[j].type == KEY_NAME ||
                              k->offset >= scenario_keys[j].offset + scenario_keys[j].size ||
                              scenario_keys[j].offset >= k->offset + k->size,
                          "%s and %s share a place", k->path, scenario_keys[j].path);
        }
        if (k->type == KEY_NUMBER || k->type == KEY_U32 || k->type == KEY_U64) {
            ck_assert_msg(k->min < k->max, "%s has no range", k->path);
            ck_assert_msg(k->usual_max == 0 || (k->usual_min >= k->min && k->usual_max <= k->max),
                          "%s", k->path);
        }
    }
    ck_assert_ptr_null(scenario_key_find("cluster"));
}
END_TEST

START_TEST(presets_set_the_switches)
{
    static const struct {
        const char *preset;
        bool layerwise, dual_path, free_transfers;
        enum scheduler_kind scheduler;
        enum path_policy policy;
    } rows[] = {
        {"basic", false, false, false, SCHEDULER_ROUND_ROBIN, PATH_PREFILL},
        {"layerwise", true, false, false, SCHEDULER_ROUND_ROBIN, PATH_PREFILL},
        {"layerwise+dpl", true, true, false, SCHEDULER_ROUND_ROBIN, PATH_ROUND_ROBIN},
        {"dualpath", true, true, false, SCHEDULER_ADAPTIVE, PATH_SHORTER_QUEUE},
        {"oracle", true, true, true, SCHEDULER_ADAPTIVE, PATH_SHORTER_QUEUE},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char set[64];
        snprintf(set, sizeof(set), "system.preset=%s", rows[i].preset);
        parse_ok(MINIMAL, set, NULL);
        ck_assert_str_eq(sc.system.preset, rows[i].preset);
        ck_assert_int_eq(sc.system.layerwise, rows[i].layerwise);
        ck_assert_int_eq(sc.system.dual_path, rows[i].dual_path);
        ck_assert_int_eq(sc.system.free_transfers, rows[i].free_transfers);
        ck_assert_int_eq(sc.system.scheduler, rows[i].scheduler);
        ck_assert_int_eq(sc.system.path_policy, rows[i].policy);
        ck_assert_int_eq(origin("system.layerwise")->by, SCENARIO_BY_PRESET);
    }
}
END_TEST

START_TEST(explicit_keys_win_over_the_preset)
{
    parse_ok(MINIMAL, "system.scheduler=round_robin", NULL);
    ck_assert_int_eq(sc.system.scheduler, SCHEDULER_ROUND_ROBIN);
    ck_assert(sc.system.layerwise && sc.system.dual_path);
    /* In either order. */
    parse_ok(MINIMAL, "system.layerwise=true", "system.preset=basic");
    ck_assert(sc.system.layerwise);
    ck_assert_int_eq(origin("system.layerwise")->by, SCENARIO_BY_SET);
    /* Without a second path the preset's policy gives way; a policy that was asked for does not. */
    parse_ok(MINIMAL, "system.dual_path=false", NULL);
    ck_assert_int_eq(sc.system.path_policy, PATH_PREFILL);
    ck_assert_int_eq(origin("system.path_policy")->by, SCENARIO_BY_RULE);
    ck_assert_int_eq(parse_text(MINIMAL, "system.dual_path=false", "system.path_policy=decode"),
                     -EINVAL);
    ck_assert_ptr_nonnull(strstr(message, "--set: system.path_policy: found \"decode\""));
}
END_TEST

START_TEST(decode_options_must_agree)
{
    static const char reuse[] = "system.decode_reuse=dram";
    parse_ok(MINIMAL, reuse, "system.path_policy=split");
    ck_assert_int_eq(sc.system.decode_reuse, DECODE_REUSE_DRAM);
    ck_assert_int_eq(sc.system.path_policy, PATH_SPLIT);
    parse_ok(MINIMAL, "system.decode_reuse=hbm", "system.decode_buffer=hbm");
    ck_assert_int_eq(parse_text(MINIMAL, reuse, "system.decode_buffer=hbm"), -EINVAL);
    ck_assert_ptr_nonnull(strstr(message, "--set: system.decode_reuse: found \"dram\""));
    ck_assert_int_eq(parse_text(MINIMAL, "system.decode_reuse=hbm", "system.hbm_promise=admission"),
                     -EINVAL);
    ck_assert_ptr_nonnull(strstr(message, "--set: system.decode_reuse: found \"hbm\""));
    ck_assert_ptr_nonnull(strstr(message, "it is \"admission\""));
    ck_assert_int_eq(parse_text(MINIMAL, "system.decode_reuse=hbm", "system.hbm_promise=prefill"),
                     -EINVAL);
    ck_assert_ptr_nonnull(strstr(message, "it is \"prefill\""));
    ck_assert_int_eq(
        parse_text(MINIMAL, "system.decode_buffer=hbm", "cluster.dram_cache_bytes=1GB"), -EINVAL);
    ck_assert_ptr_nonnull(strstr(message, "--set: cluster.dram_cache_bytes: found 1000000000"));
    ck_assert_int_eq(parse_text(MINIMAL, reuse, "system.preset=basic"), -EINVAL);
    ck_assert_ptr_nonnull(strstr(message, "system.dual_path is false"));
}
END_TEST

/* A value that differs from the resolved one and keeps the scenario valid, for any row. */
static void other_value(const struct scenario_key *k, char *buf, size_t size)
{
    static const struct {
        const char *path, *value;
    } special[] = {
        {"schema", "dualpath/scenario/1"},
        {"profile", "ds27b-paper"},
        {"description", "text"},
        {"model.base", "qwen2.5-32b"},
        {"cluster.gpu.base", "h20"},
        {"cluster.storage.base", "local-nvme"},
        {"workload.trace", "tests/unit/data"},
        {"workload.arrival.aps", "0.25"},
        {"workload.arrival.kind", "poisson"},
        {"system.preset", "oracle"},
        {"system.path_policy", "decode"},
        {"system.prefill_ep_gpus", "4"},
        {"system.decode_ep_gpus", "4"},
        {"system.hbm_reserve_frac", "0.25"},
        {"model.kv_dtype", "bf16"},
        {"cluster.hbm_bytes", "141GB"},
        {"seed", "18446744073709551615"},
        {"hw.transport", "verbs"},
        {"hw.compute", "cuda"},
        {"hw.storage", "usrbio"},
    };
    for (size_t i = 0; i < sizeof(special) / sizeof(special[0]); i++) {
        if (strcmp(special[i].path, k->path) == 0) {
            snprintf(buf, size, "%s", special[i].value);
            return;
        }
    }
    const void *at = (const char *)&sc + k->offset;
    switch (k->type) {
    case KEY_BOOL:
        snprintf(buf, size, "%s", *(const bool *)at ? "false" : "true");
        break;
    case KEY_ENUM:
        snprintf(buf, size, "%s", k->words[*(const unsigned *)at == 0]);
        break;
    case KEY_NUMBER:
        snprintf(buf, size, "%.17g", *(const double *)at > 0 ? *(const double *)at / 2 : 0.001);
        break;
    case KEY_U32:
        snprintf(buf, size, "%" PRIu32, *(const uint32_t *)at + 1);
        break;
    case KEY_U64:
        snprintf(buf, size, "%" PRIu64, *(const uint64_t *)at + 1);
        break;
    default:
        snprintf(buf, size, "other");
    }
}

START_TEST(every_key_can_be_set)
{
    /* Counts that are bounded by another one need it raised first. */
    static const struct {
        const char *path, *first;
    } companions[] = {
        {"workload.arrival.aps", "workload.arrival=poisson"},
        {"workload.arrival.kind", "workload.arrival.aps=0.25"},
        {"model.total_params", "model.active_params=1e9"},
    };
    for (size_t i = 0; i < scenario_n_keys; i++) {
        const struct scenario_key *k = &scenario_keys[i];
        char set[200], value[160], before[300], after[300], first[100] = "seed=1";
        parse_ok(MINIMAL, NULL, NULL);
        for (size_t c = 0; c < sizeof(companions) / sizeof(companions[0]); c++) {
            if (strcmp(companions[c].path, k->path) == 0) {
                snprintf(first, sizeof(first), "%s", companions[c].first);
            }
        }
        other_value(k, value, sizeof(value));
        scenario_key_format(k, &sc, before, sizeof(before));
        snprintf(set, sizeof(set), "%s=%s", k->path, value);
        parse_ok(MINIMAL, first, set);
        scenario_key_format(k, &sc, after, sizeof(after));
        bool one_word = k->words && !k->words[1]; /* nothing else to set it to */
        ck_assert_msg(k->type == KEY_NAME || one_word || strcmp(before, after) != 0, "%s stays %s",
                      set, before);
        ck_assert_int_eq(origin(k->path)->by, SCENARIO_BY_SET);
    }
}
END_TEST

START_TEST(automatic_context_limit)
{
    parse_ok(MINIMAL, "workload.max_len_tok=0", NULL);
    ck_assert_uint_eq(sc.workload.max_len_tok, 65536);
    ck_assert_int_eq(origin("workload.max_len_tok")->by, SCENARIO_BY_RULE);
    parse_ok(MINIMAL, "workload.max_len_tok=0", "workload.trace=tests/unit/data");
    ck_assert_uint_eq(sc.workload.max_len_tok, sc.model.max_context_tok);
    ck_assert_str_eq(sc.workload.trace_path, "tests/unit/data");
    parse_ok(MINIMAL, "workload.max_len_tok=0", "model.max_context_tok=40K");
    ck_assert_uint_eq(sc.workload.max_len_tok, 40960);
}
END_TEST

START_TEST(later_sets_win_and_groups_start_over)
{
    parse_ok(MINIMAL, "seed=5", "seed=6");
    ck_assert_uint_eq(sc.seed, 6);
    parse_ok(MINIMAL, "cluster.storage.latency_median_s=7ms", "cluster.storage.cluster_Bps=1TB/s");
    ck_assert_double_eq_tol(sc.cluster.storage.latency_median_s, 0.007, 1e-15);
    ck_assert_double_eq_tol(sc.cluster.storage.cluster_Bps, 1e12, 1);
    parse_ok(MINIMAL, "cluster.storage.latency_median_s=7ms", "cluster.storage=3fs");
    ck_assert_double_lt(sc.cluster.storage.latency_median_s, 0.007);
    parse_ok(MINIMAL, "workload.arrival={\"kind\": \"poisson\", \"aps\": 0.4}", NULL);
    ck_assert_int_eq(sc.workload.arrival, ARRIVAL_POISSON);
    ck_assert_double_eq_tol(sc.workload.aps, 0.4, 1e-12);
    parse_ok(MINIMAL, "model=qwen2.5-32b", NULL);
    ck_assert_uint_eq(sc.model.n_layers, 64);
}
END_TEST

START_TEST(set_errors)
{
    static const struct {
        const char *set, *message;
    } rows[] = {
        {"seed", "--set: found \"seed\", expected PATH=VALUE"},
        {"=3", "--set: found \"=3\", expected PATH=VALUE"},
        {"", "--set: found \"\", expected PATH=VALUE"},
        {"cluster.cnic=50GB/s",
         "--set: cluster.cnic: unknown key, did you mean \"cluster.cnic_Bps\"?"},
        {"cluster=3", "--set: cluster: found the string \"3\", expected an object"},
        {"cluster={\"cnic_Bps\": }",
         "--set:1:14: cluster: not valid JSON: unexpected token near '}'"},
        {"cluster={\"cnic_Bps\": \"x\"}",
         "--set: cluster.cnic_Bps: found the string \"x\", expected bytes per second, as a number "
         "or "
         "with a unit (50GB/s, 400Gb/s, 400Gbps), above 0 B/s and at most 1000 TB/s"},
        {"system.layerwise=yes",
         "--set: system.layerwise: found the string \"yes\", expected true or false"},
        {"cluster.decode_nodes=1.5", "--set: cluster.decode_nodes: found the string \"1.5\", "
                                     "expected a whole number from 1 to 1000000"},
        {"seed=18446744073709551616", "--set: seed: found the string \"18446744073709551616\", "
                                      "expected a whole number from 0 to "
                                      "1.84467440737e+19"},
        {"model=ds-28b", NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_msg(parse_text(MINIMAL, rows[i].set, NULL) < 0, "%s", rows[i].set);
        if (rows[i].message) {
            ck_assert_str_eq(message, rows[i].message);
        }
    }
    ck_assert_msg(strncmp(message, "--set: model: ", 14) == 0 && strstr(message, "ds-27b"), "%s",
                  message);
}
END_TEST

START_TEST(failure_leaves_the_outputs_alone)
{
    struct scenario before;
    parse_ok(MINIMAL, NULL, NULL);
    before = sc;
    struct scenario_notes kept = notes;
    struct err err = ERR_INIT;
    const char *set = "seed=x";
    ck_assert_int_lt(scenario_parse("s.json", MINIMAL, strlen(MINIMAL), &set, 1, &sc, &notes, &err),
                     0);
    ck_assert_int_eq(memcmp(&before, &sc, sizeof(sc)), 0);
    ck_assert_ptr_eq(kept.origins, notes.origins);
}
END_TEST

/* A decimal number of GB is a whole number of bytes, also where no double is exact; half a byte is
 * none. */
START_TEST(whole_numbers_of_bytes_in_any_unit)
{
    parse_ok(MINIMAL, "cluster.dram_cache_bytes=8.2GB", NULL);
    ck_assert_uint_eq(sc.cluster.dram_cache_bytes, 8200000000);
    parse_ok(MINIMAL, "cluster.dram_cache_bytes=8.3GB", "cluster.hbm_bytes=70.1GB");
    ck_assert_uint_eq(sc.cluster.dram_cache_bytes, 8300000000);
    ck_assert_uint_eq(sc.cluster.hbm_bytes, 70100000000);
    for (uint64_t mb = 1001; mb < 2000; mb++) {
        char set[64];
        snprintf(set, sizeof(set), "cluster.dram_cache_bytes=%" PRIu64 ".%03" PRIu64 "GB",
                 mb / 1000, mb % 1000);
        parse_ok(MINIMAL, set, NULL);
        ck_assert_uint_eq(sc.cluster.dram_cache_bytes, mb * 1000000);
    }
    ck_assert_int_eq(parse_text(MINIMAL, "cluster.dram_cache_bytes=2.3KiB", NULL), -EINVAL);
    ck_assert_int_eq(parse_text(MINIMAL, "cluster.dram_cache_bytes=0.5B", NULL), -EINVAL);
}
END_TEST

/* Automatic EP groups: whole nodes, dividing the engines, at most 16 and 32 GPUs; 1 without
 * experts. */
START_TEST(automatic_ep_groups)
{
    static const struct {
        const char *set1, *set2;
        uint32_t prefill, decode;
    } rows[] = {
        {"cluster.prefill_nodes=2", "cluster.decode_nodes=4", 16, 32},
        {"cluster.prefill_nodes=1", "cluster.decode_nodes=1", 8, 8},
        {"cluster.prefill_nodes=3", "cluster.decode_nodes=6", 8, 24},
        {"cluster.prefill_nodes=48", "cluster.decode_nodes=96", 16, 32},
        {"cluster.gpus_per_node=12", "cluster.decode_nodes=2", 12, 24},
        {"cluster.gpus_per_node=3", "cluster.decode_nodes=7", 3, 21},
        {"model=qwen2.5-32b", "cluster.decode_nodes=4", 1, 1},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        parse_ok(MINIMAL, rows[i].set1, rows[i].set2);
        ck_assert_msg(sc.system.prefill_ep_gpus == rows[i].prefill &&
                          sc.system.decode_ep_gpus == rows[i].decode,
                      "%s %s: %u %u", rows[i].set1, rows[i].set2, sc.system.prefill_ep_gpus,
                      sc.system.decode_ep_gpus);
    }
}
END_TEST

/* By hand from published shapes: V3.2 stores 61 x (656 + 132) = 48,068 B per token. */
START_TEST(derived_quantities)
{
    struct scenario_derived d;
    parse_ok(MINIMAL, "model=deepseek-v3.2",
             "cluster={\"prefill_nodes\": 2, \"decode_nodes\": 4, \"storage\": "
             "{\"base\": \"3fs\", \"efficiency_max\": 0.9, \"half_size_bytes\": 1e6}}");
    scenario_derive(&sc, &d);
    ck_assert_uint_eq(d.kv_bytes_per_tok, 48068);
    ck_assert_uint_eq(d.full_block_bytes, 3076352);
    ck_assert_uint_eq(d.layer_block_bytes, 50432);
    ck_assert_uint_eq(d.prefill.engines, 16);
    ck_assert_uint_eq(d.prefill.ep_groups, 1);
    ck_assert_uint_eq(d.decode.engines, 32);
    ck_assert_uint_eq(d.decode.ep_groups, 1);
    ck_assert_uint_eq(d.request_kv_bytes, 48068ull * 32768);
    ck_assert_uint_eq(d.dram_buffer_tok, 1664308); /* 80e9 / 48068 */
    /* 0.9 * 3.076352 / 4.076352 of 50 GB/s for 3 s. */
    ck_assert_double_eq_tol(d.storage_efficiency, 0.679214, 1e-6);
    ck_assert_double_eq_tol((double)d.alpha_tok, 3 * 50e9 * 0.679214 / 48068, 4);
    /* About 40 GB of weights at EP32 and 28 GB for KV on an 80 GB card (parameter sheet). */
    ck_assert_double_eq_tol(d.decode.weight_bytes, 40e9, 4e9);
    ck_assert_double_eq_tol((double)d.decode.hbm_kv_bytes, 0.9 * 80e9 - d.decode.weight_bytes, 1);
    ck_assert_uint_eq(d.decode.hbm_kv_tok, d.decode.hbm_kv_bytes / 48068);
    uint64_t prefill_kv_bytes = d.prefill.hbm_kv_bytes;
    parse_ok(MINIMAL, "model=deepseek-v3.2", "cluster={\"prefill_nodes\": 2, \"decode_nodes\": 4}");
    sc.system.decode_reserve_frac = 0.05;
    scenario_derive(&sc, &d);
    ck_assert_uint_eq(d.prefill.hbm_kv_bytes, prefill_kv_bytes);
    ck_assert_double_eq_tol(d.decode.reserve_bytes, 0.15 * 80e9, 1);
    ck_assert_double_eq_tol((double)d.decode.hbm_kv_bytes, 0.85 * 80e9 - d.decode.weight_bytes, 1);
    ck_assert_int_eq(parse_text(MINIMAL, "system.decode_reserve_frac=0.95", NULL), -EINVAL);
    ck_assert_ptr_nonnull(strstr(message, "system.decode_reserve_frac: found 0.95"));
}
END_TEST

/* Three I/Os of 3 MB in flight, each for 1 ms, move 9 GB/s: at an efficiency of 0.9 * 3 / (3 + 1),
 * 13.3 GB/s of the line. */
START_TEST(a_stream_has_few_ios_in_flight)
{
    struct storage_profile p = {
        .latency_median_s = 1e-3, .efficiency_max = 0.9, .half_size_bytes = 1e6, .stream_ios = 3};
    ck_assert_double_eq_tol(storage_stream_Bps(&p, 3e6), 9e9 / 0.675, 1);
    p.stream_Bps = 20e9;
    ck_assert_double_eq_tol(storage_stream_Bps(&p, 3e6), 9e9 / 0.675, 1);
    p.stream_Bps = 10e9;
    ck_assert_double_eq_tol(storage_stream_Bps(&p, 3e6), 10e9, 1);
    p.stream_ios = 0;
    ck_assert_double_eq_tol(storage_stream_Bps(&p, 3e6), 10e9, 1);
    p = (struct storage_profile){.efficiency_max = 0.9, .stream_ios = 3};
    ck_assert(storage_stream_Bps(&p, 3e6) == 0); /* no latency: as many as one likes */
}
END_TEST

/* beta is linear in its horizon, and its tokens take that long by the time model's own parts, one
 * request in a forward. */
START_TEST(beta_follows_the_time_model)
{
    parse_ok(MINIMAL, NULL, NULL);
    uint64_t beta = scenario_beta_tok(&sc);
    struct timing_model tm = {
        .card = sc.model, .gpu = sc.cluster.gpu, .config = sc.timing, .tp = 1};
    double requests = (double)beta / 16384, n = 819.2;
    double attention = timing_attention_ns(&tm, 16384 - n, n);
    double ns = attention + timing_linear_ns(&tm, n) + timing_experts_ns(&tm, n * 8, 8) +
                tm.config.forward_fixed_s * 1e9;
    ck_assert_double_eq_tol(requests * ns, 5e9, 1e6);
    parse_ok(MINIMAL, "system.beta_s=10s", NULL);
    ck_assert_double_eq_tol((double)scenario_beta_tok(&sc), 2.0 * (double)beta, 2);
}
END_TEST

START_TEST(hash_is_of_content)
{
    char first[65];
    parse_ok(MINIMAL, NULL, NULL);
    memcpy(first, sc.sha256, sizeof(first));
    ck_assert_uint_eq(strlen(first), 64);
    /* Writing a default out changes nothing; neither does layout. */
    parse_ok(MINIMAL, "cluster.cnic_Bps=388Gb/s", "system.quota_s=0.3");
    ck_assert_str_eq(sc.sha256, first);
    parse_ok(
        "{\n\"workload\": {\"max_len_tok\": 32768, \"trace\": \"deepseek-coding\"}, \"model\": "
        "{\"base\": \"ds-27b\"},\"schema\":\"dualpath/scenario/1\"}",
        NULL, NULL);
    ck_assert_str_eq(sc.sha256, first);
    parse_ok(MINIMAL, "seed=2", NULL);
    ck_assert_str_ne(sc.sha256, first);
    /* FIPS 180-2, the one-block example. */
    char hex[65];
    scenario_sha256("abc", hex);
    ck_assert_str_eq(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    char *text = scenario_canonical(&sc);
    scenario_sha256(text, hex);
    ck_assert_str_eq(hex, sc.sha256);
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_int_eq(json_integer_value(json_object_get(root, "seed")), 2);
    ck_assert_double_eq(json_real_value(json_object_get(root, "cluster.cnic_Bps")), 48.5e9);
    ck_assert_str_eq(json_string_value(json_object_get(root, "system.scheduler")), "adaptive");
    json_decref(root);
    free(text);
}
END_TEST

START_TEST(explains_every_key)
{
    char *text = NULL;
    size_t size = 0;
    parse_ok(MINIMAL, "seed=7", "system.preset=layerwise");
    FILE *out = open_memstream(&text, &size);
    scenario_explain(&sc, &notes, out);
    fclose(out);
    for (size_t i = 0; i < scenario_n_keys; i++) {
        ck_assert_msg(scenario_keys[i].type == KEY_NAME ||
                          strstr(text, scenario_keys[i].path) != NULL,
                      "%s", scenario_keys[i].path);
    }
    ck_assert_ptr_nonnull(strstr(text, "1P1D"));
    ck_assert_ptr_nonnull(strstr(text, "s.json:1:35"));
    ck_assert_ptr_nonnull(strstr(text, "preset layerwise"));
    ck_assert_ptr_nonnull(strstr(text, "--set"));
    free(text);
}
END_TEST

/* A changed KV type or shape brings its own bytes along, unless they are given as well. */
START_TEST(kv_bytes_follow_the_layout)
{
    parse_ok(MINIMAL, "model=deepseek-v3.2", "cluster={\"prefill_nodes\": 2, \"decode_nodes\": 4}");
    ck_assert_double_eq_tol(sc.model.kv_bytes_per_tok_layer, 788, 1e-9);
    parse_ok("{\"schema\": \"dualpath/scenario/1\", \"model\": {\"base\": \"qwen2.5-32b\","
             "\"kv_dtype\": \"fp8\"}, \"workload\": {\"trace\": \"deepseek-coding\"}}",
             NULL, NULL);
    ck_assert_double_eq_tol(sc.model.kv_bytes_per_tok_layer, 2048, 1e-9); /* 2 x 8 x 128 */
    ck_assert_int_eq(origin("model.kv_bytes_per_tok_layer")->by, SCENARIO_BY_RULE);
    parse_ok(MINIMAL, "model.kv_bytes_per_tok_layer=700", "model.kv_dtype=bf16");
    ck_assert_double_eq_tol(sc.model.kv_bytes_per_tok_layer, 700, 1e-9);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("scenario");
    TCase *t = tcase_create("scenario");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, defaults);
    tcase_add_test(t, table_is_complete);
    tcase_add_test(t, presets_set_the_switches);
    tcase_add_test(t, explicit_keys_win_over_the_preset);
    tcase_add_test(t, decode_options_must_agree);
    tcase_add_test(t, every_key_can_be_set);
    tcase_add_test(t, automatic_context_limit);
    tcase_add_test(t, later_sets_win_and_groups_start_over);
    tcase_add_test(t, set_errors);
    tcase_add_test(t, failure_leaves_the_outputs_alone);
    tcase_add_test(t, whole_numbers_of_bytes_in_any_unit);
    tcase_add_test(t, automatic_ep_groups);
    tcase_add_test(t, derived_quantities);
    tcase_add_test(t, a_stream_has_few_ios_in_flight);
    tcase_add_test(t, beta_follows_the_time_model);
    tcase_add_test(t, hash_is_of_content);
    tcase_add_test(t, explains_every_key);
    tcase_add_test(t, kv_bytes_follow_the_layout);
    suite_add_tcase(s, t);
    int status = run_suite(s);
    scenario_notes_done(&notes);
    return status;
}
