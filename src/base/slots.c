/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/slots.h"

#include <assert.h>
#include <stdlib.h>

void slots_done(struct slots *s)
{
    free(s->free);
    *s = (struct slots){0};
}

uint32_t slots_take(struct slots *s)
{
    if (s->n_free > 0) {
        return s->free[--s->n_free];
    }
    if (s->n_ever == s->capacity) {
        uint32_t capacity = s->capacity ? 2 * s->capacity : 16;
        uint32_t *grown = realloc(s->free, capacity * sizeof(*grown));
        if (!grown) {
            abort();
        }
        s->free = grown;
        s->capacity = capacity;
    }
    return s->n_ever++;
}

void slots_give(struct slots *s, uint32_t slot)
{
    assert(slot < s->n_ever && s->n_free < s->n_ever);
    s->free[s->n_free++] = slot;
}
