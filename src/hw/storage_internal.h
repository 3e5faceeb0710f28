/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Shared by storage_uring.c (the ring, files and ops) and storage_block.c (the blocks of an op). */
#ifndef DUALPATH_HW_STORAGE_INTERNAL_H
#define DUALPATH_HW_STORAGE_INTERNAL_H

#include "hw/storage_format.h"
#include "hw/storage_uring.h"

/* Something the ring works at; its address is the request's user data. */
struct request {
    void (*complete)(struct request *r, int result);
};

/*
 * What moves slots between open files and the store's buffers, where it is not io_uring. Requests
 * complete from the loop, never within start(), with the bytes moved (fewer at the end of a file)
 * or a negative errno.
 */
struct slot_mover_ops {
    const char *name;
    /* Makes s->buffers, and s->slots for itself. 0, or negative errno with e after undoing it. */
    int (*open)(struct storage_uring *s, struct err *e);
    void (*close)(struct storage_uring *s); /* nothing in flight */
    int (*file_opened)(struct storage_uring *s, int fd);
    void (*file_over)(struct storage_uring *s, int fd); /* about to be closed */
    void (*start)(struct storage_uring *s, struct request *r, bool read, int fd, uint8_t *buffer,
                  uint64_t len, uint64_t at);
};

struct storage_op {
    struct request request; /* open, sync */
    struct storage_uring *s;
    struct list link; /* in ->idle_ops or ->wanting, or alone */
    struct loop_timer end_timer;
    struct dp_op *op; /* NULL: idle */
    uint8_t *base;    /* of its memory */
    char name[STORAGE_NAME_BYTES];
    int fd;    /* -1 until it is open */
    bool busy; /* opening or syncing */
    bool direct, synced, cancelled;
    uint32_t next;     /* part to start */
    uint32_t in_order; /* parts that have arrived without a gap */
    uint32_t n_ios;    /* started, not arrived */
    uint64_t *arrived; /* bit part % window: arrived behind a gap */
    int code;          /* the first error */
    char text[200];
};

struct storage_io {
    struct request request;
    struct work work;
    struct list idle;
    struct storage_op *o;
    uint32_t index, part;
    uint8_t *buffer;  /* a slot's; of a block in place only the trailer's page is used */
    uint8_t *payload; /* where the block is: in the buffer, or the caller's memory */
    uint64_t moved_bytes;
    struct iovec iov[2];
    int code; /* the worker's verdict */
    const char *what;
};

static inline bool op_is_read(const struct storage_op *o)
{
    return o->op->kind == DP_STORAGE_READ;
}

static inline bool op_has_failed(const struct storage_op *o)
{
    return o->code != 0;
}

static inline bool op_is_complete(const struct storage_op *o)
{
    return o->in_order == o->op->parts_total;
}

/* A request for the ring, to be prepared; handed over at the end of the turn. */
struct io_uring_sqe *storage_request(struct storage_uring *s);

/* Keeps the first error of an op. */
void storage_fail(struct storage_op *o, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Ends the op when nothing of it is under way and
 * nothing is to come; o may be another op afterwards. */
void storage_end_if_over(struct storage_op *o);

/* Queues the op for a block if it has one to start. */
void storage_want_block(struct storage_op *o);

/* Starts blocks of the queued ops, one of each in turn, while there are buffers. */
void storage_start_blocks(struct storage_uring *s);

void storage_blocks_init(struct storage_uring *s);

#endif
