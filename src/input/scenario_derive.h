/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Quantities that follow from a resolved scenario, computed in this one place for the reader's
 * checks, for --explain and for the simulator.
 */
#ifndef DUALPATH_INPUT_SCENARIO_DERIVE_H
#define DUALPATH_INPUT_SCENARIO_DERIVE_H

#include <stdint.h>

#include "input/scenario.h"

/* One side of the cluster, prefill or decode. An engine is system.tp_gpus GPUs. */
struct scenario_side {
    uint32_t nodes, engines;
    uint32_t ep_gpus, ep_groups;
    double weight_bytes; /* resident on each GPU */
    /* Of its HBM: hbm_reserve_frac, and on a decode GPU decode_reserve_frac of it besides. */
    double reserve_bytes;
    /* Of each engine: HBM - reserve_bytes - weights; 0 when they do not fit. With tensor
     * parallelism that times kv_parts, the GPUs of the engine that hold different KV. */
    uint64_t hbm_kv_bytes;
    uint64_t hbm_kv_tok; /* the same in tokens, all layers */
};

struct scenario_derived {
    struct scenario_side prefill, decode;
    uint32_t kv_parts;             /* tensor_kv_parts(): 1 without tensor parallelism */
    uint64_t kv_bytes_per_tok;     /* all layers, in a GPU */
    uint64_t stored_bytes_per_tok; /* all layers, in storage: see scenario_stored_bytes() */
    uint64_t full_block_bytes;     /* block_tok tokens, all layers, as stored: one storage I/O */
    uint64_t layer_block_bytes;    /* block_tok tokens, one (average) layer: one streamed piece,
                                   rounded up */
    uint64_t dram_buffer_tok;
    uint64_t request_kv_bytes; /* of a request of max_len_tok tokens */
    double storage_efficiency; /* of the SNIC at full_block_bytes: max * s / (s + half) */
    double storage_read_Bps;   /* one node: snic_Bps * storage_efficiency */
    double stream_Bps;  /* line rate of one engine's reads, storage_stream_Bps() for each GPU */
    uint64_t alpha_tok; /* limit of a node's read queue: tokens storage_read_Bps reads in alpha_s */
    uint64_t beta_tok;  /* limit of a prefill engine's tokens, see scenario_beta_tok() */
};

/* sc must be resolved (scenario_read()). */
void scenario_derive(const struct scenario *sc, struct scenario_derived *ret);

/*
 * Bytes of one token in one (average) layer as storage holds them: system.restore. KV: the card's;
 * hidden states: theirs, in BF16; compressed: restore_ratio of KV, a whole number of bytes.
 */
double scenario_stored_bytes(const struct scenario *sc);

/* Share of the line rate that I/O of size bytes reaches: efficiency_max * s / (s +
 * half_size_bytes). */
double storage_efficiency(const struct storage_profile *storage, double bytes);

/*
 * Line rate that one request's reads (or writes), in I/Os of so many bytes, take at most for each
 * GPU of its engine: stream_Bps, and what stream_ios of them in flight can take when each lasts
 * latency_median_s,
 *     stream_ios * bytes / latency / efficiency(bytes)
 * 0: no limit.
 */
double storage_stream_Bps(const struct storage_profile *storage, double bytes);

/* What the cached tokens of a prompt of max_len_tok take of a forward, however few are new. */
double scenario_cached_s(const struct scenario *sc);

/*
 * beta: prompt tokens (hits included, as the engines' token counts are) that one prefill GPU
 * processes in beta_s. "Profiled" and unpublished in the paper, so taken from the time model on a
 * typical request: a context C of half max_len_tok (the mean over a trajectory that grows to it) of
 * which the last 5 % are new (the paper: at least 95 % of a prompt is cached): n = C/20,
 *     beta = beta_s * C / T, T = fixed + forward(b),
 *     b = attention(C - n, n) + linear(n) + experts(n * G tokens on G GPUs)
 * with one request in a forward. At least 1.
 */
uint64_t scenario_beta_tok(const struct scenario *sc);

#endif
