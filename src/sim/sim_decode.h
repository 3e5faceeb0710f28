/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The decode half of sim_compute.h, which says how the loops run. Used by sim_compute.c only. */
#ifndef DUALPATH_SIM_SIM_DECODE_H
#define DUALPATH_SIM_SIM_DECODE_H

#include "sim/sim_compute.h"

/* The groups of sc->config. Returns 0 or -ENOMEM; sim_decode_done() in either case. */
int sim_decode_init(struct sim_compute *sc);
void sim_decode_done(struct sim_compute *sc);

/* Of the compute port: see sched/compute.h. */
int sim_decode_join(struct compute_port *port, struct compute_sequence *s);
void sim_decode_leave(struct compute_port *port, struct compute_sequence *s);

#endif
