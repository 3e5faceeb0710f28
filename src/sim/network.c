/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/network.h"

#include <assert.h>

static void tell_changed(const struct net_stream *s)
{
    if (s->net->changed) {
        s->net->changed(s->net, s);
    }
}

static void need_solve(struct net *n)
{
    if (!loop_armed(&n->solve_timer)) {
        loop_post(n->loop, &n->solve_timer);
    }
}

/* Brings sent_bytes up to now at the rate that has held since sent_at_ns. */
static void catch_up(struct net_stream *s)
{
    uint64_t now = loop_now_ns(s->net->loop);
    double bytes = s->maxmin.rate_Bps * 1e-9 * (double)(now - s->sent_at_ns);
    double left = (double)s->ready_bytes - s->sent_bytes;
    bytes = bytes > left ? left : bytes;
    s->sent_bytes += bytes;
    s->sent_at_ns = now;
    for (unsigned i = 0; i < s->n_path; i++) {
        s->path[i]->moved_bytes += bytes;
    }
}

static uint64_t next_target(const struct net_stream *s)
{
    bool mark_ahead = (double)s->mark_bytes > s->sent_bytes && s->mark_bytes < s->ready_bytes;
    return mark_ahead ? s->mark_bytes : s->ready_bytes;
}

static void arm(struct net_stream *s)
{
    double left = (double)next_target(s) - s->sent_bytes;
    if (s->maxmin.rate_Bps <= 0) {
        loop_disarm(s->net->loop, &s->timer);
        return;
    }
    /* sent_at_ns is now: rates and marks change at the present only. */
    loop_arm(s->net->loop, &s->timer, loop_after_ns(s->net->loop, left / s->maxmin.rate_Bps * 1e9));
}

static void rate_before_change(struct maxmin_flow *flow, void *arg)
{
    (void)arg;
    struct net_stream *s = flow->owner;
    double rate = flow->rate_Bps;
    flow->rate_Bps = flow->old_rate_Bps;
    catch_up(s);
    flow->rate_Bps = rate;
    arm(s);
    tell_changed(s);
}

static void solve(struct loop_timer *t)
{
    struct net *n = container_of(t, struct net, solve_timer);
    maxmin_solve(&n->maxmin, rate_before_change, NULL);
    if (n->solved) {
        n->solved(n);
    }
}

void net_init(struct net *n, struct loop *loop)
{
    n->loop = loop;
    maxmin_init(&n->maxmin);
    loop_timer_init(&n->solve_timer, solve);
}

void net_done(struct net *n)
{
    maxmin_done(&n->maxmin);
}

void net_resource_init(struct net_resource *r, double capacity_Bps)
{
    *r = (struct net_resource){0};
    maxmin_resource_init(&r->maxmin, capacity_Bps);
}

void net_set_capacity(struct net *n, struct net_resource *r, double capacity_Bps)
{
    maxmin_set_capacity(&n->maxmin, &r->maxmin, capacity_Bps);
    need_solve(n);
}

static void run(struct net_stream *s)
{
    struct maxmin_resource *on[MAXMIN_MAX_LINKS];
    for (unsigned i = 0; i < s->n_path; i++) {
        on[i] = &s->path[i]->maxmin;
    }
    s->running = true;
    s->sent_at_ns = loop_now_ns(s->net->loop);
    tell_changed(s);
    maxmin_add(&s->net->maxmin, &s->maxmin, on, s->n_path);
    need_solve(s->net);
}

static void pause_stream(struct net_stream *s)
{
    s->running = false;
    loop_disarm(s->net->loop, &s->timer);
    tell_changed(s);
    maxmin_remove(&s->net->maxmin, &s->maxmin);
    need_solve(s->net);
}

static void end(struct net_stream *s)
{
    pause_stream(s);
    s->open = false;
    for (unsigned i = 0; i < s->n_path; i++) {
        s->path[i]->bytes_out += s->total_bytes;
    }
    s->ended(s);
}

static void fire(struct loop_timer *t)
{
    struct net_stream *s = container_of(t, struct net_stream, timer);
    uint64_t target = next_target(s);
    catch_up(s);
    /* The event was rounded up to the nanosecond of the target: what lies within it has been sent.
     */
    s->sent_bytes = s->sent_bytes < (double)target ? (double)target : s->sent_bytes;
    if (target == s->total_bytes) {
        end(s);
        return;
    }
    if (target == s->ready_bytes) {
        pause_stream(s);
    }
    if (s->sent_bytes >= (double)s->mark_bytes) {
        s->reached(s);
    }
    if (s->running) {
        arm(s);
    }
}

void net_stream_open(struct net *n, struct net_stream *s, struct net_resource *const *path,
                     unsigned n_path)
{
    assert(n_path > 0 && n_path <= MAXMIN_MAX_LINKS && s->total_bytes > 0);
    s->net = n;
    s->n_path = (uint8_t)n_path;
    s->open = true;
    s->running = false;
    s->sent_bytes = 0;
    s->maxmin.owner = s;
    loop_timer_init(&s->timer, fire);
    for (unsigned i = 0; i < n_path; i++) {
        s->path[i] = path[i];
        path[i]->bytes_in += s->total_bytes;
    }
    if (s->ready_bytes > 0) {
        run(s);
    }
}

void net_stream_ready(struct net_stream *s, uint64_t ready_bytes)
{
    assert(s->open && ready_bytes <= s->total_bytes);
    if (!s->running) {
        s->ready_bytes = ready_bytes;
        run(s);
        return;
    }
    catch_up(s);
    s->ready_bytes = ready_bytes;
    arm(s);
}

void net_stream_abort(struct net_stream *s)
{
    if (s->running) {
        catch_up(s);
        pause_stream(s);
    }
    s->open = false;
    for (unsigned i = 0; i < s->n_path; i++) {
        s->path[i]->bytes_in -= s->total_bytes;
    }
}
