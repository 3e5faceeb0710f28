/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Cases in which everything arrives. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/units.h"
#include "conformance.h"

#define KIB ((uint64_t)1 << 10)

static void copy_and_check(struct world *w, struct dp_place src, struct dp_place dst,
                           uint64_t bytes)
{
    struct probe p = copy_probe(w, src, dst, bytes, 1);
    fill(w, src, bytes, bytes);
    ck_assert_int_eq(world_submit(&p), 0);
    ck_assert_uint_eq(p.n_done, 0);
    world_run(w);
    ck_assert_uint_eq(p.n_done, 1);
    ck_assert_int_eq(p.op.status, 0);
    check_filled(w, dst, bytes, bytes);
}

static void every_pair_of_places(struct world *w)
{
    struct dp_place places[] = {dram(0, 512), hbm(0, 0, 512), hbm(0, 1, 512),
                                dram(1, 512), hbm(1, 0, 512), hbm(1, 1, 512)};
    for (unsigned a = 0; a < 6; a++) {
        for (unsigned b = 0; b < 6; b++) {
            if (a != b) {
                copy_and_check(w, places[a], places[b], 10 * KIB + a * 10 + b);
            }
        }
    }
}

static void one_byte(struct world *w)
{
    copy_and_check(w, dram(0, 77), hbm(1, 0, 33), 1);
    copy_and_check(w, dram(0, MEMORY_BYTES - 1), dram(1, MEMORY_BYTES - 1), 1);
    copy_and_check(w, dram(0, 77), hbm(0, 0, 33), 1);
}

static void a_whole_memory(struct world *w)
{
    copy_and_check(w, dram(0, 0), hbm(1, 0, 0), MEMORY_BYTES);
    copy_and_check(w, hbm(0, 1, 0), dram(0, 0), MEMORY_BYTES);
}

/* What the op covers is as in the source, all between the pieces as it was (0xee). */
static void check_pieces(struct world *w, const struct dp_op *op, uint64_t span)
{
    uint8_t *src = w->backend->bytes(w, &op->src, span);
    uint8_t *dst = w->backend->bytes(w, &op->dst, span);
    uint8_t *covered = calloc(1, span);
    for (uint32_t p = 0; p < op->parts_total; p++) {
        for (uint64_t i = 0; i < op->part_bytes; i++) {
            covered[p * op->part_stride_bytes + i / op->segment_bytes * op->segment_stride_bytes +
                    i % op->segment_bytes] = 1;
        }
    }
    for (uint64_t i = 0; i < span; i++) {
        if (dst[i] != (covered[i] ? src[i] : 0xee)) {
            ck_abort_msg("byte %llu, %s", (unsigned long long)i, covered[i] ? "copied" : "between");
        }
    }
    free(covered);
}

/* As a layer-wise stream looks: parts are layers,
 * segments the blocks of a request, the last one short. */
static void strided_pieces(struct world *w)
{
    struct dp_place dsts[] = {hbm(1, 0, 4096), hbm(0, 0, 4096)};
    for (unsigned d = 0; d < 2; d++) {
        struct probe p = copy_probe(w, dram(0, 8192), dsts[d], 5 * 1000 + 123, 7);
        p.op.segments = 6;
        p.op.segment_bytes = 1000;
        p.op.segment_stride_bytes = 8 * 1000; /* a Full Block of 8 layers, the last not copied */
        p.op.part_stride_bytes = 1000;
        uint64_t span = 6 * 8 * 1000;
        fill(w, p.op.src, span, 5);
        if (has_bytes(w)) {
            uint8_t *dst = w->backend->bytes(w, &p.op.dst, span);
            for (uint64_t i = 0; i < span; i++) {
                dst[i] = 0xee;
            }
        }
        ck_assert_int_eq(world_submit(&p), 0);
        world_run(w);
        ck_assert_int_eq(p.op.status, 0);
        ck_assert_uint_eq(dp_op_bytes(&p.op), 7 * 5123);
        if (has_bytes(w)) {
            check_pieces(w, &p.op, span);
        }
    }
}

#define ORDER_PARTS 64u
#define ORDER_BYTES (32 * KIB)

/* Whatever progress() reports has its bytes there already. */
static void check_arrived(struct probe *p)
{
    struct world *w = p->world;
    for (uint32_t i = 0; has_bytes(w) && i < p->op.parts_done; i++) {
        struct dp_place at = p->op.dst;
        at.offset_bytes += i * ORDER_BYTES;
        check_filled(w, at, 8, i);
    }
    p->op.notify_at = p->op.parts_done + 3;
}

static void parts_arrive_in_order(struct world *w)
{
    struct dp_place dsts[] = {hbm(1, 0, 0), hbm(0, 0, 0)};
    for (unsigned d = 0; d < 2; d++) {
        struct probe p = copy_probe(w, dram(0, 0), dsts[d], ORDER_BYTES, ORDER_PARTS);
        p.on_progress = check_arrived;
        for (uint32_t i = 0; i < ORDER_PARTS; i++) {
            fill(w, dram(0, i * ORDER_BYTES), ORDER_BYTES, i);
        }
        ck_assert_int_eq(world_submit(&p), 0);
        world_run(w);
        ck_assert_int_eq(p.op.status, 0);
        ck_assert_uint_ge(p.n_progress, 1);
        ck_assert_uint_le(p.n_progress, ORDER_PARTS / 3 + 1);
    }
}

struct feeder {
    struct loop_timer timer;
    struct probe *probe;
};

static void feeder_fires(struct loop_timer *t)
{
    struct feeder *f = container_of(t, struct feeder, timer);
    struct dp_op *op = &f->probe->op;
    ck_assert(op->in_flight);
    ck_assert_uint_le(op->parts_done, op->parts_ready);
    uint32_t at = op->parts_ready;
    struct dp_place src = op->src;
    src.offset_bytes += at * op->part_bytes;
    fill(f->probe->world, src, op->part_bytes, at); /* the bytes exist only now */
    world_feed(f->probe, at + 1);
    world_feed(f->probe, at); /* never lowers */
    ck_assert_uint_eq(op->parts_ready, at + 1);
    if (op->parts_ready < op->parts_total) {
        loop_arm(f->probe->world->loop, t, loop_now_ns(f->probe->world->loop) + NS_PER_MS / 2);
    }
}

static void fed_part_by_part(struct world *w)
{
    struct dp_place dsts[] = {hbm(1, 1, 0), hbm(0, 1, 0)};
    for (unsigned d = 0; d < 2; d++) {
        struct probe p = copy_probe(w, dram(0, 0), dsts[d], 5000, 20);
        p.op.parts_ready = 0;
        struct feeder f = {.probe = &p};
        loop_timer_init(&f.timer, feeder_fires);
        ck_assert_int_eq(world_submit(&p), 0);
        loop_arm(w->loop, &f.timer, loop_now_ns(w->loop) + 2 * NS_PER_MS);
        world_run(w);
        ck_assert_int_eq(p.op.status, 0);
        for (uint32_t i = 0; i < 20; i++) {
            struct dp_place at = dsts[d];
            at.offset_bytes = i * (uint64_t)5000;
            check_filled(w, at, 5000, i);
        }
    }
}

static void feed_next(struct probe *p)
{
    p->op.notify_at = p->op.parts_done + 1;
    if (p->op.parts_ready < p->op.parts_total) {
        world_feed(p, p->op.parts_ready + 1);
    }
}

static void fed_from_progress(struct world *w)
{
    struct dp_place dsts[] = {hbm(1, 1, 0), hbm(0, 1, 0)};
    for (unsigned d = 0; d < 2; d++) {
        struct probe p = copy_probe(w, dram(0, 0), dsts[d], 100, 50);
        p.op.parts_ready = 1;
        p.on_progress = feed_next;
        ck_assert_int_eq(world_submit(&p), 0);
        world_run(w);
        ck_assert_int_eq(p.op.status, 0);
        ck_assert_uint_eq(p.n_progress, 50);
    }
}

#define CROWD      300u
#define CROWD_SLOT (16 * KIB)

struct crowd {
    struct probe probes[CROWD];
    unsigned next;
    unsigned n_again;
};

static struct crowd crowd;

static void crowd_submit(void)
{
    while (crowd.next < CROWD) {
        int rc = world_submit(&crowd.probes[crowd.next]);
        if (rc == -EAGAIN) {
            crowd.n_again++;
            return;
        }
        ck_assert_int_eq(rc, 0);
        crowd.next++;
    }
}

static void crowd_done(struct probe *p)
{
    ck_assert_int_eq(p->op.status, 0);
    crowd_submit();
}

/* Many more ops than the depth, of all sizes and classes, submitted as completions make room. */
static void a_crowd_with_again(struct world *w)
{
    crowd.next = crowd.n_again = 0;
    uint64_t sum[DP_N_CLASSES] = {0};
    for (unsigned i = 0; i < CROWD; i++) {
        uint64_t r = hash_mix64(i);
        uint64_t at = i * CROWD_SLOT;
        crowd.probes[i] = copy_probe(w, dram(0, at), r & 1 ? hbm(1, 0, at) : hbm(0, 0, at),
                                     1 + (r >> 8) % (CROWD_SLOT / 4), 1 + (r >> 40) % 4);
        crowd.probes[i].op.traffic_class = (enum dp_class)((r >> 50) % DP_N_CLASSES);
        crowd.probes[i].on_done = crowd_done;
        fill(w, dram(0, at), CROWD_SLOT, i);
        sum[crowd.probes[i].op.traffic_class] += dp_op_bytes(&crowd.probes[i].op);
    }
    crowd_submit();
    world_run(w);
    ck_assert_uint_eq(crowd.next, CROWD);
    ck_assert_uint_gt(crowd.n_again, 0);
    for (unsigned i = 0; i < CROWD; i++) {
        ck_assert_uint_eq(crowd.probes[i].n_done, 1);
        check_filled(w, crowd.probes[i].op.dst, dp_op_bytes(&crowd.probes[i].op), i);
    }
    const struct dp *dp = w->backend->dp_of(w, 0);
    for (unsigned c = 0; c < DP_N_CLASSES; c++) {
        ck_assert_uint_eq(dp->accounts[c].ops_in, dp->accounts[c].ops_out);
        ck_assert_uint_eq(dp->accounts[c].bytes_in, sum[c]);
        ck_assert_uint_eq(dp->accounts[c].bytes_out, sum[c]);
        ck_assert_uint_eq(dp->accounts[c].bytes_failed, 0);
    }
}

static unsigned n_rounds;

static void submit_again(struct probe *p)
{
    ck_assert_int_eq(p->op.status, 0);
    if (++n_rounds < 100) {
        ck_assert_int_eq(world_submit(p), 0);
    }
}

static void one_op_over_and_over(struct world *w)
{
    struct dp_place dsts[] = {hbm(1, 0, 0), hbm(0, 0, 0)};
    for (unsigned d = 0; d < 2; d++) {
        struct probe p = copy_probe(w, dram(0, 0), dsts[d], 1000, 3);
        p.on_done = submit_again;
        n_rounds = 0;
        ck_assert_int_eq(world_submit(&p), 0);
        world_run(w);
        ck_assert_uint_eq(n_rounds, 100);
    }
}

/* Both ways at once, so that neither side's reading can wait for its writing. */
static void both_directions(struct world *w)
{
    struct probe there[4], back[4];
    for (unsigned i = 0; i < 4; i++) {
        uint64_t at = i * (4096 * KIB);
        fill(w, dram(0, at), 4096 * KIB, 100 + i);
        fill(w, dram(1, at), 4096 * KIB, 200 + i);
        there[i] = copy_probe(w, dram(0, at), hbm(1, 0, at), 512 * KIB, 8);
        back[i] = copy_probe(w, dram(1, at), hbm(0, 0, at), 512 * KIB, 8);
        ck_assert_int_eq(world_submit(&there[i]), 0);
        ck_assert_int_eq(world_submit(&back[i]), 0);
    }
    world_run(w);
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_int_eq(there[i].op.status, 0);
        ck_assert_int_eq(back[i].op.status, 0);
        check_filled(w, there[i].op.dst, 4096 * KIB, 100 + i);
        check_filled(w, back[i].op.dst, 4096 * KIB, 200 + i);
    }
}

const struct conformance_case move_cases[] = {
    {"every pair of places", every_pair_of_places},
    {"one byte", one_byte},
    {"a whole memory", a_whole_memory},
    {"strided pieces, the last one short", strided_pieces},
    {"parts arrive in order", parts_arrive_in_order},
    {"fed part by part", fed_part_by_part},
    {"fed from progress", fed_from_progress},
    {"a crowd, with -EAGAIN", a_crowd_with_again},
    {"one op over and over", one_op_over_and_over},
    {"both directions", both_directions},
    {NULL, NULL},
};
