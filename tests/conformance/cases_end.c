/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Cases that end otherwise: refused, full, cancelled, closed, failed. */
#include <check.h>
#include <errno.h>
#include <stdio.h>

#include "base/units.h"
#include "conformance.h"

/* A case that a backend cannot have says so. */
static bool has(struct world *w, bool it, const char *what)
{
    if (!it) {
        printf("%s: (not applicable: it has no %s)\n", w->backend->name, what);
    }
    return it;
}

#define MIB ((uint64_t)1 << 20)

static void no_sense_is_refused(struct world *w)
{
    struct probe p = copy_probe(w, dram(0, 0), hbm(1, 0, 0), 0, 1); /* no byte */
    ck_assert_int_eq(world_submit(&p), -EINVAL);
    p = copy_probe(w, dram(0, 0), hbm(1, 0, 0), 10, 0); /* no part */
    ck_assert_int_eq(world_submit(&p), -EINVAL);
    p = copy_probe(w, dram(0, 0), hbm(1, 0, 0), 10, 1);
    p.op.segment_bytes = 4; /* 1 x 4 is less than 10 */
    ck_assert_int_eq(world_submit(&p), -EINVAL);
    p.op.segment_bytes = UINT64_MAX / 2 + 2; /* 4 x that is 4, modulo 2^64 */
    p.op.segments = 4;
    ck_assert_int_eq(world_submit(&p), -EINVAL);
    p = copy_probe(w, hbm(0, 0, 0), hbm(0, 0, 64), 10, 1); /* within one memory */
    ck_assert_int_eq(world_submit(&p), -EINVAL);
    p = copy_probe(w, dram(0, 0), hbm(1, 0, 0), 10, 1);
    p.op.parts_ready = 2; /* more than there are */
    ck_assert_int_eq(world_submit(&p), -EINVAL);
    ck_assert_uint_eq(w->backend->dp_of(w, 0)->accounts[DP_CLASS_LOAD].ops_in, 0);
}

/* Refused at once, or ended with the error: where it is noticed is the backend's business. */
static void expect_fault(struct world *w, struct dp_place src, struct dp_place dst, uint32_t parts)
{
    struct probe p = copy_probe(w, src, dst, MIB, parts);
    int rc = world_submit(&p);
    if (rc == 0) {
        world_run(w);
        ck_assert_uint_eq(p.n_done, 1);
        rc = p.op.status;
    }
    ck_assert_int_eq(rc, -EFAULT);
}

/* Copies to node 1 that are not fed take all the room that there is towards it. */
static void a_slow_peer_holds_up_nobody_else(struct world *w)
{
    struct dp *dp = w->backend->dp_of(w, 0);
    struct probe slow[WORLD_DEPTH], behind, own, trial;
    for (unsigned i = 0; i < WORLD_DEPTH; i++) {
        slow[i] = copy_probe(w, dram(0, i * MIB), hbm(1, 0, i * MIB), 1000, 2);
        slow[i].op.parts_ready = 1;
        ck_assert_int_eq(world_submit(&slow[i]), 0);
    }
    trial = copy_probe(w, dram(0, 0), hbm(0, 1, 0), 1000, 1);
    bool apart = world_submit(&trial) == 0;
    behind = copy_probe(w, dram(0, 20 * MIB), hbm(1, 0, 20 * MIB), 1000, 1);
    own = copy_probe(w, dram(0, 21 * MIB), hbm(0, 0, 21 * MIB), 1000, 1);
    ck_assert_int_eq(dp_submit_or_wait(dp, &behind.op), 0);
    ck_assert(behind.op.waiting);
    w->waiting += 2;
    ck_assert_int_eq(dp_submit_or_wait(dp, &own.op), 0);
    if (has(w, apart, "room of its own for each peer")) {
        ck_assert(!own.op.waiting);
        while (own.n_done == 0) {
            world_run_for(w, NS_PER_MS);
        }
        ck_assert(behind.op.waiting);
    }
    for (unsigned i = 0; i < WORLD_DEPTH; i++) {
        world_feed(&slow[i], 2);
    }
    world_run(w);
    ck_assert(behind.n_done == 1 && own.n_done == 1 && trial.n_done == apart);
}

static void out_of_bounds(struct world *w)
{
    if (!has(w, has_bytes(w), "bytes")) {
        return;
    }
    expect_fault(w, dram(0, 0), hbm(1, 0, MEMORY_BYTES - MIB + 1), 1);
    expect_fault(w, dram(0, 0), hbm(1, 0, MEMORY_BYTES - 3 * MIB), 8);
    expect_fault(w, dram(0, MEMORY_BYTES - MIB + 1), hbm(1, 0, 0), 1);
    expect_fault(w, dram(0, 0), hbm(1, 7, 0), 1);
    expect_fault(w, dram(0, 0), hbm(0, 0, UINT64_MAX - 5), 1);
    expect_fault(w, dram(0, 0), hbm(1, 0, UINT64_MAX - 5), 1);
    struct probe p = copy_probe(w, dram(0, 0), hbm(1, 0, 0), MIB, 1); /* and the next op works */
    ck_assert_int_eq(world_submit(&p), 0);
    world_run(w);
    ck_assert_int_eq(p.op.status, 0);
}

static void fed_fault_is_told_early(struct world *w)
{
    if (!has(w, has_bytes(w), "bytes")) {
        return;
    }
    struct probe p = copy_probe(w, dram(0, 0), hbm(1, 0, MEMORY_BYTES - 1), 2, 5);
    p.op.parts_ready = 1; /* the rest never comes */
    int rc = world_submit(&p);
    if (rc == 0) {
        world_run(w);
        rc = p.op.status;
    }
    ck_assert_int_eq(rc, -EFAULT);
}

static struct probe extra;

static void submit_extra(struct probe *p)
{
    (void)p;
    if (!extra.op.in_flight) {
        ck_assert_int_eq(world_submit(&extra), 0); /* there is room from inside done() */
    }
}

static void again_at_depth(struct world *w)
{
    struct dp_place dsts[] = {hbm(1, 0, 0), hbm(0, 0, 0)};
    for (unsigned d = 0; d < 2; d++) {
        struct probe p[WORLD_DEPTH];
        for (unsigned i = 0; i < WORLD_DEPTH; i++) {
            p[i] = copy_probe(w, dram(0, i * MIB), dsts[d], 1000, 1);
            p[i].op.dst.offset_bytes = i * MIB;
            p[i].op.parts_ready = 0;
            ck_assert_int_eq(world_submit(&p[i]), 0);
        }
        extra = copy_probe(w, dram(0, 20 * MIB), dsts[d], 1000, 1);
        extra.op.dst.offset_bytes = 20 * MIB;
        ck_assert_int_eq(world_submit(&extra), -EAGAIN);
        world_run_for(w, NS_PER_MS);
        ck_assert_int_eq(world_submit(&extra), -EAGAIN);
        p[3].on_done = submit_extra;
        for (unsigned i = 0; i < WORLD_DEPTH; i++) {
            world_feed(&p[i], 1);
        }
        world_run(w);
        ck_assert_uint_eq(extra.n_done, 1);
        ck_assert_int_eq(extra.op.status, 0);
    }
}

static void cancel_starved(struct world *w)
{
    struct dp_place dsts[] = {hbm(1, 0, 0), hbm(0, 0, 0)};
    for (unsigned d = 0; d < 2; d++) {
        struct probe p = copy_probe(w, dram(0, 0), dsts[d], 1000, 4);
        p.op.parts_ready = 0;
        ck_assert_int_eq(world_submit(&p), 0);
        world_cancel(&p);
        ck_assert_uint_eq(p.n_done, 0);
        world_cancel(&p);
        world_run(w);
        ck_assert_int_eq(p.op.status, -ECANCELED);
        ck_assert_uint_eq(p.op.parts_done, 0);
    }
}

static void cancel_half_fed(struct world *w)
{
    struct dp_place dsts[] = {hbm(1, 0, 0), hbm(0, 0, 0)};
    for (unsigned d = 0; d < 2; d++) {
        struct probe p = copy_probe(w, dram(0, 0), dsts[d], 1000, 4);
        p.op.parts_ready = 2;
        ck_assert_int_eq(world_submit(&p), 0);
        world_run_until_parts(&p, 2);
        ck_assert_uint_eq(p.op.parts_done, 2);
        world_cancel(&p);
        world_feed(&p, 4);
        world_run(w);
        ck_assert_int_eq(p.op.status, -ECANCELED);
    }
}

static void cancel_at_first_part(struct probe *p)
{
    world_cancel(p);
}

/* After done() the memory is the caller's: nothing of the op may arrive late. */
static void cancel_under_way(struct world *w)
{
    struct dp_place dsts[] = {hbm(1, 0, 0), hbm(0, 0, 0)};
    for (unsigned d = 0; d < 2; d++) {
        struct probe p = copy_probe(w, dram(0, 0), dsts[d], MIB, 30);
        p.on_progress = cancel_at_first_part;
        fill(w, dram(0, 0), 30 * MIB, 1);
        ck_assert_int_eq(world_submit(&p), 0);
        world_run(w);
        ck_assert(p.op.status == -ECANCELED || p.op.status == 0);
        ck_assert_uint_ge(p.op.parts_done, 1);
        check_filled(w, dsts[d], MIB, 1);
        fill(w, dsts[d], 30 * MIB, 2);
        world_run_for(w, 20 * NS_PER_MS);
        check_filled(w, dsts[d], 30 * MIB, 2);
    }
}

static void cancel_at_last_part(struct probe *p)
{
    if (p->op.parts_done == p->op.parts_total) {
        world_cancel(p);
    }
}

/* Too late: everything has arrived. */
static void cancel_from_the_last_progress(struct world *w)
{
    struct dp_place dsts[] = {hbm(1, 0, 0), hbm(0, 0, 0)};
    for (unsigned d = 0; d < 2; d++) {
        struct probe p = copy_probe(w, dram(0, 0), dsts[d], 1000, 4);
        p.on_progress = cancel_at_last_part;
        ck_assert_int_eq(world_submit(&p), 0);
        world_run(w);
        ck_assert_int_eq(p.op.status, 0);
        ck_assert_uint_eq(p.last_progress, 4);
    }
}

/* Whichever wins, there is one completion. */
static void cancel_at_once_and_after(struct world *w)
{
    struct dp_place dsts[] = {hbm(1, 0, 0), hbm(0, 0, 0)};
    for (unsigned i = 0; i < 20; i++) {
        struct probe p = copy_probe(w, dram(0, 0), dsts[i % 2], 100 * 1000, 4);
        ck_assert_int_eq(world_submit(&p), 0);
        world_run_for(w, i / 2 * 20 * NS_PER_US);
        world_cancel(&p);
        world_run(w);
        ck_assert_uint_eq(p.n_done, 1);
        ck_assert(p.op.status == -ECANCELED || p.op.status == 0);
        world_cancel(&p); /* harmless */
        ck_assert_uint_eq(p.n_done, 1);
    }
    const struct dp_account *a = &w->backend->dp_of(w, 0)->accounts[DP_CLASS_LOAD];
    ck_assert_uint_eq(a->ops_in, 20);
    ck_assert_uint_eq(a->ops_out, 20);
    ck_assert_uint_eq(a->bytes_in, a->bytes_out + a->bytes_failed);
}

static void close_with_work_in_flight(struct world *w)
{
    if (!has(w, w->backend->stop, "way to close with work in flight")) {
        return;
    }
    struct probe p[6];
    for (unsigned i = 0; i < 6; i++) {
        p[i] =
            copy_probe(w, dram(0, 0), i % 2 ? hbm(1, 0, i * MIB) : hbm(0, 0, i * MIB), MIB / 4, 4);
        p[i].op.parts_ready = i < 2 ? 0 : i < 4 ? 2 : 4;
        ck_assert_int_eq(world_submit(&p[i]), 0);
    }
    world_run_for(w, NS_PER_MS);
    w->backend->stop(w);
    struct probe late = copy_probe(w, dram(0, 0), hbm(1, 0, 0), 1, 1);
    ck_assert_int_eq(world_submit(&late), -ESHUTDOWN);
    world_run(w);
    for (unsigned i = 0; i < 6; i++) {
        ck_assert_uint_eq(p[i].n_done, 1);
        ck_assert(p[i].op.status == -ECANCELED || (i >= 4 && p[i].op.status == 0));
    }
}

static bool is_death(int status)
{
    return status == -ECONNRESET || status == -EPIPE || status == -ECONNREFUSED;
}

static void peer_dies(struct world *w)
{
    if (!has(w, w->backend->kill_1, "nodes that can die alone")) {
        return;
    }
    struct probe p[3];
    for (unsigned i = 0; i < 3; i++) {
        p[i] = copy_probe(w, dram(0, 0), hbm(1, 0, i * MIB), MIB / 4, 4);
        p[i].op.parts_ready = i;
        ck_assert_int_eq(world_submit(&p[i]), 0);
    }
    world_run_for(w, 20 * NS_PER_MS);
    ck_assert_uint_eq(w->waiting, 3);
    w->backend->kill_1(w);
    world_run(w);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert(i == 0 ? p[i].op.status < 0 : is_death(p[i].op.status));
    }
    struct probe after = copy_probe(w, dram(0, 0), hbm(1, 0, 0), 1, 1);
    int rc = world_submit(&after); /* may be known already, or be found out */
    struct probe local = copy_probe(w, dram(0, 0), hbm(0, 0, 0), 1000, 1);
    ck_assert_int_eq(world_submit(&local), 0);
    world_run(w);
    ck_assert(is_death(rc ? rc : after.op.status));
    ck_assert_int_eq(local.op.status, 0);
}

const struct conformance_case end_cases[] = {
    {"no sense is refused", no_sense_is_refused},
    {"a slow peer holds up nobody else", a_slow_peer_holds_up_nobody_else},
    {"out of bounds", out_of_bounds},
    {"a fault is told before all is fed", fed_fault_is_told_early},
    {"-EAGAIN at depth", again_at_depth},
    {"cancel a starved op", cancel_starved},
    {"cancel a half-fed op", cancel_half_fed},
    {"cancel under way", cancel_under_way},
    {"cancel from the last progress", cancel_from_the_last_progress},
    {"cancel at once, and after", cancel_at_once_and_after},
    {"close with work in flight", close_with_work_in_flight},
    {"the peer dies", peer_dies},
    {NULL, NULL},
};
