/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What nodes tell each other before they can move KV. Over verbs tests/device/verbs_run.sh does
 * it. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "check_suite.h"
#include "hw/hw_dp.h"
#include "real/links.h"

#define BYTES 5000

struct node {
    struct run_config config;
    struct node_memory memory;
    struct node_memory *memories[2];
    struct memory_map map;
    struct work_pool pool;
    struct links links;
    struct hw_dp dp;
};

static struct wall_driver driver;
static struct loop loop;
static struct node nodes[2];
static struct err err;

static void setup(void)
{
    err = ERR_INIT;
    ck_assert_int_eq(wall_driver_init(&driver, &err), 0);
    ck_assert_int_eq(loop_init(&loop, &driver.driver, 0), 0);
    wall_driver_attach(&driver, &loop);
    memset(nodes, 0, sizeof(nodes));
    for (uint32_t i = 0; i < 2; i++) {
        struct node *n = &nodes[i];
        n->config.cluster.prefill_nodes = 1; /* whose HBM is twice as large */
        n->config.cluster.span_bytes = BYTES;
        n->config.n_spans = 1;
        n->config.transport_depth = 4;
        n->config.peer_timeout_ns = 60 * NS_PER_S;
        strcpy(n->config.transport, "tcp");
        memset(n->config.tcp_secret, 'a', sizeof(n->config.tcp_secret) - 1);
        ck_assert_int_eq(node_memory_init_shared(&n->memory, i, BYTES, 1,
                                                 run_config_hbm_bytes(&n->config, i), &err),
                         0);
        n->memories[i] = &n->memory;
        n->map = (struct memory_map){n->memories, 2};
        ck_assert_int_eq(work_pool_init(&n->pool, &loop, &driver, 1, &err), 0);
    }
}

static void teardown(void)
{
    for (uint32_t i = 0; i < 2; i++) {
        if (nodes[i].links.impl) {
            links_close(&nodes[i].links);
        }
        work_pool_done(&nodes[i].pool);
        node_memory_done(&nodes[i].memory);
    }
    wall_driver_done(&driver);
    loop_done(&loop);
}

static int open_links(uint32_t i)
{
    const struct links_parts parts = {.config = &nodes[i].config,
                                      .node = i,
                                      .host = "127.0.0.1",
                                      .loop = &loop,
                                      .driver = &driver,
                                      .pool = &nodes[i].pool,
                                      .map = &nodes[i].map};
    return links_open(&nodes[i].links, &parts, &err);
}

static void copied(struct dp_op *op)
{
    (void)op;
    loop_stop(&loop);
}

static const char *const transports[] = {"tcp", "mem"};

START_TEST(offers_connect_two_nodes)
{
    char *offers[2];
    for (uint32_t i = 0; i < 2; i++) {
        strcpy(nodes[i].config.transport, transports[_i]);
        ck_assert_msg(open_links(i) == 0, "%s", err.text);
        ck_assert_int_eq(links_offer(&nodes[i].links, 1 - i, &offers[i], &err), 0);
        hw_dp_init(&nodes[i].dp, &loop, nodes[i].links.mover, NULL);
    }
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_int_eq(links_connect(&nodes[i].links, 1 - i, offers[1 - i], &err), 0);
    }
    memset(nodes[0].memory.dram.base, 0x5a, BYTES);
    struct dp_op op = {.kind = DP_COPY,
                       .src = {.node = 0, .tier = DP_DRAM},
                       .dst = {.node = 1, .tier = DP_HBM},
                       .part_bytes = BYTES,
                       .parts_total = 1,
                       .parts_ready = 1,
                       .segments = 1,
                       .segment_bytes = BYTES,
                       .segment_stride_bytes = BYTES,
                       .part_stride_bytes = BYTES,
                       .done = copied};
    ck_assert_int_eq(dp_submit(&nodes[0].dp.dp, &op), 0);
    ck_assert_int_eq(loop_run(&loop), 0);
    ck_assert_int_eq(op.status, 0);
    ck_assert_mem_eq(nodes[1].memory.hbm[0].base, nodes[0].memory.dram.base, BYTES);
    free(offers[0]);
    free(offers[1]);
}
END_TEST

START_TEST(what_is_no_offer_is_refused)
{
    const char *const bad[] = {"",
                               "127.0.0.1",
                               "127.0.0.1:",
                               ":4000",
                               "127.0.0.1:0",
                               "127.0.0.1:65536",
                               "127.0.0.1:4000x",
                               "127.0.0.1:-1",
                               "deadbeef"};
    char long_host[200];
    ck_assert_int_eq(open_links(0), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        err = ERR_INIT;
        ck_assert_msg(links_connect(&nodes[0].links, 1, bad[i], &err) == -EPROTO, "\"%s\"", bad[i]);
        ck_assert_ptr_nonnull(strstr(err.text, "expected HOST:PORT"));
    }
    memset(long_host, '1', sizeof(long_host));
    strcpy(long_host + sizeof(long_host) - 6, ":4000");
    err = ERR_INIT;
    ck_assert_int_eq(links_connect(&nodes[0].links, 1, long_host, &err), -EPROTO);
}
END_TEST

START_TEST(memory_that_is_not_on_this_machine_is_refused)
{
    static const char *const bad[] = {"", "12", "12:", ":3", "0:3", "12:-1", "12:3x", "deadbeef"};
    const long elsewhere[][2] = {{999999999, 3}, {1, 3}, {getpid(), 0}};
    char *own, text[32];
    strcpy(nodes[0].config.transport, "mem");
    ck_assert_int_eq(open_links(0), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        err = ERR_INIT;
        ck_assert_msg(links_connect(&nodes[0].links, 1, bad[i], &err) == -EPROTO, "\"%s\"", bad[i]);
    }
    for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++) {
        err = ERR_INIT;
        snprintf(text, sizeof(text), "%ld:%ld", elsewhere[i][0], elsewhere[i][1]);
        ck_assert_int_eq(links_connect(&nodes[0].links, 1, text, &err), -EHOSTUNREACH);
        ck_assert_str_eq(err.field, "hw.transport");
        ck_assert_ptr_nonnull(strstr(err.text, "node 1: no memory of a process"));
    }
    /* Memory, but of another node. */
    ck_assert_int_eq(links_offer(&nodes[0].links, 1, &own, &err), 0);
    err = ERR_INIT;
    ck_assert_int_eq(links_connect(&nodes[0].links, 1, own, &err), -EHOSTUNREACH);
    free(own);
}
END_TEST

START_TEST(what_a_node_does_not_have_is_named)
{
    strcpy(nodes[0].config.transport, "pigeon");
    ck_assert_int_eq(open_links(0), -EINVAL);
    ck_assert_str_eq(err.field, "hw.transport");
    ck_assert_ptr_nonnull(strstr(err.text, "pigeon"));
    err = ERR_INIT;
    strcpy(nodes[0].config.transport, "verbs");
    strcpy(nodes[0].config.rdma_device, "none0");
    int rc = open_links(0);
    ck_assert_msg(rc == -ENODEV, "%d: %s", rc, err.text);
    err = ERR_INIT;
    strcpy(nodes[1].config.tcp_secret, "short");
    ck_assert_int_eq(open_links(1), -EINVAL);
    ck_assert_str_eq(err.field, "tcp_secret");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("links");
    TCase *t = tcase_create("links");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, offers_connect_two_nodes, 0, 2);
    tcase_add_test(t, memory_that_is_not_on_this_machine_is_refused);
    tcase_add_test(t, what_is_no_offer_is_refused);
    tcase_add_test(t, what_a_node_does_not_have_is_named);
    suite_add_tcase(s, t);
    return run_suite(s);
}
