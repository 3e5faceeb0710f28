/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What every kernel behind the compute port must do: compute cpu|cuda. Exits with 77 and the reason
 * when the machine lacks what the kernel needs. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute_requests.h"
#include "hw/cuda_probe.h"

START_TEST(test_forward_of_a_group)
{
    struct world w;
    struct fwd a, b;
    struct hw_compute_config config = world_config();
    world_init(&w, &config);
    fwd_init(&a, &w, 0, 3);
    fwd_init(&b, &w, 1, 0); /* nothing to do, but in step */
    fwd_bring_all_cached(&a);
    ck_assert_int_eq(fwd_submit(&a), 0);
    world_run_for_ms(&w, 20);
    ck_assert_uint_eq(a.f.layers_done, 0); /* its group is not complete */
    ck_assert_int_eq(fwd_submit(&b), 0);
    ck_assert_uint_eq(a.n_done + b.n_done, 0); /* never inline */
    world_run(&w);
    fwd_check_done_well(&a);
    fwd_check_done_well(&b);
    ck_assert_double_gt(a.f.attention_ns, 0);
    ck_assert_double_eq(b.f.attention_ns, 0);
    ck_assert_uint_eq(a.n_progress, WORLD_LAYERS);
    /* 70 + 71 + 72 new tokens and 0 + 16 + 32 cached ones in each layer. */
    ck_assert_uint_eq(w.hc.counts.outputs_checked, 213 * WORLD_LAYERS);
    ck_assert_uint_eq(w.hc.counts.rows_verified, 48 * WORLD_LAYERS);
    ck_assert_uint_eq(w.hc.counts.layers, 3 * WORLD_LAYERS);
    ck_assert_uint_eq(w.hc.n_forwards, 1);
    ck_assert_uint_eq(w.faults.n, 0);
    world_done(&w);
    ck_assert_uint_eq(a.n_done, 1);
}
END_TEST

/* KV of a layer comes only just before the layer is fed: computing early would give wrong numbers.
 */
START_TEST(test_no_layer_before_it_is_fed)
{
    struct world w;
    struct fwd a, b;
    struct hw_compute_config config = world_config();
    world_init(&w, &config);
    fwd_init(&a, &w, 0, 3);
    fwd_init(&b, &w, 1, 2);
    a.f.layers_ready = 0;
    fwd_bring_all_cached(&b);
    ck_assert_int_eq(fwd_submit(&a), 0);
    ck_assert_int_eq(fwd_submit(&b), 0);
    for (uint32_t layer = 0; layer < WORLD_LAYERS; layer++) {
        while (a.f.layers_done < layer || b.f.layers_done < layer) {
            world_run_for_ms(&w, 1);
        }
        world_run_for_ms(&w, 20);
        ck_assert_uint_eq(a.f.layers_done, layer);
        ck_assert_uint_eq(b.f.layers_done, layer); /* fed in full, but in step */
        fwd_bring_cached(&a, layer);
        compute_feed(&w.hc.port, &a.f, layer + 1);
    }
    world_run(&w);
    fwd_check_done_well(&a);
    fwd_check_done_well(&b);
    world_done(&w);
}
END_TEST

/* Each is fed its next layer from inside the other's progress(), one of them with nothing to do. */
START_TEST(test_fed_from_progress)
{
    struct world w;
    struct fwd a, b;
    struct hw_compute_config config = world_config();
    world_init(&w, &config);
    fwd_init(&a, &w, 0, _i & 1 ? 2 : 0);
    fwd_init(&b, &w, 1, _i & 2 ? 2 : 0);
    a.f.layers_ready = b.f.layers_ready = 1;
    a.feeds = &b;
    b.feeds = &a;
    fwd_bring_all_cached(&a);
    fwd_bring_all_cached(&b);
    ck_assert_int_eq(fwd_submit(&a), 0);
    ck_assert_int_eq(fwd_submit(&b), 0);
    world_run(&w);
    fwd_check_done_well(&a);
    fwd_check_done_well(&b);
    ck_assert_uint_eq(a.n_progress, WORLD_LAYERS);
    ck_assert_uint_eq(b.n_progress, WORLD_LAYERS);
    world_done(&w);
}
END_TEST

START_TEST(test_progress_marks)
{
    struct world w;
    struct fwd a, b;
    struct hw_compute_config config = world_config();
    world_init(&w, &config);
    fwd_init(&a, &w, 0, 1);
    fwd_init(&b, &w, 1, 1);
    a.f.notify_at = 2;
    a.step = 2;
    b.f.notify_at = WORLD_LAYERS;
    ck_assert_int_eq(fwd_submit(&a), 0);
    ck_assert_int_eq(fwd_submit(&b), 0);
    world_run(&w);
    ck_assert_uint_eq(a.n_progress, 2);
    ck_assert_uint_eq(a.seen[0], 2);
    ck_assert_uint_eq(a.seen[1], 4);
    ck_assert_uint_eq(b.n_progress, 1);
    ck_assert_uint_eq(b.seen[0], 4);
    world_done(&w);
}
END_TEST

/* One bit of the cached KV is wrong: found by the comparison of KV, or by the attention alone. */
static void run_with_wrong_byte(bool verify_kv, const char *wanted)
{
    struct world w;
    struct fwd a, b;
    struct hw_compute_config config = world_config();
    config.verify_kv = verify_kv;
    world_init(&w, &config);
    fwd_init(&a, &w, 0, 3);
    fwd_init(&b, &w, 1, 1);
    fwd_bring_all_cached(&a);
    uint64_t at = kv_row_offset(&w.attention.content.layout, 9, 2) + 4 * 5 + 3;
    world_at(&w, 0, 0, &a.items[1].kv)[at] ^= 0x40; /* a bit of an exponent */
    ck_assert_int_eq(fwd_submit(&a), 0);
    ck_assert_int_eq(fwd_submit(&b), 0);
    world_run(&w);
    ck_assert_uint_eq(a.n_done, 1);
    ck_assert_int_eq(a.f.status, -EBADMSG);
    ck_assert_uint_eq(a.f.layers_done, 2); /* the layers before were right */
    fwd_check_done_well(&b);
    ck_assert_uint_eq(w.faults.n, 1);
    ck_assert_msg(strstr(w.faults.last.text, wanted) != NULL, "%s\nwanted: %s", w.faults.last.text,
                  wanted);
    world_done(&w);
}

START_TEST(test_wrong_byte_seen_on_arrival)
{
    run_with_wrong_byte(true, "prefill engine 0, request 1: KV of chain 1001, block 1, layer 2, "
                              "token 9: byte 23 is");
}
END_TEST

START_TEST(test_wrong_byte_seen_in_attention)
{
    run_with_wrong_byte(false, "prefill engine 0, request 1: attention of chain 1001, layer 2, "
                               "token 16: head 0, value ");
}
END_TEST

/* Fed before the bytes are there; what lies there is of another chain. */
START_TEST(test_late_bytes)
{
    struct world w;
    struct fwd a, b;
    struct hw_compute_config config = world_config();
    config.verify_kv = false;
    world_init(&w, &config);
    fwd_init(&a, &w, 0, 3);
    fwd_init(&b, &w, 1, 0);
    struct compute_kv stale = a.items[2].kv;
    stale.chain_id = 4;
    world_bring_all(&w, 0, 0, &stale, a.items[2].cached_tok);
    world_bring_all(&w, 0, 0, &a.items[1].kv, a.items[1].cached_tok);
    ck_assert_int_eq(fwd_submit(&a), 0);
    ck_assert_int_eq(fwd_submit(&b), 0);
    world_run(&w);
    ck_assert_int_eq(a.f.status, -EBADMSG);
    ck_assert_ptr_nonnull(
        strstr(w.faults.last.text, "request 2: attention of chain 1002, layer 0"));
    world_done(&w);
}
END_TEST

START_TEST(test_sampling)
{
    struct world w;
    struct fwd a, b;
    struct hw_compute_config config = world_config();
    config.check_every = 10;
    world_init(&w, &config);
    fwd_init(&a, &w, 0, 3);
    fwd_init(&b, &w, 1, 0);
    fwd_bring_all_cached(&a);
    ck_assert_int_eq(fwd_submit(&a), 0);
    ck_assert_int_eq(fwd_submit(&b), 0);
    world_run(&w);
    fwd_check_done_well(&a);
    /* Of 852 (token, layer): binomial, six standard deviations are 53. */
    ck_assert_uint_ge(w.hc.counts.outputs_checked, 85 - 53);
    ck_assert_uint_le(w.hc.counts.outputs_checked, 85 + 53);
    world_done(&w);
}
END_TEST

START_TEST(test_refused_forwards)
{
    struct world w;
    struct fwd a;
    struct hw_compute_config config = world_config();
    world_init(&w, &config);
    fwd_init(&a, &w, 0, 1);
    a.f.engine = 2; /* there are two */
    ck_assert_int_eq(fwd_submit(&a), -EINVAL);
    fwd_init(&a, &w, 0, 1);
    a.f.rank = 1; /* engine 0 has rank 0 */
    ck_assert_int_eq(fwd_submit(&a), -EINVAL);
    fwd_init(&a, &w, 0, 1);
    a.f.layers_total = WORLD_LAYERS + 1;
    ck_assert_int_eq(fwd_submit(&a), -EINVAL);
    fwd_init(&a, &w, 0, 1);
    a.items[0].kv = world_kv(&w, 1, WORLD_SPANS - 1);
    a.items[0].new_tok = WORLD_SPAN_TOK + 1;
    ck_assert_int_eq(fwd_submit(&a), -EFAULT);
    fwd_init(&a, &w, 0, 1);
    a.items[0].kv.hbm_offset_bytes = 2;
    ck_assert_int_eq(fwd_submit(&a), -EFAULT);
    fwd_init(&a, &w, 0, 1);
    ck_assert_int_eq(fwd_submit(&a), 0);
    struct fwd again = a;
    again.f.in_flight = false;
    ck_assert_int_eq(compute_forward(&w.hc.port, &again.f), -EINVAL); /* the engine is busy */
    /* a waits for its group for ever: the stop ends it. */
    hw_compute_stop(&w.hc);
    ck_assert_uint_eq(a.n_done, 0);
    world_run(&w);
    ck_assert_uint_eq(a.n_done, 1);
    ck_assert_int_eq(a.f.status, -ECANCELED);
    ck_assert_int_eq(compute_forward(&w.hc.port, &a.f), -ESHUTDOWN);
    world_done(&w);
    ck_assert_uint_eq(a.n_done, 1);
}
END_TEST

START_TEST(test_stop_while_computing)
{
    struct world w;
    struct fwd a, b;
    struct hw_compute_config config = world_config();
    world_init(&w, &config);
    fwd_init(&a, &w, 0, 3);
    fwd_init(&b, &w, 1, 3);
    fwd_bring_all_cached(&a);
    fwd_bring_all_cached(&b);
    ck_assert_int_eq(fwd_submit(&a), 0);
    ck_assert_int_eq(fwd_submit(&b), 0);
    while (w.hc.n_working == 0) {
        world_run_for_ms(&w, 0);
    }
    hw_compute_stop(&w.hc);
    world_run(&w);
    ck_assert_int_eq(a.f.status, -ECANCELED);
    ck_assert_int_eq(b.f.status, -ECANCELED);
    ck_assert(hw_compute_idle(&w.hc));
    world_done(&w);
    ck_assert_uint_eq(a.n_done + b.n_done, 2);
}
END_TEST

/* Decoding */

START_TEST(test_decode_loop)
{
    struct world w;
    struct seq q[4];
    struct hw_compute_config config = world_config();
    world_init(&w, &config);
    seq_init(&q[0], &w, 0, 0, 40, 20);
    seq_init(&q[1], &w, 0, 1, 7, 30);
    seq_init(&q[2], &w, 1, 0, 8, 10); /* the other engine of the group, later */
    seq_init(&q[3], &w, 0, 2, 100, 6);
    q[0].then = &q[2];
    q[2].then = &q[3];
    seq_join(&q[0]);
    seq_join(&q[1]);
    ck_assert_uint_eq(q[0].n_notified, 0); /* never inline */
    world_run(&w);
    for (int i = 0; i < 4; i++) {
        seq_check(&q[i]);
    }
    /* Everybody gets a token per step; the first two begin together, so the longer counts the
     * steps. Engine 1 takes part in the ten of its sequence. */
    ck_assert_uint_eq(w.hc.n_steps, 30 + 10);
    ck_assert_uint_eq(w.hc.counts.rows_verified, (40 + 7 + 8 + 100) * WORLD_LAYERS);
    ck_assert_uint_eq(w.hc.counts.outputs_checked, (20 + 30 + 10 + 6) * WORLD_LAYERS);
    /* The group rests... */
    uint64_t phase = w.hc.engines[2].member.phase;
    world_run_for_ms(&w, 20);
    ck_assert_uint_le(w.hc.engines[2].member.phase, phase + 1);
    ck_assert_uint_eq(w.hc.n_steps, 40);
    /* ...and wakes up again. */
    seq_init(&q[0], &w, 1, 3, 16, 7);
    seq_join(&q[0]);
    world_run(&w);
    seq_check(&q[0]);
    ck_assert_uint_eq(w.hc.n_steps, 47);
    world_done(&w);
}
END_TEST

/* The KV that was admitted is wrong in one place: that sequence ends, the others go on. */
START_TEST(test_decode_wrong_admission)
{
    struct world w;
    struct seq q[2];
    struct hw_compute_config config = world_config();
    world_init(&w, &config);
    seq_init(&q[0], &w, 1, 0, 40, 20);
    seq_init(&q[1], &w, 1, 1, 40, 20);
    world_at(&w, 1, 1, &q[0].s.kv)[kv_row_offset(&w.attention.content.layout, 39, 3)] ^= 1;
    seq_join(&q[0]);
    seq_join(&q[1]);
    world_run(&w);
    ck_assert_int_eq(q[0].s.status, -EBADMSG);
    ck_assert_uint_eq(q[0].n_notified, 1);
    ck_assert_uint_eq(q[0].last_steps, 0);
    ck_assert_ptr_nonnull(strstr(w.faults.last.text,
                                 "decode engine 1, request 10: KV of chain 60, block 4, layer 3, "
                                 "token 39: byte 0 is"));
    ck_assert_uint_eq(w.faults.n, 1);
    seq_check(&q[1]);
    world_done(&w);
}
END_TEST

/* A byte goes bad in HBM after admission: the attention sees it. */
static void notify_and_spoil(struct compute_sequence *s)
{
    struct seq *q = container_of(s, struct seq, s);
    if (s->steps_done == 5) {
        uint64_t at = kv_row_offset(&q->w->attention.content.layout, 3, 1) + 3;
        world_at(q->w, 1, s->engine, &s->kv)[at] ^= 0x40;
    }
    seq_notify(s);
}

START_TEST(test_decode_byte_goes_bad)
{
    struct world w;
    struct seq q;
    struct hw_compute_config config = world_config();
    world_init(&w, &config);
    seq_init(&q, &w, 0, 0, 40, 20);
    q.s.notify = notify_and_spoil;
    seq_join(&q);
    world_run(&w);
    ck_assert_int_eq(q.s.status, -EBADMSG);
    ck_assert_uint_eq(q.last_steps, 5);
    ck_assert_ptr_nonnull(strstr(w.faults.last.text, "decode engine 0, request 0: attention of "
                                                     "chain 50, layer 1, token 45: head 0"));
    world_done(&w);
}
END_TEST

START_TEST(test_decode_outgrows_hbm)
{
    struct world w;
    struct seq q;
    struct hw_compute_config config = world_config();
    world_init(&w, &config);
    seq_init(&q, &w, 0, WORLD_SPANS - 1, WORLD_SPAN_TOK - 3, 20);
    seq_join(&q);
    world_run(&w);
    ck_assert_int_eq(q.s.status, -EFAULT);
    ck_assert_uint_eq(q.s.steps_done, 3);
    q.s.context_tok = WORLD_SPAN_TOK;
    q.s.notify_at = 1;
    ck_assert_int_eq(compute_join(&w.hc.port, &q.s), -EFAULT);
    q.s.engine = 2;
    ck_assert_int_eq(compute_join(&w.hc.port, &q.s), -EINVAL);
    world_done(&w);
}
END_TEST

START_TEST(test_stop_while_decoding)
{
    struct world w;
    struct seq q[2];
    struct hw_compute_config config = world_config();
    world_init(&w, &config);
    for (uint32_t i = 0; i < 2; i++) {
        seq_init(&q[i], &w, i, 0, 100, 100);
        seq_join(&q[i]);
    }
    while (w.hc.n_working == 0) {
        world_run_for_ms(&w, 0);
    }
    uint32_t notified = q[0].n_notified + q[1].n_notified;
    world_done(&w); /* stops; nothing comes any more */
    ck_assert_uint_eq(q[0].n_notified + q[1].n_notified, notified);
}
END_TEST

static void notify_and_stop(struct compute_sequence *s)
{
    struct seq *q = container_of(s, struct seq, s);
    seq_notify(s);
    if (s->steps_done == 5) {
        hw_compute_stop(&q->w->hc);
        loop_stop(&q->w->loop);
    }
}

START_TEST(test_stop_from_notify)
{
    struct world w;
    struct seq q;
    struct hw_compute_config config = world_config();
    world_init(&w, &config);
    seq_init(&q, &w, 0, 0, 40, 20);
    q.s.notify = notify_and_stop;
    seq_join(&q);
    while (q.last_steps < 5) {
        world_run_for_ms(&w, 1);
    }
    ck_assert(hw_compute_idle(&w.hc)); /* no step was begun after the stop */
    world_done(&w);
    ck_assert_uint_eq(q.last_steps, 5);
}
END_TEST

/* Two groups of two, forward after forward, with decoding beside them. */
START_TEST(test_all_at_once)
{
    struct world w;
    struct fwd f[4];
    struct seq q[4];
    struct hw_compute_config config = world_config();
    config.gpus_per_node = 4;
    world_init(&w, &config);
    for (uint32_t i = 0; i < 4; i++) {
        seq_init(&q[i], &w, i, 0, 20 + 3 * i, 50 - i);
        seq_join(&q[i]);
    }
    for (uint32_t round = 0; round < 4; round++) {
        for (uint32_t i = 0; i < 4; i++) {
            fwd_init(&f[i], &w, i, (i + round) % 4);
            f[i].f.engine = i;
            fwd_bring_all_cached(&f[i]);
            ck_assert_int_eq(fwd_submit(&f[i]), 0);
        }
        uint32_t done = 0;
        while (done < 4) {
            world_run_for_ms(&w, 1);
            done = f[0].n_done + f[1].n_done + f[2].n_done + f[3].n_done;
        }
        for (uint32_t i = 0; i < 4; i++) {
            fwd_check_done_well(&f[i]);
        }
    }
    world_run(&w);
    for (uint32_t i = 0; i < 4; i++) {
        seq_check(&q[i]);
    }
    ck_assert_uint_eq(w.faults.n, 0);
    world_done(&w);
}
END_TEST

START_TEST(test_bad_config)
{
    struct world w;
    struct hw_compute_config config = world_config(), bad = config;
    world_init(&w, &config);
    struct hw_compute hc;
    struct hw_compute_parts parts = {&w.loop, &w.pool, &w.barrier, &w.map, &w.faults};
    struct err e = ERR_INIT;
    bad.decode_ep_gpus = 3;
    ck_assert_int_eq(hw_compute_init(&hc, &bad, &parts, &w.attention, w.kernel, &e), -EINVAL);
    e = ERR_INIT; /* the ranks are taken by the first */
    ck_assert_int_eq(hw_compute_init(&hc, &config, &parts, &w.attention, w.kernel, &e), -EINVAL);
    world_done(&w);
}
END_TEST

static TCase *all_cases(bool exact)
{
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 90);
    tcase_add_test(t, test_forward_of_a_group);
    tcase_add_test(t, test_no_layer_before_it_is_fed);
    tcase_add_loop_test(t, test_fed_from_progress, 0, 4);
    tcase_add_test(t, test_progress_marks);
    tcase_add_test(t, test_wrong_byte_seen_on_arrival);
    tcase_add_test(t, test_wrong_byte_seen_in_attention);
    tcase_add_test(t, test_late_bytes);
    tcase_add_test(t, test_sampling);
    tcase_add_test(t, test_refused_forwards);
    tcase_add_test(t, test_stop_while_computing);
    tcase_add_test(t, test_decode_loop);
    tcase_add_test(t, test_decode_wrong_admission);
    if (exact) { /* a GPU decodes from its own copy, which the test cannot reach */
        tcase_add_test(t, test_decode_byte_goes_bad);
    }
    tcase_add_test(t, test_decode_outgrows_hbm);
    tcase_add_test(t, test_stop_while_decoding);
    tcase_add_test(t, test_stop_from_notify);
    tcase_add_test(t, test_all_at_once);
    tcase_add_test(t, test_bad_config);
    return t;
}

int main(int argc, char **argv)
{
    world_kernel = argc > 1 ? argv[1] : world_kernel;
    bool cuda = strcmp(world_kernel, "cuda") == 0;
    struct cuda_device device;
    struct err e = ERR_INIT;
    if (cuda && cuda_probe_device(0, &device, &e) == -ENODEV) {
        fprintf(stderr, "skipped: %s\n", e.text);
        return 77;
    }
    Suite *s = suite_create(cuda ? "compute, cuda" : "compute, cpu");
    suite_add_tcase(s, all_cases(!cuda));
    SRunner *r = srunner_create(s);
    if (cuda) {
        srunner_set_fork_status(r, CK_NOFORK); /* the driver does not survive a fork */
    }
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
