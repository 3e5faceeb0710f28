/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/ets.h"

#include <errno.h>

static int check_config(const struct ets_config *c, struct err *err)
{
    unsigned sum = 0, n = 0;
    for (unsigned tc = 0; tc < ETS_CLASSES; tc++) {
        if (c->kind[tc] != ETS_WEIGHTED) {
            continue;
        }
        n++;
        sum += c->percent[tc];
        if (c->percent[tc] < 1 || c->percent[tc] > 100) {
            err_field(err, "TC%u", tc);
            return err_set(err, -EINVAL, "%u %%, expected 1 to 100 %%", c->percent[tc]);
        }
    }
    if (n > 0 && sum != 100) {
        return err_set(err, -EINVAL, "the weighted classes add up to %u %%, expected 100 %%", sum);
    }
    return 0;
}

int ets_share(const struct ets_config *config, const uint32_t packet_bytes[ETS_CLASSES],
              struct qos_share *ret_share, struct err *err)
{
    int rc = check_config(config, err);
    if (rc) {
        return rc;
    }
    struct qos_share s = {0};
    uint64_t other_max = 0;
    int first_strict = -1;
    for (int tc = 0; tc < ETS_CLASSES; tc++) {
        bool strict = config->kind[tc] == ETS_STRICT;
        s.high_lanes |= (uint32_t)strict << tc;
        if (packet_bytes[tc] == 0) {
            continue;
        }
        if (strict) {
            first_strict = tc;
        } else {
            s.bytes[tc] = config->kind[tc] == ETS_WEIGHTED ? config->percent[tc] : 0;
            other_max = packet_bytes[tc] > other_max ? packet_bytes[tc] : other_max;
        }
    }
    for (int tc = 0; tc < ETS_CLASSES; tc++) {
        if (first_strict >= 0) {
            s.bytes[tc] = tc == first_strict;
        }
        s.total_bytes += s.bytes[tc];
    }
    s.high_blocked_bytes_max = s.high_lanes ? other_max : 0;
    *ret_share = s;
    return 0;
}

int ets_warn(const struct ets_config *config, const uint32_t packet_bytes[ETS_CLASSES],
             const struct qos_share *share, struct qos_warnings *w)
{
    int rc = 0;
    for (unsigned tc = 0; rc == 0 && tc < ETS_CLASSES; tc++) {
        if (packet_bytes[tc] > 0 && share->bytes[tc] == 0) {
            rc = qos_warn(w, "TC%u is backlogged and gets nothing: %s", tc,
                          config->kind[tc] == ETS_UNSET ? "it is not configured"
                                                        : "a strict class goes before it");
        }
    }
    return rc;
}
