/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a trace holds, and how much of it a cache of KV blocks would save. All hit counts go through
 * the requests in file order (a subagent's requests stand where its marker stands), one trie per
 * scope.
 */
#ifndef DUALPATH_INPUT_TRACE_STATS_H
#define DUALPATH_INPUT_TRACE_STATS_H

#include <stdint.h>

#include "base/err.h"
#include "input/trace.h"

struct trace_stats {
    uint64_t requests, sessions;
    uint64_t input_tok, output_tok;
    uint64_t block_refs;      /* block ids, over all requests */
    uint64_t distinct_blocks; /* distinct (scope, id) */
    uint64_t hit_blocks;      /* infinite cache: leading run of blocks stored by earlier requests */
    uint64_t any_hit_blocks;  /* ids that an earlier request of the scope had anywhere */
    uint64_t full_hit_requests;  /* requests with ids, all of them in the leading run */
    uint64_t hit_tok;            /* tokens of the hit blocks, at most the prompt's */
    double hit_blocks_frac;      /* hit_blocks / block_refs: a ratio of sums */
    double hit_tok_frac;         /* hit_tok / input_tok: a ratio of sums */
    double mean_hit_blocks_frac; /* mean over the requests with ids of their own ratio */
    double mean_hit_tok_frac;    /* mean over the requests with tokens of their own ratio */
    int64_t first_ns,
        last_ns; /* recorded start of the first and the last request, in the file's epoch */
};

struct trace_lru {
    uint64_t capacity_blocks;
    uint64_t hit_blocks; /* leading run found in the cache as it stands before the request */
    uint64_t evictions;
};

/* Returns 0, or -ENOMEM / -EOVERFLOW with err set. Fractions of nothing are 0. */
int trace_stats_compute(const struct trace *t, struct trace_stats *ret_stats, struct err *err);

/*
 * An LRU cache of lru->capacity_blocks blocks shared by the whole trace; fills in the rest of *lru.
 * After a request's leading run is counted, all of its blocks are touched or inserted from first to
 * last. A block is its id together with the prefix before it.
 */
int trace_lru_compute(const struct trace *t, struct trace_lru *lru, struct err *err);

#endif
