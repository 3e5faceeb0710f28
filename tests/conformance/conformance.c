/* SPDX-License-Identifier: GPL-3.0-or-later */
/* conformance BACKEND: runs every case on one backend. */
#include "conformance.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/units.h"
#include "check_suite.h"

static const struct backend *const backends[] = {
    &backend_sim,   &backend_packet, &backend_mem, &backend_tcp,
#ifdef CONFORMANCE_VERBS
    &backend_verbs,
#endif
};
static const struct backend *chosen;

struct dp_place dram(uint32_t node, uint64_t offset_bytes)
{
    return (struct dp_place){.node = node, .tier = DP_DRAM, .offset_bytes = offset_bytes};
}

struct dp_place hbm(uint32_t node, uint16_t gpu, uint64_t offset_bytes)
{
    return (struct dp_place){
        .node = node, .gpu = gpu, .tier = DP_HBM, .offset_bytes = offset_bytes};
}

bool has_bytes(const struct world *w)
{
    return w->backend->bytes != NULL;
}

static uint8_t pattern(uint64_t seed, uint64_t i)
{
    return (uint8_t)(hash_mix64(seed + i / 8) >> (8 * (i % 8)));
}

void fill(struct world *w, struct dp_place at, uint64_t len, uint64_t seed)
{
    uint8_t *p = has_bytes(w) ? w->backend->bytes(w, &at, len) : NULL;
    for (uint64_t i = 0; p && i < len; i++) {
        p[i] = pattern(seed, i);
    }
}

void check_filled(struct world *w, struct dp_place at, uint64_t len, uint64_t seed)
{
    uint8_t *p = has_bytes(w) ? w->backend->bytes(w, &at, len) : NULL;
    for (uint64_t i = 0; p && i < len; i++) {
        if (p[i] != pattern(seed, i)) {
            ck_abort_msg("byte %llu of %llu differs", (unsigned long long)i,
                         (unsigned long long)len);
        }
    }
}

static void probe_done(struct dp_op *op)
{
    struct probe *p = container_of(op, struct probe, op);
    ck_assert(!p->in_call);
    ck_assert(!op->in_flight);
    p->n_done++;
    ck_assert_uint_eq(p->n_done, 1);
    if (op->status == 0) {
        ck_assert_uint_eq(op->parts_done, op->parts_total);
        ck_assert_uint_le(op->submit_ns, op->start_ns);
        ck_assert_uint_le(op->start_ns, op->done_ns);
    } else {
        ck_assert_int_lt(op->status, 0);
    }
    struct world *w = p->world;
    w->waiting--;
    if (p->on_done) {
        p->on_done(p); /* may submit p again */
    }
    if (w->waiting == 0) {
        loop_stop(w->loop);
    }
}

static void probe_progress(struct dp_op *op)
{
    struct probe *p = container_of(op, struct probe, op);
    ck_assert(!p->in_call);
    ck_assert_uint_gt(op->parts_done, p->last_progress);
    ck_assert_uint_ge(op->parts_done, op->notify_at);
    ck_assert_uint_le(op->parts_done, op->parts_ready);
    p->last_progress = op->parts_done;
    p->n_progress++;
    if (p->on_progress) {
        p->on_progress(p);
    }
    if (op->notify_at <= op->parts_done) {
        op->notify_at = op->parts_done + 1; /* it is the callee's to raise */
    }
}

struct probe copy_probe(struct world *w, struct dp_place src, struct dp_place dst,
                        uint64_t part_bytes, uint32_t parts)
{
    return (struct probe){
        .world = w,
        .op = {.kind = DP_COPY,
               .traffic_class = DP_CLASS_LOAD,
               .src = src,
               .dst = dst,
               .part_bytes = part_bytes,
               .parts_total = parts,
               .parts_ready = parts,
               .segments = 1,
               .segment_bytes = part_bytes,
               .segment_stride_bytes = part_bytes,
               .part_stride_bytes = part_bytes,
               .done = probe_done,
               .progress = probe_progress,
               .notify_at = 1},
    };
}

int world_submit(struct probe *p)
{
    struct world *w = p->world;
    p->n_done = p->n_progress = 0;
    p->last_progress = 0;
    p->in_call = true;
    int rc = dp_submit(w->backend->dp_of(w, p->op.src.node), &p->op);
    p->in_call = false;
    ck_assert(p->op.in_flight == (rc == 0));
    w->waiting += rc == 0;
    return rc;
}

void world_feed(struct probe *p, uint32_t parts_ready)
{
    p->in_call = true;
    dp_feed(p->world->backend->dp_of(p->world, p->op.src.node), &p->op, parts_ready);
    p->in_call = false;
}

void world_cancel(struct probe *p)
{
    p->in_call = true;
    dp_cancel(p->world->backend->dp_of(p->world, p->op.src.node), &p->op);
    p->in_call = false;
}

struct stopper {
    struct loop_timer timer;
    struct loop *loop;
    bool fired;
};

static void stopper_fires(struct loop_timer *t)
{
    struct stopper *s = container_of(t, struct stopper, timer);
    s->fired = true;
    loop_stop(s->loop);
}

/* Until the loop stops for whatever reason. True when it was the time. */
static bool run_at_most(struct world *w, uint64_t ns)
{
    struct stopper s = {.loop = w->loop};
    loop_timer_init(&s.timer, stopper_fires);
    loop_arm(w->loop, &s.timer, loop_now_ns(w->loop) + ns);
    ck_assert_int_eq(loop_run(w->loop), 0);
    loop_disarm(w->loop, &s.timer);
    return s.fired;
}

void world_run(struct world *w)
{
    if (w->waiting > 0) {
        ck_assert_msg(!run_at_most(w, 60 * NS_PER_S), "%u ops never completed", w->waiting);
    }
    ck_assert_uint_eq(w->waiting, 0);
    for (uint32_t node = 0; node < 2; node++) {
        ck_assert_uint_eq(w->backend->dp_of(w, node)->n_in_flight, 0);
    }
}

void world_run_until_parts(struct probe *p, uint32_t parts_done)
{
    uint64_t limit_ns = loop_now_ns(p->world->loop) + 60 * NS_PER_S;
    while (p->op.parts_done < parts_done && p->n_done == 0) {
        ck_assert_msg(loop_now_ns(p->world->loop) < limit_ns, "%u parts of %u never completed",
                      parts_done - p->op.parts_done, parts_done);
        world_run_for(p->world, NS_PER_MS);
    }
}

void world_run_for(struct world *w, uint64_t ns)
{
    uint64_t end_ns = loop_now_ns(w->loop) + ns;
    while (loop_now_ns(w->loop) < end_ns) {
        run_at_most(w, end_ns - loop_now_ns(w->loop));
    }
}

static const struct conformance_case *case_number(int i)
{
    int n = 0;
    while (move_cases[n].name) {
        n++;
    }
    return i < n ? &move_cases[i] : &end_cases[i - n];
}

START_TEST(run_case)
{
    const struct conformance_case *c = case_number(_i);
    struct world w = {.backend = chosen};
    printf("%s: %s\n", chosen->name, c->name);
    fflush(stdout);
    chosen->open(&w);
    c->run(&w);
    world_run(&w);
    chosen->close(&w);
}
END_TEST

int main(int argc, char **argv)
{
    for (unsigned i = 0; argc == 2 && i < sizeof(backends) / sizeof(backends[0]); i++) {
        chosen = strcmp(backends[i]->name, argv[1]) == 0 ? backends[i] : chosen;
    }
    if (!chosen) {
        fprintf(stderr, "usage: conformance BACKEND\n");
        return 2;
    }
    if (chosen->is_here && !chosen->is_here()) {
        printf("%s: no such device here\n", chosen->name);
        return 77;
    }
    int n_cases = 0;
    while (case_number(n_cases)->name) {
        n_cases++;
    }
    Suite *s = suite_create(chosen->name);
    TCase *t = tcase_create("conformance");
    tcase_set_timeout(t, 600);
    tcase_add_loop_test(t, run_case, 0, n_cases);
    suite_add_tcase(s, t);
    return run_suite(s);
}
