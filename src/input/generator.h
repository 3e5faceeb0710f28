/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Agent traces like the coding trajectories of the DualPath paper (arXiv 2602.21548, table 2).
 *
 * A trajectory is one agent's session: turn i sends A_i appended tokens on top of everything so far
 * and generates g_i, so prompt_i = A_1 + g_1 + ... + A_i, and the total T = prompt_N + g_N never
 * exceeds MaxLen. The published means, per MaxLen:
 *
 *   MaxLen   turns  append  gen  total  context
 *   32,768      60     608  148  28,639   17,183
 *   49,152     106     474  172  42,607   25,120
 *   65,536     157     429  176  55,958   32,721
 *
 * The columns do not multiply out (turns * (append + gen) is 1.6-1.7 times total), so they are two
 * kinds of mean. Append and gen are means over trajectories of each trajectory's own mean,
 * E[T / N]; total / turns = 477 / 402 / 356 is the mean over turns. Both hold when the total is
 * drawn independently of the number of turns N, for then E[T / N] = E[T] E[1 / N], and a lognormal
 * N has E[N] E[1 / N] = exp(sigma^2):
 *
 *   sigma^2 = ln(turns (append + gen) / total)           0.678 / 0.689 / 0.727  sigma of ln N
 *   first   = 2 context - total + gen                    5,875 / 7,805 / 9,660  mean of A_1
 *   share   = gen / ((append + gen)(1 - first / total))  0.246 / 0.326 / 0.352  g in what follows
 *
 * The context of a turn is read as its prompt (without its own append the mean would be 3.5 / 1.9 /
 * 1.3 % lower). With the tokens after A_1 exchangeable over the turns, the mean prompt of a
 * trajectory is (A_1 + T) / 2 - (mean gen) / 2, whence first. A_1 is one of the A_i, so it counts
 * in the append mean; left out, the same identity would give sigma = 0.83.
 *
 * What the table leaves open, chosen here: T uniform on [2 total - MaxLen, MaxLen]; A_1 lognormal
 * with sigma 0.2; lengths inside a trajectory lognormal, gen with sigma 0.8 and appends with sigma
 * 1.2 (within sessions of the public WEKA coding traces the first is 0.70-0.92, the second
 * 1.1-2.1), then normalised to T. Long trajectories therefore have short turns. N and A_1 are cut
 * at four standard deviations.
 *
 * N, T and A_1 are stratified: one draw in each of n equal slices of probability, shuffled
 * independently. A set of 500 then keeps the heavy tail of N without its sampling noise.
 */
#ifndef DUALPATH_INPUT_GENERATOR_H
#define DUALPATH_INPUT_GENERATOR_H

#include <stdint.h>

#include "base/err.h"
#include "input/trace.h"

/* The name that stands for this generator where a trace file could stand (workload.trace). */
#define GENERATOR_NAME         "deepseek-coding"
#define GENERATOR_TRAJECTORIES 500
#define GENERATOR_MIN_LEN_TOK  32768
#define GENERATOR_MAX_LEN_TOK  65536

/* The means of the table at one MaxLen, and the parameters that follow from them. */
struct generator_params {
    double turns, append_tok, gen_tok, total_tok, context_tok;
    double turns_sigma;
    double first_tok;
    double gen_share; /* of the tokens after the first prompt */
};

/*
 * The parameters for a MaxLen; between the rows of the table the means are interpolated linearly in
 * MaxLen. -ERANGE, with err filled, outside 32K..64K: nothing is known there.
 */
int generator_params(uint64_t max_len_tok, struct generator_params *ret_params, struct err *err);

/*
 * n_trajectories (>= 1) sessions without block ids (each its own chain), a function of the
 * arguments alone. Returns 0 and fills *ret_trace (freed with trace_done()), whose sha256 is over
 * the lengths; or -ERANGE, -EINVAL, -ENOMEM with err filled.
 */
int generator_make(uint64_t max_len_tok, uint32_t n_trajectories, uint64_t seed,
                   struct trace *ret_trace, struct err *err);

#endif
