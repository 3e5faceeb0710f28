/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/sim_messages.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct envelope {
    struct list node;
    uint64_t arrival_ns;
    uint32_t index; /* in the pool */
    struct msg msg;
};

static struct envelope *first_of(struct sim_lane *lane)
{
    return container_of(list_first(&lane->envelopes), struct envelope, node);
}

static void deliver(struct loop_timer *t)
{
    struct sim_lane *lane = container_of(t, struct sim_lane, timer);
    struct sim_messages *sm = lane->sm;
    struct envelope *e = first_of(lane);
    struct msg m = e->msg;
    list_remove(&e->node);
    pool_put(&sm->in_flight, e->index);
    if (!list_empty(&lane->envelopes)) {
        loop_arm(sm->loop, t, first_of(lane)->arrival_ns);
    }
    const struct sim_endpoint *to = &sm->endpoints[m.dst];
    assert(to->handler);
    to->handler(to->self, &m);
}

/* No earlier than what was sent before it. */
static uint64_t arrival_ns(const struct sim_lane *lane, uint64_t when_ns)
{
    if (list_empty(&lane->envelopes)) {
        return when_ns;
    }
    uint64_t last_ns = container_of(lane->envelopes.prev, struct envelope, node)->arrival_ns;
    return when_ns > last_ns ? when_ns : last_ns;
}

static void send(struct msg_port *port, const struct msg *m, uint64_t delay_ns)
{
    struct sim_messages *sm = container_of(port, struct sim_messages, port);
    assert(m->src < sm->n_endpoints && m->dst < sm->n_endpoints);
    bool itself = m->src == m->dst;
    struct sim_endpoint *from = &sm->endpoints[m->src];
    struct sim_lane *lane = itself ? &from->to_itself : &from->to_others;
    uint32_t index;
    struct envelope *e = pool_get(&sm->in_flight, &index);
    uint64_t latency_ns = itself ? 0 : sm->latency_ns;
    e->index = index;
    e->arrival_ns = arrival_ns(lane, loop_now_ns(sm->loop) + delay_ns + latency_ns);
    e->msg = *m;
    e->msg.version = MSG_VERSION;
    list_add_tail(&lane->envelopes, &e->node);
    if (!loop_armed(&lane->timer)) {
        loop_arm(sm->loop, &lane->timer, e->arrival_ns);
    }
    sm->n_sent++;
}

static int attach(struct msg_port *port, uint32_t endpoint, msg_handler *handler, void *self)
{
    struct sim_messages *sm = container_of(port, struct sim_messages, port);
    if (endpoint >= sm->n_endpoints || sm->endpoints[endpoint].handler) {
        return -EINVAL;
    }
    sm->endpoints[endpoint].handler = handler;
    sm->endpoints[endpoint].self = self;
    return 0;
}

static const struct msg_port_ops ops = {.name = "sim", .send = send, .attach = attach};

static void lane_init(struct sim_lane *lane, struct sim_messages *sm)
{
    lane->sm = sm;
    list_init(&lane->envelopes);
    loop_timer_init(&lane->timer, deliver);
}

int sim_messages_init(struct sim_messages *sm, struct loop *loop, uint32_t n_endpoints,
                      uint64_t latency_ns)
{
    *sm = (struct sim_messages){
        .port.ops = &ops, .loop = loop, .latency_ns = latency_ns, .n_endpoints = n_endpoints};
    pool_init(&sm->in_flight, sizeof(struct envelope));
    sm->endpoints = calloc(n_endpoints, sizeof(*sm->endpoints));
    if (!sm->endpoints) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < n_endpoints; i++) {
        lane_init(&sm->endpoints[i].to_others, sm);
        lane_init(&sm->endpoints[i].to_itself, sm);
    }
    return 0;
}

void sim_messages_done(struct sim_messages *sm)
{
    free(sm->endpoints);
    pool_done(&sm->in_flight);
}
