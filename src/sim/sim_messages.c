/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/sim_messages.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct envelope {
    struct loop_timer timer;
    struct sim_messages *sm;
    uint32_t index;
    struct msg msg;
};

static void deliver(struct loop_timer *t)
{
    struct envelope *e = container_of(t, struct envelope, timer);
    struct sim_messages *sm = e->sm;
    struct msg m = e->msg;
    pool_put(&sm->in_flight, e->index);
    const struct sim_endpoint *to = &sm->endpoints[m.dst];
    assert(to->handler);
    to->handler(to->self, &m);
}

static void send(struct msg_port *port, const struct msg *m, uint64_t delay_ns)
{
    struct sim_messages *sm = container_of(port, struct sim_messages, port);
    assert(m->dst < sm->n_endpoints);
    uint32_t index;
    struct envelope *e = pool_get(&sm->in_flight, &index);
    e->sm = sm;
    e->index = index;
    e->msg = *m;
    e->msg.version = MSG_VERSION;
    loop_timer_init(&e->timer, deliver);
    uint64_t latency_ns = m->src == m->dst ? 0 : sm->latency_ns;
    sm->n_sent++;
    loop_arm(sm->loop, &e->timer, loop_now_ns(sm->loop) + delay_ns + latency_ns);
}

static int attach(struct msg_port *port, uint32_t endpoint, msg_handler *handler, void *self)
{
    struct sim_messages *sm = container_of(port, struct sim_messages, port);
    if (endpoint >= sm->n_endpoints || sm->endpoints[endpoint].handler) {
        return -EINVAL;
    }
    sm->endpoints[endpoint] = (struct sim_endpoint){handler, self};
    return 0;
}

static const struct msg_port_ops ops = {.name = "sim", .send = send, .attach = attach};

int sim_messages_init(struct sim_messages *sm, struct loop *loop, uint32_t n_endpoints,
                      uint64_t latency_ns)
{
    *sm = (struct sim_messages){
        .port.ops = &ops, .loop = loop, .latency_ns = latency_ns, .n_endpoints = n_endpoints};
    pool_init(&sm->in_flight, sizeof(struct envelope));
    sm->endpoints = calloc(n_endpoints, sizeof(*sm->endpoints));
    return sm->endpoints ? 0 : -ENOMEM;
}

void sim_messages_done(struct sim_messages *sm)
{
    free(sm->endpoints);
    pool_done(&sm->in_flight);
}
