/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * EP groups that span nodes (hw/ep_barrier_net.h) in virtual time: members come at random times;
 * all are released together, when the last has come, with the sum of what all have brought.
 */
#include <check.h>
#include <errno.h>

#include "base/hash.h"
#include "base/units.h"
#include "check_suite.h"
#include "hw/ep_barrier_net.h"
#include "sim/sim_messages.h"
#include "sim/virtual_driver.h"

#define MAX_NODES   4
#define MAX_MEMBERS 12
#define PHASES      50
#define LATENCY_NS  (20 * NS_PER_US)

struct engine {
    struct ep_member member;
    struct loop_timer timer; /* comes */
    bool idle;               /* comes when it is called only */
    unsigned n_called;
};

static struct virtual_driver driver;
static struct loop loop;
static struct sim_messages messages;
static uint32_t n_nodes, gpus_per_node;
static struct ep_barrier_net barriers[MAX_NODES];
static struct engine engines[MAX_MEMBERS];
static unsigned n_engines, n_finished;
static uint64_t came_ns[MAX_MEMBERS][PHASES + 1], brought[MAX_MEMBERS][PHASES + 1];
static uint64_t chance;

static uint64_t draw(uint64_t n)
{
    chance = hash_mix64(chance + 1);
    return chance % n;
}

static unsigned index_of(const struct engine *e)
{
    return (unsigned)(e - engines);
}

static struct ep_barrier *barrier_of(const struct engine *e)
{
    return &barriers[index_of(e) / gpus_per_node].barrier;
}

static void come(struct loop_timer *t)
{
    struct engine *e = container_of(t, struct engine, timer);
    unsigned i = index_of(e);
    uint64_t value = draw(1000);
    came_ns[i][e->member.phase] = loop_now_ns(&loop);
    brought[i][e->member.phase] = value;
    ep_arrive(barrier_of(e), &e->member, value);
}

static void come_later(struct engine *e)
{
    if (!e->idle) {
        loop_arm(&loop, &e->timer, loop_now_ns(&loop) + draw(300 * NS_PER_US));
    }
}

static void released(struct ep_member *m, uint64_t sum)
{
    struct engine *e = container_of(m, struct engine, member);
    uint64_t phase = m->phase - 1, expected = 0;
    unsigned first = index_of(e) / m->n_ranks * m->n_ranks;
    for (unsigned i = first; i < first + m->n_ranks; i++) {
        ck_assert_uint_gt(came_ns[i][phase], 0); /* all have come */
        expected += brought[i][phase];
    }
    ck_assert_uint_eq(sum, expected);
    if (m->phase == PHASES) {
        n_finished++;
    } else {
        come_later(e);
    }
    if (n_finished == n_engines) {
        loop_stop(&loop);
    }
}

static void called(struct ep_member *m)
{
    struct engine *e = container_of(m, struct engine, member);
    e->n_called++;
    if (!loop_armed(&e->timer)) {
        come(&e->timer);
    }
}

static void on_message(void *self, const struct msg *m)
{
    ck_assert_int_eq(ep_barrier_net_take(self, m), 0);
}

/* Prefill nodes; groups are runs of ep_gpus engines. idle: all but the first engine of a group. */
static void play(uint32_t nodes, uint32_t gpus, uint32_t ep_gpus, bool idle, uint64_t seed)
{
    chance = seed;
    n_finished = 0;
    n_engines = nodes * gpus;
    n_nodes = nodes;
    gpus_per_node = gpus;
    virtual_driver_init(&driver, NULL, NULL, NULL);
    ck_assert_int_eq(loop_init(&loop, &driver.driver, seed), 0);
    ck_assert_int_eq(sim_messages_init(&messages, &loop, nodes + MSG_NODE(0), LATENCY_NS), 0);
    for (uint32_t n = 0; n < nodes; n++) {
        struct msg_port *port = &messages.port;
        ep_barrier_net_init(&barriers[n], nodes, gpus, n, &loop, port);
        ck_assert_int_eq(port->ops->attach(port, MSG_NODE(n), on_message, &barriers[n]), 0);
    }
    for (unsigned i = 0; i < n_engines; i++) {
        struct engine *e = &engines[i];
        *e = (struct engine){.member = {.side = EP_PREFILL,
                                        .group = i / ep_gpus,
                                        .rank = i % ep_gpus,
                                        .n_ranks = ep_gpus,
                                        .released = released,
                                        .called = idle ? called : NULL},
                             .idle = idle && i % ep_gpus > 0};
        loop_timer_init(&e->timer, come);
        for (unsigned p = 0; p <= PHASES; p++) {
            came_ns[i][p] = 0;
        }
        ck_assert_int_eq(ep_attach(barrier_of(e), &e->member), 0);
    }
    loop.now_ns = 1;
    for (unsigned i = 0; i < n_engines; i++) {
        come_later(&engines[i]);
    }
    loop_run(&loop);
}

static void stop(void)
{
    for (unsigned i = 0; i < n_engines; i++) {
        loop_disarm(&loop, &engines[i].timer);
        ep_detach(barrier_of(&engines[i]), &engines[i].member);
    }
    for (uint32_t n = 0; n < n_nodes; n++) {
        ep_barrier_done(&barriers[n].barrier);
    }
    sim_messages_done(&messages);
    loop_done(&loop);
}

static const struct {
    uint32_t nodes, gpus, ep_gpus;
} shapes[] = {{1, 2, 2}, {2, 1, 2}, {2, 3, 2}, {4, 3, 12}, {4, 2, 4}, {3, 4, 6}};
#define N_SHAPES ((int)(sizeof(shapes) / sizeof(shapes[0])))

START_TEST(all_meet)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        play(shapes[_i].nodes, shapes[_i].gpus, shapes[_i].ep_gpus, false, seed);
        ck_assert_uint_eq(n_finished, n_engines);
        stop();
    }
}
END_TEST

START_TEST(idle_ones_come_when_called)
{
    play(shapes[_i].nodes, shapes[_i].gpus, shapes[_i].ep_gpus, true, 7);
    ck_assert_uint_eq(n_finished, n_engines);
    for (unsigned i = 0; i < n_engines; i++) {
        ck_assert_uint_eq(engines[i].n_called, engines[i].idle ? PHASES : 0);
    }
    stop();
}
END_TEST

START_TEST(what_makes_no_sense_is_refused)
{
    play(2, 1, 2, false, 1);
    const struct {
        uint32_t src, kind, side, group;
        uint64_t phase;
    } bad[] = {
        {1, MSG_MEET_ARRIVE, EP_PREFILL, 0, PHASES + 1}, /* a phase that is not */
        {3, MSG_MEET_ARRIVE, EP_PREFILL, 0, PHASES},     /* a node that is not in the group */
        {1, MSG_MEET_ARRIVE, EP_PREFILL, 1, PHASES},     /* no such group */
        {1, MSG_MEET_ARRIVE, EP_DECODE, 0, PHASES},
        {1, MSG_MEET_RELEASE, EP_PREFILL, 0, PHASES}, /* not the leader */
        {0, MSG_MEET_RELEASE, EP_PREFILL, 0, PHASES}, /* before anybody has come */
        {0, MSG_MEET_CALL, EP_PREFILL, 0, PHASES - 1},
        {0, 9, EP_PREFILL, 0, PHASES},
    };
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct msg m = {.type = MSG_MEET, .src = MSG_NODE(bad[i].src), .dst = MSG_NODE(0)};
        m.u.meet = (struct msg_meet){
            .kind = bad[i].kind, .side = bad[i].side, .group = bad[i].group, .phase = bad[i].phase};
        ck_assert_msg(ep_barrier_net_take(&barriers[0], &m) == -EPROTO, "%u", i);
    }
    stop();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ep_barrier");
    TCase *t = tcase_create("ep_barrier");
    tcase_add_loop_test(t, all_meet, 0, N_SHAPES);
    tcase_add_loop_test(t, idle_ones_come_when_called, 0, N_SHAPES);
    tcase_add_test(t, what_makes_no_sense_is_refused);
    suite_add_tcase(s, t);
    return run_suite(s);
}
