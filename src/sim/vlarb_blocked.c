/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/vlarb_blocked.h"

uint32_t vlarb_high_lanes(const struct vlarb_config *c)
{
    uint32_t mask = 0;
    for (unsigned i = 0; i < c->high.n; i++) {
        const struct vlarb_entry *e = &c->high.entry[i];
        if (e->weight > 0 && (c->n_vls == 0 || e->vl < c->n_vls)) {
            mask |= 1u << e->vl;
        }
    }
    return mask;
}

/* Bytes that one visit of an entry sends for a backlogged lane, as charged or as sent. */
static uint64_t visit_bytes(const struct vlarb *a, const struct vlarb_entry *e,
                            uint32_t packet_bytes, bool charged)
{
    uint64_t cost = packet_bytes;
    if (a->config.mode == VLARB_NONE) {
        return (uint64_t)e->weight * packet_bytes;
    }
    if (a->config.count == VLARB_COUNT_UNITS) {
        cost = (cost + VLARB_WEIGHT_UNIT_BYTES - 1) / VLARB_WEIGHT_UNIT_BYTES *
               VLARB_WEIGHT_UNIT_BYTES;
    }
    uint64_t weight = (uint64_t)e->weight * VLARB_WEIGHT_UNIT_BYTES;
    return (weight + cost - 1) / cost * (charged ? cost : packet_bytes);
}

/* Largest sum of visits of lanes in mask between two entries of vl, over the ring of the table. */
static uint64_t widest_gap(const struct vlarb *a, const struct vlarb_table *t, unsigned vl,
                           uint32_t mask, const uint32_t packet_bytes[VLARB_LANES], bool charged)
{
    uint64_t max = 0, sum = 0;
    bool found = false;
    for (unsigned i = 0; i < 2 * t->n; i++) {
        const struct vlarb_entry *e = &t->entry[i % t->n];
        if (e->vl == vl) {
            max = found && sum > max ? sum : max;
            sum = 0;
            found = true;
        } else if ((mask >> e->vl & 1) && packet_bytes[e->vl] > 0) {
            sum += visit_bytes(a, e, packet_bytes[e->vl], charged);
        }
    }
    return max;
}

static bool listed(const struct vlarb_table *t, unsigned vl)
{
    for (unsigned i = 0; i < t->n; i++) {
        if (t->entry[i].vl == vl) {
            return true;
        }
    }
    return false;
}

static uint64_t largest_packet(const struct vlarb_table *t, uint32_t mask,
                               const uint32_t packet_bytes[VLARB_LANES])
{
    uint64_t max = 0;
    for (unsigned i = 0; i < t->n; i++) {
        unsigned vl = t->entry[i].vl;
        if ((mask >> vl & 1) && packet_bytes[vl] > max) {
            max = packet_bytes[vl];
        }
    }
    return max;
}

static uint64_t blocked_with_both(const struct vlarb *a, unsigned vl, uint32_t high,
                                  const uint32_t packet_bytes[VLARB_LANES])
{
    uint64_t packet = largest_packet(&a->low, ~high, packet_bytes);
    if (a->config.high_limit == VLARB_HIGH_LIMIT_NONE) {
        return packet;
    }
    uint64_t limit = (uint64_t)a->config.high_limit * VLARB_HIGH_LIMIT_UNIT_BYTES;
    uint64_t others = widest_gap(a, &a->high, vl, high, packet_bytes, true);
    if (limit == 0) { /* one packet each: count packets, not bytes */
        uint64_t n = 0;
        for (unsigned other = 0; other < VLARB_MGMT_LANE; other++) {
            if (packet_bytes[other] > 0 && other != vl && (high >> other & 1)) {
                n += widest_gap(a, &a->high, vl, 1u << other, packet_bytes, false) /
                     packet_bytes[other];
            }
        }
        return packet * (1 + n);
    }
    return packet * (1 + others / limit);
}

uint64_t vlarb_blocked_bytes_max(const struct vlarb *a, const uint32_t packet_bytes[VLARB_LANES])
{
    uint32_t high = vlarb_high_lanes(&a->config);
    uint64_t max = 0;
    for (unsigned vl = 0; vl < VLARB_MGMT_LANE; vl++) {
        if (!(high >> vl & 1)) {
            continue;
        }
        uint64_t blocked = 0;
        if (a->config.mode == VLARB_SPEC) {
            blocked = blocked_with_both(a, vl, high, packet_bytes);
        } else if (listed(&a->low, vl)) {
            blocked = widest_gap(a, &a->low, vl, ~high, packet_bytes, false);
        }
        max = blocked > max ? blocked : max;
    }
    return max;
}
