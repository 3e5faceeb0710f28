/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "packet_replay.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "sim/virtual_driver.h"

/* Collectives go on for as long as transfers come; a run ends this long after the last event. */
#define TAIL_NS 50000000u

struct run {
    struct replay *replay;
    bool packets;
    struct virtual_driver driver;
    struct loop loop;
    struct sim_dp dp;
    struct packet_dp packet_dp;
    struct packet_bursts bursts[2]; /* of each load */
    uint32_t next_event, n_done;
    struct loop_timer timer, end;
};

static struct run run;

static void *grown(void *array, uint32_t n, uint32_t *cap, size_t size)
{
    if (n < *cap) {
        return array;
    }
    *cap = *cap ? 2 * *cap : 64;
    void *new = realloc(array, *cap * size);
    ck_assert_ptr_nonnull(new);
    return new;
}

static void add_event(struct replay *r, struct replay_event e)
{
    r->events = grown(r->events, r->n_events, &r->cap_events, sizeof(*r->events));
    r->events[r->n_events++] = e;
}

void replay_submit(struct replay *r, uint64_t at_ns, const struct dp_op *op)
{
    r->transfers = grown(r->transfers, r->n_transfers, &r->cap_transfers, sizeof(*r->transfers));
    r->transfers[r->n_transfers] =
        (struct replay_transfer){.shape = *op, .recorded = op, .submit_ns = at_ns, .fed_ns = at_ns};
    add_event(r, (struct replay_event){at_ns, r->n_transfers++, op->parts_ready, true});
}

void replay_feed(struct replay *r, uint64_t at_ns, const struct dp_op *op, uint32_t parts_ready)
{
    uint32_t i = r->n_transfers;
    while (r->transfers[--i].recorded != op) {
    }
    r->transfers[i].fed_ns = at_ns;
    add_event(r, (struct replay_event){at_ns, i, parts_ready, false});
}

void replay_done(struct replay *r)
{
    free(r->transfers);
    free(r->events);
}

static void transfer_done(struct dp_op *op)
{
    struct replay_transfer *t = container_of(op, struct replay_transfer, op);
    ck_assert_int_eq(op->status, 0);
    t->done_ns[run.packets] = loop_now_ns(&run.loop);
    if (++run.n_done == run.replay->n_transfers) {
        loop_stop(&run.loop);
    }
}

static void do_event(const struct replay_event *e)
{
    struct replay_transfer *t = &run.replay->transfers[e->transfer];
    if (!e->submit) {
        dp_feed(&run.dp.dp, &t->op, e->parts_ready);
        return;
    }
    t->op = t->shape;
    t->op.in_flight = false;
    t->op.parts_ready = e->parts_ready;
    t->op.progress = NULL;
    t->op.done = transfer_done;
    ck_assert_int_eq(dp_submit(&run.dp.dp, &t->op), 0);
}

static void events_due(struct loop_timer *timer)
{
    const struct replay *r = run.replay;
    uint64_t now = loop_now_ns(&run.loop);
    while (run.next_event < r->n_events && r->events[run.next_event].at_ns <= now) {
        do_event(&r->events[run.next_event++]);
    }
    if (run.next_event < r->n_events) {
        loop_arm(&run.loop, timer, r->events[run.next_event].at_ns);
    }
}

static void start_load(uint32_t index)
{
    const struct replay_load *l = &run.replay->loads[index];
    double Bps = l->frac * run.replay->config.cnic_Bps;
    if (run.packets) {
        packet_bursts_init(&run.bursts[index], &run.packet_dp, l->period_ns);
        packet_bursts_load(&run.bursts[index], l->first, l->n, l->peers, l->peers, Bps);
        return;
    }
    for (uint32_t i = l->first; i < l->first + l->n; i++) {
        double left = run.replay->config.cnic_Bps - Bps;
        net_set_capacity(&run.dp.net, &run.dp.cnics[i].tx, left);
        net_set_capacity(&run.dp.net, &run.dp.cnics[i].rx, left);
    }
}

static void too_late(struct loop_timer *t)
{
    (void)t;
    ck_abort_msg("%u of %u transfers over", run.n_done, run.replay->n_transfers);
}

static void set_up(struct replay *r, bool packets)
{
    struct err err = ERR_INIT;
    run = (struct run){.replay = r, .packets = packets};
    virtual_driver_init(&run.driver, NULL, NULL, NULL);
    ck_assert_int_eq(loop_init(&run.loop, &run.driver.driver, 0), 0);
    ck_assert_int_eq(sim_dp_init(&run.dp, &run.loop, &r->config), 0);
    if (packets) {
        struct packet_dp_config c = packet_dp_paper_config(VLARB_SPEC, VLARB_SPEC);
        c.lane_buffers = r->lane_buffers;
        ck_assert_int_eq(packet_dp_init(&run.packet_dp, &run.dp, &c, &err), 0);
        run.packet_dp.net.packet_turns = r->packet_turns;
        run.packet_dp.net.window = r->window ? r->window : run.packet_dp.net.window;
    }
    loop_timer_init(&run.timer, events_due);
    loop_timer_init(&run.end, too_late);
    loop_arm(&run.loop, &run.timer, r->events[0].at_ns);
    loop_arm(&run.loop, &run.end, r->events[r->n_events - 1].at_ns + TAIL_NS);
}

static void tear_down(void)
{
    if (run.packets) {
        for (uint32_t i = 0; i < run.replay->n_loads; i++) {
            const struct packet_burst_group *g =
                packet_bursts_group(&run.bursts[i], run.replay->loads[i].first);
            run.replay->stretch[i] = g->taken_ns / g->alone_ns;
            packet_bursts_done(&run.bursts[i]);
        }
        run.replay->n_served = run.packet_dp.net.n_served;
        packet_dp_done(&run.packet_dp);
    }
    sim_dp_done(&run.dp);
    loop_done(&run.loop);
}

void replay_run(struct replay *r)
{
    char what[160];
    for (int packets = 0; packets < 2; packets++) {
        set_up(r, packets);
        for (uint32_t i = 0; i < r->n_loads; i++) {
            start_load(i);
        }
        ck_assert_int_eq(loop_run(&run.loop), 0);
        ck_assert_uint_eq(run.n_done, r->n_transfers);
        ck_assert_msg(!sim_dp_check_conserved(&run.dp, what, sizeof(what)), "%s", what);
        tear_down();
    }
}

static double ns_between(uint64_t from, uint64_t to)
{
    return (double)to - (double)from;
}

struct replay_errors replay_errors(const struct replay *r, enum dp_class class)
{
    struct replay_errors e = {0};
    for (uint32_t i = 0; i < r->n_transfers; i++) {
        const struct replay_transfer *t = &r->transfers[i];
        if (t->shape.kind != DP_COPY || (class < DP_N_CLASSES && t->shape.traffic_class != class)) {
            continue;
        }
        double packets = ns_between(t->submit_ns, t->done_ns[1]);
        double late = ns_between(t->done_ns[0], t->done_ns[1]);
        e.n++;
        e.mean_s += packets * 1e-9;
        e.mean += late / packets;
        e.mean_abs += fabs(late / packets);
        e.worst = fabs(late / packets) > fabs(e.worst) ? late / packets : e.worst;
        if (t->fed_ns > t->submit_ns) {
            e.n_fed++;
            e.lag_mean_ns += fabs(late);
            e.lag_worst_ns = fmax(e.lag_worst_ns, fabs(late));
        }
    }
    e.mean_s /= e.n;
    e.mean /= e.n;
    e.mean_abs /= e.n;
    e.lag_mean_ns /= e.n_fed ? e.n_fed : 1;
    return e;
}
