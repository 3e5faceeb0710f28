/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Everything that `dualpath probe` measures, one after the other. */
#ifndef DUALPATH_CLI_PROBE_MEASURE_H
#define DUALPATH_CLI_PROBE_MEASURE_H

#include "hw/cuda_probe.h"
#include "hw/probe.h"

struct probe_gpu_point {
    const char *what; /* "copy to GPU", "copy from GPU", "GEMM" */
    uint64_t bytes;   /* copies */
    uint32_t m, n, k; /* GEMM */
    double ns;        /* mean */
};

#define PROBE_GPU_POINTS 16

struct probe_measured {
    struct probe_points points;
    struct cuda_device gpu; /* n_devices 0: none */
    struct probe_gpu_point gpu_points[PROBE_GPU_POINTS];
    uint32_t n_gpu_points;
};

/* need_verbs: an RDMA device that is absent is an error (-ENODEV), else it is left out and noted on
 * stderr. 0, or negative errno with err; probe_measured_done() in both cases. */
int probe_measure(const struct probe_config *c, bool need_verbs, struct probe_measured *ret,
                  struct err *err);
void probe_measured_done(struct probe_measured *m);

#endif
