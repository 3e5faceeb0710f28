/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "check_suite.h"
#include "hw/kv_content.h"

static struct kv_content content(uint64_t seed, uint32_t layers, uint32_t block_tok, uint32_t dim)
{
    struct kv_layout l = {layers, block_tok, dim * sizeof(float)};
    struct kv_content c;
    struct err e = ERR_INIT;
    ck_assert_int_eq(kv_content_init(&c, seed, &l, &e), 0);
    return c;
}

static void *need(size_t bytes)
{
    void *p = calloc(1, bytes);
    ck_assert_ptr_nonnull(p);
    return p;
}

/* Numbers from an independent implementation of the generator (Python integers, struct and zlib).
 */
START_TEST(test_frozen_values)
{
    struct kv_content c = content(42, 4, 16, 5);
    float row[5];
    const double kv[] = {-3655686, -4207187, -120278, 2923874, 3208218};
    kv_content_row(&c, 7, 1000, 3, row);
    for (int i = 0; i < 5; i++) {
        ck_assert_double_eq((double)row[i] * 0x1p23, kv[i]);
    }
    const double query[] = {6542465, -682699, -7377078, -392262, -4931638};
    kv_content_query(&c, 7, 1000, 3, 2, row);
    for (int i = 0; i < 5; i++) {
        ck_assert_double_eq((double)row[i] * 0x1p23, query[i]);
    }
    c = content(1, 2, 3, 5);
    ck_assert_uint_eq(kv_content_checksum(&c, 9, 4), 0xb0050a3e);
}
END_TEST

START_TEST(test_uniform_in_range)
{
    struct kv_content c = content(3, 2, 16, 64);
    double sum = 0, squares = 0, n = 0;
    for (uint32_t tok = 0; tok < 2000; tok++) {
        float row[64];
        kv_content_row(&c, 1, tok, tok % 2, row);
        for (int i = 0; i < 64; i++) {
            double x = (double)row[i];
            ck_assert(x >= -1 && x < 1);
            ck_assert_double_eq(x * 0x1p23, trunc(x * 0x1p23));
            sum += x;
            squares += x * x;
            n++;
        }
    }
    /* Six standard deviations of the means of U(-1, 1) and of its square (variances 1/3, 4/45). */
    ck_assert_double_lt(fabs(sum / n), 6 * sqrt(1.0 / 3 / n));
    ck_assert_double_lt(fabs(squares / n - 1.0 / 3), 6 * sqrt(4.0 / 45 / n));
}
END_TEST

START_TEST(test_every_coordinate_counts)
{
    struct kv_content c = content(3, 8, 16, 8), other = content(4, 8, 16, 8);
    float row[8], again[8];
    kv_content_row(&c, 5, 6, 7, row);
    kv_content_row(&c, 5, 6, 7, again);
    ck_assert_mem_eq(row, again, sizeof(row));
    kv_content_row(&other, 5, 6, 7, again);
    ck_assert_mem_ne(row, again, sizeof(row));
    kv_content_row(&c, 6, 6, 7, again);
    ck_assert_mem_ne(row, again, sizeof(row));
    kv_content_row(&c, 5, 7, 7, again);
    ck_assert_mem_ne(row, again, sizeof(row));
    kv_content_row(&c, 5, 6, 6, again);
    ck_assert_mem_ne(row, again, sizeof(row));
    kv_content_query(&c, 5, 6, 7, 0, again);
    ck_assert_mem_ne(row, again, sizeof(row));
}
END_TEST

/* A Full Block is its rows in the order layer, token; blocks follow each other. */
START_TEST(test_layout)
{
    const uint32_t layers = 3, block_tok = 4, n_blocks = 3;
    const uint32_t dims[] = {1, 5, 300, 513}; /* around the piece that checksums work in */
    for (size_t d = 0; d < sizeof(dims) / sizeof(dims[0]); d++) {
        struct kv_content c = content(11, layers, block_tok, dims[d]);
        size_t full = kv_full_block_bytes(&c.layout), row = dims[d] * sizeof(float);
        float *expected = need(full * n_blocks), *p = expected;
        for (uint32_t b = 0; b < n_blocks; b++) {
            for (uint32_t l = 0; l < layers; l++) {
                for (uint32_t t = 0; t < block_tok; t++, p += dims[d]) {
                    kv_content_row(&c, 2, b * block_tok + t, l, p);
                }
            }
        }
        uint8_t *kv = need(full * n_blocks);
        for (uint32_t b = 0; b < n_blocks; b++) {
            kv_content_full_block(&c, 2, b, kv + b * full);
            uint32_t crc = (uint32_t)crc32(0, (const uint8_t *)expected + b * full, (uInt)full);
            ck_assert_uint_eq(kv_block_checksum(&c.layout, kv + b * full), crc);
            ck_assert_uint_eq(kv_content_checksum(&c, 2, b), crc);
        }
        ck_assert_mem_eq(kv, expected, full * n_blocks);
        memset(kv, 0, full * n_blocks);
        for (uint32_t l = 0; l < layers; l++) {
            struct kv_run first = {2, 0, 5}, rest = {2, 5, 7};
            kv_content_fill_layer(&c, &rest, l, kv);
            kv_content_fill_layer(&c, &first, l, kv);
        }
        ck_assert_mem_eq(kv, expected, full * n_blocks);
        kv_content_layer_block(&c, 2, 1, 2, kv);
        ck_assert_mem_eq(kv, (uint8_t *)expected + full + 2 * block_tok * row, block_tok * row);
        free(kv);
        free(expected);
    }
}
END_TEST

/* Every single flipped bit of a block is found, and where it is. */
START_TEST(test_verify_names_the_place)
{
    const uint32_t layers = 2, block_tok = 3, dim = 3, block = 5;
    struct kv_content c = content(11, layers, block_tok, dim);
    size_t full = kv_full_block_bytes(&c.layout), row = dim * sizeof(float);
    uint8_t *bytes = need(full);
    struct err e = ERR_INIT;
    kv_content_full_block(&c, 77, block, bytes);
    ck_assert_int_eq(kv_content_verify_block(&c, 77, block, block_tok, bytes, &e), 0);
    uint32_t right = kv_block_checksum(&c.layout, bytes);
    for (size_t bit = 0; bit < full * 8; bit++) {
        size_t at = bit / 8;
        bytes[at] ^= (uint8_t)(1u << bit % 8);
        e = ERR_INIT;
        ck_assert_int_eq(kv_content_verify_block(&c, 77, block, block_tok, bytes, &e), -EBADMSG);
        ck_assert_uint_ne(kv_block_checksum(&c.layout, bytes), right);
        char place[128];
        snprintf(place, sizeof(place), "chain 77, block 5, layer %zu, token %zu: byte %zu is",
                 at / (row * block_tok), block * block_tok + at / row % block_tok, at % row);
        ck_assert_msg(strstr(e.text, place) != NULL, "%s\nwanted: %s", e.text, place);
        bytes[at] ^= (uint8_t)(1u << bit % 8);
    }
    /* Only the tokens that count. */
    bytes[row * 2] ^= 1;
    e = ERR_INIT;
    ck_assert_int_eq(kv_content_verify_block(&c, 77, block, 2, bytes, &e), 0);
    free(bytes);
}
END_TEST

START_TEST(test_verify_layer)
{
    struct kv_content c = content(11, 2, 4, 600);
    size_t full = kv_full_block_bytes(&c.layout);
    uint8_t *kv = need(3 * full);
    struct kv_run run = {8, 2, 9};
    struct err e = ERR_INIT;
    kv_content_fill_layer(&c, &run, 1, kv);
    ck_assert_int_eq(kv_content_verify_layer(&c, &run, 1, kv, &e), 0);
    kv[kv_row_offset(&c.layout, 10, 1) + 2399] ^= 0x80;
    ck_assert_int_eq(kv_content_verify_layer(&c, &run, 1, kv, &e), -EBADMSG);
    ck_assert_ptr_nonnull(strstr(e.text, "chain 8, block 2, layer 1, token 10: byte 2399 is"));
    free(kv);
}
END_TEST

START_TEST(test_bad_layouts)
{
    const struct kv_layout bad[] = {{0, 16, 64}, {2, 0, 64}, {2, 16, 0}, {2, 16, 66}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct kv_content c;
        struct err e = ERR_INIT;
        ck_assert_int_eq(kv_content_init(&c, 1, &bad[i], &e), -EINVAL);
        ck_assert(e.set);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("kv_content");
    TCase *t = tcase_create("all");
    tcase_add_test(t, test_frozen_values);
    tcase_add_test(t, test_uniform_in_range);
    tcase_add_test(t, test_every_coordinate_counts);
    tcase_add_test(t, test_layout);
    tcase_add_test(t, test_verify_names_the_place);
    tcase_add_test(t, test_verify_layer);
    tcase_add_test(t, test_bad_layouts);
    suite_add_tcase(s, t);
    return run_suite(s);
}
