/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Storage on a file system (local NVMe, or a mounted distributed one) through io_uring: Full Blocks
 * in fixed slots, storage_format.h. Every block is verified when it is read. Files are opened,
 * read, written and synced through the ring, checksums and copies are work of the pool, so nothing
 * holds up the loop.
 *
 * With O_DIRECT where the file system has it. A block goes straight from or to the caller's memory
 * when that is aligned to 4096 bytes (address and block_bytes) and in one piece; else through a
 * registered buffer. Blocks of an op are in flight together, up to the queue depth, and reported in
 * order.
 *
 * Errors an op can end with, each told to hw_faults with file and block: -ENODATA (no such chain, a
 * block beyond the end, or never written), -EIO (truncated within a block, or the device's),
 * -EBADMSG (damaged, or another block's bytes), -ENOSPC and whatever else the file system says.
 * The memory of a read that failed holds nothing meaningful.
 */
#ifndef DUALPATH_HW_STORAGE_URING_H
#define DUALPATH_HW_STORAGE_URING_H

#include <liburing.h>

#include "hw/memory.h"
#include "hw/mover.h"
#include "hw/wall_driver.h"
#include "hw/work_pool.h"

struct slot_mover_ops;

struct storage_options {
    const struct slot_mover_ops *slots; /* moves blocks; NULL: io_uring, as everything else */
    const char *directory;              /* must exist */
    uint64_t block_bytes;               /* of every block; part_bytes of every op */
    uint32_t queue_depth;               /* blocks in flight, > 0 */
    uint32_t max_ops;                   /* ops in flight before -EAGAIN, > 0 */
    bool buffered;                      /* do not try O_DIRECT */
    bool sync; /* a write is done when the device has it (fdatasync), not before */
};

struct storage_counters {
    uint64_t blocks_read, blocks_written;
    uint64_t in_place;       /* blocks without a copy */
    uint64_t direct_refused; /* opens that had to do without O_DIRECT */
    bool unregistered;       /* the ring's buffers could not be registered (locked memory limit) */
};

struct storage_op;
struct storage_io;

struct storage_uring {
    struct mover mover;
    struct storage_options options;
    struct storage_counters counters;
    struct loop *loop;
    struct wall_driver *driver;
    struct work_pool *pool;
    const struct memory_map *map;
    int dir_fd;
    char *directory; /* own copy, for messages */
    struct io_uring ring;
    struct wall_source source;
    struct loop_timer submit_timer; /* hands over the queued requests of a turn at once */
    unsigned n_requests;            /* with the ring */
    uint64_t slot_bytes;
    uint8_t *buffers; /* [queue_depth][slot_bytes] */
    void *slots;      /* of options.slots */
    struct storage_io *ios;
    struct storage_op *ops;
    uint64_t *arrived_bits; /* of the ops, window / 64 words each */
    uint32_t window;
    struct list idle_ios, idle_ops, wanting; /* ops with a block to start */
};

/* All pointers outlive the storage but those in
 * options. 0, -ENOENT and such, -ENODEV (no io_uring: not in the kernel, or refused). */
int storage_uring_init(struct storage_uring *s, struct loop *loop, struct wall_driver *driver,
                       struct work_pool *pool, const struct memory_map *map,
                       const struct storage_options *options, struct err *e);
void storage_uring_done(struct storage_uring *s); /* nothing in flight */

#endif
