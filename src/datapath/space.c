/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "datapath/space.h"

#include <assert.h>
#include <errno.h>

static void integrate(struct space *s)
{
    uint64_t now = loop_now_ns(s->loop);
    s->used_amount_ns += (double)s->used * (double)(now - s->since_ns);
    s->since_ns = now;
}

static void grant(struct loop_timer *t)
{
    struct space *s = container_of(t, struct space, grant_timer);
    struct list *first;
    while ((first = list_first(&s->waiters))) {
        struct space_claim *claim = container_of(first, struct space_claim, node);
        if (claim->amount > s->capacity - s->used) {
            return;
        }
        list_remove(first);
        integrate(s);
        s->used += claim->amount;
        s->taken_total += claim->amount;
        s->peak = s->used > s->peak ? s->used : s->peak;
        claim->slot = slots_take(&s->slots);
        claim->granted(claim);
    }
}

void space_init(struct space *s, struct loop *loop, uint64_t capacity)
{
    *s = (struct space){.loop = loop, .capacity = capacity, .since_ns = loop_now_ns(loop)};
    list_init(&s->waiters);
    loop_timer_init(&s->grant_timer, grant);
}

int space_ask(struct space *s, struct space_claim *claim)
{
    if (claim->amount > s->capacity) {
        return -ENOSPC;
    }
    list_add_tail(&s->waiters, &claim->node);
    if (!loop_armed(&s->grant_timer)) {
        loop_post(s->loop, &s->grant_timer);
    }
    return 0;
}

void space_give(struct space *s, struct space_claim *claim, uint64_t amount)
{
    assert(amount <= claim->amount && amount <= s->used);
    if (amount == 0) {
        return;
    }
    claim->amount -= amount;
    if (claim->amount == 0) {
        slots_give(&s->slots, claim->slot);
    }
    integrate(s);
    s->used -= amount;
    s->given_total += amount;
    if (!list_empty(&s->waiters) && !loop_armed(&s->grant_timer)) {
        loop_post(s->loop, &s->grant_timer);
    }
}

void space_done(struct space *s)
{
    loop_disarm(s->loop, &s->grant_timer);
    slots_done(&s->slots);
}

double space_full_s(const struct space *s)
{
    double still = (double)s->used * (double)(loop_now_ns(s->loop) - s->since_ns);
    return s->capacity ? (s->used_amount_ns + still) * 1e-9 / (double)s->capacity : 0;
}
