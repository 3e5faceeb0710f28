/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sched/node.h"

#include <stdio.h>

void node_fetch(struct node *n)
{
    struct msg m = {.type = MSG_FETCH, .u.fetch = n->report};
    node_send(n, MSG_SCHEDULER, &m);
}

static void fetch(struct loop_timer *t)
{
    struct node *n = container_of(t, struct node, fetch_timer);
    if (!n->fetches_itself) {
        node_fetch(n);
    }
    loop_arm(n->ports.loop, t, loop_now_ns(n->ports.loop) + n->cluster->fetch_period_ns);
}

void node_init(struct node *n, const struct cluster *cluster, const struct node_ports *ports,
               uint32_t id)
{
    *n = (struct node){.cluster = cluster, .ports = *ports, .id = id, .report.node = id};
    idmap_init(&n->dead);
    loop_timer_init(&n->fetch_timer, fetch);
    node_restart_fetches(n);
}

void node_restart_fetches(struct node *n)
{
    uint64_t phase_ns = n->cluster->fetch_period_ns * n->id / cluster_nodes(n->cluster);
    loop_arm(n->ports.loop, &n->fetch_timer, loop_now_ns(n->ports.loop) + phase_ns);
}

void node_pause_fetches(struct node *n)
{
    n->paused_fetch_ns = n->fetch_timer.when_ns;
    loop_disarm(n->ports.loop, &n->fetch_timer);
}

void node_resume_fetches(struct node *n)
{
    uint64_t now = loop_now_ns(n->ports.loop), period = n->cluster->fetch_period_ns;
    uint64_t next = n->paused_fetch_ns;
    if (next < now) {
        next += (now - next + period - 1) / period * period;
    }
    if (!n->stopped) {
        loop_arm(n->ports.loop, &n->fetch_timer, next);
    }
}

void node_stop(struct node *n)
{
    n->stopped = true;
    loop_disarm(n->ports.loop, &n->fetch_timer);
}

void node_done(struct node *n)
{
    idmap_done(&n->dead);
}

bool node_ignores(const struct node *n, const struct msg *m)
{
    uint32_t since;
    return n->n_deaths > 0 && m->src >= MSG_NODE(0) &&
           idmap_get(&n->dead, m->src - MSG_NODE(0), &since);
}

void node_take_death(struct node *n, uint32_t dead)
{
    idmap_put(&n->dead, dead, ++n->n_deaths);
    n->clear_pending = true;
    dp_forget_node(n->ports.dp, dead);
}

void node_tell_if_clear(struct node *n)
{
    if (!n->clear_pending || n->n_doomed > 0) {
        return;
    }
    n->clear_pending = false;
    struct msg m = {.type = MSG_CLEAR, .u.clear = {.node = n->id, .deaths = n->n_deaths}};
    node_send(n, MSG_CLIENT, &m);
}

void node_send(struct node *n, uint32_t dst, struct msg *m)
{
    m->src = MSG_NODE(n->id);
    m->dst = dst;
    msg_send(n->ports.messages, m, 0);
}

static void tell_fault(struct node *n, uint32_t request, int status, const char *what,
                       uint32_t peer)
{
    if (n->stopped) {
        return;
    }
    struct msg m = {.type = MSG_FAULT,
                    .u.fault = {.request = request, .status = status, .peer = peer}};
    snprintf(m.u.fault.what, sizeof(m.u.fault.what), "%s", what);
    node_send(n, MSG_CLIENT, &m);
}

void node_fault(struct node *n, uint32_t request, int status, const char *what)
{
    tell_fault(n, request, status, what, MSG_NO_NODE);
}

static void op_fault(struct node *n, const struct dp_op *op, uint32_t request, int status)
{
    bool away = op->kind == DP_COPY && op->dst.node != n->id;
    tell_fault(n, request, status, dp_class_name(op->traffic_class),
               away ? op->dst.node : MSG_NO_NODE);
}

void node_submit(struct node *n, struct dp_op *op, uint32_t request)
{
    int rc = dp_submit_or_wait(n->ports.dp, op);
    if (rc) {
        op_fault(n, op, request, rc);
    }
}

bool node_op_ok(struct node *n, const struct dp_op *op, uint32_t request)
{
    if (op->status) {
        op_fault(n, op, request, op->status);
    }
    return op->status == 0;
}
