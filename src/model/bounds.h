/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The bottleneck-free region: ratios of prefill to decode nodes P/D at which, with every storage
 * NIC saturated and load perfectly balanced, no compute NIC and no DRAM is over its capacity
 * (DualPath, arXiv 2602.21548, section on bottleneck-free analysis). Per PE-DE pair the PE path
 * carries T_p = B*s/(D*g^2) and the DE path T_c = B*s/(P*g^2); per resource this gives
 *
 *   PE CNIC read   2*B*s/g             <= B    a condition on s and g alone
 *   PE CNIC write  (B*s/g)*(1 + D/P)   <= B    P/D >= s/(g - s)
 *   DE CNIC read   (B*s/g)*(2 + P/D)   <= B    P/D <= (g - 2s)/s
 *   DE CNIC write  (B*s/g)*(1 + 2P/D)  <= B    P/D <= (g - s)/(2s)
 *   PE DRAM        2*s*B               <= M    a condition
 *   DE DRAM        (3 + 2P/D)*s*B      <= M    P/D <= (M/(B*s) - 3)/2
 *
 * Hit KV only: no miss KV, no writes to storage, no collectives.
 */
#ifndef DUALPATH_MODEL_BOUNDS_H
#define DUALPATH_MODEL_BOUNDS_H

#include <stdbool.h>
#include <stddef.h>

struct bounds_input {
    double gpus_per_node; /* g, each with one CNIC */
    double snic_ratio;    /* s: storage NIC bandwidth of a node in CNICs */
    double cnic_Bps;      /* B, each direction */
    double dram_Bps;      /* M, reads + writes */
};

enum bounds_kind {
    BOUNDS_LOWER,     /* P/D >= value; INFINITY when no P/D will do */
    BOUNDS_UPPER,     /* P/D <= value; negative when no P/D will do */
    BOUNDS_CONDITION, /* value is the load as a fraction of capacity at any P/D; must be <= 1 */
};

struct bounds_term {
    const char *resource; /* "pe_cnic_read", ...: the names of a result's utilization */
    enum bounds_kind kind;
    double value;
    const char *formula; /* for people */
    bool binds;          /* no other term of its kind is tighter; several may be equal */
};

#define BOUNDS_N_TERMS 6

struct bounds {
    struct bounds_term terms[BOUNDS_N_TERMS];
    double pd_min, pd_max;               /* the largest lower and the smallest upper bound */
    const struct bounds_term *binds_min; /* the first of the terms that bind */
    const struct bounds_term *binds_max;
    const struct bounds_term *violated; /* the first condition that fails, or NULL */
    bool empty; /* a condition fails, pd_min > pd_max, or no positive P/D is left */
};

/* All inputs must be finite and > 0. ret points into itself: do not copy it. */
void bounds_compute(const struct bounds_input *in, struct bounds *ret);

/* "lower", "upper" or "condition". */
const char *bounds_kind_name(enum bounds_kind kind);

#endif
