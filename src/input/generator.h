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
 * E[T / N]; total / turns = 477 / 402 / 356 is the mean over turns. The first is larger because a
 * few trajectories end after a few turns with a long context each. That they do is in the paper's
 * run at scale (49,152 agents of the 48K set): 4 % of the agents are over after 100 s, 7 % after
 * 400, 14 % after 900, when each of the others has had about 4, 16 and 46 turns (below). At 2.1K
 * turns/s throughout, 44 / 60 / 70 / 87 / 99 % are over at 108 / 133 / 153 / 193 / 340 turns. Its
 * TTFT of 23 s at the start is 49,152 / 2.1K: the first prompts cost no more than later turns do.
 * That run's prompt tokens add up to 29.2K per turn; the sets made here have 27.9K at 48K.
 *
 * Hence here: a share q = 0.12 ends early, with ln N uniform on [0, ln(0.35 turns)]; for the others
 * N is lognormal with sigma 0.4. What else follows from the table (q, N given):
 *
 *   T_early  from E[T / N] = append + gen           6,800 / 6,800 / 7,700 tok, +-20 %
 *   T_late   from E[T] = total, up to MaxLen        0.96 of MaxLen on average, uniform
 *   share    gen / (append + gen)                   0.196 / 0.266 / 0.291 of T is generated, on
 *            average: its logit is normal over the trajectories, with sigma 0.97 as among the
 *            sessions of the public WEKA coding traces (23 sessions, of what they grow by)
 *   burst    from the mean context over trajectories: agents read first what they will work on. By
 *            turn i of N the sum of the appends has grown as burst * (1 - exp(-i / 10)) +
 *            (1 - burst) * i / N does, over its value at N               0.36 / 0.31 / 0.29
 *
 * The 10 turns are from that run, too: an agent's turns come one per (TTFT + decoding), and prompts
 * are the prompt tokens per second over the turns per second. With 4.3 s of decoding that gives 9,
 * 15, 18 and 23K after 8, 16, 27 and 46 turns (here 9, 14, 20 and 27K).
 *
 * The context of a turn is read as its prompt. Lengths inside a trajectory are lognormal, gen with
 * sigma 0.8 and appends with sigma 1.5, then normalised to T (within sessions of the public WEKA
 * coding traces the first is 0.70-0.92, the second 1.1-2.1 by the spread of the logarithms, 1.1-1.8
 * by the coefficient of variation). N is cut at four standard deviations.
 *
 * N and T are stratified: one draw in each of n equal slices of probability, shuffled. A set of 500
 * then keeps its tails without their sampling noise.
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
    double early_share;             /* of the trajectories */
    double early_turns_max;         /* ln N of those is uniform up to it */
    double early_total_tok;         /* mean */
    double late_turns, turns_sigma; /* mean, and sigma of ln N, of the others */
    double late_total_tok;          /* mean */
    double gen_share;               /* of all tokens, mean */
    double append_burst;            /* share of the appends that the first turns read */
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
