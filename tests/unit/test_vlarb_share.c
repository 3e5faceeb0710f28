/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Shares and delays: by hand for the DualPath paper's tables, else against the naive arbiter. */
#include "check_suite.h"
#include "sim/vlarb_share.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "naive_vlarb.h"
#include "sim/ets.h"

#define MTU_PACKET (4096u + IB_PACKET_OVERHEAD_BYTES)

/* The DualPath paper: qos_high_limit=240, KV on VL2, inference on VL0, VL1, VL3. */
static const struct vlarb_config paper = {
    .high_limit = 240,
    .n_vls = 4,
    .high = {4, {{0, 192}, {1, 192}, {2, 0}, {3, 192}}},
    .low = {4, {{0, 192}, {1, 192}, {2, 64}, {3, 192}}},
};
/* VL2 alone, and against one, two and three inference lanes. */
static const uint32_t paper_lanes[4] = {0x4, 0x5, 0x7, 0xf};

static void packets_of(uint32_t active, uint32_t bytes, uint32_t ret_bytes[VLARB_LANES])
{
    for (unsigned vl = 0; vl < VLARB_LANES; vl++) {
        ret_bytes[vl] = (active >> vl & 1) ? bytes : 0;
    }
}

static struct qos_share share_of(const struct vlarb_config *c, const uint32_t *packet_bytes)
{
    struct qos_share s;
    struct err err = ERR_INIT;
    ck_assert_msg(vlarb_share(c, packet_bytes, &s, &err) == 0, "%s", err.text);
    return s;
}

static void assert_kv_share(const struct vlarb_config *c, uint32_t active, uint64_t num,
                            uint64_t den)
{
    uint32_t packet_bytes[VLARB_LANES];
    packets_of(active, MTU_PACKET, packet_bytes);
    struct qos_share s = share_of(c, packet_bytes);
    ck_assert_uint_eq(s.bytes[2] * den, s.total_bytes * num);
}

/*
 * A packet of 4096 B payload is LRH 8 + BTH 12 + 4096 + ICRC 4 + VCRC 2 = 4122 B on the wire.
 * High turn: 240 * 4096 = 983,040 B; 238 packets are 981,036 B, so a 239th starts (985,158 B). Then
 * one Low packet: 240 packets a turn, Low as a whole 1/240 = 0.417 %. Low round: weight 192 is
 * 12,288 B, three packets (12,366 B); weight 64 is 4096 B, one packet. Of the Low packets VL2 gets
 * 1 in 3n + 1 with n inference lanes backlogged: n = 1: 1/240 * 1/4 = 1/960 = 0.104 %, n = 2:
 * 1/1680 = 0.060 %, n = 3: 1/2400 = 0.042 %. With the Low table alone: 1/4, 1/7, 1/10. Payload
 * bytes alone (240 High packets a turn) would give 0.059 % for n = 2, and packets rounded up to 65
 * units of 64 B (15,360 / 65: 237 High packets) 1/952 = 0.105 % for n = 1.
 */
START_TEST(shares_of_the_papers_tables)
{
    static const uint64_t spec[4] = {1, 960, 1680, 2400}, low_only[4] = {1, 4, 7, 10};
    static const uint64_t units[4] = {1, 952, 1666, 2380}, none[4] = {1, 2, 3, 4};
    static const char *printed[4] = {"100.000", "0.104", "0.060", "0.042"};
    for (int i = 0; i < 4; i++) {
        struct vlarb_config c = paper;
        char text[32];
        double frac;
        struct err err = ERR_INIT;
        assert_kv_share(&c, paper_lanes[i], 1, spec[i]);
        ck_assert_int_eq(vlarb_floor_frac(&c, 2, paper_lanes[i], MTU_PACKET, &frac, &err), 0);
        snprintf(text, sizeof(text), "%.3f", 100 * frac);
        ck_assert_str_eq(text, printed[i]);
        c.count = VLARB_COUNT_UNITS;
        assert_kv_share(&c, paper_lanes[i], 1, units[i]);
        c.mode = VLARB_LOW_ONLY;
        assert_kv_share(&c, paper_lanes[i], 1, low_only[i]);
        c.mode = VLARB_NONE;
        assert_kv_share(&c, paper_lanes[i], 1, none[i]);
    }
}
END_TEST

/* One packet in flight, 4122 B at 50 GB/s = 82.44 ns; the limit is 40 times what two other
 * inference lanes send in a round (2 * 12,366 B), so that no second one comes between. */
START_TEST(kv_delays_inference_by_one_packet)
{
    for (int i = 0; i < 4; i++) {
        uint32_t packet_bytes[VLARB_LANES];
        packets_of(paper_lanes[i], MTU_PACKET, packet_bytes);
        struct qos_share s = share_of(&paper, packet_bytes);
        ck_assert_uint_eq(s.high_blocked_bytes_max, MTU_PACKET);
        ck_assert_uint_eq(qos_bytes_to_ns(s.high_blocked_bytes_max, 50e9), 82);
    }
    uint32_t inference[VLARB_LANES] = {MTU_PACKET, MTU_PACKET};
    ck_assert_uint_eq(share_of(&paper, inference).high_blocked_bytes_max, 0);
}
END_TEST

START_TEST(extremes)
{
    uint32_t all[VLARB_LANES], idle[VLARB_LANES] = {0};
    packets_of(0xf, MTU_PACKET, all);
    struct vlarb_config c = paper;
    c.high_limit = VLARB_HIGH_LIMIT_NONE;
    struct qos_share s = share_of(&c, all);
    ck_assert_uint_eq(s.bytes[2], 0);
    ck_assert_uint_eq(3 * s.bytes[0], s.total_bytes);
    ck_assert_uint_eq(s.high_blocked_bytes_max, MTU_PACKET);
    c.high_limit = 0; /* every other packet is Low's: 1/2 * 1/10 */
    s = share_of(&c, all);
    ck_assert_uint_eq(20 * s.bytes[2], s.total_bytes);
    all[VLARB_MGMT_LANE] = 290;
    s = share_of(&c, all);
    ck_assert_uint_eq(s.bytes[VLARB_MGMT_LANE], s.total_bytes);
    ck_assert_uint_gt(s.total_bytes, 0);
    s = share_of(&c, idle);
    ck_assert_uint_eq(s.total_bytes, 0);
    ck_assert_double_eq(qos_share_frac(&s, 0), 0);
}
END_TEST

static uint64_t random_state;

static unsigned pick(unsigned n)
{
    return (unsigned)(hash_mix64(random_state++) % n);
}

static struct vlarb_config random_config(void)
{
    static const unsigned limits[] = {0, 1, 2, 3, 7, 17, 255};
    struct vlarb_config c = {.mode = (enum vlarb_mode)(pick(4) ? VLARB_SPEC : pick(3)),
                             .count = (enum vlarb_count)pick(2),
                             .high_limit = limits[pick(7)],
                             .n_vls = pick(5) ? 0 : 1 + pick(6)};
    c.high.n = pick(5);
    c.low.n = pick(6);
    for (unsigned i = 0; i < 5; i++) {
        c.high.entry[i] =
            (struct vlarb_entry){(uint8_t)pick(5), (uint8_t)(pick(4) ? pick(256) : 0)};
        c.low.entry[i] = (struct vlarb_entry){(uint8_t)pick(5), (uint8_t)(pick(4) ? pick(256) : 0)};
    }
    return c;
}

static void random_packets(uint32_t packet_bytes[VLARB_LANES])
{
    for (unsigned vl = 0; vl < VLARB_LANES; vl++) {
        unsigned bytes = pick(3) ? MTU_PACKET : 300 + pick(3900);
        packet_bytes[vl] = vl < 5 && pick(4) ? bytes : 0;
    }
}

/* Exact shares of the naive arbiter, reduced; their sum, 0 when nothing can send: its whole state
 * is compared until it recurs (Brent). */
static uint64_t naive_shares(const struct vlarb_config *c, const uint32_t *packet_bytes,
                             uint64_t bytes[VLARB_LANES])
{
    struct naive n, mark;
    uint64_t period = 0, total = 0;
    naive_init(&n, c);
    memset(bytes, 0, VLARB_LANES * sizeof(bytes[0]));
    mark = n;
    for (uint64_t reach = 1;; period++) {
        n.from = mark.from; /* no part of the state */
        if (period > 0 && memcmp(&n, &mark, sizeof(n)) == 0) {
            break;
        }
        if (period == reach) {
            mark = n;
            reach *= 2;
            period = 0;
        }
        if (naive_next(&n, packet_bytes) < 0) {
            return 0;
        }
    }
    for (uint64_t i = 0; i < period; i++) {
        int vl = naive_next(&n, packet_bytes);
        bytes[vl] += packet_bytes[vl];
        total += packet_bytes[vl];
    }
    uint64_t divisor = total;
    for (unsigned vl = 0; vl < VLARB_LANES; vl++) {
        for (uint64_t b = bytes[vl]; b;) {
            uint64_t r = divisor % b;
            divisor = b;
            b = r;
        }
    }
    for (unsigned vl = 0; vl < VLARB_LANES; vl++) {
        bytes[vl] /= divisor;
    }
    return total / divisor;
}

START_TEST(shares_equal_those_of_the_naive_arbiter)
{
    for (uint64_t seed = 0; seed < 400; seed++) {
        random_state = seed << 32;
        struct vlarb_config c = random_config();
        uint32_t packet_bytes[VLARB_LANES];
        uint64_t naive_bytes[VLARB_LANES], sum = 0;
        random_packets(packet_bytes);
        struct qos_share s = share_of(&c, packet_bytes);
        uint64_t naive_total = naive_shares(&c, packet_bytes, naive_bytes);
        ck_assert_uint_eq(s.total_bytes, naive_total);
        if (naive_total == 0) {
            continue;
        }
        for (unsigned vl = 0; vl < VLARB_LANES; vl++) {
            sum += s.bytes[vl];
            ck_assert_uint_eq(s.bytes[vl], naive_bytes[vl]);
        }
        ck_assert_uint_eq(sum, s.total_bytes);
    }
}
END_TEST

static unsigned weight_of(const struct vlarb_table *t, unsigned vl)
{
    unsigned sum = 0;
    for (unsigned i = 0; i < t->n; i++) {
        sum += t->entry[i].vl == vl ? t->entry[i].weight : 0;
    }
    return sum;
}

/* A backlogged lane must be served, by the settings alone. */
static bool must_be_served(const struct vlarb_config *c, const uint32_t *packet_bytes, unsigned vl)
{
    if (vl >= (c->n_vls ? c->n_vls : 15)) {
        return false;
    }
    if (c->mode == VLARB_NONE) {
        return true;
    }
    if (c->mode == VLARB_SPEC && weight_of(&c->high, vl) > 0) {
        return true;
    }
    bool high_busy = false;
    for (unsigned i = 0; i < (c->n_vls ? c->n_vls : 15); i++) {
        high_busy |= packet_bytes[i] > 0 && weight_of(&c->high, i) > 0;
    }
    return weight_of(&c->low, vl) > 0 &&
           (c->mode == VLARB_LOW_ONLY || c->high_limit < 255 || !high_busy);
}

static bool warned(const struct qos_warnings *w, const char *start)
{
    for (size_t i = 0; i < w->n; i++) {
        if (strncmp(w->text[i], start, strlen(start)) == 0) {
            return true;
        }
    }
    return false;
}

START_TEST(no_lane_starves_unless_its_settings_say_so_and_then_it_is_said)
{
    for (uint64_t seed = 0; seed < 1000; seed++) {
        random_state = seed << 32;
        struct vlarb_config c = random_config();
        struct qos_warnings w = {0};
        uint32_t packet_bytes[VLARB_LANES];
        random_packets(packet_bytes);
        struct qos_share s = share_of(&c, packet_bytes);
        ck_assert_int_eq(vlarb_warn(&c, packet_bytes, &s, &w), 0);
        for (unsigned vl = 0; vl < VLARB_MGMT_LANE; vl++) {
            char start[64];
            bool served = packet_bytes[vl] > 0 && must_be_served(&c, packet_bytes, vl);
            snprintf(start, sizeof(start), "VL%u is backlogged and gets nothing", vl);
            ck_assert_int_eq(s.bytes[vl] > 0, served);
            ck_assert_int_eq(warned(&w, start), packet_bytes[vl] > 0 && !served);
        }
        qos_warnings_done(&w);
    }
}
END_TEST

/* With equal packets, more backlogged lanes never leave a lane more than fewer did. */
START_TEST(floor_falls_as_lanes_join)
{
    for (uint64_t seed = 0; seed < 300; seed++) {
        random_state = seed << 32;
        struct vlarb_config c = random_config();
        uint32_t active = 1 + pick(31), more = active | pick(32);
        struct err err = ERR_INIT;
        for (unsigned vl = 0; vl < 5; vl++) {
            double few, many;
            if (active >> vl & 1) {
                ck_assert_int_eq(vlarb_floor_frac(&c, vl, active, MTU_PACKET, &few, &err), 0);
                ck_assert_int_eq(vlarb_floor_frac(&c, vl, more, MTU_PACKET, &many, &err), 0);
                ck_assert_double_le(many, few + 1e-12);
            }
        }
    }
    struct err err = ERR_INIT;
    double frac = 7;
    ck_assert_int_lt(vlarb_floor_frac(&paper, 1, 0x5, MTU_PACKET, &frac, &err), 0);
    ck_assert_double_eq(frac, 7);
}
END_TEST

/*
 * The naive arbiter with high-priority lanes that come and go (arriving just after a packet has
 * started) while the others are always backlogged: the longest wait for others that is seen.
 */
static uint64_t longest_wait_seen(const struct vlarb_config *c, const uint32_t *packet_bytes,
                                  int n_packets)
{
    struct naive n;
    uint32_t head[VLARB_LANES];
    uint64_t waited[VLARB_LANES] = {0}, longest = 0;
    naive_init(&n, c);
    memcpy(head, packet_bytes, sizeof(head));
    for (int i = 0; i < n_packets; i++) {
        int sent = naive_next(&n, head);
        for (unsigned vl = 0; vl < 5; vl++) {
            bool high = weight_of(&c->high, vl) > 0;
            if (high && (int)vl == sent) {
                longest = waited[vl] > longest ? waited[vl] : longest;
                waited[vl] = 0;
                head[vl] = pick(6) ? packet_bytes[vl] : 0;
                continue;
            }
            if (high && head[vl] == 0 && packet_bytes[vl] > 0 && pick(8) == 0) {
                head[vl] = packet_bytes[vl];
            }
            if (high && head[vl] > 0 && sent >= 0 && weight_of(&c->high, (unsigned)sent) == 0) {
                waited[vl] += packet_bytes[sent];
            }
        }
    }
    return longest;
}

START_TEST(no_wait_is_longer_than_the_bound)
{
    int attained = 0, n = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        random_state = seed << 32;
        struct vlarb_config c = random_config();
        uint32_t packet_bytes[VLARB_LANES];
        c.n_vls = 0;
        random_packets(packet_bytes);
        struct qos_share s = share_of(&c, packet_bytes);
        uint64_t seen = longest_wait_seen(&c, packet_bytes, 20000);
        ck_assert_uint_le(seen, s.high_blocked_bytes_max);
        n += s.high_blocked_bytes_max > 0;
        attained += seen > 0 && seen == s.high_blocked_bytes_max;
    }
    ck_assert_int_gt(3 * attained, n);
}
END_TEST

START_TEST(warns_of_settings_without_effect)
{
    struct vlarb_config c = {.high_limit = 255,
                             .n_vls = 4,
                             .high = {2, {{0, 63}, {5, 192}}},
                             .low = {2, {{1, 0}, {2, 64}}}};
    uint32_t packet_bytes[VLARB_LANES];
    struct qos_warnings w = {0};
    packets_of(0x2f, MTU_PACKET, packet_bytes);
    struct qos_share s = share_of(&c, packet_bytes);
    ck_assert_int_eq(vlarb_warn(&c, packet_bytes, &s, &w), 0);
    ck_assert(warned(&w, "VL1 is backlogged and gets nothing: all its entries have weight 0"));
    ck_assert(warned(&w, "VL2 is backlogged and gets nothing: it stands in the Low table only"));
    ck_assert(warned(&w, "VL3 is backlogged and gets nothing: it stands in neither table"));
    ck_assert(warned(&w, "VL5 is backlogged and gets nothing: the port does not operate it"));
    ck_assert(warned(&w, "the Limit of High Priority is 255"));
    ck_assert(warned(&w, "High table, entry 1 (VL0:63): 4032 B is less than a packet"));
    ck_assert(warned(&w, "High table, entry 2 (VL5:192): the port operates VL0 to VL3 only"));
    ck_assert(warned(&w, "Low table, entry 1 (VL1:0): weight 0, skipped"));
    ck_assert_uint_eq(w.n, 8);
    qos_warnings_done(&w);
    c.mode = VLARB_LOW_ONLY;
    s = share_of(&c, packet_bytes);
    ck_assert_int_eq(vlarb_warn(&c, packet_bytes, &s, &w), 0);
    ck_assert(warned(&w, "VL0 is backlogged and gets nothing: it has no weight in the Low table"));
    ck_assert(warned(&w, "only the Low table acts"));
    qos_warnings_done(&w);
}
END_TEST

START_TEST(strict_classes_go_before_weighted_ones)
{
    struct ets_config c = {
        .kind = {ETS_WEIGHTED, ETS_WEIGHTED, ETS_WEIGHTED, ETS_STRICT, ETS_STRICT},
        .percent = {70, 20, 10}};
    uint32_t packet_bytes[ETS_CLASSES] = {4178, 0, 4178};
    struct qos_share s;
    struct err err = ERR_INIT;
    struct qos_warnings w = {0};
    ck_assert_int_eq(ets_share(&c, packet_bytes, &s, &err), 0);
    ck_assert_double_eq(qos_share_frac(&s, 0), 0.875);
    ck_assert_double_eq(qos_share_frac(&s, 2), 0.125);
    ck_assert_uint_eq(s.high_blocked_bytes_max, 4178);
    packet_bytes[3] = packet_bytes[4] = packet_bytes[6] = 4178;
    ck_assert_int_eq(ets_share(&c, packet_bytes, &s, &err), 0);
    ck_assert_double_eq(qos_share_frac(&s, 4), 1);
    ck_assert_int_eq(ets_warn(&c, packet_bytes, &s, &w), 0);
    ck_assert_uint_eq(w.n, 4);
    ck_assert(warned(&w, "TC3 is backlogged and gets nothing: a strict class goes before it"));
    ck_assert(warned(&w, "TC6 is backlogged and gets nothing: it is not configured"));
    qos_warnings_done(&w);
    c.percent[1] = 0;
    ck_assert_int_lt(ets_share(&c, packet_bytes, &s, &err), 0);
    ck_assert_str_eq(err.field, "TC1");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("vlarb_share");
    TCase *t = tcase_create("vlarb_share");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, shares_of_the_papers_tables);
    tcase_add_test(t, kv_delays_inference_by_one_packet);
    tcase_add_test(t, extremes);
    tcase_add_test(t, shares_equal_those_of_the_naive_arbiter);
    tcase_add_test(t, no_lane_starves_unless_its_settings_say_so_and_then_it_is_said);
    tcase_add_test(t, floor_falls_as_lanes_join);
    tcase_add_test(t, no_wait_is_longer_than_the_bound);
    tcase_add_test(t, warns_of_settings_without_effect);
    tcase_add_test(t, strict_classes_go_before_weighted_ones);
    suite_add_tcase(s, t);
    return run_suite(s);
}
