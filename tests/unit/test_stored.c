/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A storage of finite capacity: who loses blocks, by hand, and against a naive model. */
#include <check.h>

#include "check_suite.h"
#include "sched/stored.h"

static struct stored s;
static struct stored_context c[8];

static void start(uint64_t capacity)
{
    stored_init(&s, capacity);
    for (int i = 0; i < 8; i++) {
        stored_context_init(&c[i]);
    }
}

static void turn(int i, uint32_t hit, uint32_t blocks)
{
    stored_lease(&c[i]);
    stored_release(&s, &c[i], hit, blocks);
}

START_TEST(test_least_recent_first)
{
    start(10);
    turn(0, 0, 4);
    turn(1, 0, 4);
    turn(2, 0, 2);
    ck_assert_uint_eq(s.blocks, 10);
    turn(0, 4, 5); /* the first is now the last; 1 loses one */
    ck_assert_uint_eq(c[0].blocks, 5);
    ck_assert_uint_eq(c[1].blocks, 3);
    turn(3, 0, 4); /* 3 of 1, 1 of 2 */
    ck_assert_uint_eq(c[1].blocks, 0);
    ck_assert_uint_eq(c[2].blocks, 1);
    ck_assert_uint_eq(c[0].blocks, 5);
    ck_assert_uint_eq(s.evicted, 5);
    turn(1, 0, 4); /* all of it again */
    ck_assert_uint_eq(c[1].blocks, 4);
    ck_assert_uint_eq(c[2].blocks, 0);
    ck_assert_uint_eq(c[0].blocks, 2);
    ck_assert_uint_eq(s.written, 4 + 4 + 2 + 1 + 4 + 4);
    ck_assert_uint_eq(s.peak_blocks, 10);
}
END_TEST

/* What is leased stays; then it is the new blocks that find no room. */
START_TEST(test_leases)
{
    start(10);
    turn(0, 0, 6);
    turn(1, 0, 4);
    stored_lease(&c[0]);
    turn(1, 4, 7);
    ck_assert_uint_eq(c[0].blocks, 6);
    ck_assert_uint_eq(c[1].blocks, 4);
    ck_assert_uint_eq(s.evicted, 3);
    stored_release(&s, &c[0], 6, 6);
    turn(1, 4, 7);
    ck_assert_uint_eq(c[0].blocks, 3);
    ck_assert_uint_eq(c[1].blocks, 7);
}
END_TEST

START_TEST(test_overwritten)
{
    start(100);
    turn(0, 0, 10);
    turn(0, 8, 12); /* a prompt that ends with the context: its last block is computed again */
    ck_assert_uint_eq(s.blocks, 12);
    ck_assert_uint_eq(s.written, 14);
    ck_assert_uint_eq(s.overwritten, 2);
    start(0); /* no limit: nothing is counted */
    turn(0, 0, 10);
    ck_assert_uint_eq(s.blocks + s.written, 0);
}
END_TEST

/* Random turns, some of them long: the same contents as a list of blocks with times of use. */
START_TEST(test_against_naive)
{
    uint32_t naive[8] = {0}, used_at[8] = {0}, clock = 0, x = 12345;
    bool leased[8] = {false};
    start(200);
    for (int step = 0; step < 20000; step++) {
        x = x * 1664525 + 1013904223;
        int i = x >> 29;
        if (!leased[i]) {
            stored_lease(&c[i]);
            leased[i] = true;
            continue;
        }
        uint32_t hit = naive[i], blocks = (x >> 20 & 15) == 0 ? 0 : hit + (x >> 12 & 15);
        hit = blocks < hit ? blocks : hit;
        leased[i] = false;
        stored_release(&s, &c[i], hit, blocks);
        naive[i] = blocks;
        used_at[i] = ++clock;
        for (;;) {
            uint32_t sum = 0;
            int victim = -1;
            for (int k = 0; k < 8; k++) {
                sum += naive[k];
                bool may = !leased[k] && naive[k] > 0;
                victim = may && (victim < 0 || used_at[k] < used_at[victim]) ? k : victim;
            }
            if (sum <= 200) {
                break;
            }
            naive[victim]--;
        }
        for (int k = 0; k < 8; k++) {
            ck_assert_uint_eq(c[k].blocks, naive[k]);
        }
        ck_assert_uint_eq(s.blocks + s.evicted + s.overwritten, s.written);
    }
    ck_assert_uint_gt(s.evicted, 1000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stored");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, test_least_recent_first);
    tcase_add_test(tc, test_leases);
    tcase_add_test(tc, test_overwritten);
    tcase_add_test(tc, test_against_naive);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
