/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "input/qos_config.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A list being read; p moves through text. */
struct reader {
    const struct qos_place *at;
    const char *text, *p;
    struct err *err;
};

static struct reader reader_at(const struct qos_place *at, const char *text, struct err *err)
{
    return (struct reader){.at = at, .text = text, .p = text, .err = err};
}

static void skip_blanks(struct reader *r)
{
    r->p += strspn(r->p, " \t");
}

/* The error of what stands at place: what was found there, what was expected. */
static int unexpected(struct reader *r, const char *place, const char *expected)
{
    size_t n = strcspn(place, ",:");
    n = n ? n : strlen(place) > 0;
    err_at(r->err, r->at->source, r->at->line, r->at->column + (unsigned)(place - r->text));
    err_field(r->err, "%s", r->at->field);
    if (n == 0) {
        return err_set(r->err, -EINVAL, "found nothing, expected %s", expected);
    }
    return err_set(r->err, -EINVAL, "found '%.*s', expected %s", n > 40 ? 40 : (int)n, place,
                   expected);
}

static int read_number(struct reader *r, unsigned min, unsigned max, const char *expected,
                       unsigned *ret_value)
{
    skip_blanks(r);
    const char *start = r->p;
    unsigned value = 0;
    while (isdigit((unsigned char)*r->p)) {
        value = value * 10 + (unsigned)(*r->p++ - '0');
        if (value > max) {
            return unexpected(r, start, expected);
        }
    }
    skip_blanks(r);
    if (r->p == start || value < min || (*r->p && *r->p != ',' && *r->p != ':')) {
        return unexpected(r, start, expected);
    }
    *ret_value = value;
    return 0;
}

static int read_mark(struct reader *r, char mark, const char *expected)
{
    if (*r->p != mark) {
        return unexpected(r, r->p, expected);
    }
    r->p++;
    return 0;
}

/* Moves past a comma; *ret_more says whether an item follows. */
static int read_separator(struct reader *r, bool *ret_more)
{
    *ret_more = *r->p == ',';
    if (*ret_more) {
        r->p++;
        return 0;
    }
    return *r->p ? unexpected(r, r->p, "',' or the end") : 0;
}

int qos_parse_number(const struct qos_place *at, const char *text, unsigned min, unsigned max,
                     unsigned *ret_value, struct err *err)
{
    struct reader r = reader_at(at, text, err);
    char expected[64];
    unsigned value = 0;
    snprintf(expected, sizeof(expected), "a number, %u to %u", min, max);
    int rc = read_number(&r, min, max, expected, &value);
    if (rc == 0 && *r.p) {
        rc = unexpected(&r, r.p, "the end");
    }
    if (rc == 0) {
        *ret_value = value;
    }
    return rc;
}

static int read_entry(struct reader *r, struct vlarb_entry *ret_entry)
{
    unsigned vl = 0, weight = 0;
    int rc = read_number(r, 0, VLARB_MGMT_LANE - 1, "a data lane, 0 to 14", &vl);
    rc = rc ? rc : read_mark(r, ':', "':' and a weight (VL:WEIGHT)");
    rc = rc ? rc : read_number(r, 0, 255, "a weight, 0 to 255 (units of 64 B)", &weight);
    *ret_entry = (struct vlarb_entry){.vl = (uint8_t)vl, .weight = (uint8_t)weight};
    return rc;
}

int qos_parse_table(const struct qos_place *at, const char *text, struct vlarb_table *ret_table,
                    struct err *err)
{
    struct reader r = reader_at(at, text, err);
    struct vlarb_table t = {0};
    for (bool more = true; more;) {
        if (t.n == VLARB_TABLE_MAX) {
            return unexpected(&r, r.p, "at most 64 entries");
        }
        int rc = read_entry(&r, &t.entry[t.n++]);
        rc = rc ? rc : read_separator(&r, &more);
        if (rc) {
            return rc;
        }
    }
    *ret_table = t;
    return 0;
}

int qos_parse_lanes(const struct qos_place *at, const char *text, unsigned max, uint32_t *ret_mask,
                    struct err *err)
{
    struct reader r = reader_at(at, text, err);
    uint32_t mask = 0;
    char expected[64];
    snprintf(expected, sizeof(expected), "a number, 0 to %u", max);
    for (bool more = true; more;) {
        unsigned lane = 0;
        const char *start = r.p;
        int rc = read_number(&r, 0, max, expected, &lane);
        if (rc == 0 && (mask >> lane & 1)) {
            rc = unexpected(&r, start, "each number once");
        }
        rc = rc ? rc : read_separator(&r, &more);
        if (rc) {
            return rc;
        }
        mask |= 1u << lane;
    }
    *ret_mask = mask;
    return 0;
}

int qos_parse_sl2vl(const struct qos_place *at, const char *text, uint8_t ret_vl[16],
                    struct err *err)
{
    struct reader r = reader_at(at, text, err);
    uint8_t map[16];
    for (unsigned sl = 0; sl < 16; sl++) {
        unsigned vl = 0;
        bool more;
        int rc = read_number(&r, 0, 15, "a lane, 0 to 15", &vl);
        rc = rc ? rc : read_separator(&r, &more);
        if (rc == 0 && more != (sl < 15)) {
            rc = unexpected(&r, r.p, "16 lanes, one per service level");
        }
        if (rc) {
            return rc;
        }
        map[sl] = (uint8_t)vl;
    }
    memcpy(ret_vl, map, sizeof(map));
    return 0;
}

static int read_class(struct reader *r, struct ets_config *ets, unsigned *sum)
{
    const char *start = r->p;
    unsigned tc = 0, percent = 0;
    int rc = read_number(r, 0, ETS_CLASSES - 1, "a traffic class, 0 to 7", &tc);
    if (rc == 0 && ets->kind[tc] != ETS_UNSET) {
        rc = unexpected(r, start, "each traffic class once");
    }
    rc = rc ? rc : read_mark(r, ':', "':' and a percentage or 'strict'");
    if (rc) {
        return rc;
    }
    skip_blanks(r);
    if (strncmp(r->p, "strict", 6) == 0) {
        ets->kind[tc] = ETS_STRICT;
        r->p += 6;
        skip_blanks(r);
        return 0;
    }
    ets->kind[tc] = ETS_WEIGHTED;
    rc = read_number(r, 1, 100, "a percentage, 1 to 100, or 'strict'", &percent);
    ets->percent[tc] = (uint8_t)percent;
    *sum += percent;
    return rc;
}

static bool any_weighted(const struct ets_config *ets)
{
    for (unsigned tc = 0; tc < ETS_CLASSES; tc++) {
        if (ets->kind[tc] == ETS_WEIGHTED) {
            return true;
        }
    }
    return false;
}

static int sum_is_100(const struct ets_config *ets, unsigned sum, const struct qos_place *at,
                      struct err *err)
{
    if (sum == 100 || !any_weighted(ets)) {
        return 0;
    }
    err_at(err, at->source, at->line, at->column);
    err_field(err, "%s", at->field);
    return err_set(err, -EINVAL,
                   "the percentages of the weighted classes add up to %u, expected 100", sum);
}

int qos_parse_ets(const struct qos_place *at, const char *text, struct ets_config *ret_ets,
                  struct err *err)
{
    struct reader r = reader_at(at, text, err);
    struct ets_config ets = {0};
    unsigned sum = 0;
    for (bool more = true; more;) {
        int rc = read_class(&r, &ets, &sum);
        rc = rc ? rc : read_separator(&r, &more);
        if (rc) {
            return rc;
        }
    }
    int rc = sum_is_100(&ets, sum, at, err);
    if (rc == 0) {
        *ret_ets = ets;
    }
    return rc;
}
