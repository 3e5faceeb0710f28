/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "input/scenario_keys.h"

struct scale {
    double from, unit;
    const char *suffix;
};

/* Largest first; the last row takes the rest. */
static const struct scale bytes_scales[] = {
    {1e12, 1e12, "TB"}, {1e9, 1e9, "GB"}, {1e6, 1e6, "MB"}, {1e3, 1e3, "kB"}, {0, 1, "B"},
};
static const struct scale rate_scales[] = {
    {1e12, 1e12, "TB/s"}, {1e9, 1e9, "GB/s"}, {1e6, 1e6, "MB/s"}, {1e3, 1e3, "kB/s"}, {0, 1, "B/s"},
};
static const struct scale time_scales[] = {
    {1, 1, "s"}, {1e-3, 1e-3, "ms"}, {1e-6, 1e-6, "us"}, {1e-30, 1e-9, "ns"}, {0, 1, "s"},
};
static const struct scale flops_scales[] = {
    {1e15, 1e15, "PFLOPS"},
    {1e12, 1e12, "TFLOPS"},
    {0, 1, "FLOPS"},
};
static const struct scale token_scales[] = {{0, 1, "tok"}};

static const struct scale *const scales[] = {
    [UNIT_BYTES] = bytes_scales, [UNIT_BPS] = rate_scales,    [UNIT_S] = time_scales,
    [UNIT_TOK] = token_scales,   [UNIT_FLOPS] = flops_scales,
};

static void format_digits(enum unit_kind unit, double value, int digits, char *buf, size_t size)
{
    if (unit == UNIT_NONE) {
        snprintf(buf, size, "%.*g", digits, value);
        return;
    }
    const struct scale *s = scales[unit];
    while (fabs(value) < s->from) {
        s++;
    }
    snprintf(buf, size, "%.*g %s", digits, value / s->unit, s->suffix);
}

void quantity_format(enum unit_kind unit, double value, char *buf, size_t size)
{
    format_digits(unit, value, 12, buf, size);
}

void quantity_format_short(enum unit_kind unit, double value, char *buf, size_t size)
{
    format_digits(unit, value, 4, buf, size);
}

void scenario_key_format(const struct scenario_key *key, const struct scenario *sc, char *buf,
                         size_t size)
{
    const char *at = (const char *)sc + key->offset;
    switch (key->type) {
    case KEY_NUMBER:
        quantity_format(key->unit, *(const double *)(const void *)at, buf, size);
        break;
    case KEY_U32:
        quantity_format(key->unit, *(const uint32_t *)(const void *)at, buf, size);
        break;
    case KEY_U64:
        if (key->unit == UNIT_NONE) {
            snprintf(buf, size, "%" PRIu64, *(const uint64_t *)(const void *)at);
        } else {
            quantity_format(key->unit, (double)*(const uint64_t *)(const void *)at, buf, size);
        }
        break;
    case KEY_BOOL:
        snprintf(buf, size, "%s", *(const bool *)(const void *)at ? "true" : "false");
        break;
    case KEY_STRING:
    case KEY_WORD:
        snprintf(buf, size, "%s", at);
        break;
    case KEY_ENUM:
        snprintf(buf, size, "%s", key->words[*(const unsigned *)(const void *)at]);
        break;
    case KEY_NAME:
        snprintf(buf, size, "%s", "");
        break;
    }
}
