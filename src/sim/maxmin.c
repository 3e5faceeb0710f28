/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/maxmin.h"

#include <assert.h>
#include <stdlib.h>

/* Rates are compared with this relative slack; wrongly calling a flow a violator only costs a
 * round. */
#define SLACK 1e-12
/* used_Bps is a running sum: recompute it this often, so that rounding cannot add up. */
#define RESUM_EVERY 256u

static void push(void ***array, uint32_t *n, uint32_t *capacity, void *item)
{
    if (*n == *capacity) {
        *capacity = *capacity ? 2 * *capacity : 64;
        void **grown = realloc(*array, *capacity * sizeof(*grown));
        if (!grown) {
            abort(); /* scratch of a few kB; there is no sensible way to go on */
        }
        *array = grown;
    }
    (*array)[(*n)++] = item;
}

#define PUSH(m, name, item) push((void ***)&(m)->name, &(m)->n_##name, &(m)->cap_##name, item)

void maxmin_init(struct maxmin *m)
{
    *m = (struct maxmin){0};
}

void maxmin_done(struct maxmin *m)
{
    free(m->set);
    free(m->scope);
    free(m->dirty);
    free(m->fresh);
    *m = (struct maxmin){0};
}

void maxmin_resource_init(struct maxmin_resource *r, double capacity_Bps)
{
    *r = (struct maxmin_resource){.capacity_Bps = capacity_Bps};
    list_init(&r->links);
}

static void mark_dirty(struct maxmin *m, struct maxmin_resource *r)
{
    if (!r->dirty) {
        r->dirty = true;
        PUSH(m, dirty, r);
    }
}

void maxmin_add(struct maxmin *m, struct maxmin_flow *flow,
                struct maxmin_resource *const *resources, unsigned n)
{
    assert(n <= MAXMIN_MAX_LINKS);
    flow->rate_Bps = 0;
    flow->bottleneck = NULL;
    flow->n_links = (uint8_t)n;
    flow->in_set = flow->open = false;
    flow->fresh = true;
    for (unsigned i = 0; i < n; i++) {
        flow->links[i].flow = flow;
        flow->links[i].resource = resources[i];
        list_add_tail(&resources[i]->links, &flow->links[i].node);
        mark_dirty(m, resources[i]);
    }
    PUSH(m, fresh, flow);
}

static void set_bottleneck(struct maxmin_flow *flow, struct maxmin_resource *r)
{
    if (flow->bottleneck) {
        flow->bottleneck->n_bottlenecked--;
    }
    flow->bottleneck = r;
    if (r) {
        r->n_bottlenecked++;
    }
}

void maxmin_remove(struct maxmin *m, struct maxmin_flow *flow)
{
    set_bottleneck(flow, NULL);
    for (unsigned i = 0; i < flow->n_links; i++) {
        struct maxmin_resource *r = flow->links[i].resource;
        list_remove(&flow->links[i].node);
        r->used_Bps = list_empty(&r->links) ? 0 : r->used_Bps - flow->rate_Bps;
        mark_dirty(m, r);
    }
    for (uint32_t i = 0; flow->fresh && i < m->n_fresh; i++) {
        if (m->fresh[i] == flow) {
            m->fresh[i] = m->fresh[--m->n_fresh];
            break;
        }
    }
    flow->rate_Bps = 0;
    flow->n_links = 0;
    flow->fresh = false;
}

void maxmin_set_capacity(struct maxmin *m, struct maxmin_resource *r, double capacity_Bps)
{
    if (r->capacity_Bps != capacity_Bps) {
        r->capacity_Bps = capacity_Bps;
        mark_dirty(m, r);
    }
}

static void take_in(struct maxmin *m, struct maxmin_flow *flow)
{
    if (!flow->in_set) {
        flow->in_set = true;
        flow->old_rate_Bps = flow->rate_Bps;
        PUSH(m, set, flow);
    }
}

/* The flows that a change surely concerns: new ones, and those that the changed resources bind. */
static void seed_set(struct maxmin *m)
{
    for (uint32_t i = 0; i < m->n_fresh; i++) {
        m->fresh[i]->fresh = false;
        take_in(m, m->fresh[i]);
    }
    m->n_fresh = 0;
    for (uint32_t i = 0; i < m->n_dirty; i++) {
        struct maxmin_resource *r = m->dirty[i];
        r->dirty = false;
        bool overfull = r->used_Bps > r->capacity_Bps;
        if (r->n_bottlenecked == 0 && !overfull) {
            continue;
        }
        list_for_each (pos, &r->links) {
            struct maxmin_flow *f = container_of(pos, struct maxmin_link, node)->flow;
            if (overfull || f->bottleneck == r) {
                take_in(m, f);
            }
        }
    }
    m->n_dirty = 0;
}

static void resum(struct maxmin_resource *r)
{
    r->used_Bps = 0;
    list_for_each (pos, &r->links) {
        r->used_Bps += container_of(pos, struct maxmin_link, node)->flow->rate_Bps;
    }
}

/* Collects the resources of the set and what the held flows leave of each. */
static void open_scope(struct maxmin *m)
{
    m->n_scope = 0;
    for (uint32_t i = 0; i < m->n_set; i++) {
        struct maxmin_flow *f = m->set[i];
        f->open = true;
        for (unsigned k = 0; k < f->n_links; k++) {
            struct maxmin_resource *r = f->links[k].resource;
            if (!r->in_scope) {
                r->in_scope = true;
                r->is_bottleneck = false;
                r->n_open = 0;
                if (++r->n_updates % RESUM_EVERY == 0) {
                    resum(r);
                }
                r->residual_Bps = r->capacity_Bps - r->used_Bps;
                PUSH(m, scope, r);
            }
            r->n_open++;
            r->residual_Bps += f->rate_Bps;
        }
    }
}

static void close_flow(struct maxmin_flow *f, double rate_Bps, struct maxmin_resource *bottleneck)
{
    f->open = false;
    f->rate_Bps = rate_Bps;
    set_bottleneck(f, bottleneck);
    for (unsigned k = 0; k < f->n_links; k++) {
        f->links[k].resource->residual_Bps -= rate_Bps;
        f->links[k].resource->n_open--;
    }
}

static double share(const struct maxmin_resource *r)
{
    return r->residual_Bps > 0 ? r->residual_Bps / r->n_open : 0;
}

/* The resource whose share among its open flows is smallest, or NULL. */
static struct maxmin_resource *tightest(struct maxmin *m)
{
    struct maxmin_resource *best = NULL;
    double best_share = 0;
    for (uint32_t i = 0; i < m->n_scope; i++) {
        struct maxmin_resource *r = m->scope[i];
        if (r->n_open > 0 && (!best || share(r) < best_share)) {
            best = r;
            best_share = share(r);
        }
    }
    return best;
}

/* Closes the open flows whose cap lies at or below level; returns whether there was one. */
static bool close_capped(struct maxmin *m, double level_Bps)
{
    bool any = false;
    for (uint32_t i = 0; i < m->n_set; i++) {
        struct maxmin_flow *f = m->set[i];
        if (f->open && f->cap_Bps <= level_Bps) {
            close_flow(f, f->cap_Bps, NULL);
            any = true;
        }
    }
    return any;
}

/* Progressive filling of the set in what the held flows leave. */
static void fill(struct maxmin *m)
{
    open_scope(m);
    struct maxmin_resource *r;
    while ((r = tightest(m))) {
        double level = share(r);
        if (close_capped(m, level)) {
            continue;
        }
        r->is_bottleneck = true;
        r->level_Bps = level;
        list_for_each (pos, &r->links) {
            struct maxmin_flow *f = container_of(pos, struct maxmin_link, node)->flow;
            if (f->open) {
                close_flow(f, level, r);
            }
        }
    }
    close_capped(m, MAXMIN_NO_CAP); /* flows over no resource at all */
    for (uint32_t i = 0; i < m->n_scope; i++) {
        m->scope[i]->used_Bps = m->scope[i]->capacity_Bps - m->scope[i]->residual_Bps;
        m->scope[i]->in_scope = false;
    }
}

static double fastest_on(const struct maxmin_resource *r)
{
    double rate = 0;
    list_for_each (pos, &r->links) {
        const struct maxmin_flow *f = container_of(pos, struct maxmin_link, node)->flow;
        rate = f->rate_Bps > rate ? f->rate_Bps : rate;
    }
    return rate;
}

/* Held flows whose certificate the new rates broke join the set. Returns whether there was one. */
static bool take_in_violators(struct maxmin *m)
{
    uint32_t before = m->n_set;
    for (uint32_t i = 0; i < m->n_scope; i++) {
        struct maxmin_resource *r = m->scope[i];
        if (!r->is_bottleneck && r->n_bottlenecked == 0) {
            continue;
        }
        bool saturated = r->used_Bps >= r->capacity_Bps * (1 - SLACK);
        double fastest = fastest_on(r);
        list_for_each (pos, &r->links) {
            struct maxmin_flow *f = container_of(pos, struct maxmin_link, node)->flow;
            bool too_fast = r->is_bottleneck && f->rate_Bps > r->level_Bps * (1 + SLACK);
            bool unbound =
                f->bottleneck == r && (!saturated || f->rate_Bps < fastest * (1 - SLACK));
            if (too_fast || unbound) {
                take_in(m, f);
            }
        }
    }
    return m->n_set > before;
}

void maxmin_solve(struct maxmin *m, void (*changed)(struct maxmin_flow *flow, void *arg), void *arg)
{
    seed_set(m);
    if (m->n_set == 0) {
        return;
    }
    m->n_solves++;
    do {
        m->n_rounds++;
        fill(m);
    } while (take_in_violators(m));
    m->n_flow_updates += m->n_set;
    for (uint32_t i = 0; i < m->n_set; i++) {
        m->set[i]->in_set = false;
#ifdef DUALPATH_CHECK_CERTIFICATE
        for (unsigned k = 0; k < m->set[i]->n_links; k++) {
            assert(maxmin_certified(m->set[i]->links[k].resource, 1e-9));
        }
#endif
    }
    /* changed() may not add or remove flows: that would move the array under us. */
    for (uint32_t i = 0; i < m->n_set; i++) {
        if (m->set[i]->rate_Bps != m->set[i]->old_rate_Bps) {
            changed(m->set[i], arg);
        }
    }
    m->n_set = 0;
}

bool maxmin_certified(const struct maxmin_resource *r, double tolerance)
{
    double sum = 0;
    double fastest = fastest_on(r);
    list_for_each (pos, &r->links) {
        sum += container_of(pos, struct maxmin_link, node)->flow->rate_Bps;
    }
    if (sum > r->capacity_Bps * (1 + tolerance)) {
        return false;
    }
    list_for_each (pos, &r->links) {
        const struct maxmin_flow *f = container_of(pos, struct maxmin_link, node)->flow;
        if (f->rate_Bps > f->cap_Bps * (1 + tolerance) ||
            (!f->bottleneck && f->rate_Bps < f->cap_Bps * (1 - tolerance))) {
            return false;
        }
        if (f->bottleneck == r &&
            (sum < r->capacity_Bps * (1 - tolerance) || f->rate_Bps < fastest * (1 - tolerance))) {
            return false;
        }
    }
    return true;
}
