/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Storage in files: blocks come back as they were written, the files look as storage_format.h says
 * (read here by other code than the program's), and every kind of damage is told with file and
 * block.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/units.h"
#include "check_suite.h"
#include "hw/hw_dp.h"
#include "hw/storage_format.h"
#include "hw/storage_uring.h"
#include "hw/storage_usrbio.h"
#include "hw/transport_mem.h"

#define DRAM_BYTES ((uint64_t)64 << 20)
#define ODD_BYTES  5000u  /* bounced */
#define EVEN_BYTES 16384u /* can be moved in place */

/* The same tests run over USRBIO: tests/usrbio. */
#ifdef WITH_USRBIO
static const struct slot_mover_ops *const slots = &storage_usrbio;
#else
static const struct slot_mover_ops *const slots = NULL;
#endif

static struct wall_driver driver;
static struct loop loop;
static struct work_pool pool;
static struct node_memory memory;
static struct node_memory *nodes[] = {&memory};
static const struct memory_map map = {nodes, 1};
static struct transport_mem transport;
static struct storage_uring storage;
static struct hw_dp hw;
static char directory[256];
static unsigned waiting;

static void open_world(uint64_t block_bytes, uint32_t depth, bool buffered, bool sync)
{
    struct err e = ERR_INIT;
    const char *tmp = getenv("TMPDIR");
    snprintf(directory, sizeof(directory), "%s/test_storage.XXXXXX", tmp ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    ck_assert_int_eq(wall_driver_init(&driver, &e), 0);
    ck_assert_int_eq(loop_init(&loop, &driver.driver, 0), 0);
    wall_driver_attach(&driver, &loop);
    ck_assert_int_eq(work_pool_init(&pool, &loop, &driver, 2, &e), 0);
    ck_assert_int_eq(node_memory_init(&memory, 0, DRAM_BYTES, 1, DRAM_BYTES, &e), 0);
    ck_assert_int_eq(transport_mem_init(&transport, &loop, &pool, &map, 4, &e), 0);
    struct storage_options o = {.slots = slots,
                                .directory = directory,
                                .block_bytes = block_bytes,
                                .queue_depth = depth,
                                .max_ops = 4,
                                .buffered = buffered,
                                .sync = sync};
    ck_assert_int_eq(storage_uring_init(&storage, &loop, &driver, &pool, &map, &o, &e), 0);
    hw_dp_init(&hw, &loop, &transport.mover, &storage.mover);
    waiting = 0;
}

static void path_of(uint64_t chain, char path[320])
{
    char name[STORAGE_NAME_BYTES];
    storage_file_name(chain, name);
    snprintf(path, 320, "%s/%s", directory, name);
}

static void close_world(void)
{
    storage_uring_done(&storage);
    transport_mem_done(&transport);
    work_pool_done(&pool);
    wall_driver_done(&driver);
    loop_done(&loop);
    node_memory_done(&memory);
    for (uint64_t chain = 0; chain < 32; chain++) {
        char path[320];
        path_of(chain, path);
        unlink(path);
    }
    ck_assert_int_eq(rmdir(directory), 0);
}

static void done(struct dp_op *op)
{
    (void)op;
    if (--waiting == 0) {
        loop_stop(&loop);
    }
}

static uint32_t progress_seen;

static void progress(struct dp_op *op)
{
    ck_assert_uint_gt(op->parts_done, progress_seen);
    progress_seen = op->parts_done;
}

static struct dp_op storage_op(enum dp_kind kind, uint64_t chain, uint32_t first, uint32_t n,
                               uint64_t offset)
{
    uint64_t bytes = storage.options.block_bytes;
    struct dp_place at = {.tier = DP_DRAM, .offset_bytes = offset};
    return (struct dp_op){.kind = kind,
                          .traffic_class =
                              kind == DP_STORAGE_READ ? DP_CLASS_READ : DP_CLASS_PERSIST,
                          .src = at,
                          .dst = at,
                          .chain = {.chain_id = chain, .first_block = first},
                          .part_bytes = bytes,
                          .parts_total = n,
                          .parts_ready = n,
                          .segments = 1,
                          .segment_bytes = bytes,
                          .segment_stride_bytes = bytes,
                          .part_stride_bytes = bytes,
                          .done = done};
}

static void submit(struct dp_op *op)
{
    ck_assert_int_eq(dp_submit(&hw.dp, op), 0);
    waiting++;
}

static void watchdog_fires(struct loop_timer *t)
{
    (void)t;
    ck_abort_msg("%u ops never completed", waiting);
}

static void run(void)
{
    struct loop_timer watchdog;
    loop_timer_init(&watchdog, watchdog_fires);
    loop_arm(&loop, &watchdog, loop_now_ns(&loop) + 60 * NS_PER_S);
    if (waiting > 0) {
        ck_assert_int_eq(loop_run(&loop), 0);
    }
    loop_disarm(&loop, &watchdog);
    ck_assert_uint_eq(hw.dp.n_in_flight, 0);
}

static int run_op(struct dp_op *op)
{
    submit(op);
    run();
    return op->status;
}

static uint8_t *dram(uint64_t offset, uint64_t len)
{
    return memory_at(&memory, DP_DRAM, 0, offset, len);
}

static void fill(uint64_t offset, uint64_t len, uint64_t seed)
{
    uint8_t *p = dram(offset, len);
    for (uint64_t i = 0; i < len; i++) {
        p[i] = (uint8_t)hash_mix64(seed * 1000003 + i);
    }
}

static void check_filled(uint64_t offset, uint64_t len, uint64_t seed)
{
    const uint8_t *p = dram(offset, len);
    for (uint64_t i = 0; i < len; i++) {
        if (p[i] != (uint8_t)hash_mix64(seed * 1000003 + i)) {
            ck_abort_msg("byte %" PRIu64, i);
        }
    }
}

static void write_chain(uint64_t chain, uint32_t n)
{
    uint64_t bytes = n * storage.options.block_bytes;
    fill(0, bytes, chain);
    struct dp_op op = storage_op(DP_STORAGE_WRITE, chain, 0, n, 0);
    ck_assert_int_eq(run_op(&op), 0);
    memset(dram(0, bytes), 0, bytes);
}

static void back_and_forth(uint64_t block_bytes, bool buffered, bool sync)
{
    open_world(block_bytes, 4, buffered, sync);
    write_chain(1, 40);
    write_chain(2, 3);
    uint64_t at = DRAM_BYTES / 2;
    struct dp_op op = storage_op(DP_STORAGE_READ, 1, 0, 40, at);
    op.progress = progress;
    progress_seen = 0;
    ck_assert_int_eq(run_op(&op), 0);
    ck_assert_uint_eq(progress_seen, 40);
    check_filled(at, 40 * block_bytes, 1);
    struct dp_op last = storage_op(DP_STORAGE_READ, 1, 39, 1, 0); /* one from within */
    ck_assert_int_eq(run_op(&last), 0);
    ck_assert_int_eq(
        memcmp(dram(0, block_bytes), dram(at + 39 * block_bytes, block_bytes), block_bytes), 0);
    ck_assert_uint_eq(storage.counters.blocks_written, 43);
    ck_assert_uint_eq(storage.counters.blocks_read, 41);
    ck_assert_uint_eq(storage.counters.in_place, !slots && block_bytes % 4096 == 0 ? 84 : 0);
    ck_assert_uint_eq(hw.dp.accounts[DP_CLASS_READ].bytes_out, 41 * block_bytes);
    struct stat st;
    char path[320];
    path_of(1, path);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(st.st_size, 40 * (off_t)storage_slot_bytes(block_bytes));
    close_world();
}

START_TEST(what_is_written_comes_back)
{
    back_and_forth(ODD_BYTES, false, false);
    back_and_forth(EVEN_BYTES, false, true);
    back_and_forth(ODD_BYTES, true, true);
    back_and_forth(EVEN_BYTES, true, false);
    back_and_forth(1, false, false);
}
END_TEST

/* CRC-32 bit by bit, from its definition. */
static uint32_t slow_crc(const uint8_t *p, size_t n)
{
    uint32_t c = 0xffffffffu;
    for (size_t i = 0; i < n; i++) {
        c ^= p[i];
        for (int b = 0; b < 8; b++) {
            c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
        }
    }
    return ~c;
}

static uint64_t little(const uint8_t *p, unsigned n)
{
    uint64_t v = 0;
    for (unsigned i = n; i-- > 0;) {
        v = v << 8 | p[i];
    }
    return v;
}

static void read_slot(uint64_t chain, uint32_t block, uint8_t *slot)
{
    char path[320];
    path_of(chain, path);
    int fd = open(path, O_RDONLY);
    ck_assert_int_eq(pread(fd, slot, 8192, block * (off_t)8192), 8192);
    close(fd);
}

START_TEST(a_slot_is_as_documented)
{
    ck_assert_uint_eq(slow_crc((const uint8_t *)"123456789", 9),
                      0xcbf43926u); /* the published check */
    ck_assert_uint_eq(storage_slot_bytes(4096 - 64), 4096);
    ck_assert_uint_eq(storage_slot_bytes(4096 - 63), 8192);
    open_world(ODD_BYTES, 4, false, false);
    write_chain(7, 3);
    uint8_t slot[8192];
    read_slot(7, 2, slot);
    const uint8_t *t = slot + 8192 - 64;
    ck_assert_mem_eq(t, "DPKVSLOT", 8);
    ck_assert_uint_eq(little(t + 8, 4), 1);
    ck_assert_uint_eq(little(t + 12, 4), 2);
    ck_assert_uint_eq(little(t + 16, 8), 7);
    ck_assert_uint_eq(little(t + 24, 8), ODD_BYTES);
    ck_assert_uint_eq(little(t + 32, 4), slow_crc(slot, ODD_BYTES));
    ck_assert_uint_eq(little(t + 60, 4), slow_crc(t, 60));
    for (uint64_t i = 0; i < ODD_BYTES; i++) {
        ck_assert_uint_eq(slot[i], (uint8_t)hash_mix64(7 * 1000003 + 2 * ODD_BYTES + i));
    }
    close_world();
}
END_TEST

/* In memory the pieces may lie apart; in the file they are packed. */
START_TEST(pieces_are_gathered_and_scattered)
{
    open_world(ODD_BYTES, 4, false, false);
    fill(0, 3 * 100000, 3);
    struct dp_op op = storage_op(DP_STORAGE_WRITE, 3, 5, 3, 0);
    op.segments = 3;
    op.segment_bytes = 2000;
    op.segment_stride_bytes = 20000;
    op.part_stride_bytes = 100000;
    ck_assert_int_eq(run_op(&op), 0);
    struct dp_op back = op;
    back.kind = DP_STORAGE_READ;
    back.dst.offset_bytes = 1000000;
    memset(dram(1000000, 300000), 0xee, 300000);
    ck_assert_int_eq(run_op(&back), 0);
    for (uint32_t i = 0; i < 300000; i++) {
        uint32_t in_part = i % 100000, in_segment = in_part % 20000, s = in_part / 20000;
        bool covered = s < 2 ? in_segment < 2000 : s == 2 && in_segment < 1000;
        uint8_t expected = covered ? dram(0, 300000)[i] : 0xee;
        if (dram(1000000, 300000)[i] != expected) {
            ck_abort_msg("byte %" PRIu32, i);
        }
    }
    close_world();
}
END_TEST

static void expect_fault(uint64_t chain, uint32_t first, uint32_t n, int code, const char *words)
{
    char name[STORAGE_NAME_BYTES];
    storage_file_name(chain, name);
    struct dp_op op = storage_op(DP_STORAGE_READ, chain, first, n, 0);
    uint64_t before = hw.faults.n;
    ck_assert_int_eq(run_op(&op), code);
    ck_assert_uint_eq(hw.faults.n, before + 1);
    ck_assert_int_eq(hw.faults.last.code, code);
    ck_assert_ptr_nonnull(strstr(hw.faults.last.text, name));
    ck_assert_msg(strstr(hw.faults.last.text, words) != NULL, "\"%s\" lacks \"%s\"",
                  hw.faults.last.text, words);
}

static void flip(uint64_t chain, off_t at, uint8_t bits)
{
    char path[320];
    path_of(chain, path);
    int fd = open(path, O_RDWR);
    uint8_t byte;
    ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
    byte ^= bits;
    ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
    fsync(fd);
    close(fd);
}

static void damage(uint64_t block_bytes)
{
    off_t slot = (off_t)storage_slot_bytes(block_bytes);
    open_world(block_bytes, 4, false, false);
    write_chain(4, 6);
    expect_fault(5, 0, 1, -ENODATA, "block 0");
    expect_fault(4, 6, 1, -ENODATA, "block 6");
    expect_fault(4, 4, 3, -ENODATA, "block 6");
    off_t where[] = {2 * slot,      2 * slot + (off_t)block_bytes - 1,
                     3 * slot - 64, 3 * slot - 50,
                     3 * slot - 30, 3 * slot - 1};
    for (unsigned i = 0; i < 6; i++) {
        flip(4, where[i], (uint8_t)(1u << i));
        expect_fault(4, 0, 6, -EBADMSG, "block 2");
        flip(4, where[i], (uint8_t)(1u << i));
    }
    struct dp_op op = storage_op(DP_STORAGE_READ, 4, 0, 6, 0);
    ck_assert_int_eq(run_op(&op), 0);
    check_filled(0, 6 * block_bytes, 4);
    char path[320];
    path_of(4, path);
    ck_assert_int_eq(truncate(path, 5 * slot + 100), 0);
    expect_fault(4, 5, 1, -EIO, "block 5: truncated");
    ck_assert_int_eq(truncate(path, 5 * slot + 4096), 0);
    expect_fault(4, 5, 1, -EIO, "block 5: truncated");
    ck_assert_int_eq(truncate(path, 7 * slot), 0);
    expect_fault(4, 6, 1, -ENODATA, "block 6: never written");
    close_world();
}

START_TEST(damage_is_named)
{
    damage(ODD_BYTES);
    damage(EVEN_BYTES);
}
END_TEST

START_TEST(a_block_in_the_wrong_place_is_named)
{
    open_world(ODD_BYTES, 4, false, false);
    write_chain(6, 2);
    uint8_t slot[8192];
    char path[320];
    read_slot(6, 0, slot);
    path_of(6, path);
    int fd = open(path, O_WRONLY);
    ck_assert_int_eq(pwrite(fd, slot, 8192, 8192), 8192);
    close(fd);
    expect_fault(6, 1, 1, -EBADMSG, "block 1: another block");
    close_world();
}
END_TEST

/* A chain's file that is /dev/full: it cannot be
 * opened with O_DIRECT, and every write finds no room. */
START_TEST(a_full_disk_is_named)
{
    open_world(ODD_BYTES, 4, false, false);
    char path[320];
    path_of(9, path);
    ck_assert_int_eq(symlink("/dev/full", path), 0);
    struct dp_op op = storage_op(DP_STORAGE_WRITE, 9, 3, 2, 0);
    ck_assert_int_eq(run_op(&op), -ENOSPC);
    ck_assert_ptr_nonnull(strstr(hw.faults.last.text, "0000000000000009.kv: block "));
    ck_assert_ptr_nonnull(strstr(hw.faults.last.text, strerror(ENOSPC)));
    ck_assert_uint_eq(storage.counters.direct_refused, 1);
    write_chain(10, 2); /* others go on */
    close_world();
}
END_TEST

START_TEST(a_file_size_limit_is_named)
{
    struct rlimit before, limit;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    open_world(ODD_BYTES, 4, false, false);
    limit = before;
    limit.rlim_cur = 3 * 8192;
    setrlimit(RLIMIT_FSIZE, &limit);
    struct dp_op op = storage_op(DP_STORAGE_WRITE, 11, 0, 5, 0);
    int status = run_op(&op);
    setrlimit(RLIMIT_FSIZE, &before);
    ck_assert_int_eq(status, -EFBIG);
    ck_assert_ptr_nonnull(strstr(hw.faults.last.text, "000000000000000b.kv: block "));
    close_world();
}
END_TEST

START_TEST(what_cannot_be_is_refused)
{
    struct err e = ERR_INIT;
    open_world(ODD_BYTES, 4, false, false);
    struct dp_op op = storage_op(DP_STORAGE_READ, 1, 0, 1, DRAM_BYTES - ODD_BYTES + 1);
    ck_assert_int_eq(dp_submit(&hw.dp, &op), -EFAULT);
    op = storage_op(DP_STORAGE_READ, 1, UINT32_MAX, 2, 0);
    ck_assert_int_eq(dp_submit(&hw.dp, &op), -EINVAL);
    op = storage_op(DP_STORAGE_READ, 1, 0, 1, 0);
    op.part_bytes = op.segment_bytes = ODD_BYTES + 1;
    ck_assert_int_eq(dp_submit(&hw.dp, &op), -EINVAL);
    struct storage_uring none;
    struct storage_options o = {
        .directory = "no/such/directory", .block_bytes = 1, .queue_depth = 1, .max_ops = 1};
    ck_assert_int_eq(storage_uring_init(&none, &loop, &driver, &pool, &map, &o, &e), -ENOENT);
    ck_assert_ptr_nonnull(strstr(e.text, "no/such/directory"));
    if (slots) {
        e = ERR_INIT;
        o.slots = slots;
        o.directory = directory;
        setenv("FAKE_USRBIO", "none", 1);
        ck_assert_int_eq(storage_uring_init(&none, &loop, &driver, &pool, &map, &o, &e), -ENODEV);
        ck_assert_ptr_nonnull(strstr(e.text, "is not on a mounted 3FS"));
        unsetenv("FAKE_USRBIO");
    }
    close_world();
}
END_TEST

/* All ops share four buffers; a fifth op does not fit in. */
START_TEST(ops_share_the_depth)
{
    open_world(ODD_BYTES, 4, false, false);
    struct dp_op ops[5];
    for (uint32_t i = 0; i < 5; i++) {
        fill(i * 1000000, 30 * ODD_BYTES, 20 + i);
        ops[i] = storage_op(DP_STORAGE_WRITE, 20 + i, 0, 30, i * 1000000);
    }
    for (uint32_t i = 0; i < 4; i++) {
        submit(&ops[i]);
    }
    ck_assert_int_eq(dp_submit(&hw.dp, &ops[4]), -EAGAIN);
    run();
    ck_assert_int_eq(run_op(&ops[4]), 0);
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_int_eq(ops[i].status, 0);
        ops[i] = storage_op(DP_STORAGE_READ, 20 + i, 0, 30, 20000000 + i * 1000000);
        submit(&ops[i]);
    }
    run();
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_int_eq(ops[i].status, 0);
        check_filled(20000000 + i * 1000000, 30 * ODD_BYTES, 20 + i);
    }
    close_world();
}
END_TEST

static void feed_more(struct dp_op *op)
{
    op->notify_at = op->parts_done + 1;
    if (op->parts_ready < op->parts_total) {
        dp_feed(&hw.dp, op, op->parts_ready + 1);
    }
}

START_TEST(a_write_can_be_fed)
{
    open_world(ODD_BYTES, 4, false, true);
    fill(0, 30 * ODD_BYTES, 12);
    struct dp_op op = storage_op(DP_STORAGE_WRITE, 12, 0, 30, 0);
    op.parts_ready = 2;
    op.progress = feed_more;
    ck_assert_int_eq(run_op(&op), 0);
    struct dp_op back = storage_op(DP_STORAGE_READ, 12, 0, 30, 1000000);
    ck_assert_int_eq(run_op(&back), 0);
    check_filled(1000000, 30 * ODD_BYTES, 12);
    close_world();
}
END_TEST

static void cancel_now(struct dp_op *op)
{
    dp_cancel(&hw.dp, op);
}

START_TEST(cancel_before_during_and_stop)
{
    open_world(ODD_BYTES, 4, false, false);
    write_chain(13, 200);
    struct dp_op op = storage_op(DP_STORAGE_READ, 13, 0, 200, 0);
    submit(&op);
    dp_cancel(&hw.dp, &op); /* while the file is being opened */
    run();
    ck_assert_int_eq(op.status, -ECANCELED);
    op = storage_op(DP_STORAGE_READ, 13, 0, 200, 0);
    op.progress = cancel_now;
    ck_assert_int_eq(run_op(&op), -ECANCELED);
    ck_assert_uint_ge(op.parts_done, 1);
    ck_assert_uint_lt(op.parts_done, 200);
    struct dp_op starved = storage_op(DP_STORAGE_WRITE, 14, 0, 2, 0);
    starved.parts_ready = 0;
    submit(&starved);
    op = storage_op(DP_STORAGE_READ, 13, 0, 200, 0);
    submit(&op);
    hw_dp_stop(&hw);
    struct dp_op late = storage_op(DP_STORAGE_READ, 13, 0, 1, 0);
    ck_assert_int_eq(dp_submit(&hw.dp, &late), -ESHUTDOWN);
    run();
    ck_assert_int_eq(starved.status, -ECANCELED);
    ck_assert_int_eq(op.status, -ECANCELED);
    close_world();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("storage_uring");
    TCase *t = tcase_create("storage_uring");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, what_is_written_comes_back);
    tcase_add_test(t, a_slot_is_as_documented);
    tcase_add_test(t, pieces_are_gathered_and_scattered);
    tcase_add_test(t, damage_is_named);
    tcase_add_test(t, a_block_in_the_wrong_place_is_named);
    tcase_add_test(t, a_full_disk_is_named);
    tcase_add_test(t, a_file_size_limit_is_named);
    tcase_add_test(t, what_cannot_be_is_refused);
    tcase_add_test(t, ops_share_the_depth);
    tcase_add_test(t, a_write_can_be_fed);
    tcase_add_test(t, cancel_before_during_and_stop);
    suite_add_tcase(s, t);
    return run_suite(s);
}
