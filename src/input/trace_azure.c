/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Azure LLM inference traces (Azure/AzurePublicDataset): 2023, 2024 and multimodal. Open loop, no
 * block ids. A row is TIMESTAMP,[NumImages,]ContextTokens,GeneratedTokens; the time is "2023-11-16
 * 18:17:03.9799600" (no zone: taken as UTC), "...+00:00" or "...T...Z", with 0 to 9 fraction
 * digits.
 */
#include "base/units.h"
#include "input/trace_formats.h"
#include "input/trace_rows.h"

struct columns {
    int time, in, out;
    uint32_t scope;
};

/* Days from 1970-01-01 in the Gregorian calendar: years start in March, so that the leap day is
 * last. */
static int64_t days_from_date(int64_t year, int64_t month, int64_t day)
{
    int64_t y = month > 2 ? year : year - 1;
    int64_t m = month > 2 ? month - 3 : month + 9;
    return 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719468;
}

/* n digits with a value in min..max; moves *c behind them. */
static bool scan_digits(const char **c, int n, int64_t min, int64_t max, int64_t *ret)
{
    int64_t value = 0;
    for (int i = 0; i < n; i++, (*c)++) {
        if (**c < '0' || **c > '9') {
            return false;
        }
        value = 10 * value + (**c - '0');
    }
    *ret = value;
    return value >= min && value <= max;
}

static bool scan_char(const char **c, const char *any)
{
    for (; *any; any++) {
        if (**c == *any) {
            (*c)++;
            return true;
        }
    }
    return false;
}

static bool scan_fraction(const char **c, int64_t *ret_ns)
{
    int64_t ns = 0, unit = NS_PER_S;
    if (!scan_char(c, ".")) {
        *ret_ns = 0;
        return true;
    }
    for (; **c >= '0' && **c <= '9' && unit > 1; (*c)++) {
        unit /= 10;
        ns += unit * (**c - '0');
    }
    *ret_ns = ns;
    return unit < (int64_t)NS_PER_S;
}

static bool scan_zone(const char **c, int64_t *ret_offset_s)
{
    int64_t hours, minutes;
    *ret_offset_s = 0;
    if (**c == '\0' || scan_char(c, "Z")) {
        return true;
    }
    int64_t sign = **c == '-' ? -1 : 1;
    if (!scan_char(c, "+-") || !scan_digits(c, 2, 0, 23, &hours) || !scan_char(c, ":") ||
        !scan_digits(c, 2, 0, 59, &minutes)) {
        return false;
    }
    *ret_offset_s = sign * (3600 * hours + 60 * minutes);
    return true;
}

static int64_t days_in_month(int64_t year, int64_t month)
{
    int64_t next_year = month == 12 ? year + 1 : year, next = month == 12 ? 1 : month + 1;
    return days_from_date(next_year, next, 1) - days_from_date(year, month, 1);
}

/* ns since 1970-01-01 UTC; 1970..2261, so that they fit. */
static bool scan_timestamp(const char *c, int64_t *ret_ns)
{
    int64_t year, month, day, hour, minute, second, ns, offset_s;
    bool ok = scan_digits(&c, 4, 1970, 2261, &year) && scan_char(&c, "-") &&
              scan_digits(&c, 2, 1, 12, &month) && scan_char(&c, "-") &&
              scan_digits(&c, 2, 1, days_in_month(year, month), &day) && scan_char(&c, " T") &&
              scan_digits(&c, 2, 0, 23, &hour) && scan_char(&c, ":") &&
              scan_digits(&c, 2, 0, 59, &minute) && scan_char(&c, ":") &&
              scan_digits(&c, 2, 0, 59, &second) && scan_fraction(&c, &ns) &&
              scan_zone(&c, &offset_s) && *c == '\0';
    if (ok) {
        int64_t s = 86400 * days_from_date(year, month, day) + 3600 * hour + 60 * minute + second;
        *ret_ns = (s - offset_s) * (int64_t)NS_PER_S + ns;
    }
    return ok;
}

static int bind(struct trace_build *b, const struct csv_rows *rows, void *arg, struct err *err)
{
    struct columns *c = arg;
    int rc = csv_rows_require(rows, "TIMESTAMP", &c->time, err);
    rc = rc < 0 ? rc : csv_rows_require(rows, "ContextTokens", &c->in, err);
    rc = rc < 0 ? rc : csv_rows_require(rows, "GeneratedTokens", &c->out, err);
    c->scope = b->t->n_scopes++;
    return rc;
}

static int add_row(struct trace_build *b, const struct csv_rows *rows, void *arg, struct err *err)
{
    const struct columns *c = arg;
    struct trace_turn turn = {0};
    int64_t at;
    if (!scan_timestamp(csv_rows_cell(rows, c->time), &at)) {
        return csv_rows_expected(rows, c->time, err, "a time such as 2023-11-16 18:17:03.9799600");
    }
    int rc = csv_rows_u32(rows, c->in, &turn.prompt_tok, err);
    rc = rc < 0 ? rc : csv_rows_u32(rows, c->out, &turn.gen_tok, err);
    if (rc < 0 || trace_drops_output(b, turn.gen_tok)) {
        return rc;
    }
    turn.t_ns = (uint64_t)at;
    return trace_add_request(b, csv_rows_number(rows), c->scope, &turn, NULL, 0);
}

int trace_read_azure(struct trace_build *b, const char *path, struct err *err)
{
    struct columns c;
    return trace_read_csv(b, path, bind, add_row, &c, err);
}
