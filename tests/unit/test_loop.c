/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The loop against a virtual clock of the test's own: order, ties, moves, re-arming from a
 * callback. */
#include "base/loop.h"
#include "check_suite.h"

#include <check.h>
#include <errno.h>

#include "base/hash.h"

struct clock {
    struct loop_driver driver;
    uint64_t now_ns;
};

static uint64_t clock_now_ns(struct loop_driver *d)
{
    return ((struct clock *)d)->now_ns;
}

static int clock_wait(struct loop_driver *d, uint64_t deadline_ns)
{
    if (deadline_ns == LOOP_NEVER) {
        return -ECANCELED;
    }
    ((struct clock *)d)->now_ns = deadline_ns;
    return 0;
}

static const struct loop_driver_ops clock_ops = {.now_ns = clock_now_ns, .wait = clock_wait};

struct probe {
    struct loop_timer timer;
    struct loop *loop;
    int id;
};

static int fired[4096];
static uint64_t fired_at[4096];
static int n_fired;

static void probe_fire(struct loop_timer *t)
{
    struct probe *p = container_of(t, struct probe, timer);
    fired_at[n_fired] = loop_now_ns(p->loop);
    fired[n_fired++] = p->id;
}

static struct clock test_clock;
static struct loop loop;

static void setup_loop(uint64_t tie_seed)
{
    n_fired = 0;
    test_clock = (struct clock){.driver.ops = &clock_ops};
    ck_assert_int_eq(loop_init(&loop, &test_clock.driver, tie_seed), 0);
}

START_TEST(fires_in_time_order_with_ties_in_arming_order)
{
    setup_loop(0);
    struct probe p[1000];
    for (int i = 0; i < 1000; i++) {
        p[i] = (struct probe){.loop = &loop, .id = i, .timer.fire = probe_fire};
        loop_arm(&loop, &p[i].timer, hash_mix64((uint64_t)i) % 50);
    }
    ck_assert_int_eq(loop_run(&loop), 0);
    ck_assert_int_eq(n_fired, 1000);
    for (int i = 1; i < n_fired; i++) {
        ck_assert(fired_at[i - 1] <= fired_at[i]);
        ck_assert(fired_at[i - 1] < fired_at[i] || fired[i - 1] < fired[i]);
    }
    loop_done(&loop);
}
END_TEST

START_TEST(tie_seed_shuffles_equal_times_only)
{
    setup_loop(7);
    struct probe p[64];
    for (int i = 0; i < 64; i++) {
        p[i] = (struct probe){.loop = &loop, .id = i, .timer.fire = probe_fire};
        loop_arm(&loop, &p[i].timer, i < 32 ? 5 : 6);
    }
    ck_assert_int_eq(loop_run(&loop), 0);
    int out_of_order = 0;
    for (int i = 0; i < 64; i++) {
        ck_assert_int_eq(fired[i] < 32, i < 32);
        out_of_order += i > 0 && fired[i] < fired[i - 1];
    }
    ck_assert_int_gt(out_of_order, 5);
    loop_done(&loop);
}
END_TEST

START_TEST(moves_and_disarms)
{
    setup_loop(0);
    struct probe p[300];
    for (int i = 0; i < 300; i++) {
        p[i] = (struct probe){.loop = &loop, .id = i, .timer.fire = probe_fire};
        loop_arm(&loop, &p[i].timer, (uint64_t)(300 - i));
    }
    for (int i = 0; i < 300; i++) {
        if (i % 3 == 0) {
            loop_disarm(&loop, &p[i].timer);
            ck_assert(!loop_armed(&p[i].timer));
        } else if (i % 3 == 1) {
            loop_arm(&loop, &p[i].timer, 1000 + (uint64_t)i);
        }
    }
    ck_assert_int_eq(loop_run(&loop), 0);
    ck_assert_int_eq(n_fired, 200);
    for (int i = 1; i < n_fired; i++) {
        ck_assert(fired_at[i - 1] <= fired_at[i]);
    }
    ck_assert_int_eq(fired[199], 298);
    loop_done(&loop);
}
END_TEST

struct chain {
    struct loop_timer timer;
    int left;
};

static void chain_fire(struct loop_timer *t)
{
    struct chain *c = container_of(t, struct chain, timer);
    if (--c->left > 0) {
        loop_post(&loop, t);
    }
}

START_TEST(post_runs_at_the_same_time_but_not_inline)
{
    setup_loop(0);
    struct chain c = {.left = 10};
    loop_timer_init(&c.timer, chain_fire);
    loop_arm(&loop, &c.timer, 17);
    ck_assert_int_eq(loop_run(&loop), 0);
    ck_assert_int_eq(c.left, 0);
    ck_assert_uint_eq(loop_now_ns(&loop), 17);
    ck_assert_uint_eq(loop.n_fired, 10);
    loop_done(&loop);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("loop");
    TCase *t = tcase_create("loop");
    tcase_add_test(t, fires_in_time_order_with_ties_in_arming_order);
    tcase_add_test(t, tie_seed_shuffles_equal_times_only);
    tcase_add_test(t, moves_and_disarms);
    tcase_add_test(t, post_runs_at_the_same_time_but_not_inline);
    suite_add_tcase(s, t);
    return run_suite(s);
}
