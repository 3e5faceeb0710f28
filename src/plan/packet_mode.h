/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `fidelity: packet`: a simulation's copies as packets. For small cases: a packet costs about 0.1
 * us on every link and memory that it passes. */
#ifndef DUALPATH_PLAN_PACKET_MODE_H
#define DUALPATH_PLAN_PACKET_MODE_H

#include "plan/simulation.h"

#define PACKET_MODE_MAX_NODES   8u
#define PACKET_MODE_MAX_PACKETS 2e8

/* About the packets that the whole workload comes to: every prompt loaded, stored and admitted
 * whole, every generated token persisted; the collectives of tokens that are not in the turn
 * before, and of generated ones. */
double packet_mode_packets(const struct cluster *c, const struct workload *w);

/* 0, or -E2BIG with err saying which limit is passed. */
int packet_mode_check(const struct cluster *c, const struct workload *w, struct err *err);

/* Once s->dp is there. Returns 0, -ENOMEM, or -EINVAL with err. */
int packet_mode_build(struct simulation *s, struct err *err);
void packet_mode_done(struct simulation *s);

#endif
