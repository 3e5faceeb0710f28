/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Blocks on 3FS by USRBIO: reads and writes go through rings shared with 3FS's FUSE client
 * (hf3fs_usrbio.h), past the kernel; opening, closing and syncing stay with io_uring. The store's
 * buffers are an iov, which the client has registered with its RDMA device, so every block passes
 * through one of them. The store's directory must be on a mounted 3FS. Completions have no file
 * descriptor to wait for: while some are to come, a timer looks every USRBIO_POLL_NS.
 *
 * For storage_options.slots. In a build without 3FS's header and library it refuses to open:
 * -ENODEV.
 */
#ifndef DUALPATH_HW_STORAGE_USRBIO_H
#define DUALPATH_HW_STORAGE_USRBIO_H

#include "hw/storage_internal.h"

/* A read of 3FS takes 0.3 ms and more. */
#define USRBIO_POLL_NS ((uint64_t)20000)

extern const struct slot_mover_ops storage_usrbio;

#endif
