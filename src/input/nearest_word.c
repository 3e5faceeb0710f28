/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <ctype.h>
#include <string.h>

#include "input/json_file.h"

#define LONGEST_WORD 127 /* beyond this nobody needs a suggestion */

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
    unsigned m = a < b ? a : b;
    return m < c ? m : c;
}

/* Damerau-Levenshtein distance (optimal string alignment), letters compared without case. */
static unsigned edit_distance(const char *a, size_t n, const char *b, size_t m)
{
    unsigned rows[3][LONGEST_WORD + 1];
    unsigned *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= m; j++) {
        last[j] = (unsigned)j;
    }
    for (size_t i = 1; i <= n; i++) {
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            int ca = tolower((unsigned char)a[i - 1]), cb = tolower((unsigned char)b[j - 1]);
            row[j] = min3(last[j] + 1, row[j - 1] + 1, last[j - 1] + (ca != cb));
            if (i > 1 && j > 1 && ca == tolower((unsigned char)b[j - 2]) &&
                cb == tolower((unsigned char)a[i - 2]) && before[j - 2] + 1 < row[j]) {
                row[j] = before[j - 2] + 1;
            }
        }
        unsigned *spare = before;
        before = last;
        last = row;
        row = spare;
    }
    return last[m];
}

const char *nearest_word(const char *word, const char *const *candidates, size_t n)
{
    const char *best = NULL, *longer = NULL;
    size_t length = strlen(word);
    /* A quarter of the letters may be wrong: "clster" is near "cluster", "foo" is near to nothing.
     */
    unsigned best_distance = (unsigned)(length + 1) / 4 + 1;
    if (length > LONGEST_WORD) {
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        size_t m = strlen(candidates[i]);
        if (m > LONGEST_WORD) {
            continue;
        }
        unsigned d = edit_distance(word, length, candidates[i], m);
        if (d < best_distance && d < m) {
            best = candidates[i];
            best_distance = d;
        }
        if (!longer && length >= 3 && strncmp(candidates[i], word, length) == 0) {
            longer = candidates[i]; /* "cnic" for "cnic_Bps" */
        }
    }
    return best ? best : longer;
}
