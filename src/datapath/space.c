/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "datapath/space.h"

#include <assert.h>
#include <errno.h>

static void integrate(struct space *s)
{
    uint64_t now = loop_now_ns(s->loop);
    s->used_amount_ns += (double)(s->used - s->idle) * (double)(now - s->since_ns);
    s->since_ns = now;
}

/* claim->amount may change while room is being reclaimed. */
static bool make_room(struct space *s, struct space_claim *claim)
{
    while (claim->amount > s->capacity - s->used) {
        if (s->idle == 0 || !s->reclaim || !s->reclaim(s, claim)) {
            return false;
        }
    }
    return true;
}

static void take(struct space *s, struct space_claim *claim)
{
    integrate(s);
    s->used += claim->amount;
    s->taken_total += claim->amount;
    s->peak = s->used > s->peak ? s->used : s->peak;
    if (claim->into) {
        claim->into->amount += claim->amount;
        claim->amount = 0;
    } else {
        claim->slot = slots_take(&s->slots);
        claim->held = true;
    }
}

static void grant_when_waiting(struct space *s)
{
    if (!list_empty(&s->waiters) && !loop_armed(&s->grant_timer)) {
        loop_post(s->loop, &s->grant_timer);
    }
}

static void grant(struct loop_timer *t)
{
    struct space *s = container_of(t, struct space, grant_timer);
    struct list *first;
    while ((first = list_first(&s->waiters))) {
        struct space_claim *claim = container_of(first, struct space_claim, node);
        if (!make_room(s, claim)) {
            return;
        }
        list_remove(first);
        claim->waiting = false;
        take(s, claim);
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
    claim->waiting = true;
    list_add_tail(&s->waiters, &claim->node);
    grant_when_waiting(s);
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
        claim->held = false;
    }
    integrate(s);
    s->used -= amount;
    s->given_total += amount;
    grant_when_waiting(s);
}

void space_set_idle(struct space *s, uint64_t amount, bool idle)
{
    assert(amount <= (idle ? s->used - s->idle : s->idle));
    integrate(s);
    s->idle += idle ? amount : -amount;
    grant_when_waiting(s);
}

/* Those behind it may fit now. */
void space_withdraw(struct space *s, struct space_claim *claim)
{
    if (!claim->waiting) {
        return;
    }
    claim->waiting = false;
    list_remove(&claim->node);
    grant_when_waiting(s);
}

void space_done(struct space *s)
{
    loop_disarm(s->loop, &s->grant_timer);
    slots_done(&s->slots);
}

double space_full_s(const struct space *s)
{
    double still = (double)(s->used - s->idle) * (double)(loop_now_ns(s->loop) - s->since_ns);
    return s->capacity ? (s->used_amount_ns + still) * 1e-9 / (double)s->capacity : 0;
}
