/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Expert parallelism's traffic on the compute NICs: its bytes against published figures, and what
 * becomes of a loaded cluster when virtual lanes no longer keep KV transfers away from it.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_suite.h"
#include "golden/scenario_run.h"
#include "input/cards.h"
#include "model/collectives.h"
#include "plan/simulation.h"

static struct model_card card_of(const char *name)
{
    struct model_card card;
    struct err err = {0};
    ck_assert_msg(!card_read(name, &card, &err), "%s", err.text);
    return card;
}

START_TEST(bytes_per_token)
{
    struct model_card v3 = card_of("deepseek-v3.2"), qwen = card_of("qwen2.5-32b");
    ck_assert_double_eq(collective_copy_bytes(&v3), 7392 + 14336);
    /* Prefill over 2, 4 and 8 nodes of 8 GPUs. */
    static const double published_bytes[] = {1.24e6, 2.97e6, 4.41e6};
    for (uint32_t i = 0; i < 3; i++) {
        double bytes = collective_prefill_bytes_per_tok(&v3, 16u << i, 8);
        ck_assert_double_eq_tol(bytes / published_bytes[i], 1, 0.005);
    }
    /* Decode: 59 + 115 KB per token and layer, 58 layers. */
    ck_assert_double_eq_tol(collective_decode_bytes_per_tok(&v3, 32, 8) / (58 * 174e3), 1, 0.005);
    ck_assert_double_eq(collective_prefill_bytes_per_tok(&v3, 8, 8), 0); /* NVLink */
    ck_assert_double_eq(collective_decode_bytes_per_tok(&v3, 8, 8), 0);
    ck_assert_double_eq(collective_prefill_bytes_per_tok(&qwen, 16, 8), 0);
}
END_TEST

/* Without groups, against drawing experts at random. */
START_TEST(domains_that_experts_are_on)
{
    struct model_card card = {.n_experts = 16, .experts_per_tok = 3};
    uint64_t hits = 0, draws = 0;
    for (uint32_t a = 0; a < 16; a++) {
        for (uint32_t b = 0; b < a; b++) {
            for (uint32_t c = 0; c < b; c++) {
                bool on[4] = {false};
                on[a / 4] = on[b / 4] = on[c / 4] = true;
                hits += on[1] + on[2] + on[3]; /* the token's own domain is 0 */
                draws++;
            }
        }
    }
    ck_assert_double_eq_tol(collective_remote_domains(&card, 4), (double)hits / (double)draws,
                            1e-12);
}
END_TEST

/*
 * DeepSeek's 27B as its card and the H800's profile have it: kernels and bytes, without the fixed
 * costs that a calibration finds. Experts over two nodes of 4 GPUs with 100 Gb/s NICs, which KV
 * from storage fills by half.
 */
static const char scenario_text[] =
    "{\"schema\": \"dualpath/scenario/1\", \"model\": \"ds-27b\","
    " \"cluster\": {\"prefill_nodes\": 2, \"decode_nodes\": 2, \"gpus_per_node\": 4,"
    "  \"gpu\": {\"base\": \"h800\", \"nic_Bps\": \"12GB/s\", \"nvlink_gpus\": 4},"
    "  \"snic_Bps\": \"50GB/s\", \"dram_buffer_bytes\": \"320GB\","
    "  \"storage\": {\"base\": \"3fs\", \"efficiency_max\": 0.9, \"half_size_bytes\": 0,"
    "   \"stream_ios\": 0, \"stream_Bps\": \"15GB/s\"}},"
    " \"timing\": {\"forward_fixed_s\": 0, \"forward_floor_s\": 0, \"decode_fixed_s\": 0,"
    "  \"decode_sequence_s\": 0, \"decode_collective_local_s\": 0,"
    "  \"decode_collective_remote_s\": 0},"
    " \"system\": {\"preset\": \"dualpath\"},"
    " \"workload\": {\"trace\": \"deepseek-coding\", \"max_len_tok\": \"32K\","
    "  \"agents\": 384}}";

static struct result run(const char *qos)
{
    const char *sets[] = {qos};
    struct scenario sc;
    struct scenario_notes notes;
    struct simulation *s;
    struct result r;
    struct err err = {0};
    ck_assert_msg(!scenario_parse("isolation.json", scenario_text, strlen(scenario_text), sets, 1,
                                  &sc, &notes, &err),
                  "%s", err.text);
    must_run(&sc, &s, &r);
    simulation_free(s);
    scenario_notes_done(&notes);
    return r;
}

/* The text output says by how much. */
static void check_text(const struct result *r)
{
    char *text = NULL, line[240];
    size_t size;
    FILE *f = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(f);
    result_write_text(r, f);
    fclose(f);
    snprintf(line, sizeof(line),
             "  KV traffic stretched the collectives of forwards by %.2f %%, of decode steps by "
             "%.2f %%;\n  forwards took %.2f %% longer for it, decode steps %.2f %%\n",
             100 * (r->prefill_stretch - 1), 100 * (r->decode_stretch - 1),
             100 * r->forward_late_frac, 100 * r->step_late_frac);
    ck_assert_msg(strstr(text, line) != NULL, "%s is not in:\n%s", line, text);
    free(text);
}

START_TEST(isolation_off)
{
    struct result a = run("system.qos=spec"), b = run("system.qos=low_only"),
                  c = run("system.qos=none");
    /* As specified, KV gets a packet in 960, and nothing is seen of it. */
    ck_assert_double_eq_tol(a.prefill_stretch, 960.0 / 959, 1e-4);
    ck_assert_double_eq_tol(a.decode_stretch, 960.0 / 959, 1e-4);
    ck_assert_double_lt(a.forward_late_frac, 0.002);
    ck_assert_double_lt(a.step_late_frac, 0.002);
    /* By the Low table alone a quarter of the link while it has something to send: 4/3 at most. */
    ck_assert_double_gt(b.decode_stretch, 1.1);
    ck_assert_double_lt(b.decode_stretch, 4.0 / 3);
    ck_assert_double_gt(b.prefill_stretch, 1.1);
    ck_assert_double_lt(b.prefill_stretch, 4.0 / 3);
    /* Without isolation more than that, and it shows in forwards, in steps and in the end. */
    ck_assert_double_gt(c.decode_stretch, b.decode_stretch);
    ck_assert_double_gt(c.forward_late_frac, 0.05);
    ck_assert_double_gt(c.step_late_frac, 0.05);
    ck_assert_double_gt(c.tpot_s.mean, 1.05 * a.tpot_s.mean);
    ck_assert_double_gt(c.jct_s, 1.05 * a.jct_s);
    check_text(&c);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("isolation");
    TCase *t = tcase_create("isolation");
    tcase_set_timeout(t, 200);
    tcase_add_test(t, bytes_per_token);
    tcase_add_test(t, domains_that_experts_are_on);
    tcase_add_test(t, isolation_off);
    suite_add_tcase(s, t);
    return run_suite(s);
}
