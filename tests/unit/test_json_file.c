/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The JSON reader on odd inputs, the scanner that finds places, and the suggestions. */
#include "check_suite.h"
#include "input/json_file.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int parse(const char *text, size_t size, char *message, size_t n)
{
    struct json_file f;
    struct err err = ERR_INIT;
    int ret = json_file_parse("in.json", text, size, &f, &err);
    message[0] = '\0';
    if (ret == 0) {
        json_file_done(&f);
    } else {
        ck_assert_int_eq(ret, err.code);
        err_format(&err, message, n);
    }
    return ret;
}

START_TEST(accepts_what_is_json)
{
    static const char *const good[] = {
        "{}",
        "[]",
        " 3 ",
        "\"x\"",
        "null",
        "\xef\xbb\xbf{\"a\": 1}",
        "{\r\n\"a\": 1\r\n}\r\n",
        "{\"k\xc3\xa9\": \"\xe2\x82\xac\"}",
        "{\"a\": \"\\u00e9\\ud83d\\ude00\"}",
        "[-0, 1.5e3, 9223372036854775807]",
    };
    char message[1400];
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        ck_assert_msg(parse(good[i], strlen(good[i]), message, sizeof(message)) == 0, "%s: %s",
                      good[i], message);
    }
}
END_TEST

START_TEST(rejects_what_is_not_json_and_says_where)
{
    static const struct {
        const char *text;
        size_t size; /* 0: strlen */
        const char *where, *what;
    } bad[] = {
        {"", 0, "in.json: ", "empty"},
        {" \r\n\t", 0, "in.json: ", "empty"},
        {"\xef\xbb\xbf", 0, "in.json: ", "empty"},
        {"{\"a\": 1", 0, "in.json:1:", "end of file"},
        {"{\n  \"a\": 1,\n", 0, "in.json:3:", "end of file"},
        {"{\"a\": \"x", 0, "in.json:1:", "end"},
        {"{\"a\": 1,}", 0, "in.json:1:9", "'}'"},
        {"{\n\"a\": fast}", 0, "in.json:2:", "fast"},
        {"{\"a\": 1} x", 0, "in.json:1:", "end of file expected"},
        {"{\n\"a\": 1,\n\"a\": 2}", 0, "in.json:3:", "duplicate"},
        {"[1e999]", 0, "in.json:1:", "overflow"},
        {"[-1e999]", 0, "in.json:1:", "overflow"},
        {"[9223372036854775808]", 0, "in.json:1:", "too big"},
        {"[NaN]", 0, "in.json:1:", "NaN"},
        {"[01]", 0, "in.json:1:2", "0"},
        {"['a']", 0, "in.json:1:", "'"},
        {"[\"\xff\"]", 0, "in.json:1:", "0xff"},
        {"[\"\xc3", 0, "in.json:1:", "0xc3"},
        {"[\"\\u0000\"]", 0, "in.json:1:", "\\u0000"},
        {"[1\0, 2]", 7, "in.json:1:3: ", "NUL"},
        {"\0\0\0\0", 4, "in.json:1:1: ", "NUL"},
        {"[\"a\nb\"]", 0, "in.json:", "newline"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char message[1400];
        size_t size = bad[i].size ? bad[i].size : strlen(bad[i].text);
        ck_assert_msg(parse(bad[i].text, size, message, sizeof(message)) == -EINVAL, "case %zu", i);
        ck_assert_msg(strncmp(message, bad[i].where, strlen(bad[i].where)) == 0, "case %zu: %s", i,
                      message);
        ck_assert_msg(strstr(message, bad[i].what) != NULL, "case %zu: %s", i, message);
    }
}
END_TEST

START_TEST(deep_nesting_is_an_error_not_a_crash)
{
    enum { DEPTH = 200000 };
    char *text = malloc(2 * DEPTH), message[1400];
    unsigned line, column;
    memset(text, '[', DEPTH);
    memset(text + DEPTH, ']', DEPTH);
    ck_assert_int_eq(parse(text, 2 * DEPTH, message, sizeof(message)), -EINVAL);
    ck_assert_ptr_nonnull(strstr(message, "depth"));
    ck_assert_int_eq(json_locate(text, 2 * DEPTH, "[0][1]", &line, &column), -ENOENT);
    ck_assert_int_eq(json_locate(text, 2 * DEPTH, "[0][0]", &line, &column), 0);
    ck_assert_uint_eq(column, 3);
    free(text);
}
END_TEST

START_TEST(files_that_cannot_be_read)
{
    struct json_file f;
    struct err err = ERR_INIT;
    ck_assert_int_eq(json_file_read("no/such/file.json", &f, &err), -ENOENT);
    ck_assert_str_eq(err.source, "no/such/file.json");
    ck_assert_ptr_nonnull(strstr(err.text, "No such file"));
    err = ERR_INIT;
    ck_assert_int_eq(json_file_read("/tmp", &f, &err), -EISDIR);
    ck_assert_ptr_nonnull(strstr(err.text, "directory"));
    err = ERR_INIT;
    if (access("/dev/zero", R_OK) == 0) { /* which never ends */
        ck_assert_int_eq(json_file_read("/dev/zero", &f, &err), -EINVAL);
        ck_assert_ptr_nonnull(strstr(err.text, "a NUL byte"));
    }
}
END_TEST

START_TEST(reads_a_file_larger_than_one_buffer)
{
    char path[] = "/tmp/dualpath_json_XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    FILE *fp = fdopen(fd, "w");
    fputs("[0", fp);
    for (int i = 1; i < 100000; i++) {
        fprintf(fp, ",%d", i);
    }
    fputs("]", fp);
    ck_assert_int_eq(fclose(fp), 0);
    struct json_file f;
    struct err err = ERR_INIT;
    ck_assert_int_eq(json_file_read(path, &f, &err), 0);
    ck_assert_uint_eq(json_array_size(f.root), 100000);
    ck_assert_int_eq(json_integer_value(json_array_get(f.root, 99999)), 99999);
    json_file_done(&f);
    ck_assert_ptr_null(f.root);
    unlink(path);
}
END_TEST

START_TEST(locates_values)
{
    static const char text[] = "\n{\"a\": {\"b\": [1, {\"c\": 2}, \"]}\"],\r\n"
                               "  \"s\\\"\\u00e9\": \"{\\\\\", \"d\": true},\n"
                               "\"\xe2\x82\xac\": 1, \"a.b\": 7,\n\t\"z\" : [ ]}";
    static const struct {
        const char *path;
        int ret;
        unsigned line, column;
    } cases[] = {
        {"", 0, 2, 1},
        {"a", 0, 2, 2},
        {"a.b", 0, 4, 9},
        {"a.d", 0, 3, 23},
        {"a.s\"\xc3\xa9", 0, 3, 3},
        {"\xe2\x82\xac", 0, 4, 1},
        {"z", 0, 5, 2},
        {"z[0]", -ENOENT, 0, 0},
        {"a.x", -ENOENT, 0, 0},
        {"a.d.e", -ENOENT, 0, 0},
        {"q", -ENOENT, 0, 0},
        {"a[0]", -ENOENT, 0, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned line = 0, column = 0;
        int ret = json_locate(text, strlen(text), cases[i].path, &line, &column);
        ck_assert_msg(ret == cases[i].ret, "%s: %d", cases[i].path, ret);
        ck_assert_msg(line == cases[i].line && column == cases[i].column, "%s at %u:%u",
                      cases[i].path, line, column);
    }
    static const char nested[] = "{\"a\": {\"b\": [1, {\"c\": 2}, \"]}\", [[3]]]}}";
    unsigned line, column;
    ck_assert_int_eq(json_locate(nested, strlen(nested), "a.b[1].c", &line, &column), 0);
    ck_assert_uint_eq(column, 18);
    ck_assert_int_eq(json_locate(nested, strlen(nested), "a.b[3][0][0]", &line, &column), 0);
    ck_assert_uint_eq(column, 35);
    ck_assert_int_eq(json_locate(nested, strlen(nested), "a.b[4]", &line, &column), -ENOENT);
    ck_assert_int_eq(json_locate(nested, strlen(nested), "a.b[x]", &line, &column), -ENOENT);
    ck_assert_int_eq(json_locate(nested, strlen(nested), "a.b[1", &line, &column), -ENOENT);
}
END_TEST

/* Every truncation and every one-byte damage of a text: no crash, no read past the end (ASan). */
START_TEST(locate_survives_damage)
{
    static const char text[] = "{\"a\": {\"b\": [1, {\"c\": \"\\\"x\"}]}, \"d\": [[], {}]}";
    size_t n = strlen(text);
    unsigned line, column;
    for (size_t cut = 0; cut <= n; cut++) {
        char *copy = malloc(cut ? cut : 1);
        memcpy(copy, text, cut);
        json_locate(copy, cut, "a.b[1].c", &line, &column);
        json_locate(copy, cut, "d[1]", &line, &column);
        free(copy);
    }
    static const char damage[] = "\"\\{}[],: \0\xff";
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < sizeof(damage) - 1; j++) {
            char *copy = malloc(n);
            memcpy(copy, text, n);
            copy[i] = damage[j];
            json_locate(copy, n, "a.b[1].c", &line, &column);
            json_locate(copy, n, "d[1]", &line, &column);
            free(copy);
        }
    }
}
END_TEST

START_TEST(error_names_the_place)
{
    static const char text[] = "{\n  \"cluster\": {\n    \"nodes\": -3\n  }\n}";
    struct json_file f;
    struct err err = ERR_INIT;
    char message[1400];
    ck_assert_int_eq(json_file_parse("s.json", text, strlen(text), &f, &err), 0);
    ck_assert_int_eq(json_file_error(&f, "cluster.nodes", &err, "%d is negative", -3), -EINVAL);
    json_file_error(&f, "cluster", &err, "a second error does not replace the first");
    err_format(&err, message, sizeof(message));
    ck_assert_str_eq(message, "s.json:3:5: cluster.nodes: -3 is negative");
    json_file_done(&f);
}
END_TEST

START_TEST(describes_values)
{
    static const char text[] = "[\"fast\", 3, 0.25, true, false, null, {}, [], \"a\\nb\","
                               "\"0123456789012345678901234567890123456789\xc3\xa9z\"]";
    static const char *const expected[] = {
        "the string \"fast\"",
        "the number 3",
        "the number 0.25",
        "true",
        "false",
        "null",
        "an object",
        "an array",
        "the string \"a?b\"",
        "the string \"0123456789012345678901234567890123456789...\"",
    };
    json_t *root = json_loads(text, 0, NULL);
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        char buf[128];
        json_describe(json_array_get(root, i), buf, sizeof(buf));
        ck_assert_str_eq(buf, expected[i]);
    }
    char tiny[8];
    json_describe(json_array_get(root, 0), tiny, sizeof(tiny));
    ck_assert_str_eq(tiny, "the str");
    json_describe(NULL, tiny, sizeof(tiny));
    ck_assert_str_eq(tiny, "nothing");
    json_decref(root);
}
END_TEST

START_TEST(suggests_near_words_only)
{
    static const char *const words[] = {"cnic_Bps", "snic_Bps", "dram_Bps", "hbm_bytes", "seed"};
    static const struct {
        const char *word, *nearest;
    } cases[] = {
        {"cnic_bps", "cnic_Bps"},
        {"cnci_Bps", "cnic_Bps"},
        {"snic_Bsp", "snic_Bps"},
        {"hbm_byte", "hbm_bytes"},
        {"hbm", "hbm_bytes"},
        {"sed", "seed"},
        {"dram", "dram_Bps"},
        {"foo", NULL},
        {"", NULL},
        {"x", NULL},
        {"completely_different", NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *near = nearest_word(cases[i].word, words, 5);
        ck_assert_msg(cases[i].nearest ? near && strcmp(near, cases[i].nearest) == 0 : !near,
                      "%s -> %s", cases[i].word, near ? near : "(none)");
    }
    char huge[5000];
    memset(huge, 'c', sizeof(huge) - 1);
    huge[sizeof(huge) - 1] = '\0';
    ck_assert_ptr_null(nearest_word(huge, words, 5));
    ck_assert_ptr_null(nearest_word("seed", words, 0));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("json_file");
    TCase *t = tcase_create("json_file");
    tcase_add_test(t, accepts_what_is_json);
    tcase_add_test(t, rejects_what_is_not_json_and_says_where);
    tcase_add_test(t, deep_nesting_is_an_error_not_a_crash);
    tcase_add_test(t, files_that_cannot_be_read);
    tcase_add_test(t, reads_a_file_larger_than_one_buffer);
    tcase_add_test(t, locates_values);
    tcase_add_test(t, locate_survives_damage);
    tcase_add_test(t, error_names_the_place);
    tcase_add_test(t, describes_values);
    tcase_add_test(t, suggests_near_words_only);
    suite_add_tcase(s, t);
    return run_suite(s);
}
