/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How much of a request goes into a forward: pure functions. */
#ifndef DUALPATH_SCHED_PACKING_H
#define DUALPATH_SCHED_PACKING_H

#include <stdint.h>

#include "model/timing.h"

/*
 * The largest number of new tokens, at most new_tok, whose predicted attention time on cached_tok
 * fits into left_ns: all of them, or the largest fitting multiple of block_tok (found by binary
 * search; chunks end on KV blocks so that every transfer starts on one), or 0.
 */
uint32_t packing_fit(const struct timing_model *timing, uint32_t cached_tok, uint32_t new_tok,
                     uint32_t block_tok, double left_ns);

#endif
