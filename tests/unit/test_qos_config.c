/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Readers of QoS settings: what is read, and what is said of what cannot be. */
#include "check_suite.h"
#include "input/qos_config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"

static const struct qos_place at = {.source = "f", .field = "x", .line = 3, .column = 10};

START_TEST(reads_tables)
{
    struct vlarb_table t;
    struct err err = ERR_INIT;
    ck_assert_int_eq(qos_parse_table(&at, "0:192, 14:0,\t3 : 255", &t, &err), 0);
    ck_assert_uint_eq(t.n, 3);
    ck_assert(t.entry[0].vl == 0 && t.entry[0].weight == 192);
    ck_assert(t.entry[1].vl == 14 && t.entry[1].weight == 0);
    ck_assert(t.entry[2].vl == 3 && t.entry[2].weight == 255);
}
END_TEST

static void assert_message(const struct err *err, const char *expected)
{
    char text[1200];
    err_format(err, text, sizeof(text));
    ck_assert_str_eq(text, expected);
}

START_TEST(points_at_what_is_wrong_in_tables)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "f:3:10: x: found nothing, expected a data lane, 0 to 14"},
        {"0:1,", "f:3:14: x: found nothing, expected a data lane, 0 to 14"},
        {"15:1", "f:3:10: x: found '15', expected a data lane, 0 to 14"},
        {"0:1,-1:4", "f:3:14: x: found '-1', expected a data lane, 0 to 14"},
        {"0:1,1", "f:3:15: x: found nothing, expected ':' and a weight (VL:WEIGHT)"},
        {"0:256", "f:3:12: x: found '256', expected a weight, 0 to 255 (units of 64 B)"},
        {"0:99999999999999999999",
         "f:3:12: x: found '99999999999999999999', expected a weight, 0 to 255 (units of 64 B)"},
        {"0:1x", "f:3:12: x: found '1x', expected a weight, 0 to 255 (units of 64 B)"},
        {"0:1:2", "f:3:13: x: found ':', expected ',' or the end"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct vlarb_table t = {.n = 77};
        struct err err = ERR_INIT;
        ck_assert_int_lt(qos_parse_table(&at, cases[i].text, &t, &err), 0);
        assert_message(&err, cases[i].message);
        ck_assert_uint_eq(t.n, 77);
    }
}
END_TEST

START_TEST(takes_64_entries_and_no_more)
{
    char text[65 * 4 + 1] = "";
    struct vlarb_table t;
    struct err err = ERR_INIT;
    for (int i = 0; i < 64; i++) {
        strcat(text, i ? ",1:2" : "1:2");
    }
    ck_assert_int_eq(qos_parse_table(&at, text, &t, &err), 0);
    ck_assert_uint_eq(t.n, 64);
    strcat(text, ",1:2");
    ck_assert_int_lt(qos_parse_table(&at, text, &t, &err), 0);
    assert_message(&err, "f:3:266: x: found '1', expected at most 64 entries");
}
END_TEST

START_TEST(reads_lanes_numbers_and_service_levels)
{
    uint32_t mask;
    unsigned n;
    uint8_t vl[16];
    struct err err = ERR_INIT;
    ck_assert_int_eq(qos_parse_lanes(&at, "0,15, 3", 15, &mask, &err), 0);
    ck_assert_uint_eq(mask, 1u | 1u << 15 | 1u << 3);
    ck_assert_int_eq(qos_parse_number(&at, " 240", 0, 255, &n, &err), 0);
    ck_assert_uint_eq(n, 240);
    ck_assert_int_eq(qos_parse_sl2vl(&at, "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7", vl, &err), 0);
    ck_assert(vl[14] == 14 && vl[15] == 7);
    ck_assert_int_lt(qos_parse_lanes(&at, "0,3,0", 15, &mask, &err), 0);
    assert_message(&err, "f:3:14: x: found '0', expected each number once");
    err = ERR_INIT;
    ck_assert_int_lt(qos_parse_number(&at, "7,", 0, 255, &n, &err), 0);
    assert_message(&err, "f:3:11: x: found ',', expected the end");
    err = ERR_INIT;
    ck_assert_int_lt(qos_parse_sl2vl(&at, "0,1,2", vl, &err), 0);
    assert_message(&err, "f:3:15: x: found nothing, expected 16 lanes, one per service level");
    err = ERR_INIT;
    ck_assert_int_lt(qos_parse_sl2vl(&at, "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7,1", vl, &err), 0);
    assert_message(&err, "f:3:47: x: found '1', expected 16 lanes, one per service level");
}
END_TEST

START_TEST(reads_ets)
{
    struct ets_config c;
    struct err err = ERR_INIT;
    ck_assert_int_eq(qos_parse_ets(&at, "0:90,3:strict ,5:10", &c, &err), 0);
    ck_assert(c.kind[0] == ETS_WEIGHTED && c.percent[0] == 90);
    ck_assert(c.kind[3] == ETS_STRICT && c.kind[1] == ETS_UNSET);
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"0:90,1:9",
         "f:3:10: x: the percentages of the weighted classes add up to 99, expected 100"},
        {"0:100,1:0", "f:3:18: x: found '0', expected a percentage, 1 to 100, or 'strict'"},
        {"8:100", "f:3:10: x: found '8', expected a traffic class, 0 to 7"},
        {"1:50,1:50", "f:3:15: x: found '1', expected each traffic class once"},
        {"1:strictly", "f:3:18: x: found 'ly', expected ',' or the end"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        err = ERR_INIT;
        ck_assert_int_lt(qos_parse_ets(&at, cases[i].text, &c, &err), 0);
        assert_message(&err, cases[i].message);
    }
}
END_TEST

static char file_name[64];

static const char *file_with(const char *text, size_t size)
{
    snprintf(file_name, sizeof(file_name), "/tmp/test_qos_config.XXXXXX");
    int fd = mkstemp(file_name);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, size), (ssize_t)size);
    close(fd);
    return file_name;
}

static int opensm_of(const char *text, const char *set, struct opensm_qos *q, struct err *err)
{
    int rc = opensm_qos_read(file_with(text, strlen(text)), set, q, err);
    unlink(file_name);
    return rc;
}

static const char opensm_text[] = "# Enable QoS setup\n"
                                  "qos TRUE\n"
                                  "log_file /var/log/opensm.log\n"
                                  "qos_policy_file (null)\n"
                                  "qos_max_vls 4\n"
                                  "qos_high_limit 240\n"
                                  "qos_vlarb_high 0:192,1:192,2:0,3:192\n"
                                  "qos_vlarb_low \"0:192,1:192,2:64,3:192\"\r\n"
                                  "qos_ca_max_vls 0\n"
                                  "qos_ca_high_limit -1\n"
                                  "qos_ca_vlarb_high (null)\n"
                                  "  qos_swe_high_limit\t255\n";

START_TEST(reads_opensm_options_and_falls_back_as_opensm_does)
{
    struct opensm_qos general, ca, swe;
    struct err err = ERR_INIT;
    ck_assert_int_eq(opensm_of(opensm_text, "", &general, &err), 0);
    ck_assert(general.enabled);
    ck_assert_uint_eq(general.config.n_vls, 4);
    ck_assert_uint_eq(general.config.high_limit, 240);
    ck_assert_uint_eq(general.config.high.n, 4);
    ck_assert(general.config.low.entry[2].vl == 2 && general.config.low.entry[2].weight == 64);
    ck_assert_uint_eq(general.defaulted, 1u << OPENSM_SL2VL);
    ck_assert_uint_eq(general.sl2vl[15], 7);
    ck_assert_int_eq(opensm_of(opensm_text, "ca", &ca, &err), 0);
    ck_assert_uint_eq(ca.config.high_limit, 240);
    ck_assert_uint_eq(ca.config.n_vls, 4);
    ck_assert_int_eq(opensm_of(opensm_text, "swe", &swe, &err), 0);
    ck_assert_uint_eq(swe.config.high_limit, 255);
    ck_assert_int_eq(opensm_of("", "", &general, &err), 0);
    ck_assert_uint_eq(general.defaulted, (1u << OPENSM_FIELDS) - 1);
    ck_assert_uint_eq(general.config.n_vls, 15);
    ck_assert_uint_eq(general.config.low.entry[1].weight, 4);
    ck_assert(!general.enabled);
}
END_TEST

START_TEST(points_at_what_is_wrong_in_an_opensm_file)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"\n  qos_vlarb_high 0:192,99:3\n",
         ":2:24: qos_vlarb_high: found '99', expected a data lane, 0 to 14"},
        {"qos_high_limit 256\n", ":1:16: qos_high_limit: found '256', expected a number, 0 to 255"},
        {"qos_max_vls 4\nqos_max_vls 5\n",
         ":2:1: qos_max_vls: set a second time, expected once (first on line 1)"},
        {"qos maybe\n", ":1:5: qos: found 'maybe', expected TRUE or FALSE"},
        {"qos_vlarb_hihg 0:1\n", ":1:1: qos_vlarb_hihg: unknown parameter, expected "
                                 "qos_[ca_|sw0_|swe_|sw2sw_|rtr_] followed "
                                 "by max_vls, high_limit, vlarb_high, vlarb_low or sl2vl"},
    };
    struct opensm_qos q;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char expected[400];
        struct err err = ERR_INIT;
        ck_assert_int_lt(opensm_of(cases[i].text, "", &q, &err), 0);
        snprintf(expected, sizeof(expected), "%s%s", file_name, cases[i].message);
        assert_message(&err, expected);
    }
    struct err err = ERR_INIT;
    ck_assert_int_lt(opensm_qos_read("/nonexistent/opensm.conf", "", &q, &err), 0);
    assert_message(&err, "/nonexistent/opensm.conf: cannot be opened: No such file or directory");
}
END_TEST

static int mlnx_of(const char *text, struct ets_config *c, struct err *err)
{
    int rc = mlnx_qos_read(file_with(text, strlen(text)), c, err);
    unlink(file_name);
    return rc;
}

START_TEST(reads_the_listing_of_mlnx_qos)
{
    struct ets_config c;
    struct err err = ERR_INIT;
    ck_assert_int_eq(mlnx_of("Priority trust state: dscp\n"
                             "tc: 0 ratelimit: unlimited, tsa: ets, bw: 90%\n\tpriority:  1\n"
                             "tc: 1 ratelimit: unlimited, tsa: ets, bw: 10%\n"
                             "tc: 6 ratelimit: unlimited, tsa: strict\n",
                             &c, &err),
                     0);
    ck_assert(c.percent[0] == 90 && c.percent[1] == 10 && c.kind[6] == ETS_STRICT);
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"tc: 0 ratelimit: unlimited, tsa: ets, bw: 0%\n",
         ":1:43: bw: found '0', expected a number, 1 to 100"},
        {"tc: 9 ratelimit: unlimited, tsa: strict\n",
         ":1:5: tc: found '9', expected a number, 0 to 7"},
        {"tc: 1 tsa: vendor\n", ":1:12: tsa: found 'vendor', expected strict or ets"},
        {"tc: 1 tsa: ets, bw: 60%\n", ": bw of the ets classes adds up to 60 %, expected 100 %"},
        {"\n", ": found no line 'tc: N ratelimit: ..., tsa: ...', expected at least one"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char expected[400];
        err = ERR_INIT;
        ck_assert_int_lt(mlnx_of(cases[i].text, &c, &err), 0);
        snprintf(expected, sizeof(expected), "%s%s", file_name, cases[i].message);
        assert_message(&err, expected);
    }
}
END_TEST

/* Damaged files are read or refused with a message; the sanitizers watch. */
START_TEST(survives_damaged_files)
{
    char text[sizeof(opensm_text)];
    for (uint64_t seed = 0; seed < 3000; seed++) {
        struct opensm_qos q;
        struct ets_config c;
        struct err err = ERR_INIT;
        size_t size = sizeof(opensm_text) - 1;
        memcpy(text, opensm_text, sizeof(text));
        for (int i = 0; i < 4; i++) {
            uint64_t r = hash_mix64(4 * seed + (uint64_t)i);
            text[r % size] = (char)(r >> 32);
        }
        size -= hash_mix64(seed) % 40;
        int rc = opensm_qos_read(file_with(text, size), "ca", &q, &err);
        ck_assert_int_eq(rc != 0, err.set && err.text[0] != '\0');
        err = ERR_INIT;
        ck_assert_int_lt(mlnx_qos_read(file_name, &c, &err), 0);
        unlink(file_name);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("qos_config");
    TCase *t = tcase_create("qos_config");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, reads_tables);
    tcase_add_test(t, points_at_what_is_wrong_in_tables);
    tcase_add_test(t, takes_64_entries_and_no_more);
    tcase_add_test(t, reads_lanes_numbers_and_service_levels);
    tcase_add_test(t, reads_ets);
    tcase_add_test(t, reads_opensm_options_and_falls_back_as_opensm_does);
    tcase_add_test(t, points_at_what_is_wrong_in_an_opensm_file);
    tcase_add_test(t, reads_the_listing_of_mlnx_qos);
    tcase_add_test(t, survives_damaged_files);
    suite_add_tcase(s, t);
    return run_suite(s);
}
