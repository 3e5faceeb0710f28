/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * How evenly a load is spread, over time: in consecutive windows of fixed length, from the start of
 * the run on, the largest over the mean of what each member of a set did. It depends on the window,
 * as anything random looks uneven when watched closely, so the window is a figure of the scenario
 * and not of the run. Windows in which a set did nothing do not count.
 */
#ifndef DUALPATH_REPORT_BALANCE_H
#define DUALPATH_REPORT_BALANCE_H

#include <stdint.h>

enum balance_set {
    BALANCE_SNIC,    /* bytes of the storage NICs of all nodes... */
    BALANCE_PE_SNIC, /* ...of the prefill nodes... */
    BALANCE_DE_SNIC, /* ...and of the decode nodes */
    BALANCE_N_SETS,
};

/* Over the windows that are complete. */
struct balance_sums {
    double ratio[BALANCE_N_SETS];
    uint64_t windows[BALANCE_N_SETS];
};

struct balance {
    uint32_t n_prefill_nodes, n_nodes;
    double *before; /* the counters when the last window ended, by node */
    struct balance_sums sums;
};

/* All counters begin at 0. Returns 0 or -ENOMEM. */
int balance_init(struct balance *b, uint32_t n_prefill_nodes, uint32_t n_nodes);
void balance_done(struct balance *b);

/* A window ends: cumulative bytes by node (the prefill nodes first). */
void balance_window(struct balance *b, const double *snic_bytes);

/* n * largest / sum of to - from; 0 when all are 0. from NULL: zeros. */
double balance_max_avg(const double *from, const double *to, uint32_t n);

/* Mean over the windows between two sums; 0 if there was none. */
double balance_mean(const struct balance_sums *from, const struct balance_sums *to,
                    enum balance_set set);

#endif
