/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/verbs_card.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hw/little_endian.h"

#define MAGIC        0x44524344u /* "DCRD" */
#define VERSION      1u
#define HEAD_BYTES   (36 + 8 * (size_t)DP_N_CLASSES)
#define REGION_BYTES ((size_t)20)

size_t verbs_card_bytes(uint32_t n_regions)
{
    return HEAD_BYTES + n_regions * REGION_BYTES;
}

void verbs_card_put(const struct verbs_card *c, uint8_t *ret_bytes)
{
    uint8_t *at = put_le(ret_bytes, MAGIC, 4);
    at = put_le(at, VERSION, 4);
    at = put_le(at, c->node, 4);
    at = put_le(at, c->lid, 2);
    at = put_le(at, c->mtu, 2);
    at = put_le(at, c->n_regions, 4);
    memcpy(at, c->gid.raw, 16);
    at += 16;
    for (unsigned i = 0; i < DP_N_CLASSES; i++) {
        at = put_le(at, c->qp_num[i], 4);
        at = put_le(at, c->psn[i], 4);
    }
    for (uint32_t i = 0; i < c->n_regions; i++) {
        at = put_le(at, c->regions[i].base, 8);
        at = put_le(at, c->regions[i].size_bytes, 8);
        at = put_le(at, c->regions[i].key, 4);
    }
}

int verbs_card_get(const uint8_t *bytes, size_t len, struct verbs_card *ret)
{
    const uint8_t *at = bytes;
    struct verbs_card c = {0};
    if (len < HEAD_BYTES || take_le(&at, 4) != MAGIC || take_le(&at, 4) != VERSION) {
        return -EPROTO;
    }
    c.node = (uint32_t)take_le(&at, 4);
    c.lid = (uint16_t)take_le(&at, 2);
    c.mtu = (uint16_t)take_le(&at, 2);
    c.n_regions = (uint32_t)take_le(&at, 4);
    memcpy(c.gid.raw, at, 16);
    at += 16;
    for (unsigned i = 0; i < DP_N_CLASSES; i++) {
        c.qp_num[i] = (uint32_t)take_le(&at, 4);
        c.psn[i] = (uint32_t)take_le(&at, 4);
    }
    if (c.n_regions < 2 || len != verbs_card_bytes(c.n_regions) || c.mtu < IBV_MTU_256 ||
        c.mtu > IBV_MTU_4096) {
        return -EPROTO;
    }
    c.regions = calloc(c.n_regions, sizeof(*c.regions));
    if (!c.regions) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < c.n_regions; i++) {
        c.regions[i].base = take_le(&at, 8);
        c.regions[i].size_bytes = take_le(&at, 8);
        c.regions[i].key = (uint32_t)take_le(&at, 4);
    }
    *ret = c;
    return 0;
}
