/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * From what `dualpath probe` has measured to the constants of the simulator's models.
 *
 * Computation. The time model (model/timing.h) is linear in the inverses of its rates:
 *     forward = attention FLOPs / A + 2 parameters new_tok / G + fixed
 *     step    = attention FLOPs / D + 2 parameters batch / G + fixed
 * so these five are fitted together by least squares of relative errors; one that would come out
 * negative is taken as 0. Fitted is the processor time, which repeats well on a busy machine too;
 * all five are then slowed down alike, by the median over the points of time over processor time.
 * Points of one engine and of all at once count alike: as if the engines of a run computed together
 * half of the time. FLOPs are those of the model card, whatever the kernel on this machine
 * really does: A, G and D are what makes the model's times right here, not the machine's peak. G
 * carries the work per token that is not attention (the kernel here has no weights).
 *
 * Storage. At full depth an op of s bytes takes (s + half) / B, storage_server.h's law; B and half
 * come from the read sweep over sizes of one node. What an op alone takes beyond that is latency,
 * lognormal with the measured sigma. Writes are measured but not fitted: the model has one rate.
 *
 * Copies. cnic_Bps is the best of the transport's points, latency what the smallest copy takes
 * beyond its bytes. dram_Bps counts a memory copy twice, as it reads and writes.
 */
#ifndef DUALPATH_PLAN_PROBE_FIT_H
#define DUALPATH_PLAN_PROBE_FIT_H

#include <jansson.h>

#include "base/err.h"
#include "hw/probe.h"
#include "model/card.h"
#include "model/timing.h"

/* |predicted - measured| / measured over the points of a fit; of computation in processor time. */
struct probe_fit_error {
    double mean_frac, max_frac;
    uint32_t n_points;
};

struct probe_fit {
    double attention_flops, linear_flops, decode_flops; /* A, G, D: FLOP/s */
    double forward_fixed_s, decode_fixed_s;
    double slowdown; /* time over processor time, in the five above already: 1 on a quiet machine */
    struct probe_fit_error forward_error, decode_error;

    double snic_Bps, half_size_bytes, storage_latency_median_s, storage_latency_sigma;
    double storage_cluster_Bps; /* of all nodes together; 0: no limit was seen */
    uint32_t reads_in_service, writes_in_service;
    struct probe_fit_error storage_error;

    double cnic_Bps, transfer_latency_s, dram_Bps, message_latency_s;
};

/*
 * transport: PROBE_COPY_MEM, _TCP or _VERBS, whichever stands for the compute NICs. block_bytes:
 * the I/O of a run. 0; -EINVAL with err when a kind of point is missing or the model has parts that
 * no real run computes (experts, a window, sparse attention); -EIO when a fit fails.
 */
int probe_fit(const struct probe_points *ps, const struct model_card *card, uint64_t block_bytes,
              enum probe_what transport, struct probe_fit *ret, struct err *err);

/* The time model with the fitted constants. */
struct timing_model probe_fit_timing(const struct probe_fit *f, const struct model_card *card);

/* The scenario keys as a profile, schema "dualpath/profile/1"; source says where and when. NULL
 * when out of memory. */
json_t *probe_fit_profile(const struct probe_fit *f, const char *source);

#endif
