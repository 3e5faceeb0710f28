/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/vlarb_share.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "sim/vlarb.h"
#include "sim/vlarb_blocked.h"

#define PACKET_BYTES_MAX (1u << 20)

/* Steady state of one arbiter with some lanes always backlogged. */
struct orbit {
    const uint32_t *packet_bytes;
    bool by_turn; /* a step runs to the end of a Low packet, else it is one packet */
};

static bool same_cursor(const struct vlarb_cursor *a, const struct vlarb_cursor *b)
{
    return a->index == b->index && a->left == b->left;
}

typedef bool orbit_same(const struct vlarb *a, const struct vlarb *b);

static bool same_high(const struct vlarb *a, const struct vlarb *b)
{
    return same_cursor(&a->high_at, &b->high_at);
}

static bool same_low(const struct vlarb *a, const struct vlarb *b)
{
    return same_cursor(&a->low_at, &b->low_at);
}

static void step(const struct orbit *o, struct vlarb *a)
{
    do {
        vlarb_next(a, o->packet_bytes);
    } while (o->by_turn && a->from != VLARB_FROM_LOW);
}

/* Brent's cycle search. Moves a to a recurring state and returns the steps of the cycle. */
static uint64_t find_period(const struct orbit *o, struct vlarb *a, orbit_same *same)
{
    struct vlarb mark = *a;
    uint64_t period = 1;
    step(o, a);
    for (uint64_t reach = 1; !same(&mark, a); period++) {
        if (period == reach) {
            mark = *a;
            reach *= 2;
            period = 0;
        }
        step(o, a);
    }
    return period;
}

static void sum_sent(const struct orbit *o, struct vlarb *a, uint64_t n_steps,
                     enum vlarb_source source, uint64_t bytes[VLARB_LANES])
{
    memset(bytes, 0, VLARB_LANES * sizeof(bytes[0]));
    for (uint64_t i = 0; i < n_steps; i++) {
        do {
            int vl = vlarb_next(a, o->packet_bytes);
            if (a->from == source) {
                bytes[vl] += o->packet_bytes[vl];
            }
        } while (o->by_turn && a->from != VLARB_FROM_LOW);
    }
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

void qos_share_ratio(const struct qos_share *s, unsigned vl, uint64_t *ret_num, uint64_t *ret_den)
{
    uint64_t d = gcd(s->bytes[vl], s->total_bytes);
    *ret_num = d ? s->bytes[vl] / d : 0;
    *ret_den = d ? s->total_bytes / d : 1;
}

static void reduce(struct qos_share *s)
{
    uint64_t d = 0;
    for (unsigned vl = 0; vl < VLARB_LANES; vl++) {
        d = gcd(d, s->bytes[vl]);
    }
    for (unsigned vl = 0; d && vl < VLARB_LANES; vl++) {
        s->bytes[vl] /= d;
        s->total_bytes += s->bytes[vl];
    }
}

/* One table sends all the traffic: its cursor is the whole state. */
static void share_of_table(const struct orbit *o, struct vlarb *a, struct qos_share *s)
{
    bool high = a->from == VLARB_FROM_HIGH;
    uint64_t period = find_period(o, a, high ? same_high : same_low);
    sum_sent(o, a, period, a->from, s->bytes);
}

static void share_of_both(const struct orbit *o, struct vlarb *a, struct qos_share *s)
{
    uint64_t high_bytes[VLARB_LANES], low_bytes[VLARB_LANES];
    uint64_t n_high = find_period(o, a, same_high);
    sum_sent(o, a, n_high, VLARB_FROM_HIGH, high_bytes);
    uint64_t n_low = find_period(o, a, same_low);
    sum_sent(o, a, n_low, VLARB_FROM_LOW, low_bytes);
    for (unsigned vl = 0; vl < VLARB_LANES; vl++) {
        s->bytes[vl] = high_bytes[vl] * n_low + low_bytes[vl] * n_high;
    }
}

static bool table_active(const struct vlarb_table *t, const uint32_t packet_bytes[VLARB_LANES])
{
    for (unsigned i = 0; i < t->n; i++) {
        if (packet_bytes[t->entry[i].vl] > 0) {
            return true;
        }
    }
    return false;
}

static void share_of_data(struct orbit *o, struct vlarb *a, struct qos_share *s)
{
    bool high = table_active(&a->high, o->packet_bytes);
    bool low = table_active(&a->low, o->packet_bytes);
    if (!high && !low) {
        return;
    }
    o->by_turn = high && low && a->config.high_limit != VLARB_HIGH_LIMIT_NONE;
    step(o, a);
    if (o->by_turn) {
        share_of_both(o, a, s);
    } else {
        share_of_table(o, a, s);
    }
}

static int check_packets(const uint32_t packet_bytes[VLARB_LANES], struct err *err)
{
    for (unsigned vl = 0; vl < VLARB_LANES; vl++) {
        if (packet_bytes[vl] > PACKET_BYTES_MAX) {
            return err_set(err, -EINVAL, "packets of VL%u: %u bytes, expected at most %u", vl,
                           packet_bytes[vl], PACKET_BYTES_MAX);
        }
    }
    return 0;
}

int vlarb_share(const struct vlarb_config *config, const uint32_t packet_bytes[VLARB_LANES],
                struct qos_share *ret_share, struct err *err)
{
    struct vlarb a;
    int rc = check_packets(packet_bytes, err);
    rc = rc ? rc : vlarb_init(&a, config, err);
    if (rc) {
        return rc;
    }
    struct orbit o = {.packet_bytes = packet_bytes};
    struct qos_share s = {0};
    s.high_lanes = vlarb_high_lanes(config);
    s.high_blocked_bytes_max = vlarb_blocked_bytes_max(&a, packet_bytes);
    if (packet_bytes[VLARB_MGMT_LANE] > 0) {
        s.bytes[VLARB_MGMT_LANE] = 1; /* goes first, and never stops */
    } else {
        share_of_data(&o, &a, &s);
    }
    reduce(&s);
    *ret_share = s;
    return 0;
}

int vlarb_floor_frac(const struct vlarb_config *config, unsigned vl, uint32_t active,
                     uint32_t packet_bytes, double *ret_frac, struct err *err)
{
    uint32_t sizes[VLARB_LANES] = {0};
    struct qos_share s;
    if (vl >= VLARB_LANES || !(active >> vl & 1)) {
        return err_set(err, -EINVAL, "lane %u, expected one of the backlogged lanes", vl);
    }
    for (unsigned i = 0; i < VLARB_LANES; i++) {
        sizes[i] = (active >> i & 1) ? packet_bytes : 0;
    }
    int rc = vlarb_share(config, sizes, &s, err);
    if (rc == 0) {
        *ret_frac = qos_share_frac(&s, vl);
    }
    return rc;
}

uint64_t qos_bytes_to_ns(uint64_t bytes, double link_Bps)
{
    return (uint64_t)llround((double)bytes / link_Bps * 1e9);
}
