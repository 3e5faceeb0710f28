/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/mover.h"

#include <stdarg.h>
#include <stdio.h>

static bool add_product(uint64_t *sum, uint64_t a, uint64_t b)
{
    uint64_t product;
    return !__builtin_mul_overflow(a, b, &product) && !__builtin_add_overflow(*sum, product, sum);
}

bool op_span(const struct dp_op *op, uint64_t *ret_bytes)
{
    if (op->segments > 1 && op->segment_stride_bytes < op->segment_bytes) {
        return false;
    }
    uint64_t last_bytes = op_piece(op, 0, op->segments - 1).len_bytes;
    uint64_t span = 0;
    if (!add_product(&span, op->parts_total - 1, op->part_stride_bytes) ||
        !add_product(&span, op->segments - 1, op->segment_stride_bytes) ||
        __builtin_add_overflow(span, last_bytes, &span)) {
        return false;
    }
    *ret_bytes = span;
    return true;
}

void mover_done(struct mover *m, struct dp_op *op, int status)
{
    dp_backend_done(m->dp, op, status);
}

static void tell(struct mover *m, const struct dp_op *op, int code, const char *fmt, va_list ap)
{
    struct hw_faults *f = m->faults;
    char text[sizeof(f->last.text)];
    vsnprintf(text, sizeof(text), fmt, ap);
    f->n++;
    f->last = ERR_INIT;
    err_set(&f->last, code, "%s", text);
    if (f->report) {
        f->report(f, op, &f->last);
    }
}

void mover_fail(struct mover *m, struct dp_op *op, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    tell(m, op, code, fmt, ap);
    va_end(ap);
    dp_backend_done(m->dp, op, code);
}

void mover_complain(struct mover *m, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    tell(m, NULL, code, fmt, ap);
    va_end(ap);
}
