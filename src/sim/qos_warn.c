/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/vlarb_share.h"

int qos_warn(struct qos_warnings *w, const char *fmt, ...)
{
    if (w->n == w->capacity) {
        size_t capacity = w->capacity ? 2 * w->capacity : 8;
        char **text = realloc(w->text, capacity * sizeof(*text));
        if (!text) {
            return -ENOMEM;
        }
        w->text = text;
        w->capacity = capacity;
    }
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *s = n < 0 ? NULL : malloc((size_t)n + 1);
    if (!s) {
        return -ENOMEM;
    }
    va_start(ap, fmt);
    vsnprintf(s, (size_t)n + 1, fmt, ap);
    va_end(ap);
    w->text[w->n++] = s;
    return 0;
}

void qos_warnings_done(struct qos_warnings *w)
{
    for (size_t i = 0; i < w->n; i++) {
        free(w->text[i]);
    }
    free(w->text);
    *w = (struct qos_warnings){0};
}

static unsigned n_vls(const struct vlarb_config *c)
{
    return c->n_vls ? c->n_vls : VLARB_MGMT_LANE;
}

/* The sum of a lane's weights in a table. */
static unsigned weight_of(const struct vlarb_table *t, unsigned vl)
{
    unsigned sum = 0;
    for (unsigned i = 0; i < t->n; i++) {
        sum += t->entry[i].vl == vl ? t->entry[i].weight : 0;
    }
    return sum;
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

/* Why a backlogged lane gets nothing, as the end of a sentence. */
static const char *starving_reason(const struct vlarb_config *c, unsigned vl, bool management)
{
    bool high_acts = c->mode == VLARB_SPEC, in_low = weight_of(&c->low, vl) > 0;
    if (management) {
        return "VL15 is always backlogged and goes first";
    }
    if (vl >= n_vls(c)) {
        return "the port does not operate it";
    }
    if (high_acts && in_low && c->high_limit == VLARB_HIGH_LIMIT_NONE) {
        return "it stands in the Low table only and the Limit of High Priority is 255 (no limit)";
    }
    if (!high_acts && weight_of(&c->high, vl) > 0) {
        return "it has no weight in the Low table, the only one that acts";
    }
    return listed(&c->high, vl) || listed(&c->low, vl) ? "all its entries have weight 0"
                                                       : "it stands in neither table";
}

static int warn_starved(const struct vlarb_config *c, const uint32_t packet_bytes[VLARB_LANES],
                        const struct qos_share *share, struct qos_warnings *w)
{
    bool management = packet_bytes[VLARB_MGMT_LANE] > 0;
    int rc = 0;
    for (unsigned vl = 0; rc == 0 && vl < VLARB_LANES; vl++) {
        if (packet_bytes[vl] > 0 && share->bytes[vl] == 0) {
            rc = qos_warn(w, "VL%u is backlogged and gets nothing: %s", vl,
                          starving_reason(c, vl, management));
        }
    }
    return rc;
}

static int warn_table(const char *name, const struct vlarb_config *c, const struct vlarb_table *t,
                      const uint32_t packet_bytes[VLARB_LANES], struct qos_warnings *w)
{
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < t->n; i++) {
        const struct vlarb_entry *e = &t->entry[i];
        unsigned bytes = e->weight * (unsigned)VLARB_WEIGHT_UNIT_BYTES;
        /* A packet of 64 units of payload is what a weight of 64 is meant for: its headers may
         * overrun. */
        unsigned payload = packet_bytes[e->vl] > IB_PACKET_OVERHEAD_BYTES
                               ? packet_bytes[e->vl] - IB_PACKET_OVERHEAD_BYTES
                               : packet_bytes[e->vl];
        if (e->vl >= n_vls(c)) {
            rc = qos_warn(
                w, "%s table, entry %u (VL%u:%u): the port operates VL0 to VL%u only, skipped",
                name, i + 1, e->vl, e->weight, n_vls(c) - 1);
        } else if (e->weight == 0) {
            rc = qos_warn(w, "%s table, entry %u (VL%u:0): weight 0, skipped", name, i + 1, e->vl);
        } else if (bytes < payload) {
            rc = qos_warn(
                w,
                "%s table, entry %u (VL%u:%u): %u B is less than a packet (%u B of payload), "
                "and a whole packet is sent all the same",
                name, i + 1, e->vl, e->weight, bytes, payload);
        }
    }
    return rc;
}

static int warn_limit(const struct vlarb_config *c, struct qos_warnings *w)
{
    if (c->mode == VLARB_LOW_ONLY && (c->high.n > 0 || c->high_limit > 0)) {
        return qos_warn(w, "only the Low table acts: the High table and its limit have no effect");
    }
    if (c->mode == VLARB_NONE && (c->high.n > 0 || c->low.n > 0)) {
        return qos_warn(w, "no arbitration: the tables have no effect");
    }
    if (c->mode == VLARB_SPEC && c->high_limit == VLARB_HIGH_LIMIT_NONE) {
        return qos_warn(
            w, "the Limit of High Priority is 255 (no limit): a busy High table starves Low");
    }
    return 0;
}

int vlarb_warn(const struct vlarb_config *config, const uint32_t packet_bytes[VLARB_LANES],
               const struct qos_share *share, struct qos_warnings *w)
{
    int rc = warn_starved(config, packet_bytes, share, w);
    rc = rc ? rc : warn_limit(config, w);
    if (rc == 0 && config->mode == VLARB_SPEC) {
        rc = warn_table("High", config, &config->high, packet_bytes, w);
    }
    if (rc == 0 && config->mode != VLARB_NONE) {
        rc = warn_table("Low", config, &config->low, packet_bytes, w);
    }
    return rc;
}
