/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Histogram of durations in ns with a relative bucket width of 1/512: quantiles are right to 0.1 %,
 * count, mean and max are exact, and the order of the samples does not matter. Fixed memory (about
 * 230 kB).
 */
#ifndef DUALPATH_BASE_HIST_H
#define DUALPATH_BASE_HIST_H

#include <stdint.h>

#define HIST_SUB_BITS 9
#define HIST_BUCKETS  ((64 - HIST_SUB_BITS + 1) << HIST_SUB_BITS)

struct hist {
    uint64_t *buckets;
    uint64_t count, max_ns;
    uint64_t sum_ns, sum_high; /* 128-bit sum */
};

/* Returns 0 or -ENOMEM. */
int hist_init(struct hist *h);
void hist_done(struct hist *h);
void hist_add(struct hist *h, uint64_t ns);
double hist_mean_s(const struct hist *h);
/* p in [0, 1]; 0 when empty. The smallest value v such that at least p of the samples are <= v. */
double hist_quantile_s(const struct hist *h, double p);
double hist_max_s(const struct hist *h);
/* Share of the samples that are <= limit_s (to the bucket). 1 when empty. */
double hist_share_below(const struct hist *h, double limit_s);

#endif
