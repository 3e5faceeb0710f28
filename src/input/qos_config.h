/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Readers of QoS settings: lists as people write them on a command line, the QoS part of an opensm
 * options file, and the listing that mlnx_qos prints. All return 0, or a negative errno with err
 * naming source, line, column and field; ret_* are written only on success.
 */
#ifndef DUALPATH_INPUT_QOS_CONFIG_H
#define DUALPATH_INPUT_QOS_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "model/qos.h"

/* Where a text stands; columns in it count on from column. */
struct qos_place {
    const char *source, *field; /* field may be "" */
    unsigned line, column;      /* of the first character, 1-based */
};

/* A decimal number in min..max. */
int qos_parse_number(const struct qos_place *at, const char *text, unsigned min, unsigned max,
                     unsigned *ret_value, struct err *err);

/* "VL:WEIGHT,…": 1 to 64 entries, VL 0..14, weight 0..255 (of 64 B). */
int qos_parse_table(const struct qos_place *at, const char *text, struct vlarb_table *ret_table,
                    struct err *err);

/* "0,2,…": different numbers in 0..max (max < 32), as a bit mask. */
int qos_parse_lanes(const struct qos_place *at, const char *text, unsigned max, uint32_t *ret_mask,
                    struct err *err);

/* 16 virtual lanes, one per service level; VL15 = packets of the service level are dropped. */
int qos_parse_sl2vl(const struct qos_place *at, const char *text, uint8_t ret_vl[16],
                    struct err *err);

/* "TC:PERCENT,TC:strict,…": classes 0..7, each once; percentages 1..100 adding up to 100. */
int qos_parse_ets(const struct qos_place *at, const char *text, struct ets_config *ret_ets,
                  struct err *err);

/* The parameters of one set of an opensm options file. */
enum opensm_field {
    OPENSM_MAX_VLS,
    OPENSM_HIGH_LIMIT,
    OPENSM_VLARB_HIGH,
    OPENSM_VLARB_LOW,
    OPENSM_SL2VL,
    OPENSM_FIELDS
};

struct opensm_qos {
    struct vlarb_config config; /* mode spec */
    uint8_t sl2vl[16];
    bool enabled;       /* "qos TRUE": opensm sets up QoS at all (its default is FALSE) */
    uint32_t defaulted; /* bit per opensm_field that the file leaves to opensm's own default */
};

/*
 * Reads the parameters qos_<set>_max_vls, _high_limit, _vlarb_high, _vlarb_low and _sl2vl of an
 * opensm options file. set is "ca", "sw0", "swe", "sw2sw" or "rtr"; "" reads the general set
 * (qos_max_vls, …). As opensm does, a parameter that the set leaves out (or as "(null)", max_vls 0,
 * high_limit -1) comes from the general set, then from opensm's default. Other lines than qos_* are
 * not looked at.
 */
int opensm_qos_read(const char *path, const char *set, struct opensm_qos *ret_qos, struct err *err);

/* The parameter's name without prefix, e.g. "vlarb_high", and opensm's default for it. */
const char *opensm_field_name(enum opensm_field field);
const char *opensm_field_default(enum opensm_field field);

/*
 * Reads the lines "tc: N ratelimit: …, tsa: ets, bw: P%" and "tc: N ratelimit: …, tsa: strict" of
 * the listing that mlnx_qos prints for an interface; other lines are not looked at. Classes that
 * differ only in their priority lines appear once.
 */
int mlnx_qos_read(const char *path, struct ets_config *ret_ets, struct err *err);

#endif
