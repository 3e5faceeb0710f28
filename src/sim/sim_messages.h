/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The message port in virtual time: every message takes the control network's one-way latency,
 * messages of an endpoint to itself take none. */
#ifndef DUALPATH_SIM_SIM_MESSAGES_H
#define DUALPATH_SIM_SIM_MESSAGES_H

#include "base/list.h"
#include "base/loop.h"
#include "base/pool.h"
#include "sched/message.h"

/* Messages on their way from one endpoint, in order. */
struct sim_lane {
    struct sim_messages *sm;
    struct list envelopes;
    struct loop_timer timer; /* of the first */
};

struct sim_endpoint {
    msg_handler *handler;
    void *self;
    struct sim_lane to_others, to_itself;
};

struct sim_messages {
    struct msg_port port;
    struct loop *loop;
    uint64_t latency_ns;
    struct sim_endpoint *endpoints;
    uint32_t n_endpoints;
    struct pool in_flight;
    uint64_t n_sent;
};

/* Returns 0 or -ENOMEM. */
int sim_messages_init(struct sim_messages *sm, struct loop *loop, uint32_t n_endpoints,
                      uint64_t latency_ns);
void sim_messages_done(struct sim_messages *sm);

#endif
