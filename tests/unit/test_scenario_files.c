/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Scenarios as files: the invalid ones with the message each must get, the shipped ones, damage. */
#include "check_suite.h"
#include "input/scenario.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input/json_file.h"
#include "input/scenario_derive.h"
#include "unit/scenario_test.h"

#define INVALID_DIR "tests/unit/data/scenario-invalid"

static void check_invalid(const char *json_path, const char *expect_path)
{
    struct err err = ERR_INIT;
    struct scenario_notes unused;
    char expected[2048] = "", line[1800] = "";
    FILE *fp = fopen(expect_path, "r");
    ck_assert_msg(fp != NULL, "%s is missing", expect_path);
    ck_assert_ptr_nonnull(fgets(line, sizeof(line), fp));
    fclose(fp);
    line[strcspn(line, "\n")] = '\0';
    snprintf(expected, sizeof(expected), "%s:%s", json_path, line);
    int ret = scenario_read(json_path, NULL, 0, &sc, &unused, &err);
    ck_assert_msg(ret < 0 && ret == err.code, "%s: accepted", json_path);
    err_format(&err, message, sizeof(message));
    /* "..." ends an expectation whose rest is another file's matter (lists of names, weights). */
    size_t n = strlen(expected);
    bool open_end = n > 3 && strcmp(expected + n - 3, "...") == 0;
    ck_assert_msg(open_end ? strncmp(message, expected, n - 3) == 0
                           : strcmp(message, expected) == 0,
                  "found    %s\nexpected %s", message, expected);
}

START_TEST(every_invalid_file_gets_its_message)
{
    DIR *dir = opendir(INVALID_DIR);
    unsigned n = 0;
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        const char *dot = strrchr(e->d_name, '.');
        char json_path[600], expect_path[600];
        if (!dot || strcmp(dot, ".json") != 0) {
            continue;
        }
        snprintf(json_path, sizeof(json_path), INVALID_DIR "/%s", e->d_name);
        snprintf(expect_path, sizeof(expect_path), INVALID_DIR "/%.*s.expect",
                 (int)(dot - e->d_name), e->d_name);
        check_invalid(json_path, expect_path);
        n++;
    }
    closedir(dir);
    ck_assert_uint_ge(n, 60);
}
END_TEST

/* The shipped scenarios resolve without a warning; the paper's set-ups have its cluster and
 * workload. */
START_TEST(shipped_scenarios)
{
    static const struct {
        const char *name, *model;
        uint32_t prefill_nodes, decode_nodes, agents;
        uint64_t max_len_tok, dram_buffer_bytes;
    } rows[] = {
        {"quickstart", "ds-27b", 1, 1, 32, 32768, 80000000000},
        {"ds660b-2p4d", "deepseek-v3.2", 2, 4, 512, 49152, 80000000000},
        {"ds660b-48p96d", "deepseek-v3.2", 48, 96, 49152, 49152, 80000000000},
        {"ds27b-1p1d", "ds-27b", 1, 1, 512, 49152, 80000000000},
        {"qwen32b-1p2d", "qwen2.5-32b", 1, 2, 512, 49152, 320000000000},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char path[100];
        struct err err = ERR_INIT;
        snprintf(path, sizeof(path), "scenarios/%s.json", rows[i].name);
        scenario_notes_done(&notes);
        int ret = scenario_read(path, NULL, 0, &sc, &notes, &err);
        ck_assert_msg(ret == 0, "%s: %s", path, err.text);
        ck_assert_msg(notes.n_warnings == 0, "%s: %s", path, notes.warnings[0]);
        ck_assert_str_eq(sc.model.name, rows[i].model);
        ck_assert_uint_eq(sc.cluster.prefill_nodes, rows[i].prefill_nodes);
        ck_assert_uint_eq(sc.cluster.decode_nodes, rows[i].decode_nodes);
        ck_assert_uint_eq(sc.workload.agents, rows[i].agents);
        ck_assert_uint_eq(sc.workload.max_len_tok, rows[i].max_len_tok);
        ck_assert_uint_eq(sc.cluster.dram_buffer_bytes, rows[i].dram_buffer_bytes);
        ck_assert_str_eq(sc.system.preset, "dualpath");
    }
}
END_TEST

/* Those on recorded traces resolve where the traces are; otherwise the error says what is missing.
 */
START_TEST(shipped_scenarios_on_traces)
{
    static const struct {
        const char *name;
        enum arrival_kind arrival;
    } rows[] = {
        {"weka-sessions", ARRIVAL_OFFLINE},
        {"mooncake-conversation", ARRIVAL_RECORDED},
        {"azure-code", ARRIVAL_RECORDED},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char path[100];
        struct err err = ERR_INIT;
        snprintf(path, sizeof(path), "scenarios/%s.json", rows[i].name);
        scenario_notes_done(&notes);
        if (scenario_read(path, NULL, 0, &sc, &notes, &err) < 0) {
            ck_assert_msg(strcmp(err.field, "workload.trace") == 0, "%s: %s", path, err.text);
            continue;
        }
        ck_assert_int_eq(sc.workload.arrival, rows[i].arrival);
        ck_assert_msg(notes.n_warnings == 0, "%s: %s", path, notes.warnings[0]);
    }
}
END_TEST

START_TEST(shipped_scenarios_have_names)
{
    struct err err = ERR_INIT;
    scenario_notes_done(&notes);
    ck_assert_int_eq(scenario_read("quickstart", NULL, 0, &sc, &notes, &err), 0);
    ck_assert_uint_eq(sc.workload.agents, 32);
    ck_assert_int_eq(scenario_read("quikstart", NULL, 0, &sc, &notes, &err), -ENOENT);
    ck_assert_ptr_nonnull(strstr(err.text, "did you mean \"quickstart\"?"));
}
END_TEST

/* Truncations and damaged bytes of a scenario: refused with a message, or read; never a crash. */
START_TEST(damaged_scenarios)
{
    static const char text[] =
        "{\"schema\": \"dualpath/scenario/1\", \"model\": {\"base\": \"ds-27b\", \"n_layers\": 30},"
        "\"cluster\": {\"cnic_Bps\": \"48.5GB/s\", \"storage\": {\"base\": \"3fs\"}},"
        "\"workload\": {\"trace\": \"deepseek-coding\", \"arrival\": {\"kind\": \"offline\"}}}";
    static const char damage[] = "\"\\{}[],:0-e. \x01\x80\xff";
    size_t n = strlen(text);
    unsigned accepted = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < sizeof(damage); j++) { /* the last one truncates */
            char copy[sizeof(text)];
            memcpy(copy, text, sizeof(text));
            copy[i] = damage[j];
            int ret = parse_text(copy, NULL, NULL);
            accepted += ret == 0;
            ck_assert_msg(ret == 0 || message[0], "%s", copy);
        }
    }
    ck_assert_uint_lt(accepted, 600);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("scenario_files");
    TCase *t = tcase_create("scenario_files");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, every_invalid_file_gets_its_message);
    tcase_add_test(t, shipped_scenarios);
    tcase_add_test(t, shipped_scenarios_on_traces);
    tcase_add_test(t, shipped_scenarios_have_names);
    tcase_add_test(t, damaged_scenarios);
    suite_add_tcase(s, t);
    int status = run_suite(s);
    scenario_notes_done(&notes);
    return status;
}
