/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a peer must know to write into a node's memory
 * over one link, and its form on the control plane. */
#ifndef DUALPATH_HW_VERBS_CARD_H
#define DUALPATH_HW_VERBS_CARD_H

#include <stddef.h>

#include "datapath/dp.h"
#include "hw/verbs_device.h"

struct verbs_card {
    uint32_t node;
    uint16_t lid, mtu; /* mtu: enum ibv_mtu */
    union ibv_gid gid;
    uint32_t qp_num[DP_N_CLASSES], psn[DP_N_CLASSES];
    uint32_t n_regions;           /* DRAM, then HBM of each GPU */
    struct verbs_region *regions; /* [n_regions] */
};

size_t verbs_card_bytes(uint32_t n_regions);
void verbs_card_put(const struct verbs_card *c, uint8_t *ret_bytes);

/* 0; -EPROTO: not a card, or its length is wrong; -ENOMEM. On success free ret->regions. */
int verbs_card_get(const uint8_t *bytes, size_t len, struct verbs_card *ret);

#endif
