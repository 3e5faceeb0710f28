/* SPDX-License-Identifier: GPL-3.0-or-later */
/* transport_verbs over a device that does as it is told: fake_verbs.h. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/units.h"
#include "check_suite.h"
#include "fake_verbs.h"
#include "hw/hw_dp.h"
#include "hw/transport_verbs.h"

#define BYTES   (UINT64_C(256) << 10)
#define HOUR_NS (3600 * NS_PER_S)
#define LIMIT_S 20 /* nothing here waits for a clock: only a lost wake-up lasts that long */

struct stage {
    struct wall_driver driver;
    struct loop loop;
    struct node_memory memory;
    struct transport_verbs verbs;
    struct hw_dp dp;
    struct loop_timer submit_timer, limit_timer;
    struct dp_op op;
    unsigned n_left;
    bool late;
    bool from_gpu; /* 64 bytes from HBM, not all of them to it */
};

static struct stage st;
static struct err err;

static void too_late(struct loop_timer *t)
{
    (void)t;
    st.late = true;
    loop_stop(&st.loop);
}

static void op_over(struct dp_op *op)
{
    ck_assert_int_eq(op->status, 0);
    if (--st.n_left == 0) {
        loop_stop(&st.loop);
    } else {
        loop_arm(&st.loop, &st.submit_timer, loop_now_ns(&st.loop) + 5 * NS_PER_MS);
    }
}

/* From a timer, while no poller has anything: as work comes in a real run that is not busy. */
static void submit(struct loop_timer *t)
{
    (void)t;
    uint64_t bytes = st.from_gpu ? 64 : BYTES;
    st.op = (struct dp_op){.kind = DP_COPY,
                           .traffic_class = DP_CLASS_LOAD,
                           .src = {.tier = st.from_gpu ? DP_HBM : DP_DRAM},
                           .dst = {.tier = st.from_gpu ? DP_DRAM : DP_HBM},
                           .part_bytes = bytes,
                           .parts_total = 1,
                           .parts_ready = 1,
                           .segments = 1,
                           .segment_bytes = bytes,
                           .segment_stride_bytes = bytes,
                           .part_stride_bytes = bytes,
                           .done = op_over};
    ck_assert_int_eq(dp_submit(&st.dp.dp, &st.op), 0);
}

static void setup(void)
{
    memset(&st, 0, sizeof(st));
    err = ERR_INIT;
    fake_verbs = (struct fake_verbs){.n_devices = 1};
    ck_assert_int_eq(wall_driver_init(&st.driver, &err), 0);
    ck_assert_int_eq(loop_init(&st.loop, &st.driver.driver, 0), 0);
    wall_driver_attach(&st.driver, &st.loop);
    loop_timer_init(&st.submit_timer, submit);
    loop_timer_init(&st.limit_timer, too_late);
    ck_assert_int_eq(node_memory_init(&st.memory, 0, BYTES, 1, BYTES, &err), 0);
}

static void teardown(void)
{
    wall_driver_done(&st.driver);
    loop_done(&st.loop);
    node_memory_done(&st.memory);
    ck_assert_uint_eq(fake_verbs_open_things(), 0);
}

static int open_with(uint64_t spin_ns)
{
    const struct verbs_options o = {.depth = 4,
                                    .spin_ns = spin_ns,
                                    .keepalive_ns = HOUR_NS,
                                    .service_level = {1, 2, 3, 4, 5},
                                    .traffic_class = {32, 64, 96, 128, 160}};
    return transport_verbs_init(&st.verbs, &st.loop, &st.driver, &st.memory, 1, &o, &err);
}

static const uint64_t spins_ns[] = {0, 20 * NS_PER_US, HOUR_NS};

/* However long it spins: what is posted while nothing else happens completes when it is complete,
 * not at the next keep-alive. */
START_TEST(a_lonely_write_is_not_slept_through)
{
    ck_assert_msg(open_with(spins_ns[_i]) == 0, "%s", err.text);
    hw_dp_init(&st.dp, &st.loop, &st.verbs.mover, NULL);
    memset(st.memory.dram.base, 0x5a, BYTES);
    st.n_left = 3;
    loop_arm(&st.loop, &st.submit_timer, loop_now_ns(&st.loop) + 5 * NS_PER_MS);
    loop_arm(&st.loop, &st.limit_timer, loop_now_ns(&st.loop) + LIMIT_S * NS_PER_S);
    ck_assert_int_eq(loop_run(&st.loop), 0);
    ck_assert(!st.late);
    ck_assert_mem_eq(st.memory.hbm[0].base, st.memory.dram.base, BYTES);
    ck_assert_uint_eq(fake_verbs.n_posts, 3);
    if (spins_ns[_i] == 0) {
        ck_assert_uint_ge(fake_verbs.n_notify, 3); /* it slept, and was woken by the channel */
    } else if (spins_ns[_i] == HOUR_NS) {
        ck_assert_uint_eq(fake_verbs.n_notify, 0);
    }
    loop_disarm(&st.loop, &st.limit_timer);
    transport_verbs_done(&st.verbs);
}
END_TEST

/* soft-RoCE takes a service level and forgets it: this is what the device is told. */
START_TEST(every_class_has_its_level)
{
    ck_assert_msg(open_with(0) == 0, "%s", err.text);
    ck_assert_uint_eq(fake_verbs.n_rtr, 2 * DP_N_CLASSES); /* both ends of the loopback */
    for (unsigned i = 0; i < fake_verbs.n_rtr; i++) {
        ck_assert_uint_eq(fake_verbs.rtr[i].sl, 1 + i % DP_N_CLASSES);
        ck_assert_uint_eq(fake_verbs.rtr[i].grh.traffic_class, 32 * (1 + i % DP_N_CLASSES));
        ck_assert_uint_eq(fake_verbs.rtr[i].dlid, 7);
    }
    transport_verbs_done(&st.verbs);
}
END_TEST

static void with_gpu_memory(int dmabuf_fd)
{
    static uint8_t gpu[BYTES]; /* host memory in its place */
    const struct memory_region r = {
        .base = gpu, .size_bytes = BYTES, .on_gpu = true, .dmabuf_fd = dmabuf_fd};
    node_memory_put_on_gpu(&st.memory, 0, &r);
    fake_verbs.gpu_memory = gpu;
}

/* By dma-buf; by nvidia-peermem when the device or the driver has none. Either way bytes arrive,
 * and none of a GPU's are read by the processor to go inline. */
static const struct {
    int fd, dmabuf_errno;
    unsigned n_reg_dmabuf, n_reg_mr;
} ways[] = {{33, 0, 1, 1}, {33, EOPNOTSUPP, 1, 2}, {-1, 0, 0, 2}};

START_TEST(gpu_memory_is_registered)
{
    with_gpu_memory(ways[_i].fd);
    fake_verbs.reg_dmabuf_errno = ways[_i].dmabuf_errno;
    ck_assert_msg(open_with(0) == 0, "%s", err.text);
    ck_assert_uint_eq(fake_verbs.n_reg_dmabuf, ways[_i].n_reg_dmabuf);
    ck_assert_uint_eq(fake_verbs.n_reg_mr, ways[_i].n_reg_mr);
    if (ways[_i].n_reg_dmabuf) {
        ck_assert_int_eq(fake_verbs.dmabuf_fd, 33);
    }
    hw_dp_init(&st.dp, &st.loop, &st.verbs.mover, NULL);
    memset(st.memory.dram.base, 0x5a, BYTES);
    st.n_left = 1;
    loop_post(&st.loop, &st.submit_timer);
    ck_assert_int_eq(loop_run(&st.loop), 0);
    ck_assert_mem_eq(st.memory.hbm[0].base, st.memory.dram.base, BYTES);
    memset(st.memory.hbm[0].base, 0x77, 64);
    st.from_gpu = true;
    st.n_left = 1;
    loop_post(&st.loop, &st.submit_timer);
    ck_assert_int_eq(loop_run(&st.loop), 0);
    ck_assert_mem_eq(st.memory.dram.base, st.memory.hbm[0].base, 64);
    ck_assert_uint_eq(st.verbs.n_inline, 0);
    transport_verbs_done(&st.verbs);
}
END_TEST

START_TEST(gpu_memory_out_of_reach)
{
    with_gpu_memory(33);
    fake_verbs.reg_dmabuf_errno = EOPNOTSUPP;
    fake_verbs.reg_mr_errno = EFAULT;
    ck_assert_int_eq(open_with(0), -EFAULT);
    ck_assert_str_eq(err.text,
                     "RDMA device fake0: cannot reach the GPU's memory, neither by dma-buf "
                     "(Operation not supported) nor by nvidia-peermem (ibv_reg_mr: Bad address; is "
                     "the module loaded?)");
}
END_TEST

START_TEST(no_device_is_named)
{
    fake_verbs.n_devices = 0;
    ck_assert_int_eq(open_with(0), -ENODEV);
    ck_assert_str_eq(err.text, "no RDMA device with an active port (found 0 devices)");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("verbs fake");
    TCase *t = tcase_create("verbs fake");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, a_lonely_write_is_not_slept_through, 0, 3);
    tcase_add_test(t, every_class_has_its_level);
    tcase_add_loop_test(t, gpu_memory_is_registered, 0, 3);
    tcase_add_test(t, gpu_memory_out_of_reach);
    tcase_add_test(t, no_device_is_named);
    suite_add_tcase(s, t);
    return run_suite(s);
}
