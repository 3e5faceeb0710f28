/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Attention on the CPU, in the HBM regions of this process (host memory): bit for bit the
 * reference. */
#ifndef DUALPATH_HW_COMPUTE_CPU_H
#define DUALPATH_HW_COMPUTE_CPU_H

#include "hw/hw_compute.h"

struct compute_cpu {
    struct attention_kernel kernel;
    struct attention attention;
    struct attention_scratch *scratch; /* by slot */
    uint32_t n_slots;
};

/* n_slots: hw_compute_slots(). 0 or -ENOMEM. */
int compute_cpu_init(struct compute_cpu *c, const struct attention *attention, uint32_t n_slots,
                     struct err *e);
void compute_cpu_done(struct compute_cpu *c);

#endif
