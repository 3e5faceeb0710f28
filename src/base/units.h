/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Quantities with units, as people write them. GB = 1e9 bytes, GiB = 2^30 bytes, Gb = 1e9 bits. */
#ifndef DUALPATH_BASE_UNITS_H
#define DUALPATH_BASE_UNITS_H

#include <stdint.h>

#define NS_PER_US 1000ull
#define NS_PER_MS 1000000ull
#define NS_PER_S  1000000000ull

enum unit_kind {
    UNIT_NONE,  /* a plain number */
    UNIT_BYTES, /* "80GB", "80GiB", "64KiB"                                   -> bytes */
    UNIT_BPS,   /* "50GB/s", "400Gb/s", "1.2TB/s"                             -> bytes per second */
    UNIT_S,     /* "300ms", "2s", "50us", "10ns", "5min", "1h"                -> seconds */
    UNIT_TOK,   /* "2048", "32K" (K = 1024, as context lengths are written)   -> tokens */
    UNIT_FLOPS, /* "989TFLOPS", "1.9PFLOPS"                                   -> FLOP per second */
};

/*
 * Parses the whole of text as a quantity of the kind. A bare number is taken in the base unit.
 * Returns 0 and sets *ret_value (finite), -EINVAL when text is not such a quantity.
 */
int units_parse(enum unit_kind kind, const char *text, double *ret_value);

/* What units_parse() accepts for the kind, for error messages: "bytes per second, e.g. 50GB/s or
 * 400Gb/s". */
const char *units_expected(enum unit_kind kind);

/* Seconds to integer nanoseconds, rounded to nearest; s must be >= 0 and below 2^63 ns. */
uint64_t units_s_to_ns(double s);

#endif
