/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Shares of RoCE traffic classes under strict priority and ETS (IEEE 802.1Qaz, 37.3). Strict
 * classes go first, the higher number before the lower; what they leave is shared by the weighted
 * classes in proportion to their percentages, of those that are backlogged. A class that is not
 * configured counts as weighted with nothing left for it.
 */
#ifndef DUALPATH_SIM_ETS_H
#define DUALPATH_SIM_ETS_H

#include "sim/vlarb_share.h"

/* The share of traffic class tc is ret_share->bytes[tc] / total_bytes. packet_bytes as in
 * vlarb_share(); the high-priority classes are the strict ones. Returns 0, or -EINVAL with err set.
 */
int ets_share(const struct ets_config *config, const uint32_t packet_bytes[ETS_CLASSES],
              struct qos_share *ret_share, struct err *err);

/* Appends warnings as vlarb_warn() does. Returns 0 or -ENOMEM. */
int ets_warn(const struct ets_config *config, const uint32_t packet_bytes[ETS_CLASSES],
             const struct qos_share *share, struct qos_warnings *w);

#endif
