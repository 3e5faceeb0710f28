/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What it costs to submit copies: every piece of an op is a work request, written by a thread of
 * the GPU whose NIC sends it. A thread works on one op after the other, first come first served,
 * and an op's bytes flow no faster than its requests are written. So an op waits for the requests
 * before it, and then has the cap
 *     segment_bytes * threads / request_s
 * request_s: one work request and its doorbell (rdma), one work request and its part of a batch's
 * doorbell (rdma_batched), one cudaMemcpyAsync (cuda_memcpy; copies between nodes are rdma_batched
 * then). Threads share the requests of an op evenly.
 */
#ifndef DUALPATH_SIM_SUBMIT_H
#define DUALPATH_SIM_SUBMIT_H

#include <stdbool.h>
#include <stdint.h>

struct sim_submit_config {
    double request_s;       /* per work request; 0 = free */
    double local_request_s; /* the same for copies within a node */
    uint32_t threads;       /* >= 1 unless requests are free */
    bool local_past_nic;    /* copies within a node are not the NIC's: cudaMemcpyAsync */
};

struct submit_queue {
    uint64_t free_at_ns; /* when everything submitted so far is written */
    uint64_t n_requests;
    double busy_ns;
};

/* Writes n requests of request_s each, from now on; returns when the first of them is begun. */
uint64_t submit_requests(struct submit_queue *q, uint64_t now_ns, uint64_t n, double request_s,
                         uint32_t threads);

/* The cap of an op with pieces of segment_bytes; above any link when requests are free. */
double submit_cap_Bps(double segment_bytes, double request_s, uint32_t threads);

#endif
