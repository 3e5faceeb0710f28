/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What travels as JSON between hub and agents: configuration, report, join file. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check_suite.h"
#include "real/agent_report.h"
#include "real/join_file.h"
#include "real/run_config.h"

/* Every member that holds numbers gets a value of its own; doubles that need all their digits. */
static struct run_config odd_config(void)
{
    struct run_config c;
    memset(&c, 0, sizeof(c));
    c.cluster = (struct cluster){.prefill_nodes = 3,
                                 .decode_nodes = 5,
                                 .gpus_per_node = 7,
                                 .prefill_ep_gpus = 2,
                                 .decode_ep_gpus = 9,
                                 .prefill_group_nodes = 11,
                                 .decode_group_nodes = 13,
                                 .kv = {17, 19, 23},
                                 .wire = {101, 103, 107},
                                 .stored = {109, 113, 127},
                                 .restore = CLUSTER_RESTORE_COMPRESSED,
                                 .stage_layers = 29,
                                 .layerwise = true,
                                 .scheduler = CLUSTER_ROUND_ROBIN,
                                 .path = CLUSTER_SPLIT,
                                 .reuse = CLUSTER_REUSE_DRAM,
                                 .decode_in_hbm = true,
                                 .promise_decode_hbm = true,
                                 .quota_ns = 31,
                                 .forward_tok = 33,
                                 .alpha_tok = UINT64_MAX,
                                 .beta_tok = UINT64_MAX - 1,
                                 .fetch_period_ns = 37,
                                 .fetch_at_forward = true,
                                 .scheduler_cost_ns = 41,
                                 .dram_buffer_bytes = 1ull << 63,
                                 .persist_buffer_bytes = 43,
                                 .prefill_hbm_bytes = 47,
                                 .prefill_direct_bytes = 131,
                                 .decode_hbm_blocks = 53,
                                 .storage_blocks = 57,
                                 .span_bytes = 59,
                                 .staging_offset_bytes = 61,
                                 .shared_prefixes = true,
                                 .retry = true};
    c.timing.config = (struct timing_config){
        0.1, 1.0 / 3, 1e-300, 5e-324, 1e-9, 3, 1e-7, 2.5e-8, 11e-7, 2, 1e300, 0.7, 0.9, 0.3, true};
    c.timing.tp = 1;
    c.timing.gpu.nvlink_Bps = 200e9;
    c.timing.card.kv_bytes_per_tok_layer = 656.1;
    c.timing.gpu.bf16_flops = 989.4e12;
    snprintf(c.timing.card.name, sizeof(c.timing.card.name), "a \"quoted\" name");
    c.seed = 0xfedcba9876543210;
    c.heads = 67;
    c.peer_timeout_ns = 71;
    memset(c.storage, 'c', sizeof(c.storage) - 1);
    memset(c.storage_dir, 'd', sizeof(c.storage_dir) - 1);
    memset(c.tcp_secret, 'e', sizeof(c.tcp_secret) - 1);
    memset(c.transport, 'f', sizeof(c.transport) - 1);
    memset(c.compute, 'h', sizeof(c.compute) - 1);
    memset(c.rdma_device, 'g', sizeof(c.rdma_device) - 1);
    c.service_level = 73;
    c.traffic_class = 79;
    return c;
}

START_TEST(config_goes_there_and_back)
{
    struct err err = ERR_INIT;
    struct run_config c = odd_config(), back;
    char *text = run_config_write(&c);
    ck_assert_ptr_nonnull(text);
    memset(&back, 0, sizeof(back));
    ck_assert_msg(run_config_read(text, &back, &err) == 0, "%s: %s", err.field, err.text);
    ck_assert_ptr_eq(back.cluster.timing, &back.timing);
    back.cluster.timing = NULL;
    ck_assert_mem_eq(&back, &c, sizeof(c));
    free(text);
}
END_TEST

START_TEST(config_has_every_member)
{
    /* All bytes 0x01 are valid in every member: 0x01010101..., true, and a text once it is
     * terminated. What does not come back is padding, and the pointer. */
    struct err err = ERR_INIT;
    struct run_config c, back;
    memset(&c, 1, sizeof(c));
    c.timing.card.name[sizeof(c.timing.card.name) - 1] = '\0';
    c.timing.card.kv_dtype[sizeof(c.timing.card.kv_dtype) - 1] = '\0';
    c.timing.card.source[sizeof(c.timing.card.source) - 1] = '\0';
    c.timing.gpu.name[sizeof(c.timing.gpu.name) - 1] = '\0';
    c.timing.gpu.source[sizeof(c.timing.gpu.source) - 1] = '\0';
    c.storage[sizeof(c.storage) - 1] = '\0';
    c.storage_dir[sizeof(c.storage_dir) - 1] = '\0';
    c.tcp_secret[sizeof(c.tcp_secret) - 1] = '\0';
    c.transport[sizeof(c.transport) - 1] = '\0';
    c.compute[sizeof(c.compute) - 1] = '\0';
    c.rdma_device[sizeof(c.rdma_device) - 1] = '\0';
    char *text = run_config_write(&c);
    ck_assert_ptr_nonnull(text);
    memset(&back, 0, sizeof(back));
    ck_assert_msg(run_config_read(text, &back, &err) == 0, "%s: %s", err.field, err.text);
    const unsigned char *b = (const unsigned char *)&back, *a = (const unsigned char *)&c;
    size_t missing = 0, pointer = offsetof(struct run_config, cluster.timing);
    for (size_t i = 0; i < sizeof(back); i++) {
        bool in_pointer = i >= pointer && i < pointer + sizeof(back.cluster.timing);
        missing += !in_pointer && a[i] != b[i];
        if (a[i] != b[i] && !in_pointer) {
            /* Padding comes in runs shorter than the 8 bytes it aligns to. */
            size_t run = 1;
            while (i + run < sizeof(back) && a[i + run] != b[i + run] && i + run != pointer) {
                run++;
            }
            ck_assert_msg(run < 8, "%zu bytes at offset %zu do not travel", run, i);
            i += run - 1;
        }
    }
    ck_assert_uint_lt(missing, 64);
    free(text);
}
END_TEST

START_TEST(config_errors_name_the_key)
{
    struct err err = ERR_INIT;
    struct run_config c = odd_config(), back;
    char *text = run_config_write(&c);
    char *at = strstr(text, "\"heads\":67");
    ck_assert_ptr_nonnull(at);
    memcpy(at, "\"heads\":-7", 10);
    ck_assert_int_eq(run_config_read(text, &back, &err), -EINVAL);
    ck_assert_str_eq(err.field, "heads");
    memcpy(at, "\"haeds\":67", 10);
    err = ERR_INIT;
    ck_assert_int_eq(run_config_read(text, &back, &err), -EINVAL);
    ck_assert_str_eq(err.field, "heads");
    err = ERR_INIT;
    ck_assert_int_eq(run_config_read("{", &back, &err), -EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "not JSON"));
    free(text);
}
END_TEST

START_TEST(report_has_every_member)
{
    struct err err = ERR_INIT;
    struct agent_report r, back;
    uint64_t *words = (uint64_t *)&r;
    for (size_t i = 0; i < sizeof(r) / sizeof(*words); i++) {
        words[i] = UINT64_MAX - i;
    }
    char *text = agent_report_write(&r);
    ck_assert_ptr_nonnull(text);
    ck_assert_int_eq(agent_report_read(text, &back, &err), 0);
    ck_assert_mem_eq(&back, &r, sizeof(r));
    free(text);
}
END_TEST

START_TEST(join_file_goes_there_and_back)
{
    char path[] = "/tmp/dualpath-join-XXXXXX";
    struct err err = ERR_INIT;
    struct join_file j, back;
    struct stat st;
    close(mkstemp(path));
    ck_assert_int_eq(join_file_init(&j, 3, &err), 0);
    snprintf(j.hub_endpoint, sizeof(j.hub_endpoint), "tcp://192.0.2.1:1234");
    ck_assert_int_eq(join_file_write(&j, path, &err), -EEXIST); /* never over another file */
    unlink(path);
    err = ERR_INIT;
    ck_assert_int_eq(join_file_write(&j, path, &err), 0);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0600);
    ck_assert_int_eq(join_file_read(path, &back, &err), 0);
    ck_assert_uint_eq(back.n_nodes, 3);
    ck_assert_str_eq(back.hub_endpoint, j.hub_endpoint);
    ck_assert_str_eq(back.hub.public_key, j.hub.public_key);
    ck_assert_str_eq(back.hub.secret_key, ""); /* the hub keeps it to itself */
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_mem_eq(&back.keys[i], &j.keys[i], sizeof(j.keys[i]));
        ck_assert_str_eq(back.guests[i].public_key, j.keys[i].public_key);
        ck_assert_str_eq(back.guests[i].name, j.guests[i].name);
    }
    join_file_done(&back);
    chmod(path, 0640);
    ck_assert_int_eq(join_file_read(path, &back, &err), -EACCES);
    unlink(path);
    join_file_done(&j);
}
END_TEST

START_TEST(bad_join_files_are_refused)
{
    static const char key[] = "0123456789012345678901234567890123456789";
    static const char *const rows[][2] = {
        {"", "expected"},
        {"{}", "Object item not found"},
        {"{\"schema\": \"x\", \"hub\": \"h\", \"hub_public_key\": \"k\", \"beat_ns\": 1, "
         "\"silence_ns\": 2, \"nodes\": [{}]}",
         "expected schema dualpath/join/1"},
        {"{\"schema\": \"dualpath/join/1\", \"hub\": \"h\", \"hub_public_key\": \"k\", "
         "\"beat_ns\": 1, "
         "\"silence_ns\": 2, \"nodes\": [{}]}",
         "expected 40 characters of Z85"},
        {"{\"schema\": \"dualpath/join/1\", \"hub\": \"h\", \"hub_public_key\": \"%s\", "
         "\"beat_ns\": "
         "1, \"silence_ns\": 2, \"nodes\": [{\"public_key\": \"%s\"}]}",
         "expected public_key and secret_key"},
    };
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char path[] = "/tmp/dualpath-join-XXXXXX", text[512] = "";
        struct err err = ERR_INIT;
        struct join_file back;
        const char *from = rows[i][0];
        for (char *to = text; *from; from++) {
            if (strncmp(from, "%s", 2) == 0) {
                to = stpcpy(to, key);
                from++;
            } else {
                *to++ = *from;
            }
        }
        FILE *f = fdopen(mkstemp(path), "w");
        fputs(text, f);
        fclose(f);
        ck_assert_int_eq(join_file_read(path, &back, &err), -EINVAL);
        ck_assert_msg(strstr(err.text, rows[i][1]) != NULL, "row %u: %s", i, err.text);
        ck_assert_str_eq(err.source, path);
        unlink(path);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("run_records");
    TCase *t = tcase_create("run_records");
    tcase_add_test(t, config_goes_there_and_back);
    tcase_add_test(t, config_has_every_member);
    tcase_add_test(t, config_errors_name_the_key);
    tcase_add_test(t, report_has_every_member);
    tcase_add_test(t, join_file_goes_there_and_back);
    tcase_add_test(t, bad_join_files_are_refused);
    suite_add_tcase(s, t);
    return run_suite(s);
}
