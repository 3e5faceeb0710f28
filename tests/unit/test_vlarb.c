/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The arbiter's rules one by one, and its decisions against a second implementation. */
#include "check_suite.h"
#include "sim/vlarb.h"

#include <check.h>
#include <string.h>

#include "base/hash.h"
#include "naive_vlarb.h"

#define MTU_PACKET (4096u + IB_PACKET_OVERHEAD_BYTES)

static struct vlarb arb;

static void start(const struct vlarb_config *c)
{
    struct err err = ERR_INIT;
    ck_assert_int_eq(vlarb_init(&arb, c, &err), 0);
}

/* Sends n packets and writes the lanes as hexadecimal digits, '-' for none. */
static const char *lanes_sent(const uint32_t *head_bytes, int n)
{
    static char text[512];
    for (int i = 0; i < n; i++) {
        int vl = vlarb_next(&arb, head_bytes);
        text[i] = vl < 0 ? '-' : "0123456789abcdef"[vl];
    }
    text[n] = '\0';
    return text;
}

/* 4122-byte packets: a weight of 192 (12,288 B) starts 3 of them, 64 (4096 B) 1, 65 (4160 B) 2. */
START_TEST(entries_send_while_their_weight_lasts)
{
    struct vlarb_config c = {.low = {4, {{0, 192}, {1, 64}, {2, 0}, {0, 65}}}};
    uint32_t head[VLARB_LANES] = {MTU_PACKET, MTU_PACKET, MTU_PACKET};
    start(&c);
    ck_assert_str_eq(lanes_sent(head, 12), "000100000100");
    head[1] = 0; /* VL0 passes from one of its entries to the other */
    ck_assert_str_eq(lanes_sent(head, 4), "0000");
    head[0] = 0; /* VL2 has no weight */
    ck_assert_str_eq(lanes_sent(head, 2), "--");
}
END_TEST

START_TEST(a_visit_that_ends_early_loses_its_weight)
{
    struct vlarb_config c = {.low = {2, {{0, 255}, {1, 64}}}};
    uint32_t both[VLARB_LANES] = {MTU_PACKET, MTU_PACKET}, second[VLARB_LANES] = {0, MTU_PACKET};
    start(&c);
    ck_assert_str_eq(lanes_sent(both, 2), "00");
    ck_assert_str_eq(lanes_sent(second, 1), "1");
    ck_assert_str_eq(lanes_sent(both, 5), "00001"); /* 255 * 64 = 16,320 B: 4 packets */
}
END_TEST

START_TEST(nothing_sendable_changes_nothing)
{
    struct vlarb_config c = {.high_limit = 1, .high = {1, {{0, 255}}}, .low = {1, {{1, 255}}}};
    uint32_t none[VLARB_LANES] = {0}, both[VLARB_LANES] = {MTU_PACKET, MTU_PACKET};
    start(&c);
    ck_assert_str_eq(lanes_sent(both, 1), "0");
    struct vlarb before = arb;
    ck_assert_str_eq(lanes_sent(none, 3), "---");
    ck_assert(arb.high_left == before.high_left && arb.high_at.left == before.high_at.left);
    ck_assert_str_eq(lanes_sent(both, 2), "10");
}
END_TEST

/* Limit 2 is 8192 B: after 4122 B some is left, after 8244 B none. */
START_TEST(limit_counts_bytes_and_zero_means_one_packet)
{
    struct vlarb_config c = {.high_limit = 2, .high = {1, {{0, 255}}}, .low = {1, {{1, 255}}}};
    uint32_t both[VLARB_LANES] = {MTU_PACKET, MTU_PACKET};
    start(&c);
    ck_assert_str_eq(lanes_sent(both, 7), "0010010");
    c.high_limit = 0;
    start(&c);
    ck_assert_str_eq(lanes_sent(both, 6), "010101");
    c.high_limit = VLARB_HIGH_LIMIT_NONE;
    start(&c);
    for (int i = 0; i < 100000; i++) {
        ck_assert_int_eq(vlarb_next(&arb, both), 0);
    }
}
END_TEST

START_TEST(low_runs_free_while_high_is_idle_and_reloads_the_limit)
{
    struct vlarb_config c = {.high_limit = 2, .high = {1, {{0, 255}}}, .low = {1, {{1, 255}}}};
    uint32_t both[VLARB_LANES] = {MTU_PACKET, MTU_PACKET}, low[VLARB_LANES] = {0, MTU_PACKET};
    uint32_t high[VLARB_LANES] = {MTU_PACKET};
    start(&c);
    ck_assert_str_eq(lanes_sent(both, 1), "0");
    ck_assert_str_eq(lanes_sent(low, 3), "111");
    ck_assert_str_eq(lanes_sent(both, 3), "001");
    ck_assert_str_eq(lanes_sent(high, 9), "000000000"); /* used up, and nothing of Low to send */
    ck_assert_str_eq(lanes_sent(both, 4), "1001");
}
END_TEST

START_TEST(management_goes_first)
{
    struct vlarb_config c = {.high_limit = 0, .high = {1, {{0, 255}}}, .low = {1, {{1, 255}}}};
    uint32_t data[VLARB_LANES] = {MTU_PACKET, MTU_PACKET}, all[VLARB_LANES];
    memcpy(all, data, sizeof(all));
    all[VLARB_MGMT_LANE] = 290;
    start(&c);
    vlarb_set_credits(&arb, VLARB_MGMT_LANE, 0); /* VL15 knows no flow control */
    ck_assert_str_eq(lanes_sent(data, 1), "0");
    ck_assert_str_eq(lanes_sent(all, 2), "ff");
    ck_assert_int_eq(arb.from, VLARB_FROM_MGMT);
    ck_assert_str_eq(lanes_sent(data, 2), "10"); /* the turns went on as if nothing had been */
}
END_TEST

/* 4122 B need 65 blocks of 64 B at the receiver. */
START_TEST(credits_hold_a_lane_back)
{
    struct vlarb_config c = {.high_limit = 255, .high = {1, {{0, 255}}}, .low = {1, {{1, 255}}}};
    uint32_t both[VLARB_LANES] = {MTU_PACKET, MTU_PACKET};
    start(&c);
    vlarb_set_credits(&arb, 0, 2 * 65 + 64);
    ck_assert_str_eq(lanes_sent(both, 4), "0011");
    ck_assert_uint_eq(arb.credits[0], 64);
    vlarb_add_credits(&arb, 0, 1);
    vlarb_set_credits(&arb, 1, 0);
    ck_assert_str_eq(lanes_sent(both, 3), "0--");
    vlarb_add_credits(&arb, 0, UINT32_MAX);
    ck_assert_uint_eq(arb.credits[0], VLARB_CREDITS_UNLIMITED - 1);
}
END_TEST

START_TEST(modes_without_the_high_table)
{
    struct vlarb_config c = {.mode = VLARB_LOW_ONLY,
                             .high_limit = 255,
                             .high = {1, {{0, 255}}},
                             .low = {2, {{0, 64}, {1, 128}}}};
    uint32_t both[VLARB_LANES] = {MTU_PACKET, MTU_PACKET};
    start(&c);
    ck_assert_str_eq(lanes_sent(both, 6), "011011");
    c.mode = VLARB_NONE;
    c.queue_pairs[0] = 3;
    start(&c);
    ck_assert_str_eq(lanes_sent(both, 8), "00010001");
}
END_TEST

START_TEST(lanes_beyond_the_ports_are_skipped)
{
    struct vlarb_config c = {.n_vls = 2, .low = {3, {{0, 64}, {2, 64}, {1, 64}}}};
    uint32_t three[VLARB_LANES] = {MTU_PACKET, MTU_PACKET, MTU_PACKET};
    start(&c);
    ck_assert_str_eq(lanes_sent(three, 4), "0101");
}
END_TEST

START_TEST(rejects_settings_out_of_range)
{
    struct vlarb_config bad[4] = {
        {.high_limit = 256}, {.n_vls = 16}, {.high = {.n = 65}}, {.low = {1, {{15, 1}}}}};
    const char *fields[4] = {"high_limit", "max_vls", "high", "low"};
    for (int i = 0; i < 4; i++) {
        struct err err = ERR_INIT;
        ck_assert_int_lt(vlarb_init(&arb, &bad[i], &err), 0);
        ck_assert_str_eq(err.field, fields[i]);
    }
}
END_TEST

static uint64_t random_state;

static unsigned pick(unsigned n)
{
    return (unsigned)(hash_mix64(random_state++) % n);
}

static void random_table(struct vlarb_table *t)
{
    t->n = pick(8) == 0 ? pick(65) : pick(7);
    for (unsigned i = 0; i < t->n; i++) {
        t->entry[i].vl = (uint8_t)(pick(4) ? pick(4) : pick(15));
        t->entry[i].weight = (uint8_t)(pick(4) ? pick(256) : 0);
    }
}

static struct vlarb_config random_config(void)
{
    static const unsigned limits[] = {0, 1, 2, 10, 240, 254, 255};
    struct vlarb_config c = {.mode = (enum vlarb_mode)pick(3),
                             .count = (enum vlarb_count)pick(2),
                             .high_limit = limits[pick(7)],
                             .n_vls = pick(16)};
    random_table(&c.high);
    random_table(&c.low);
    c.queue_pairs[pick(15)] = (uint8_t)pick(256);
    return c;
}

/* Random queues, packet sizes and credits; every decision of the two implementations must agree. */
static void run_beside_naive(const struct vlarb_config *c)
{
    struct naive naive;
    uint32_t head[VLARB_LANES] = {0};
    start(c);
    naive_init(&naive, c);
    unsigned busy = 1 + pick(8);
    for (int i = 0; i < 1500; i++) {
        unsigned vl = pick(4) ? pick(4) : pick(15);
        head[vl] = pick(busy) ? 26 + pick(4097) : 0;
        head[VLARB_MGMT_LANE] = pick(200) ? 0 : 290;
        if (pick(50) == 0) {
            unsigned blocks = pick(300);
            vlarb_set_credits(&arb, vl, blocks);
            naive.credit_bytes[vl] = 64.0 * blocks;
        }
        int sent = vlarb_next(&arb, head);
        ck_assert_int_eq(sent, naive_next(&naive, head));
        ck_assert(sent < 0 || head[sent] > 0);
        if (sent >= 0) {
            ck_assert_int_eq("MHL"[arb.from], naive.from);
        }
    }
}

START_TEST(agrees_with_a_second_implementation)
{
    for (random_state = 1; random_state < 400000000;) {
        uint64_t begin = random_state;
        struct vlarb_config c = random_config();
        run_beside_naive(&c);
        random_state = (begin / 1000000 + 1) * 1000000;
    }
}
END_TEST

/* Over a visit a lane sends at least the weight and less than the weight and one packet more. */
START_TEST(weights_are_kept_within_a_packet)
{
    for (int seed = 0; seed < 200; seed++) {
        random_state = (uint64_t)seed * 977 + 5;
        struct vlarb_config c = {.mode = VLARB_LOW_ONLY};
        uint32_t head[VLARB_LANES];
        c.low.n = 2 + pick(7);
        for (unsigned i = 0; i < c.low.n; i++) {
            c.low.entry[i] = (struct vlarb_entry){(uint8_t)i, (uint8_t)(1 + pick(255))};
        }
        for (unsigned vl = 0; vl < VLARB_LANES; vl++) {
            head[vl] = vl < c.low.n ? 26 + pick(4097) : 0;
        }
        start(&c);
        unsigned visits = 0;
        for (int vl = vlarb_next(&arb, head); visits < 3 * c.low.n; visits++) {
            int lane = vl;
            uint64_t sent = 0, weight = 64u * c.low.entry[lane].weight;
            ck_assert_int_eq(lane, (int)(visits % c.low.n));
            for (; vl == lane; vl = vlarb_next(&arb, head)) {
                sent += head[lane];
            }
            ck_assert_uint_ge(sent, weight);
            ck_assert_uint_lt(sent, weight + head[lane]);
        }
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("vlarb");
    TCase *t = tcase_create("vlarb");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, entries_send_while_their_weight_lasts);
    tcase_add_test(t, a_visit_that_ends_early_loses_its_weight);
    tcase_add_test(t, nothing_sendable_changes_nothing);
    tcase_add_test(t, limit_counts_bytes_and_zero_means_one_packet);
    tcase_add_test(t, low_runs_free_while_high_is_idle_and_reloads_the_limit);
    tcase_add_test(t, management_goes_first);
    tcase_add_test(t, credits_hold_a_lane_back);
    tcase_add_test(t, modes_without_the_high_table);
    tcase_add_test(t, lanes_beyond_the_ports_are_skipped);
    tcase_add_test(t, rejects_settings_out_of_range);
    tcase_add_test(t, agrees_with_a_second_implementation);
    tcase_add_test(t, weights_are_kept_within_a_packet);
    suite_add_tcase(s, t);
    return run_suite(s);
}
