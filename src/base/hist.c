/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/hist.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

int hist_init(struct hist *h)
{
    *h = (struct hist){.buckets = calloc(HIST_BUCKETS, sizeof(uint64_t))};
    return h->buckets ? 0 : -ENOMEM;
}

void hist_done(struct hist *h)
{
    free(h->buckets);
    h->buckets = NULL;
}

/* Values below 2^SUB have a bucket each; above, every power of two has 2^SUB of them. */
static uint32_t bucket_of(uint64_t ns)
{
    if (ns < (1u << HIST_SUB_BITS)) {
        return (uint32_t)ns;
    }
    uint32_t shift = 63u - (uint32_t)__builtin_clzll(ns) - HIST_SUB_BITS;
    return ((shift + 1) << HIST_SUB_BITS) + (uint32_t)((ns >> shift) & ((1u << HIST_SUB_BITS) - 1));
}

static double bucket_middle_ns(uint32_t b)
{
    uint32_t group = b >> HIST_SUB_BITS;
    uint64_t sub = b & ((1u << HIST_SUB_BITS) - 1);
    if (group == 0) {
        return (double)sub;
    }
    double width = ldexp(1, (int)group - 1);
    return (double)((1ull << HIST_SUB_BITS) + sub) * width + (width - 1) / 2;
}

void hist_add(struct hist *h, uint64_t ns)
{
    h->buckets[bucket_of(ns)]++;
    h->count++;
    h->max_ns = ns > h->max_ns ? ns : h->max_ns;
    h->sum_ns += ns;
    h->sum_high += h->sum_ns < ns;
}

double hist_mean_s(const struct hist *h)
{
    double sum_ns = (double)h->sum_high * 0x1p64 + (double)h->sum_ns;
    return h->count ? sum_ns / (double)h->count * 1e-9 : 0;
}

double hist_quantile_s(const struct hist *h, double p)
{
    if (h->count == 0) {
        return 0;
    }
    uint64_t rank = (uint64_t)ceil(p * (double)h->count);
    rank = rank == 0 ? 1 : rank;
    uint64_t seen = 0;
    for (uint32_t b = 0; b < HIST_BUCKETS; b++) {
        seen += h->buckets[b];
        if (seen >= rank) {
            double ns = bucket_middle_ns(b);
            return (ns < (double)h->max_ns ? ns : (double)h->max_ns) * 1e-9;
        }
    }
    return hist_max_s(h);
}

double hist_max_s(const struct hist *h)
{
    return (double)h->max_ns * 1e-9;
}

double hist_share_below(const struct hist *h, double limit_s)
{
    if (h->count == 0) {
        return 1;
    }
    uint32_t last = bucket_of((uint64_t)(limit_s * 1e9));
    uint64_t below = 0;
    for (uint32_t b = 0; b <= last; b++) {
        below += h->buckets[b];
    }
    return (double)below / (double)h->count;
}
