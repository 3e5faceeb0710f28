/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A second virtual-lane arbiter, written from the rules and not from sim/vlarb.c: tables are rings
 * of slots that physically rotate, the limit counts up, credits are bytes. Slow and plain.
 */
#ifndef TESTS_NAIVE_VLARB_H
#define TESTS_NAIVE_VLARB_H

#include "model/qos.h"

struct naive_slot {
    int vl;
    double full, left; /* of the weight, in bytes (mode none: packets) */
};

struct naive_ring {
    int n;
    struct naive_slot slot[VLARB_TABLE_MAX];
};

struct naive {
    struct naive_ring high, low;
    bool unlimited, units, packets;
    double limit, high_sent;
    double credit_bytes[VLARB_LANES]; /* < 0 = unlimited */
    char from;                        /* 'M', 'H' or 'L' */
};

void naive_init(struct naive *s, const struct vlarb_config *c);
int naive_next(struct naive *s, const uint32_t head_bytes[VLARB_LANES]);

#endif
