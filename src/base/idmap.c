/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/idmap.h"

#include <stdlib.h>

#include "base/hash.h"

void idmap_init(struct idmap *m)
{
    *m = (struct idmap){0};
}

void idmap_done(struct idmap *m)
{
    free(m->entries);
    free(m->used);
    *m = (struct idmap){0};
}

static uint32_t home(const struct idmap *m, uint32_t id)
{
    return (uint32_t)hash_mix64(id) & m->mask;
}

static uint32_t find(const struct idmap *m, uint32_t id)
{
    uint32_t i = home(m, id);
    while (m->used[i] && m->entries[i].id != id) {
        i = (i + 1) & m->mask;
    }
    return i;
}

static void grow(struct idmap *m)
{
    struct idmap old = *m;
    uint32_t size = old.entries ? 2 * (old.mask + 1) : 64;
    m->entries = malloc(size * sizeof(*m->entries));
    m->used = calloc(size, sizeof(*m->used));
    if (!m->entries || !m->used) {
        abort();
    }
    m->mask = size - 1;
    m->n = 0;
    for (uint32_t i = 0; old.entries && i <= old.mask; i++) {
        if (old.used[i]) {
            idmap_put(m, old.entries[i].id, old.entries[i].value);
        }
    }
    idmap_done(&old);
}

void idmap_put(struct idmap *m, uint32_t id, uint32_t value)
{
    if (!m->entries || 4 * (m->n + 1) > 3 * (m->mask + 1)) {
        grow(m);
    }
    uint32_t i = find(m, id);
    m->n += !m->used[i];
    m->used[i] = true;
    m->entries[i] = (struct idmap_entry){id, value};
}

bool idmap_get(const struct idmap *m, uint32_t id, uint32_t *ret_value)
{
    if (!m->entries) {
        return false;
    }
    uint32_t i = find(m, id);
    if (!m->used[i]) {
        return false;
    }
    *ret_value = m->entries[i].value;
    return true;
}

void idmap_remove(struct idmap *m, uint32_t id)
{
    uint32_t i = m->entries ? find(m, id) : 0;
    if (!m->entries || !m->used[i]) {
        return;
    }
    m->n--;
    for (uint32_t j = (i + 1) & m->mask; m->used[j]; j = (j + 1) & m->mask) {
        uint32_t h = home(m, m->entries[j].id);
        /* Entry j may fill the hole at i unless its home lies between them (cyclically). */
        if (((j - h) & m->mask) >= ((j - i) & m->mask)) {
            m->entries[i] = m->entries[j];
            i = j;
        }
    }
    m->used[i] = false;
}
