/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Integers in files and on wires: little endian, written and read in sequence. */
#ifndef DUALPATH_HW_LITTLE_ENDIAN_H
#define DUALPATH_HW_LITTLE_ENDIAN_H

#include <stdint.h>

/* Writes the low bytes of value and returns what follows them. */
static inline uint8_t *put_le(uint8_t *at, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
    return at + bytes;
}

/* Reads an integer and moves *at behind it. */
static inline uint64_t take_le(const uint8_t **at, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) {
        value |= (uint64_t)(*at)[i] << (8 * i);
    }
    *at += bytes;
    return value;
}

#endif
