/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sched/stored.h"

void stored_init(struct stored *s, uint64_t capacity_blocks)
{
    *s = (struct stored){.capacity_blocks = capacity_blocks};
    list_init(&s->lru);
}

void stored_context_init(struct stored_context *c)
{
    c->blocks = 0;
    list_init(&c->lru);
}

void stored_lease(struct stored_context *c)
{
    list_remove(&c->lru);
}

static void evict(struct stored *s)
{
    while (s->blocks > s->capacity_blocks) {
        struct stored_context *c = container_of(list_first(&s->lru), struct stored_context, lru);
        uint64_t over = s->blocks - s->capacity_blocks;
        uint32_t n = over < c->blocks ? (uint32_t)over : c->blocks;
        c->blocks -= n;
        s->blocks -= n;
        s->evicted += n;
        if (c->blocks == 0) {
            list_remove(&c->lru);
        }
    }
}

void stored_release(struct stored *s, struct stored_context *c, uint32_t hit_blocks,
                    uint32_t blocks)
{
    if (s->capacity_blocks == 0) {
        return;
    }
    s->written += blocks - hit_blocks;
    s->overwritten += c->blocks - hit_blocks;
    s->blocks += blocks;
    s->blocks -= c->blocks;
    c->blocks = blocks;
    if (blocks > 0) {
        list_add_tail(&s->lru, &c->lru);
    }
    evict(s);
    s->peak_blocks = s->blocks > s->peak_blocks ? s->blocks : s->peak_blocks;
}
