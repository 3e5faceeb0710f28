/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Numbers given out and taken back, the smallest possible range: never more than the peak in
 * use. */
#ifndef DUALPATH_BASE_SLOTS_H
#define DUALPATH_BASE_SLOTS_H

#include <stdint.h>

struct slots {
    uint32_t *free; /* given back, to be given out again first */
    uint32_t n_free, capacity;
    uint32_t n_ever; /* numbers below have been given out at some time */
};

/* Zero-initialise. */
void slots_done(struct slots *s);
uint32_t slots_take(struct slots *s); /* aborts when out of memory */
void slots_give(struct slots *s, uint32_t slot);

/* Given out, and not taken back. */
static inline uint32_t slots_used(const struct slots *s)
{
    return s->n_ever - s->n_free;
}

#endif
