/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Storage reads straight into a GPU in virtual time, op by op: what they pass, what they share, and
 * what they do to collectives.
 */
#include <errno.h>

#include "check_suite.h"
#include "sim_dp_test.h"

static struct sim_dp_config direct_config(void)
{
    struct sim_dp_config c = base_config();
    c.isolation.reads_on_pcie = true;
    return c;
}

static void direct_read(struct dp_op *op, uint32_t node, uint16_t gpu)
{
    submit(op, DP_STORAGE_READ, place(node, gpu, DP_HBM), place(node, gpu, DP_HBM), 1000000, 400,
           1);
}

static bool dram_untouched;

static void note_dram(struct dp_op *op)
{
    const struct sim_node *n = &sd.nodes[op->dst.node];
    dram_untouched = n->n_jobs_past_dram == n->n_jobs && n->dram.bytes_in == 0;
}

START_TEST(direct_reads_pass_dram_and_cross_pcie)
{
    struct sim_dp_config c = direct_config();
    struct dp_op op, others[4];
    start(&c);
    direct_read(&op, 0, 0);
    op.done = note_dram;
    finish();
    assert_took(&op, 0.4 / 40); /* the NIC's rate; PCIe has 50 GB/s */
    ck_assert(dram_untouched);
    c.storage.line_Bps = 100 * GB;
    start(&c);
    direct_read(&op, 0, 0);
    finish();
    assert_took(&op, 0.4 / 50); /* a faster NIC: the GPU's link */
    start(&c);
    for (unsigned i = 0; i < 4; i++) {
        direct_read(&others[i], 0, (uint16_t)(i % 2));
    }
    finish();
    assert_took(&others[0], 0.8 / 50); /* two on each of two links */
    assert_took(&others[3], 0.8 / 50);
}
END_TEST

/* Those that began among others do not wait for the share that they began with once alone. */
START_TEST(direct_reads_take_what_others_leave)
{
    struct sim_dp_config c = direct_config();
    struct dp_op op, other;
    start(&c);
    submit(&other, DP_STORAGE_READ, place(0, 1, DP_HBM), place(0, 1, DP_HBM), 1000000, 40, 1);
    direct_read(&op, 0, 0);
    finish();
    assert_took(&other, 0.08 / 40);
    assert_took(&op, 0.44 / 40);
}
END_TEST

static struct dp_op *to_cancel;

static void cancel_it(struct loop_timer *t)
{
    (void)t;
    dp_cancel(&sd.dp, to_cancel);
}

static int cancelled_status;

static void note_status(struct dp_op *op)
{
    cancelled_status = op->status;
}

START_TEST(direct_reads_can_be_cancelled)
{
    struct sim_dp_config c = direct_config();
    /* In the middle; and when the NIC is through (4 ms) but the link is not (8 ms). */
    static const double lines_Bps[] = {40 * GB, 100 * GB};
    for (unsigned i = 0; i < 2; i++) {
        struct dp_op op;
        struct loop_timer timer = {0};
        c.storage.line_Bps = lines_Bps[i];
        start(&c);
        direct_read(&op, 0, 0);
        op.done = note_status;
        to_cancel = &op;
        loop_timer_init(&timer, cancel_it);
        loop_arm(&loop, &timer, 6000000);
        cancelled_status = 0;
        finish();
        ck_assert_int_eq(cancelled_status, -ECANCELED);
    }
}
END_TEST

static double stretch_of_direct(bool pcie_classes)
{
    struct sim_dp_config c = direct_config();
    struct dp_op op;
    struct loop_timer timer = {0};
    c.isolation.pcie_classes = pcie_classes;
    start(&c);
    loop_timer_init(&timer, look);
    direct_read(&op, 1, 0);
    loop_arm(&loop, &timer, 1000000);
    begin_collectives(2);
    finish();
    return fmax(stretch_seen, sd.links.expected(&sd, &stretch_gpus));
}

START_TEST(direct_reads_stretch_collectives)
{
    /* 40 of 50 GB/s wanted, half of the PCIe link granted while a collective lasts. */
    ck_assert_double_eq_tol(stretch_of_direct(false), 2, 1e-6);
    ck_assert_double_eq_tol(stretch_of_direct(true), 960.0 / 959, 1e-9);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("direct_read");
    TCase *t = tcase_create("direct_read");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, direct_reads_pass_dram_and_cross_pcie);
    tcase_add_test(t, direct_reads_take_what_others_leave);
    tcase_add_test(t, direct_reads_can_be_cancelled);
    tcase_add_test(t, direct_reads_stretch_collectives);
    suite_add_tcase(s, t);
    return run_suite(s);
}
