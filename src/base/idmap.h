/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Map from 32-bit ids to 32-bit values: open addressing, linear probing, deletion by shifting back.
 */
#ifndef DUALPATH_BASE_IDMAP_H
#define DUALPATH_BASE_IDMAP_H

#include <stdbool.h>
#include <stdint.h>

struct idmap_entry {
    uint32_t id, value;
};

struct idmap {
    struct idmap_entry *entries;
    bool *used;
    uint32_t mask, n;
};

void idmap_init(struct idmap *m);
void idmap_done(struct idmap *m);
void idmap_put(struct idmap *m, uint32_t id,
               uint32_t value); /* id must be absent; aborts when out of memory */
bool idmap_get(const struct idmap *m, uint32_t id, uint32_t *ret_value);
void idmap_remove(struct idmap *m, uint32_t id);

#endif
