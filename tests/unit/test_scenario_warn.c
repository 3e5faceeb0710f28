/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Scenarios: what is said of values that are allowed but look like a mistake; what is advised. */
#include "check_suite.h"
#include "input/scenario.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "unit/scenario_test.h"

START_TEST(warns_of_mistaken_units)
{
    static const struct {
        const char *set, *guess; /* NULL: no warning */
    } rows[] = {
        {"cluster.cnic_Bps=400GB/s", "was 50 GB/s meant (bits taken for bytes)"},
        {"cluster.cnic_Bps=400e9", "was 50 GB/s meant (bits taken for bytes)"},
        {"cluster.snic_Bps=400GB/s", "was 50 GB/s meant (bits taken for bytes)"},
        {"cluster.snic_Bps=400Gb/s", NULL},
        {"cluster.snic_Bps=50", "was 50 GB/s meant (the unit GB/s left out)"},
        {"cluster.cnic_Bps=400", "was 50 GB/s meant (the unit Gb/s left out)"},
        {"cluster.dram_Bps=500Gb/s", "was 500 GB/s meant (bytes taken for bits)"},
        {"cluster.hbm_bytes=141GB", NULL},
        {"cluster.dram_buffer_bytes=320", "was 320 GB meant (the unit GB left out)"},
        {"system.quota_s=300", "was 300 ms meant (milliseconds taken for seconds)"},
        {"system.quota_s=300ms", NULL},
        {"system.fetch_period_s=50", "was 50 ms meant (milliseconds taken for seconds)"},
        {"system.transfer_latency_s=2", "was 2 ms meant (milliseconds taken for seconds)"},
        {"slo.tpot_s=50", "was 50 ms meant (milliseconds taken for seconds)"},
        {"workload.max_len_tok=48", "was 49152 tok meant (the unit K left out)"},
        {"cluster.storage.latency_median_s=300", "was 300 ms meant"},
        {"system.alpha_s=4000000", "unusual"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        parse_ok(MINIMAL, rows[i].set, NULL);
        if (!rows[i].guess) {
            ck_assert_msg(notes.n_warnings == 0, "%s: %s", rows[i].set, notes.warnings[0]);
            continue;
        }
        ck_assert_msg(notes.n_warnings >= 1, "%s", rows[i].set);
        ck_assert_msg(strstr(notes.warnings[0], rows[i].guess) != NULL, "%s: %s", rows[i].set,
                      notes.warnings[0]);
    }
    /* HBM of 80 bytes does not even hold the weights: the error stands in for the warning. */
    ck_assert_int_eq(parse_text(MINIMAL, "cluster.hbm_bytes=80", NULL), -EINVAL);
}
END_TEST

START_TEST(no_unit_was_left_out_where_one_is_written)
{
    static const char *const sets[] = {"slo.tpot_s=50s", "system.quota_s=300s", "system.alpha_s=1h",
                                       "cluster.snic_Bps=50B/s", "workload.max_len_tok=48tok"};
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        parse_ok(MINIMAL, sets[i], NULL);
        ck_assert_uint_eq(notes.n_warnings, 1);
        ck_assert_ptr_nonnull(strstr(notes.warnings[0], "is unusual"));
        ck_assert_msg(!strstr(notes.warnings[0], "meant"), "%s", notes.warnings[0]);
    }
    parse_ok(MINIMAL, "workload.max_len_tok=48k", NULL);
    ck_assert_uint_eq(sc.workload.max_len_tok, 49152);
}
END_TEST

START_TEST(warns_of_requests_that_fit_nowhere)
{
    parse_ok(MINIMAL, "cluster.dram_buffer_bytes=1GB", "workload.max_len_tok=64K");
    ck_assert_uint_eq(notes.n_warnings, 1);
    ck_assert_ptr_nonnull(strstr(notes.warnings[0], "a node's DRAM buffer holds 1 GB"));
}
END_TEST

START_TEST(warns_of_a_quota_that_cached_tokens_fill)
{
    static const char cached[] = "timing.prefill_cached_tok_layer_s=15ns";
    parse_ok(MINIMAL, cached, NULL);
    ck_assert_uint_eq(notes.n_warnings, 0);
    double take_s = 15e-9 * sc.model.n_layers * (double)sc.workload.max_len_tok;
    char quota[64];
    snprintf(quota, sizeof(quota), "system.quota_s=%.9fs", 1.01 * take_s);
    parse_ok(MINIMAL, cached, quota);
    ck_assert_uint_eq(notes.n_warnings, 0);
    snprintf(quota, sizeof(quota), "system.quota_s=%.9fs", 0.99 * take_s);
    parse_ok(MINIMAL, cached, quota);
    ck_assert_uint_eq(notes.n_warnings, 1);
    ck_assert_ptr_nonnull(strstr(notes.warnings[0], "timing.prefill_cached_tok_layer_s"));
    parse_ok(MINIMAL, quota, NULL);
    ck_assert_uint_eq(notes.n_warnings, 0);
    parse_ok("{\"schema\": \"dualpath/scenario/1\", \"model\": \"ds-27b\","
             " \"timing\": {\"free_compute\": true},"
             " \"workload\": {\"trace\": \"deepseek-coding\", \"max_len_tok\": \"32K\"}}",
             cached, quota);
    ck_assert_uint_eq(notes.n_warnings, 0);
}
END_TEST

/* Accepted, as a sweep may set them throughout, but said: each beside what it would need. */
START_TEST(warns_of_keys_without_effect)
{
    static const struct {
        const char *set, *with, *said; /* NULL: no warning */
    } rows[] = {
        {"system.qos_pcie=true", NULL, "--set: system.qos_pcie: has no effect"},
        {"system.qos_pcie=true", "system.submit=cuda_memcpy", NULL},
        {"system.qos_pcie=true", "system.restore=gpu_direct", NULL},
        {"system.qos_pcie=false", NULL, NULL},
        {"system.restore_expand_Bps=10GB/s", NULL, "system.restore_expand_Bps: has no effect"},
        {"system.restore_ratio=0.1", NULL, "--set: system.restore_ratio: has no effect"},
        {"system.restore_ratio=0.1", "system.restore=compressed", NULL},
        {"system.restore=gpu_direct", "system.path_policy=decode", "system.restore: has no effect"},
        {"system.dual_path=true", "system.preset=basic", "system.dual_path: has no effect"},
        {"system.dual_path=true", NULL, NULL},
        {"system.quota_s=200ms", NULL, NULL},
        {"system.quota_s=200ms", "system.preset=basic", "--set: system.quota_s: has no effect"},
        {"system.forward_tok=4096", NULL, "--set: system.forward_tok: has no effect"},
        {"system.forward_tok=4096", "system.packing=tokens", NULL},
        {"cluster.dram_cache_bytes=1390079", NULL, "1.39 MB of a node caches nothing"},
        {"cluster.dram_cache_bytes=1390080", NULL, NULL}, /* one Full Block */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        parse_ok(MINIMAL, rows[i].set, rows[i].with);
        ck_assert_msg(notes.n_warnings == (rows[i].said ? 1 : 0), "%s: %zu warnings", rows[i].set,
                      notes.n_warnings);
        ck_assert_msg(!rows[i].said || strstr(notes.warnings[0], rows[i].said), "%s: %s",
                      rows[i].set, notes.warnings[0]);
    }
}
END_TEST

/* What a preset sets is not in the file: the preset's place and name. */
START_TEST(errors_about_what_a_preset_sets_name_it)
{
    ck_assert_int_eq(parse_text(MINIMAL, "system.preset=sgl-mc", "cluster.gpus_per_node=4"),
                     -EINVAL);
    ck_assert_ptr_nonnull(strstr(message, "--set: system.tp_gpus: found 8"));
    ck_assert_ptr_nonnull(strstr(message, "(set by the preset \"sgl-mc\")"));
}
END_TEST

/* As many GPUs as a node has are no reason to advise more. */
START_TEST(advice_stops_at_the_gpus_of_a_node)
{
    ck_assert_int_eq(parse_text(MINIMAL, "model=deepseek-v3.2", "system.tp_gpus=4"), -EINVAL);
    ck_assert_ptr_nonnull(strstr(message, "a larger system.tp_gpus"));
    ck_assert_int_eq(parse_text(MINIMAL, "model=deepseek-v3.2", "system.tp_gpus=8"), -EINVAL);
    ck_assert_ptr_nonnull(strstr(message, "the weights do not fit"));
    ck_assert_ptr_null(strstr(message, "a larger system.tp_gpus"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("scenario_warn");
    TCase *t = tcase_create("scenario_warn");
    tcase_add_test(t, warns_of_mistaken_units);
    tcase_add_test(t, no_unit_was_left_out_where_one_is_written);
    tcase_add_test(t, warns_of_requests_that_fit_nowhere);
    tcase_add_test(t, warns_of_a_quota_that_cached_tokens_fill);
    tcase_add_test(t, warns_of_keys_without_effect);
    tcase_add_test(t, errors_about_what_a_preset_sets_name_it);
    tcase_add_test(t, advice_stops_at_the_gpus_of_a_node);
    suite_add_tcase(s, t);
    int status = run_suite(s);
    scenario_notes_done(&notes);
    return status;
}
