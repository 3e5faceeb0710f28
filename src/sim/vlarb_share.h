/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the settings of a port come to when lanes are backlogged: shares of the link, the worst
 * delay of a high-priority packet, and settings that starve a lane or have no effect.
 *
 * Shares are exact, not sampled. The arbiter is run until its state recurs. The High table's
 * position at the ends of its turns, and the Low table's from packet to packet, each recur by
 * themselves, so with H bytes per lane in p turns of one period and L bytes per lane in q turns of
 * the other a lane's share is (q H + p L) / (q sum(H) + p sum(L)), a ratio of integers.
 */
#ifndef DUALPATH_SIM_VLARB_SHARE_H
#define DUALPATH_SIM_VLARB_SHARE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/qos.h"

struct qos_share {
    /* Bytes on the wire in one period, reduced: the share of vl is bytes[vl] / total_bytes. */
    uint64_t bytes[VLARB_LANES];
    uint64_t total_bytes; /* 0 when nothing can send */
    uint32_t high_lanes;  /* bit mask of the high-priority lanes, backlogged or not */
    /* The most that the head packet of a high-priority lane waits for: see sim/vlarb_blocked.h. */
    uint64_t high_blocked_bytes_max;
};

/* The share of vl in lowest terms; 0/1 when nothing can send. */
void qos_share_ratio(const struct qos_share *s, unsigned vl, uint64_t *ret_num, uint64_t *ret_den);

static inline double qos_share_frac(const struct qos_share *s, unsigned vl)
{
    return s->total_bytes ? (double)s->bytes[vl] / (double)s->total_bytes : 0.0;
}

/*
 * packet_bytes[vl]: size on the wire of every packet of a lane that is always backlogged, 0 for an
 * idle lane. Credits are unlimited. Returns 0; -EINVAL with err set for bad settings, or for
 * packets above 1 MiB.
 */
int vlarb_share(const struct vlarb_config *config, const uint32_t packet_bytes[VLARB_LANES],
                struct qos_share *ret_share, struct err *err);

/*
 * The part of the link that a lane is sure of while the lanes of the bit mask active (which must
 * include it) are backlogged, all with packets of packet_bytes. What the fluid model reserves.
 */
int vlarb_floor_frac(const struct vlarb_config *config, unsigned vl, uint32_t active,
                     uint32_t packet_bytes, double *ret_frac, struct err *err);

/* Bytes as time at a link rate, rounded to the nearest ns. */
uint64_t qos_bytes_to_ns(uint64_t bytes, double link_Bps);

/* Sentences for a person, e.g. "VL4 is backlogged but ...". */
struct qos_warnings {
    size_t n, capacity;
    char **text;
};

/* Appends one (printf style). Returns 0 or -ENOMEM. Start from zero, end with qos_warnings_done().
 */
int qos_warn(struct qos_warnings *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void qos_warnings_done(struct qos_warnings *w);

/*
 * Appends what is wrong with settings that are valid: backlogged lanes that get nothing and why,
 * lanes in no table or not operated by the port, entries of weight 0 or below a packet, tables and
 * limits without effect. share is vlarb_share()'s answer for the same arguments. Returns 0 or
 * -ENOMEM.
 */
int vlarb_warn(const struct vlarb_config *config, const uint32_t packet_bytes[VLARB_LANES],
               const struct qos_share *share, struct qos_warnings *w);

#endif
