/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * An error on its way to a person: where it is and what is wrong.
 *
 * Functions that read input or open devices take a `struct err *` (never NULL), fill it and return
 * a negative errno. The first error wins: a later err_set() on a filled err is ignored, so that
 * callers may add context (source, field) without hiding the cause.
 */
#ifndef DUALPATH_BASE_ERR_H
#define DUALPATH_BASE_ERR_H

#include <stdbool.h>
#include <stddef.h>

struct err {
    bool set;
    int code;         /* negative errno, 0 when unset */
    char source[256]; /* file or "--set", "" when unknown */
    unsigned line;    /* 1-based, 0 = unknown */
    unsigned column;  /* 1-based, 0 = unknown */
    char field[160];  /* e.g. "cluster.cnic_Bps" or "requests[3].t", "" when none */
    char text[640];   /* what was found and what was expected */
};

#define ERR_INIT ((struct err){0})

/* Records text (printf style) unless e is already set. Returns code, which must be < 0. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Records a failed allocation. Returns -ENOMEM. */
int err_nomem(struct err *e);

/* Fill in where, each only if not yet known. NULL or 0 leaves the part alone. */
void err_at(struct err *e, const char *source, unsigned line, unsigned column);
void err_field(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * Writes "source:line:column: field: text" with the unknown parts left out. Always terminates buf;
 * returns the length that the whole message needs (as snprintf does).
 */
size_t err_format(const struct err *e, char *buf, size_t size);

#endif
