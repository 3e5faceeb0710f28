/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/submit.h"

#include <math.h>

#include "sim/maxmin.h"

uint64_t submit_requests(struct submit_queue *q, uint64_t now_ns, uint64_t n, double request_s,
                         uint32_t threads)
{
    q->n_requests += n;
    if (request_s <= 0) {
        return now_ns;
    }
    double ns = (double)n * request_s * 1e9 / threads;
    uint64_t begin_ns = q->free_at_ns > now_ns ? q->free_at_ns : now_ns;
    q->free_at_ns = begin_ns + (uint64_t)llround(ns);
    q->busy_ns += ns;
    return begin_ns;
}

double submit_cap_Bps(double segment_bytes, double request_s, uint32_t threads)
{
    return request_s > 0 ? segment_bytes * threads / request_s : MAXMIN_NO_CAP;
}
