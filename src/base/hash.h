/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Small integer hashes: SplitMix64's finaliser (Steele et al. 2014) and FNV-1a. Not cryptographic.
 */
#ifndef DUALPATH_BASE_HASH_H
#define DUALPATH_BASE_HASH_H

#include <stdint.h>

static inline uint64_t hash_mix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

static inline uint64_t hash_string64(const char *s)
{
    uint64_t h = 0xcbf29ce484222325ull;
    for (; *s; s++) {
        h = (h ^ (unsigned char)*s) * 0x100000001b3ull;
    }
    return h;
}

#endif
