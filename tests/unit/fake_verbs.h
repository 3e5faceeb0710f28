/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A device behind the names of libibverbs, for what soft-RoCE cannot show: linked into a test
 * program, its functions come before the library's. One InfiniBand device with one active port;
 * RDMA writes are copies. A write takes a while: it completes at the second look at the queue after
 * the last one was posted, and who asks to be told hears of it only then, through the channel.
 */
#ifndef DUALPATH_TESTS_FAKE_VERBS_H
#define DUALPATH_TESTS_FAKE_VERBS_H

#include <infiniband/verbs.h>

struct fake_verbs {
    unsigned n_devices;   /* 0 or 1 */
    int reg_mr_errno;     /* of ibv_reg_mr() for memory with the address in gpu_memory; 0: works */
    int reg_dmabuf_errno; /* of ibv_reg_dmabuf_mr(); 0: works */
    const void *gpu_memory;
    /* What the device was asked. */
    unsigned n_reg_mr, n_reg_dmabuf, n_posts, n_notify;
    int dmabuf_fd;
    unsigned n_rtr;
    struct ibv_ah_attr rtr[64]; /* of each step to "ready to receive" */
};

extern struct fake_verbs fake_verbs; /* reset by the test */

/* Mappings, queues and whatever else is open: 0 after everything was closed. */
unsigned fake_verbs_open_things(void);

#endif
