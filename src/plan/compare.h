/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Two runs side by side: results figure by figure, and what their central schedulers decided. */
#ifndef DUALPATH_PLAN_COMPARE_H
#define DUALPATH_PLAN_COMPARE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* A number of both results; true and false count as 1 and 0. */
struct compare_figure {
    char path[96]; /* "ttft_s.mean" */
    bool in_a, in_b;
    double a, b;
    double error;      /* b - a */
    double error_frac; /* error / |a|; 0 when both are equal, infinite when only a is 0 */
    bool beyond;       /* |error_frac| > tolerance, or missing from one of the two */
};

struct compare_results {
    struct compare_figure *figures; /* in the order of their paths */
    uint32_t n, n_beyond;
    char backend_a[16], backend_b[16];
    /* Of the runs' scenarios and traces: comparing what ran different ones may be meant, but should
     * be known. False also when one does not say. */
    bool same_scenario, same_trace;
};

/*
 * Reads two results ("dualpath/result/1"). Everything is compared but the "run" block: it says what
 * ran, not how. 0, or -EINVAL / the errno of the file with err naming file, place and field; freed
 * with compare_results_done().
 */
int compare_results(const char *path_a, const char *path_b, double tolerance,
                    struct compare_results *ret, struct err *err);
void compare_results_done(struct compare_results *r);

/* Where the hits came from: one side's read, both sides', or what a decode node had kept. */
enum compare_path { COMPARE_PREFILL, COMPARE_DECODE, COMPARE_SPLIT, COMPARE_KEPT, COMPARE_N_PATHS };

const char *compare_path_name(enum compare_path path);

struct compare_decision {
    uint32_t session, turn, prefill_engine, decode_engine;
    enum compare_path path;
};

struct compare_decisions {
    uint64_t n_a, n_b;
    /* In order: the first row (1-based, below the header) that differs, 0 when none does; a file
     * that ends early differs there. has_*: the row exists. */
    uint64_t first;
    bool has_a, has_b;
    struct compare_decision a, b;
    uint64_t
        n_rows_differ; /* rows of the longer file that differ from the other's at their place */
    /* Whatever the order: requests (session, turn) of both that were decided otherwise, and those
     * in one file only. */
    uint64_t n_decided_otherwise, n_only_a, n_only_b;
};

/* Two files of `run --decisions`. Errors as above. */
int compare_decisions(const char *path_a, const char *path_b, struct compare_decisions *ret,
                      struct err *err);

#endif
