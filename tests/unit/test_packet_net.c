/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Packets over stations: pipelines in closed form, fair turns, windows, lanes. */
#include "check_suite.h"
#include "sim/packet_net.h"

#include <check.h>
#include <math.h>
#include <string.h>

#include "sim/packet_dp.h"
#include "sim/virtual_driver.h"

#define LINK_Bps  48.5e9
#define DRAM_Bps  500e9
#define MAX_FLOWS 12
#define STATIONS  12

/* Of a full packet on a link whose goodput is LINK_Bps; and in a DRAM. */
static const double link_ns = 4096 / LINK_Bps * 1e9;
static const double dram_ns = 4096 / DRAM_Bps * 1e9;

static struct virtual_driver driver;
static struct loop loop;
static struct packet_net net;
static struct packet_station links[STATIONS], dram;

struct transfer {
    struct packet_flow flow;
    uint64_t end_ns;
};
static struct transfer transfers[MAX_FLOWS];

static void set_up(void)
{
    struct err err = ERR_INIT;
    virtual_driver_init(&driver, NULL, NULL, NULL);
    ck_assert_int_eq(loop_init(&loop, &driver.driver, 0), 0);
    packet_net_init(&net, &loop);
    for (int i = 0; i < STATIONS; i++) {
        double wire = 1 + (double)IB_PACKET_OVERHEAD_BYTES / PACKET_PAYLOAD_BYTES;
        ck_assert_int_eq(packet_station_init(&net, &links[i], LINK_Bps * wire,
                                             IB_PACKET_OVERHEAD_BYTES, NULL, &err),
                         0);
    }
    ck_assert_int_eq(packet_station_init(&net, &dram, DRAM_Bps, 0, NULL, &err), 0);
}

static void tear_down(void)
{
    loop_done(&loop);
}

static void reached(struct packet_flow *f)
{
    for (unsigned i = 0; i < f->n_hops; i++) {
        ck_assert_uint_le(f->hops[i].held, f->hops[i].buffer ? PACKET_LANE_ROOM : PACKET_WINDOW);
        ck_assert_uint_le(f->hops[i].waiting, f->hops[i].held);
    }
    f->mark_bytes += 10 * PACKET_PAYLOAD_BYTES;
}

static void ended(struct packet_flow *f)
{
    struct transfer *t = container_of(f, struct transfer, flow);
    t->end_ns = loop_now_ns(&loop);
    ck_assert_uint_eq(f->arrived_bytes, f->total_bytes);
    for (unsigned i = 0; i < f->n_hops; i++) {
        ck_assert_uint_eq(f->hops[i].held, 0);
        ck_assert_uint_eq(f->hops[i].left_bytes, f->total_bytes);
        ck_assert(!f->hops[i].listed);
    }
}

static struct packet_flow *open_bytes(int i, uint8_t lane, uint64_t bytes, struct packet_station *a,
                                      struct packet_station *b, struct packet_station *c)
{
    struct packet_station *path[3] = {a, b, c};
    struct packet_flow *f = &transfers[i].flow;
    *f = (struct packet_flow){.queue_pairs = 1,
                              .lane = lane,
                              .total_bytes = bytes,
                              .ready_bytes = bytes,
                              .part_bytes = bytes,
                              .segment_bytes = bytes,
                              .reached = reached,
                              .ended = ended};
    packet_flow_open(&net, f, path, c ? 3 : 2);
    return f;
}

static void open_packets(int i, uint64_t packets, struct packet_station *a,
                         struct packet_station *b, struct packet_station *c)
{
    open_bytes(i, 0, packets * PACKET_PAYLOAD_BYTES, a, b, c);
}

/* Times are exact but for the rounding of a packet's time to a picosecond (at most half of one in
 * 8,192) and of events to nanoseconds. */
static void ends_at(int i, double ns)
{
    ck_assert_double_eq_tol((double)transfers[i].end_ns, ns, 1 + ns * 0.5 / 8192);
}

/* n equal packets through stations: the slowest one n times, each other one once. */
START_TEST(single_flow)
{
    open_packets(0, 1000, &links[0], &links[1], NULL);
    ck_assert_int_eq(loop_run(&loop), 0);
    ends_at(0, 1001 * link_ns);
    ck_assert_uint_eq(net.n_served, 2000);
}
END_TEST

START_TEST(loopback_out_of_dram)
{
    open_packets(0, 1000, &dram, &links[0], &links[1]);
    ck_assert_int_eq(loop_run(&loop), 0);
    ends_at(0, dram_ns + 1001 * link_ns);
}
END_TEST

START_TEST(dram_limits)
{
    packet_station_set_rate(&dram, 40e9);
    double slow_ns = 4096 / 40e9 * 1e9;
    open_packets(0, 1000, &dram, &links[0], &links[1]);
    ck_assert_int_eq(loop_run(&loop), 0);
    ends_at(0, 1000 * slow_ns + 2 * link_ns);
}
END_TEST

/* A read and a write of one DRAM at 60 GB/s: 30 each. */
START_TEST(dram_is_half_duplex)
{
    packet_station_set_rate(&dram, 60e9);
    double slow_ns = 4096 / 60e9 * 1e9;
    open_packets(0, 1000, &dram, &links[0], &links[1]);
    open_packets(1, 1000, &links[2], &links[3], &dram);
    ck_assert_int_eq(loop_run(&loop), 0);
    /* In turn: what is first in DRAM ends one turn before the other. The writes come two links
     * later and miss a turn or two, which the reads take. */
    double both_ns = 2000 * slow_ns;
    ck_assert_double_eq_tol((double)transfers[1].end_ns, both_ns, 3 * slow_ns);
    ck_assert_double_eq_tol((double)transfers[0].end_ns, both_ns, 10 * slow_ns);
}
END_TEST

/* In turn from the second packet on: the first flow was alone when it took its first turn. */
START_TEST(two_share_a_port)
{
    open_packets(0, 1000, &links[0], &links[1], NULL);
    open_packets(1, 1000, &links[0], &links[2], NULL);
    ck_assert_int_eq(loop_run(&loop), 0);
    ends_at(0, 1999 * link_ns);
    ends_at(1, 2001 * link_ns);
}
END_TEST

START_TEST(incast)
{
    for (int i = 0; i < 5; i++) {
        open_packets(i, 1000, &links[i], &links[10], NULL);
    }
    ck_assert_int_eq(loop_run(&loop), 0);
    for (int i = 0; i < 5; i++) {
        ends_at(i, (4996 + i + 1) * link_ns);
    }
}
END_TEST

/* The last packet is short, and pays the whole overhead. */
START_TEST(short_last_packet)
{
    open_bytes(0, 0, 3 * 4096 + 100, &links[0], &links[1], NULL);
    ck_assert_int_eq(loop_run(&loop), 0);
    double short_ns =
        link_ns * (100 + IB_PACKET_OVERHEAD_BYTES) / (4096 + IB_PACKET_OVERHEAD_BYTES);
    ends_at(0, 4 * link_ns + short_ns);
}
END_TEST

/* Packets do not span segments: 10 parts of 2 segments of 5000 and 3000 B are 2 + 1 packets
 * each. */
START_TEST(packets_keep_to_segments)
{
    struct packet_station *path[2] = {&links[0], &links[1]};
    struct packet_flow *f = &transfers[0].flow;
    *f = (struct packet_flow){.queue_pairs = 1,
                              .total_bytes = 80000,
                              .ready_bytes = 80000,
                              .part_bytes = 8000,
                              .segment_bytes = 5000,
                              .reached = reached,
                              .ended = ended};
    packet_flow_open(&net, f, path, 2);
    ck_assert_int_eq(loop_run(&loop), 0);
    ck_assert_uint_eq(net.n_served, 60);
}
END_TEST

/* Two flows of one port, one and three queue pairs: a quarter and three quarters of it, and both
 * end together, to a round of four packets at either end. */
START_TEST(turns_of_several_queue_pairs)
{
    for (int i = 0; i < 2; i++) {
        struct packet_station *path[2] = {&links[0], &links[1 + i]};
        uint64_t bytes = (i ? 3000 : 1000) * PACKET_PAYLOAD_BYTES;
        transfers[i].flow = (struct packet_flow){.queue_pairs = i ? 3 : 1,
                                                 .total_bytes = bytes,
                                                 .ready_bytes = bytes,
                                                 .part_bytes = bytes,
                                                 .segment_bytes = bytes,
                                                 .reached = reached,
                                                 .ended = ended};
        packet_flow_open(&net, &transfers[i].flow, path, 2);
    }
    ck_assert_int_eq(loop_run(&loop), 0);
    ck_assert_double_eq_tol((double)transfers[0].end_ns, 4001 * link_ns, 8 * link_ns);
    ck_assert_double_eq_tol((double)transfers[1].end_ns, 4001 * link_ns, 8 * link_ns);
}
END_TEST

static void feed(struct loop_timer *t)
{
    struct packet_flow *f = &transfers[0].flow;
    packet_flow_ready(f, f->ready_bytes + f->part_bytes);
    if (f->ready_bytes < f->total_bytes) {
        loop_arm(&loop, t, loop_now_ns(&loop) + 100000);
    }
}

/* A part of 100 packets every 100 us, each gone in 8.5: the last part decides. */
START_TEST(parts_as_they_come)
{
    struct packet_station *path[2] = {&links[0], &links[1]};
    struct packet_flow *f = &transfers[0].flow;
    *f = (struct packet_flow){.queue_pairs = 1,
                              .total_bytes = 1000 * 4096,
                              .part_bytes = 100 * 4096,
                              .segment_bytes = 100 * 4096,
                              .mark_bytes = 10 * 4096,
                              .reached = reached,
                              .ended = ended};
    packet_flow_open(&net, f, path, 2);
    struct loop_timer timer;
    loop_timer_init(&timer, feed);
    loop_arm(&loop, &timer, 100000);
    ck_assert_int_eq(loop_run(&loop), 0);
    ends_at(0, 1e6 + 101 * link_ns);
}
END_TEST

static void stop(struct loop_timer *t)
{
    (void)t;
    loop_stop(&loop);
}

static void run_until(uint64_t ns)
{
    struct loop_timer timer;
    loop_timer_init(&timer, stop);
    loop_arm(&loop, &timer, ns);
    ck_assert_int_eq(loop_run(&loop), 0);
}

/* A and B leave one port, A alone into its link, B, C, D into another: max-min gives B, C, D a
 * third of a link each and A the two thirds that B cannot use. */
START_TEST(slack_goes_to_who_can_use_it)
{
    uint64_t many = 100000;
    open_packets(0, many, &links[0], &links[5], NULL);
    open_packets(1, many, &links[0], &links[6], NULL);
    open_packets(2, many, &links[1], &links[6], NULL);
    open_packets(3, many, &links[2], &links[6], NULL);
    run_until(1000000);
    double moved = LINK_Bps * 1e-3;
    static const double share[4] = {2. / 3, 1. / 3, 1. / 3, 1. / 3};
    for (int i = 0; i < 4; i++) {
        /* Windows fill once, at the start. */
        double slip = 2 * PACKET_WINDOW * PACKET_PAYLOAD_BYTES;
        ck_assert_double_eq_tol((double)transfers[i].flow.arrived_bytes, share[i] * moved, slip);
        packet_flow_abort(&transfers[i].flow);
    }
}
END_TEST

/* A queue pair's turn is a packet's worth of bytes, or a packet: half-size ones then get half. */
START_TEST(turns_of_bytes_or_packets)
{
    net.packet_turns = _i;
    uint64_t many = (uint64_t)1 << 40;
    open_bytes(0, 0, many, &links[0], &links[10], NULL)->segment_bytes = 2048;
    open_bytes(1, 0, many, &links[1], &links[10], NULL);
    run_until(1000000);
    double small = (double)transfers[0].flow.arrived_bytes;
    double large = (double)transfers[1].flow.arrived_bytes;
    double slip = 4 * 4096 / large;
    ck_assert_double_eq_tol(small / large, _i ? 0.5 : 1, slip);
    double wire = small + large + IB_PACKET_OVERHEAD_BYTES * (small / 2048 + large / 4096);
    double wire_Bps = LINK_Bps * (4096 + IB_PACKET_OVERHEAD_BYTES) / 4096;
    ck_assert_double_eq_tol(wire, wire_Bps * 1e-3, 2 * 4096);
    packet_flow_abort(&transfers[0].flow);
    packet_flow_abort(&transfers[1].flow);
}
END_TEST

/*
 * A, B and C leave one port: A into an egress that three more use, B into an idle one, C back
 * through the NIC itself. Buffered by queue pair B and C share what A, with a quarter, leaves. By
 * lane, every packet of B stands behind one of A, and C has half the port.
 */
START_TEST(a_lane_stands_in_line)
{
    static struct packet_lane_buffer buffers[4][VLARB_LANES];
    memset(buffers, 0, sizeof(buffers));
    uint64_t many = (uint64_t)1 << 40;
    for (int i = 0; i < 4 && _i; i++) {
        links[i].lane_buffers = buffers[i];
    }
    for (int i = 0; i < 4; i++) {
        open_bytes(i, 0, many, &links[i], &links[10], NULL);
    }
    open_bytes(4, 0, many, &links[0], &links[9], NULL);
    struct packet_station *loopback[2] = {&links[0], &links[8]};
    struct packet_flow *c = &transfers[5].flow;
    *c = transfers[0].flow;
    c->local = true;
    packet_flow_open(&net, c, loopback, 2);
    run_until(2000000);
    double moved = LINK_Bps * 2e-3, slip = 100 * 4096;
    for (int i = 0; i < 4; i++) {
        ck_assert_double_eq_tol((double)transfers[i].flow.arrived_bytes, moved / 4, slip);
    }
    ck_assert_double_eq_tol((double)transfers[4].flow.arrived_bytes, moved * (_i ? 0.25 : 0.375),
                            slip);
    ck_assert_double_eq_tol((double)c->arrived_bytes, moved * (_i ? 0.5 : 0.375), slip);
    for (int i = 0; i < 6; i++) {
        packet_flow_abort(&transfers[i].flow);
    }
    for (int i = 0; i < 4; i++) {
        ck_assert_uint_eq(buffers[i][0].held, 0);
        ck_assert_uint_eq(buffers[i][0].n, 0);
    }
}
END_TEST

/* An aborted flow leaves nothing behind, and its share to the other one. */
START_TEST(abort_frees_the_links)
{
    open_packets(0, 1000, &links[0], &links[1], NULL);
    open_packets(1, 1000, &links[0], &links[1], NULL);
    run_until((uint64_t)(500.5 * link_ns));
    packet_flow_abort(&transfers[1].flow);
    memset(&transfers[1], 0xa5, sizeof(transfers[1]));
    ck_assert_int_eq(loop_run(&loop), 0);
    /* Half of the first 500; of the other one's packets, those at the second link are dropped. */
    ck_assert_double_eq_tol((double)transfers[0].end_ns, 1251 * link_ns, 2 * link_ns);
    for (int i = 0; i < STATIONS; i++) {
        ck_assert_uint_eq(links[i].lanes_ready, 0);
        ck_assert_ptr_null(links[i].serving);
    }
}
END_TEST

START_TEST(a_link_that_stands_still_goes_on)
{
    open_packets(0, 1000, &dram, &links[0], &links[1]);
    packet_station_set_rate(&dram, 0);
    run_until(1000000);
    packet_station_set_rate(&dram, DRAM_Bps);
    ck_assert_int_eq(loop_run(&loop), 0);
    /* One packet was on its way. */
    ck_assert_double_eq_tol((double)transfers[0].end_ns, 1e6 + dram_ns + 1000 * link_ns, 2);
}
END_TEST

/* Lanes */

static void arbitrate(struct packet_station *s, enum vlarb_mode mode)
{
    struct packet_dp_config c = packet_dp_paper_config(mode, mode);
    struct err err = ERR_INIT;
    double wire = 1 + (double)IB_PACKET_OVERHEAD_BYTES / PACKET_PAYLOAD_BYTES;
    ck_assert_int_eq(
        packet_station_init(&net, s, LINK_Bps * wire, IB_PACKET_OVERHEAD_BYTES, &c.port, &err), 0);
}

/* KV's share of an egress beside so many busy inference lanes, each from a port of its own, over
 * whole periods of the arbiter; KV has several queue pairs, which changes nothing. */
static double kv_share(enum vlarb_mode mode, int inference_lanes, uint64_t packets)
{
    static const uint8_t lanes[3] = {0, 1, 3};
    for (int i = 0; i < STATIONS; i++) {
        arbitrate(&links[i], mode);
    }
    uint64_t many = (uint64_t)1 << 40;
    for (int k = 0; k < 3; k++) {
        open_bytes(k, 2, many, &links[k], &links[10], NULL);
    }
    for (int l = 0; l < inference_lanes; l++) {
        open_bytes(3 + l, lanes[l], many, &links[3 + l], &links[10], NULL);
    }
    run_until((uint64_t)((double)packets * link_ns));
    double kv = 0, all = 0;
    for (int i = 0; i < 3 + inference_lanes; i++) {
        kv += i < 3 ? (double)transfers[i].flow.arrived_bytes : 0;
        all += (double)transfers[i].flow.arrived_bytes;
        packet_flow_abort(&transfers[i].flow);
    }
    ck_assert_double_eq_tol(all, LINK_Bps * (double)packets * link_ns * 1e-9, 3 * 4096);
    return kv / all;
}

/* Beside n busy lanes a High turn and a Low packet, one of 3n + 1 Low packets KV's: README.md. The
 * share is counted over ten such periods or more, and is off by three packets at most. */
START_TEST(kv_share_as_the_tables_say)
{
    static const double share[6] = {1. / 960, 1. / 1680, 1. / 2400, 1. / 4, 1. / 7, 1. / 10};
    uint64_t packets = 48000;
    enum vlarb_mode mode = _i < 3 ? VLARB_SPEC : VLARB_LOW_ONLY;
    ck_assert_double_eq_tol(kv_share(mode, _i % 3 + 1, packets), share[_i], 3. / (double)packets);
}
END_TEST

START_TEST(kv_has_what_inference_leaves)
{
    ck_assert_double_eq(kv_share(VLARB_SPEC, 0, 5000), 1);
}
END_TEST

/* A message of one packet now and then, against KV that is always there: at most one packet of KV
 * is in its way at each of the two hops. */
struct prober {
    struct packet_flow flow;
    struct loop_timer timer;
    uint64_t sent_ns, worst_ns, n;
};

static void probe_over(struct packet_flow *f)
{
    struct prober *p = container_of(f, struct prober, flow);
    uint64_t taken = loop_now_ns(&loop) - p->sent_ns;
    p->worst_ns = taken > p->worst_ns ? taken : p->worst_ns;
    if (++p->n < 2000) {
        loop_arm(&loop, &p->timer, loop_now_ns(&loop) + 300 + p->n * 61 % 200);
    } else {
        loop_stop(&loop);
    }
}

static void probe(struct loop_timer *t)
{
    struct prober *p = container_of(t, struct prober, timer);
    struct packet_station *path[2] = {&links[0], &links[10]};
    p->sent_ns = loop_now_ns(&loop);
    p->flow = (struct packet_flow){.queue_pairs = 1,
                                   .lane = 1,
                                   .total_bytes = 4096,
                                   .ready_bytes = 4096,
                                   .mark_bytes = 4096,
                                   .part_bytes = 4096,
                                   .segment_bytes = 4096,
                                   .reached = reached,
                                   .ended = probe_over};
    packet_flow_open(&net, &p->flow, path, 2);
}

static double worst_delay_packets(enum vlarb_mode mode)
{
    for (int i = 0; i < STATIONS; i++) {
        arbitrate(&links[i], mode);
    }
    /* Both hops are always busy: the port also with what goes elsewhere, the egress also with
     * packets of another size, so that it does not keep in step with the port. */
    uint64_t many = (uint64_t)1 << 40;
    open_bytes(0, 2, many, &links[0], &links[11], NULL);
    open_bytes(1, 2, many, &links[0], &links[10], NULL);
    open_bytes(2, 2, many, &links[1], &links[10], NULL)->segment_bytes = 3001;
    open_bytes(3, 2, many, &links[2], &links[10], NULL);
    struct prober p = {.n = 0};
    loop_timer_init(&p.timer, probe);
    loop_arm(&loop, &p.timer, 5000);
    ck_assert_int_eq(loop_run(&loop), 0);
    for (int k = 0; k < 4; k++) {
        packet_flow_abort(&transfers[k].flow);
    }
    return ((double)p.worst_ns - 2 * link_ns) / link_ns;
}

START_TEST(inference_waits_for_one_packet_per_hop)
{
    double worst = worst_delay_packets(VLARB_SPEC);
    ck_assert_double_le(worst, 2 + 0.03); /* the loop's nanosecond, twice */
    ck_assert_double_ge(worst, 1.5);      /* and it does wait */
}
END_TEST

/* Without arbitration it waits for the packet on its way and a turn of every queue pair: at the
 * port 1 + 2 packets, at the egress 1 + 2 and, in one's turn, two of 3,001 B. */
START_TEST(without_arbitration_it_waits_for_all)
{
    double two_small = 2.0 * (3001 + IB_PACKET_OVERHEAD_BYTES) / (4096 + IB_PACKET_OVERHEAD_BYTES);
    double worst = worst_delay_packets(VLARB_NONE);
    ck_assert_double_le(worst, 3 + 3 + two_small + 0.03);
    ck_assert_double_ge(worst, 4);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("packet_net");
    TCase *t = tcase_create("packet_net");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, single_flow);
    tcase_add_test(t, loopback_out_of_dram);
    tcase_add_test(t, dram_limits);
    tcase_add_test(t, dram_is_half_duplex);
    tcase_add_test(t, two_share_a_port);
    tcase_add_test(t, incast);
    tcase_add_test(t, short_last_packet);
    tcase_add_test(t, packets_keep_to_segments);
    tcase_add_test(t, turns_of_several_queue_pairs);
    tcase_add_test(t, parts_as_they_come);
    tcase_add_test(t, slack_goes_to_who_can_use_it);
    tcase_add_loop_test(t, turns_of_bytes_or_packets, 0, 2);
    tcase_add_loop_test(t, a_lane_stands_in_line, 0, 2);
    tcase_add_test(t, abort_frees_the_links);
    tcase_add_test(t, a_link_that_stands_still_goes_on);
    tcase_add_loop_test(t, kv_share_as_the_tables_say, 0, 6);
    tcase_add_test(t, kv_has_what_inference_leaves);
    tcase_add_test(t, inference_waits_for_one_packet_per_hop);
    tcase_add_test(t, without_arbitration_it_waits_for_all);
    suite_add_tcase(s, t);
    return run_suite(s);
}
