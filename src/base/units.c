/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/units.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct unit {
    const char *suffix;
    double scale;
};

static const struct unit bytes_units[] = {
    {"B", 1},     {"kB", 1e3},   {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},
    {"PB", 1e15}, {"KiB", 1024}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}, {NULL, 0},
};
static const struct unit rate_units[] = {
    {"B/s", 1},        {"kB/s", 1e3},      {"KB/s", 1e3},     {"MB/s", 1e6},      {"GB/s", 1e9},
    {"TB/s", 1e12},    {"KiB/s", 1024},    {"MiB/s", 0x1p20}, {"GiB/s", 0x1p30},  {"TiB/s", 0x1p40},
    {"b/s", 0.125},    {"Mb/s", 1e6 / 8},  {"Gb/s", 1e9 / 8}, {"Tb/s", 1e12 / 8}, {"Mbps", 1e6 / 8},
    {"Gbps", 1e9 / 8}, {"Tbps", 1e12 / 8}, {NULL, 0},
};
static const struct unit time_units[] = {
    {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}, {NULL, 0},
};
static const struct unit token_units[] = {
    {"tok", 1},
    {"K", 1024},
    {"M", 1048576},
    {NULL, 0},
};
static const struct unit flops_units[] = {
    {"FLOPS", 1}, {"GFLOPS", 1e9}, {"TFLOPS", 1e12}, {"PFLOPS", 1e15}, {NULL, 0},
};
static const struct unit no_units[] = {{NULL, 0}};

static const struct kind {
    const struct unit *units;
    const char *expected;
} kinds[] = {
    [UNIT_NONE] = {no_units, "a plain number"},
    [UNIT_BYTES] = {bytes_units, "bytes, as a number or with a unit (80GB, 80GiB, 64KiB)"},
    [UNIT_BPS] = {rate_units, "bytes per second, as a number or with a unit (50GB/s, 400Gb/s)"},
    [UNIT_S] = {time_units, "seconds, as a number or with a unit (300ms, 2s, 50us, 5min)"},
    [UNIT_TOK] = {token_units, "tokens, as a number or with a unit (49152, 48K with K = 1024)"},
    [UNIT_FLOPS] = {flops_units, "FLOP per second, as a number or with a unit (989TFLOPS)"},
};

int units_parse(enum unit_kind kind, const char *text, double *ret_value)
{
    char *end;
    /* strtod() also takes "inf", "nan" and hexadecimal, which are no quantities. */
    const char *start = text + strspn(text, " \t");
    const char *digits = start + strspn(start, "+-");
    if (!strchr("0123456789.", *digits) || *digits == '\0' || digits[strspn(digits, "0")] == 'x' ||
        digits[strspn(digits, "0")] == 'X') {
        return -EINVAL;
    }
    double value = strtod(start, &end);
    if (end == start || !isfinite(value)) {
        return -EINVAL;
    }
    end += strspn(end, " ");
    if (*end == '\0') {
        *ret_value = value;
        return 0;
    }
    for (const struct unit *u = kinds[kind].units; u->suffix; u++) {
        if (strcmp(end, u->suffix) == 0) {
            *ret_value = value * u->scale;
            return isfinite(*ret_value) ? 0 : -EINVAL;
        }
    }
    return -EINVAL;
}

const char *units_expected(enum unit_kind kind)
{
    return kinds[kind].expected;
}

uint64_t units_s_to_ns(double s)
{
    return (uint64_t)llround(s * 1e9);
}
