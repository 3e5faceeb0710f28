/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What of the verbs transport needs no device: the attributes that carry the QoS (soft-RoCE does
 * not store the service level, so it is checked here, before the device sees it), and the cards
 * that peers exchange.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check_suite.h"
#include "hw/verbs_card.h"

START_TEST(qos_is_in_the_attributes)
{
    struct verbs_device d = {.port = 2, .is_ethernet = true, .gid_index = 5};
    struct verbs_route r = {.dest_qp_num = 77,
                            .dest_psn = 1234,
                            .psn = 5678,
                            .dest_lid = 9,
                            .mtu = IBV_MTU_1024,
                            .service_level = 3,
                            .traffic_class = 0x68};
    r.dest_gid.raw[15] = 42;
    struct ibv_qp_attr a = verbs_rtr_attributes(&d, &r);
    ck_assert_int_eq(a.qp_state, IBV_QPS_RTR);
    ck_assert_uint_eq(a.ah_attr.sl, 3);
    ck_assert_uint_eq(a.ah_attr.is_global, 1);
    ck_assert_uint_eq(a.ah_attr.grh.traffic_class, 0x68);
    ck_assert_uint_eq(a.ah_attr.grh.sgid_index, 5);
    ck_assert_uint_eq(a.ah_attr.grh.dgid.raw[15], 42);
    ck_assert_uint_gt(a.ah_attr.grh.hop_limit, 1); /* RoCE v2 is routed */
    ck_assert_uint_eq(a.ah_attr.port_num, 2);
    ck_assert_uint_eq(a.dest_qp_num, 77);
    ck_assert_uint_eq(a.rq_psn, 1234);
    ck_assert_int_eq(a.path_mtu, IBV_MTU_1024);
    d.is_ethernet = false; /* InfiniBand, same subnet: the LID does */
    a = verbs_rtr_attributes(&d, &r);
    ck_assert_uint_eq(a.ah_attr.is_global, 0);
    ck_assert_uint_eq(a.ah_attr.dlid, 9);
    ck_assert_uint_eq(a.ah_attr.sl, 3);
}
END_TEST

static struct verbs_region regions[3] = {
    {0x1000, 0x2000, 11}, {0xffff0000ffff0000, 1, 22}, {3, 4, 33}};

static struct verbs_card a_card(void)
{
    struct verbs_card c = {
        .node = 6, .lid = 7, .mtu = IBV_MTU_4096, .n_regions = 3, .regions = regions};
    memset(c.gid.raw, 0xab, 16);
    for (uint32_t i = 0; i < DP_N_CLASSES; i++) {
        c.qp_num[i] = 100 + i;
        c.psn[i] = 0xfffff0 + i;
    }
    return c;
}

START_TEST(a_card_survives_the_way)
{
    struct verbs_card c = a_card(), back;
    uint8_t bytes[256];
    size_t len = verbs_card_bytes(3);
    ck_assert_uint_le(len, sizeof(bytes));
    verbs_card_put(&c, bytes);
    ck_assert_int_eq(verbs_card_get(bytes, len, &back), 0);
    ck_assert_uint_eq(back.node, 6);
    ck_assert_uint_eq(back.lid, 7);
    ck_assert_uint_eq(back.mtu, IBV_MTU_4096);
    ck_assert_mem_eq(back.gid.raw, c.gid.raw, 16);
    ck_assert_mem_eq(back.qp_num, c.qp_num, sizeof(c.qp_num));
    ck_assert_mem_eq(back.psn, c.psn, sizeof(c.psn));
    ck_assert_uint_eq(back.n_regions, 3);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_uint_eq(back.regions[i].base, regions[i].base);
        ck_assert_uint_eq(back.regions[i].size_bytes, regions[i].size_bytes);
        ck_assert_uint_eq(back.regions[i].key, regions[i].key);
    }
    free(back.regions);
}
END_TEST

START_TEST(what_is_no_card_is_refused)
{
    struct verbs_card c = a_card(), back;
    uint8_t bytes[256];
    size_t len = verbs_card_bytes(3);
    verbs_card_put(&c, bytes);
    for (size_t cut = 0; cut < len; cut++) {
        uint8_t *exact = malloc(cut ? cut : 1); /* a read beyond it would be seen */
        memcpy(exact, bytes, cut);
        ck_assert_int_eq(verbs_card_get(exact, cut, &back), -EPROTO);
        free(exact);
    }
    ck_assert_int_eq(verbs_card_get(bytes, len + 1, &back), -EPROTO);
    bytes[0] ^= 1;
    ck_assert_int_eq(verbs_card_get(bytes, len, &back), -EPROTO);
    c.mtu = 9;
    verbs_card_put(&c, bytes);
    ck_assert_int_eq(verbs_card_get(bytes, len, &back), -EPROTO);
}
END_TEST

START_TEST(regions_have_an_order)
{
    ck_assert_uint_eq(verbs_region_index(8, DP_DRAM, 7), 0);
    ck_assert_uint_eq(verbs_region_index(8, DP_HBM, 0), 1);
    ck_assert_uint_eq(verbs_region_index(8, DP_HBM, 7), 8);
    ck_assert_uint_eq(verbs_region_index(8, DP_HBM, 8), UINT32_MAX);
    ck_assert_uint_eq(verbs_region_index(8, DP_DRAM, 8), UINT32_MAX);
    ck_assert_uint_eq(verbs_region_index(8, (enum dp_tier)9, 0), UINT32_MAX);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("verbs");
    TCase *t = tcase_create("verbs");
    tcase_add_test(t, qos_is_in_the_attributes);
    tcase_add_test(t, a_card_survives_the_way);
    tcase_add_test(t, what_is_no_card_is_refused);
    tcase_add_test(t, regions_have_an_order);
    suite_add_tcase(s, t);
    return run_suite(s);
}
