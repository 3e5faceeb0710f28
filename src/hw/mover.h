/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What moves bytes on hardware: a transport (mem, tcp, verbs) or a store. hw_dp owns the `struct
 * dp` that the rest of the program sees and hands every op to one mover, which ends it with
 * mover_done().
 *
 * Same contract as dp.h, and on top:
 *   - Done means that nobody touches the op's memory any more, on either side, cancelled or not (a
 * peer that died excepted: it has no memory any more).
 *   - Parts arrive in order within an op. Ops may overtake each other.
 *   - Failures that a person must see (which peer, which file, which block) go to `struct
 * hw_faults` besides the op's status.
 */
#ifndef DUALPATH_HW_MOVER_H
#define DUALPATH_HW_MOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "datapath/dp.h"

/* What went wrong, in words: every op that ended with an error other than -ECANCELED, and more. */
struct hw_faults {
    uint64_t n;
    struct err last;
    /* NULL: only kept here. op is in flight still and ends after this call; NULL when the fault is
     * not about one op (a connection refused at the door). */
    void (*report)(struct hw_faults *f, const struct dp_op *op, const struct err *e);
};

struct mover;

struct mover_ops {
    const char *name;
    int (*submit)(struct mover *m, struct dp_op *op);
    void (*feed)(struct mover *m, struct dp_op *op);
    void (*cancel)(struct mover *m, struct dp_op *op);
    void (*cancel_all)(struct mover *m);                 /* as cancel() on every op in flight */
    void (*forget_node)(struct mover *m, uint32_t node); /* as in dp.h; NULL: no other nodes */
};

struct mover {
    const struct mover_ops *ops;
    struct dp *dp;            /* set by hw_dp_init() */
    struct hw_faults *faults; /* likewise */
};

/* One contiguous run of an op's bytes, the same on both sides. */
struct piece {
    uint64_t at_bytes; /* from the place's offset_bytes */
    uint64_t len_bytes;
};

static inline struct piece op_piece(const struct dp_op *op, uint32_t part, uint32_t segment)
{
    uint64_t before = segment * op->segment_bytes;
    uint64_t left = op->part_bytes - before;
    return (struct piece){
        .at_bytes = part * op->part_stride_bytes + segment * op->segment_stride_bytes,
        .len_bytes = left < op->segment_bytes ? left : op->segment_bytes,
    };
}

/* Bytes from the place's offset to the end of the op's last piece. False when that overflows or
 * when the pieces of a part overlap. */
bool op_span(const struct dp_op *op, uint64_t *ret_bytes);

/* Ends op with 0 or -ECANCELED. */
void mover_done(struct mover *m, struct dp_op *op, int status);

/* Ends op with code < 0 and says why. */
void mover_fail(struct mover *m, struct dp_op *op, int code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Tells a fault that ends no op. */
void mover_complain(struct mover *m, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
