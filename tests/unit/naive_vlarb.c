/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "naive_vlarb.h"

#include <math.h>
#include <string.h>

static void ring_add(struct naive_ring *r, int vl, double weight)
{
    if (weight > 0) {
        r->slot[r->n++] = (struct naive_slot){vl, weight, weight};
    }
}

void naive_init(struct naive *s, const struct vlarb_config *c)
{
    unsigned lanes = c->n_vls ? c->n_vls : 15;
    memset(s, 0, sizeof(*s));
    for (unsigned i = 0; c->mode == VLARB_SPEC && i < c->high.n; i++) {
        if (c->high.entry[i].vl < lanes) {
            ring_add(&s->high, c->high.entry[i].vl, 64.0 * c->high.entry[i].weight);
        }
    }
    for (unsigned i = 0; c->mode != VLARB_NONE && i < c->low.n; i++) {
        if (c->low.entry[i].vl < lanes) {
            ring_add(&s->low, c->low.entry[i].vl, 64.0 * c->low.entry[i].weight);
        }
    }
    for (unsigned vl = 0; c->mode == VLARB_NONE && vl < lanes; vl++) {
        ring_add(&s->low, (int)vl, c->queue_pairs[vl] ? c->queue_pairs[vl] : 1);
    }
    s->packets = c->mode == VLARB_NONE;
    s->units = c->count == VLARB_COUNT_UNITS;
    s->unlimited = c->high_limit == 255;
    s->limit = c->high_limit * 4096.0;
    for (int vl = 0; vl < VLARB_LANES; vl++) {
        s->credit_bytes[vl] = -1;
    }
}

static double rounded_up(double bytes)
{
    return 64 * ceil(bytes / 64);
}

static bool ready(const struct naive *s, int vl, const uint32_t *head_bytes)
{
    return head_bytes[vl] != 0 &&
           (s->credit_bytes[vl] < 0 || s->credit_bytes[vl] >= rounded_up(head_bytes[vl]));
}

/* The front slot goes to the back with its weight restored. */
static void rotate(struct naive_ring *r)
{
    struct naive_slot front = r->slot[0];
    memmove(&r->slot[0], &r->slot[1], (size_t)(r->n - 1) * sizeof(front));
    front.left = front.full;
    r->slot[r->n - 1] = front;
}

static int ring_send(struct naive *s, struct naive_ring *r, const uint32_t *head_bytes)
{
    bool any = false;
    for (int i = 0; i < r->n; i++) {
        any |= ready(s, r->slot[i].vl, head_bytes);
    }
    if (!any) {
        return -1;
    }
    while (r->slot[0].left <= 0 || !ready(s, r->slot[0].vl, head_bytes)) {
        rotate(r);
    }
    double cost = head_bytes[r->slot[0].vl];
    cost = s->packets ? 1 : s->units ? rounded_up(cost) : cost;
    r->slot[0].left -= cost;
    return r->slot[0].vl;
}

int naive_next(struct naive *s, const uint32_t head_bytes[VLARB_LANES])
{
    if (head_bytes[15]) {
        s->from = 'M';
        return 15;
    }
    /* A limit of 0 is used up by any packet. */
    bool used_up = !s->unlimited && s->high_sent >= s->limit && s->high_sent > 0;
    int vl = -1;
    char order[3] = {used_up ? 'L' : 'H', used_up ? 'H' : 'L', 0};
    for (int i = 0; i < 2 && vl < 0; i++) {
        s->from = order[i];
        vl = ring_send(s, order[i] == 'H' ? &s->high : &s->low, head_bytes);
    }
    if (vl < 0) {
        return -1;
    }
    double bytes = head_bytes[vl];
    s->high_sent = s->from == 'L' ? 0 : s->high_sent + (s->units ? rounded_up(bytes) : bytes);
    if (s->unlimited || s->high_sent > s->limit + 1) {
        s->high_sent = s->limit + 1; /* keeps the state finite */
    }
    if (s->credit_bytes[vl] >= 0) {
        s->credit_bytes[vl] -= rounded_up(bytes);
    }
    return vl;
}
