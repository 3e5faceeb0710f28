/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * dp_submit_or_wait() on a backend that takes so many ops per destination, or so many in all: who
 * waits for whom.
 */
#include <check.h>
#include <errno.h>

#include "check_suite.h"
#include "datapath/dp.h"

#define NODES 4
#define OPS   24

struct fake {
    struct dp dp;
    unsigned depth_node, depth_all; /* in flight before -EAGAIN */
    unsigned n_node[NODES], n_all;
    struct dp_op *started[2 * OPS]; /* in order */
    unsigned n_started;
    int refuse; /* what submit() gives for node 3 when it has room */
};

static struct fake f;
static struct dp_op ops[OPS];
static struct dp_op *ended[2 * OPS];
static unsigned n_ended;

static int submit(struct dp *dp, struct dp_op *op)
{
    (void)dp;
    if (f.n_node[op->dst.node] >= f.depth_node || f.n_all >= f.depth_all) {
        return -EAGAIN;
    }
    if (op->dst.node == 3 && f.refuse) {
        return f.refuse;
    }
    f.n_node[op->dst.node]++;
    f.n_all++;
    f.started[f.n_started++] = op;
    return 0;
}

static const struct dp_ops fake_ops = {.name = "fake", .submit = submit};

static void done(struct dp_op *op)
{
    ended[n_ended++] = op;
}

static void end(struct dp_op *op)
{
    f.n_node[op->dst.node]--;
    f.n_all--;
    op->parts_ready = 1;
    dp_backend_done(&f.dp, op, 0);
}

static void begin(unsigned depth_node, unsigned depth_all)
{
    f = (struct fake){.depth_node = depth_node, .depth_all = depth_all};
    dp_init(&f.dp, &fake_ops);
    n_ended = 0;
}

static void copy(unsigned i, uint32_t dst)
{
    ops[i] = (struct dp_op){.kind = DP_COPY,
                            .src = {.node = 0, .tier = DP_DRAM},
                            .dst = {.node = dst, .tier = DP_HBM},
                            .part_bytes = 1,
                            .parts_total = 1,
                            .segments = 1,
                            .segment_bytes = 1,
                            .done = done};
    ck_assert_int_eq(dp_submit_or_wait(&f.dp, &ops[i]), 0);
}

START_TEST(a_slow_peer_holds_up_its_own_only)
{
    begin(2, OPS);
    for (unsigned i = 0; i < 6; i++) {
        copy(i, 1); /* two in flight, four in line */
    }
    ck_assert_uint_eq(f.n_started, 2);
    copy(6, 2);
    copy(7, 0);
    ck_assert(ops[6].in_flight && ops[7].in_flight);
    copy(8, 2);
    copy(9, 2); /* in line behind its own kind */
    ck_assert(ops[8].in_flight && ops[9].waiting);
    end(&ops[6]);
    ck_assert(ops[9].in_flight && ops[2].waiting);
    for (unsigned i = 0; i < 6; i++) {
        end(&ops[i]); /* each brings the next one in, in order */
        ck_assert_uint_eq(f.n_node[1], i < 4 ? 2 : 5 - i);
    }
    static const unsigned order[] = {0, 1, 6, 7, 8, 9, 2, 3, 4, 5};
    ck_assert_uint_eq(f.n_started, 10);
    for (unsigned i = 0; i < 10; i++) {
        ck_assert_ptr_eq(f.started[i], &ops[order[i]]);
    }
    ck_assert(list_empty(&f.dp.blocked));
}
END_TEST

START_TEST(storage_and_copies_wait_apart)
{
    begin(1, OPS);
    copy(0, 0);
    copy(1, 0);
    ck_assert(ops[1].waiting);
    ops[2] = ops[0];
    ops[2].kind = DP_STORAGE_READ;
    ops[2].dst.tier = DP_DRAM;
    ops[2].in_flight = false;
    f.depth_node = 2;
    ck_assert_int_eq(dp_submit_or_wait(&f.dp, &ops[2]), 0);
    ck_assert(ops[2].in_flight && ops[1].waiting);
}
END_TEST

/* Where the lines share what room there is, each gets some of it. */
START_TEST(lines_take_turns)
{
    begin(OPS, 1);
    for (unsigned i = 0; i < 12; i++) {
        copy(i, i < 6 ? 1 : 2);
    }
    while (f.n_all > 0) {
        end(f.started[f.n_started - 1]);
    }
    ck_assert_uint_eq(f.n_started, 12);
    unsigned to_1 = 0;
    for (unsigned i = 0; i < 10; i++) {
        to_1 += f.started[i]->dst.node == 1;
        ck_assert_uint_le(to_1, (i + 1) / 2 + 1);
        ck_assert_uint_ge(to_1 + 1, (i + 1) / 2);
    }
}
END_TEST

START_TEST(cancelled_and_refused_ones_end_in_their_turn)
{
    begin(1, OPS);
    for (unsigned i = 0; i < 5; i++) {
        copy(i, 3);
    }
    dp_cancel(&f.dp, &ops[2]);
    ck_assert_uint_eq(n_ended, 0);
    end(&ops[0]);
    ck_assert(ops[1].in_flight && ops[3].waiting);
    ck_assert_uint_eq(n_ended, 2); /* the cancelled one was next, and the one behind it waits on */
    f.refuse = -EFAULT;
    end(&ops[1]);
    ck_assert_uint_eq(n_ended, 5);
    ck_assert_int_eq(ops[2].status, -ECANCELED);
    ck_assert_int_eq(ops[3].status, -EFAULT);
    ck_assert_int_eq(ops[4].status, -EFAULT);
    ck_assert(!ops[4].waiting && list_empty(&f.dp.blocked));
    ck_assert_uint_eq(f.dp.accounts[DP_CLASS_READ].ops_in, 2);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dp_lines");
    TCase *t = tcase_create("dp_lines");
    tcase_add_test(t, a_slow_peer_holds_up_its_own_only);
    tcase_add_test(t, storage_and_copies_wait_apart);
    tcase_add_test(t, lines_take_turns);
    tcase_add_test(t, cancelled_and_refused_ones_end_in_their_turn);
    suite_add_tcase(s, t);
    return run_suite(s);
}
