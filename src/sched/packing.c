/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sched/packing.h"

uint32_t packing_fit(const struct timing_model *timing, uint32_t cached_tok, uint32_t new_tok,
                     uint32_t block_tok, double left_ns)
{
    if (timing_attention_ns(timing, cached_tok, new_tok) <= left_ns) {
        return new_tok;
    }
    uint32_t fits = 0, too_many = (new_tok + block_tok - 1) / block_tok;
    while (too_many - fits > 1) {
        uint32_t middle = fits + (too_many - fits) / 2;
        if (timing_attention_ns(timing, cached_tok, (double)middle * block_tok) <= left_ns) {
            fits = middle;
        } else {
            too_many = middle;
        }
    }
    return fits * block_tok;
}
