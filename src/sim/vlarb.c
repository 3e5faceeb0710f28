/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/vlarb.h"

#include <errno.h>
#include <string.h>

static int check_table(const char *name, const struct vlarb_table *t, struct err *err)
{
    if (t->n > VLARB_TABLE_MAX) {
        err_field(err, "%s", name);
        return err_set(err, -EINVAL, "%u entries, expected at most %d", t->n, VLARB_TABLE_MAX);
    }
    for (unsigned i = 0; i < t->n; i++) {
        if (t->entry[i].vl >= VLARB_MGMT_LANE) {
            err_field(err, "%s", name);
            return err_set(err, -EINVAL, "entry %u is for VL%u, expected a data lane, 0 to 14",
                           i + 1, t->entry[i].vl);
        }
    }
    return 0;
}

static int check_config(const struct vlarb_config *c, struct err *err)
{
    if (c->high_limit > VLARB_HIGH_LIMIT_NONE) {
        err_field(err, "high_limit");
        return err_set(err, -EINVAL, "%u, expected 0 to 255 (units of 4096 B)", c->high_limit);
    }
    if (c->n_vls > VLARB_MGMT_LANE) {
        err_field(err, "max_vls");
        return err_set(err, -EINVAL, "%u, expected 1 to 15", c->n_vls);
    }
    int rc = check_table("high", &c->high, err);
    return rc ? rc : check_table("low", &c->low, err);
}

static unsigned n_vls(const struct vlarb_config *c)
{
    return c->n_vls ? c->n_vls : VLARB_MGMT_LANE;
}

static void effective_table(struct vlarb_table *to, const struct vlarb_table *from, unsigned lanes)
{
    to->n = 0;
    for (unsigned i = 0; i < from->n; i++) {
        if (from->entry[i].weight > 0 && from->entry[i].vl < lanes) {
            to->entry[to->n++] = from->entry[i];
        }
    }
}

/* Without arbitration every queue pair sends a packet in turn: one entry per lane, counted in
 * packets. */
static void round_robin_table(struct vlarb_table *to, const struct vlarb_config *c)
{
    to->n = 0;
    for (unsigned vl = 0; vl < n_vls(c); vl++) {
        uint8_t pairs = c->queue_pairs[vl] ? c->queue_pairs[vl] : 1;
        to->entry[to->n++] = (struct vlarb_entry){.vl = (uint8_t)vl, .weight = pairs};
    }
}

static int64_t high_turn_bytes(const struct vlarb *a)
{
    return a->config.high_limit == 0 ? 1
                                     : (int64_t)a->config.high_limit * VLARB_HIGH_LIMIT_UNIT_BYTES;
}

static int64_t entry_weight(const struct vlarb *a, const struct vlarb_entry *e)
{
    return a->config.mode == VLARB_NONE ? e->weight : (int64_t)e->weight * VLARB_WEIGHT_UNIT_BYTES;
}

static void cursor_reset(struct vlarb_cursor *at, const struct vlarb *a,
                         const struct vlarb_table *t)
{
    at->index = 0;
    at->left = t->n ? entry_weight(a, &t->entry[0]) : 0;
}

int vlarb_init(struct vlarb *a, const struct vlarb_config *config, struct err *err)
{
    int rc = check_config(config, err);
    if (rc) {
        return rc;
    }
    memset(a, 0, sizeof(*a));
    a->config = *config;
    if (config->mode == VLARB_NONE) {
        round_robin_table(&a->low, config);
    } else {
        effective_table(&a->low, &config->low, n_vls(config));
    }
    if (config->mode == VLARB_SPEC) {
        effective_table(&a->high, &config->high, n_vls(config));
    }
    cursor_reset(&a->high_at, a, &a->high);
    cursor_reset(&a->low_at, a, &a->low);
    a->high_left = high_turn_bytes(a);
    for (unsigned vl = 0; vl < VLARB_LANES; vl++) {
        a->credits[vl] = VLARB_CREDITS_UNLIMITED;
    }
    return 0;
}

static uint32_t blocks_of(uint32_t bytes)
{
    return bytes / VLARB_WEIGHT_UNIT_BYTES + (bytes % VLARB_WEIGHT_UNIT_BYTES != 0);
}

static bool sendable(const struct vlarb *a, unsigned vl, const uint32_t head_bytes[VLARB_LANES])
{
    return head_bytes[vl] > 0 && (a->credits[vl] == VLARB_CREDITS_UNLIMITED ||
                                  a->credits[vl] >= blocks_of(head_bytes[vl]));
}

/* What a packet takes from the weight of its entry. */
static int64_t charge(const struct vlarb *a, uint32_t bytes)
{
    if (a->config.mode == VLARB_NONE) {
        return 1;
    }
    return a->config.count == VLARB_COUNT_UNITS
               ? (int64_t)blocks_of(bytes) * VLARB_WEIGHT_UNIT_BYTES
               : (int64_t)bytes;
}

/* The lane the table sends from, its cursor moved and charged; -1 when none of them can. */
static int table_next(struct vlarb *a, const struct vlarb_table *t, struct vlarb_cursor *at,
                      const uint32_t head_bytes[VLARB_LANES])
{
    /* The last step comes back to the entry under the index, this time with its whole weight. */
    for (unsigned step = 0; step < t->n + (t->n > 0); step++) {
        unsigned i = (at->index + step) % t->n;
        const struct vlarb_entry *e = &t->entry[i];
        int64_t left = step == 0 ? at->left : entry_weight(a, e);
        if (left > 0 && sendable(a, e->vl, head_bytes)) {
            at->index = i;
            at->left = left - charge(a, head_bytes[e->vl]);
            return e->vl;
        }
    }
    return -1;
}

static int low_next(struct vlarb *a, const uint32_t head_bytes[VLARB_LANES])
{
    int vl = table_next(a, &a->low, &a->low_at, head_bytes);
    if (vl >= 0) {
        a->from = VLARB_FROM_LOW;
        a->high_left = high_turn_bytes(a);
    }
    return vl;
}

static int high_next(struct vlarb *a, const uint32_t head_bytes[VLARB_LANES])
{
    int vl = table_next(a, &a->high, &a->high_at, head_bytes);
    if (vl >= 0) {
        a->from = VLARB_FROM_HIGH;
        if (a->config.high_limit != VLARB_HIGH_LIMIT_NONE && a->high_left > 0) {
            a->high_left -= charge(a, head_bytes[vl]);
        }
    }
    return vl;
}

int vlarb_next(struct vlarb *a, const uint32_t head_bytes[VLARB_LANES])
{
    if (head_bytes[VLARB_MGMT_LANE] > 0) {
        a->from = VLARB_FROM_MGMT;
        return VLARB_MGMT_LANE;
    }
    int vl;
    if (a->high_left <= 0) {
        vl = low_next(a, head_bytes);
        vl = vl >= 0 ? vl : high_next(a, head_bytes);
    } else {
        vl = high_next(a, head_bytes);
        vl = vl >= 0 ? vl : low_next(a, head_bytes);
    }
    if (vl >= 0 && a->credits[vl] != VLARB_CREDITS_UNLIMITED) {
        a->credits[vl] -= blocks_of(head_bytes[vl]);
    }
    return vl;
}

void vlarb_set_credits(struct vlarb *a, unsigned vl, uint32_t blocks)
{
    a->credits[vl] = blocks;
}

void vlarb_add_credits(struct vlarb *a, unsigned vl, uint32_t blocks)
{
    uint32_t room = VLARB_CREDITS_UNLIMITED - 1 - a->credits[vl];
    if (a->credits[vl] != VLARB_CREDITS_UNLIMITED) {
        a->credits[vl] += blocks < room ? blocks : room;
    }
}
