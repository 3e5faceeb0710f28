/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sched/retry.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool central_is_dead(const struct central *s, uint32_t node)
{
    return s->nodes[node].dead;
}

static struct central_request *kept(struct list *link)
{
    return container_of(link, struct central_request, kept);
}

void central_keep_open(struct central *s, struct central_request *q)
{
    idmap_put(&s->by_id, q->r.request, q->index);
    list_add_tail(&s->open, &q->kept);
}

void central_keep_started(struct central *s, struct central_request *q, uint32_t prefill_read_tok)
{
    list_remove(&q->kept);
    list_add_tail(&s->started, &q->kept);
    q->prefill_read_tok = prefill_read_tok;
}

/* A death */

/* Requests that wait, in the order in which they came, go back to where they begin; an engine on a
 * dead node was never chosen. */
static void put_back(struct central *s)
{
    const struct cluster *c = s->cluster;
    memset(s->decode_queued_tok, 0, cluster_decode_groups(c) * sizeof(*s->decode_queued_tok));
    list_for_each (pos, &s->open) {
        struct central_request *q = kept(pos);
        bool prefill = q->prefill_engine != POLICY_WAIT;
        bool decode = q->decode_engine != POLICY_WAIT;
        if (!prefill || central_is_dead(s, policy_prefill_node(c, q->prefill_engine))) {
            q->prefill_engine = POLICY_WAIT;
            list_remove(&q->prefill_link);
            list_add_tail(&s->unplaced_prefill, &q->prefill_link);
        }
        if (!decode || central_is_dead(s, policy_decode_node(c, q->decode_engine))) {
            q->decode_engine = POLICY_WAIT;
            list_remove(&q->decode_link);
            list_add_tail(&s->unplaced_decode, &q->decode_link);
        }
    }
}

static void mark_lost(struct central *s, uint32_t node)
{
    list_for_each (pos, &s->started) {
        struct central_request *q = kept(pos);
        if (policy_prefill_node(s->cluster, q->prefill_engine) == node ||
            policy_decode_node(s->cluster, q->decode_engine) == node) {
            q->lost_at = s->n_deaths;
        }
    }
}

static void tell_nodes(struct central *s, uint32_t dead)
{
    for (uint32_t i = 0; i < cluster_nodes(s->cluster); i++) {
        struct msg m = {
            .type = MSG_DEAD, .src = MSG_SCHEDULER, .dst = MSG_NODE(i), .u.dead = {.node = dead}};
        if (!central_is_dead(s, i)) {
            msg_send(s->messages, &m, 0);
        }
    }
}

static bool any_alive(const struct central *s, uint32_t first, uint32_t n)
{
    for (uint32_t i = first; i < first + n; i++) {
        if (!central_is_dead(s, i)) {
            return true;
        }
    }
    return false;
}

static void fault_if_none_left(struct central *s)
{
    const struct cluster *c = s->cluster;
    bool prefill = any_alive(s, 0, c->prefill_nodes);
    bool decode = any_alive(s, c->prefill_nodes, c->decode_nodes);
    if (prefill && decode) {
        return;
    }
    struct msg m = {.type = MSG_FAULT,
                    .src = MSG_SCHEDULER,
                    .dst = MSG_CLIENT,
                    .u.fault = {.status = -EHOSTDOWN, .peer = MSG_NO_NODE}};
    snprintf(m.u.fault.what, sizeof(m.u.fault.what), "no %s node is left",
             prefill ? "decode" : "prefill");
    msg_send(s->messages, &m, 0);
}

/* The number of deaths that every live node is clear of. */
static uint32_t deaths_cleared(const struct central *s)
{
    uint32_t least = s->n_deaths;
    for (uint32_t i = 0; i < cluster_nodes(s->cluster); i++) {
        if (!central_is_dead(s, i) && s->cleared[i] < least) {
            least = s->cleared[i];
        }
    }
    return least;
}

static void tell_lost(struct central *s)
{
    uint32_t cleared = deaths_cleared(s);
    list_for_each (pos, &s->started) {
        struct central_request *q = kept(pos);
        if (q->lost_at == 0 || q->lost_at > cleared || q->lost_told) {
            continue;
        }
        q->lost_told = true;
        struct msg m = {.type = MSG_LOST,
                        .src = MSG_SCHEDULER,
                        .dst = MSG_CLIENT,
                        .u.lost = {.request = q->r.request}};
        msg_send(s->messages, &m, 0);
    }
}

void central_take_death(struct central *s, uint32_t node)
{
    if (central_is_dead(s, node)) {
        return;
    }
    s->nodes[node].dead = true;
    s->n_deaths++;
    mark_lost(s, node);
    put_back(s);
    tell_nodes(s, node);
    fault_if_none_left(s);
    tell_lost(s); /* it may have been the one that was waited for */
}

void central_take_clear(struct central *s, const struct msg_clear *m)
{
    s->cleared[m->node] = m->deaths;
    tell_lost(s);
}

/* The end of a request */

static void take_back_prefill(struct central *s, const struct central_request *q)
{
    uint32_t e = q->prefill_engine, node = policy_prefill_node(s->cluster, e);
    struct central_account *a = &s->prefill_accounts[e];
    a->tok -= q->r.prompt_tok;
    a->requests--;
    central_refresh_engine(&s->prefill[e], a, 0);
    s->read_assigned_tok[node] -= q->prefill_read_tok;
    s->nodes[node].read_queue_tok -= q->prefill_read_tok;
}

void central_take_over(struct central *s, const struct msg_over *m)
{
    uint32_t index;
    if (!idmap_get(&s->by_id, m->request, &index)) {
        return;
    }
    struct central_request *q = pool_at(&s->requests, index);
    bool prefill_lives = !central_is_dead(s, policy_prefill_node(s->cluster, q->prefill_engine));
    if (q->lost_at > 0 && prefill_lives && !m->prefilled) {
        take_back_prefill(s, q);
    }
    idmap_remove(&s->by_id, m->request);
    list_remove(&q->kept);
    pool_put(&s->requests, index);
}
