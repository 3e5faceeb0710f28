/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The probes of a GPU, and that a machine without one is told so. Arguments: none (the machine's
 * own driver; exit 77 without), "fake" (the fake driver: no cuBLAS), "stub" or "none" (the fake
 * driver refuses).
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hw/compute_cuda.h"
#include "hw/cuda_probe.h"
#include "hw/gpu_memory.h"

static const char *kind = "";

static struct attention some_attention(uint32_t dim)
{
    struct kv_layout l = {2, 16, dim * sizeof(float)};
    struct kv_content c;
    struct attention a;
    struct err e = ERR_INIT;
    ck_assert_int_eq(kv_content_init(&c, 1, &l, &e), 0);
    ck_assert_int_eq(attention_init(&a, &c, 2, &e), 0);
    return a;
}

static int new_compute(uint32_t dim, struct err *e)
{
    struct attention a = some_attention(dim);
    struct node_memory memory, *nodes = &memory;
    struct memory_map map = {.nodes = &nodes, .n_nodes = 1};
    struct hw_compute_config config = {
        .prefill_nodes = 1, .gpus_per_node = 1, .prefill_ep_gpus = 1, .decode_ep_gpus = 1};
    ck_assert_int_eq(node_memory_init(&memory, 0, 4096, 1, 1 << 20, e), 0);
    struct compute_cuda *c = NULL;
    int rc = compute_cuda_new(&a, &config, &map, &c, e);
    compute_cuda_free(c);
    node_memory_done(&memory);
    return rc;
}

/* The reason is told, everywhere the same. */
START_TEST(test_refused)
{
    struct cuda_device d;
    double ns;
    const char *why =
        strcmp(kind, "stub") == 0 ? "CUDA_ERROR_STUB_LIBRARY" : "the driver finds none";
    struct err e[5] = {ERR_INIT, ERR_INIT, ERR_INIT, ERR_INIT, ERR_INIT};
    ck_assert_int_eq(cuda_probe_device(0, &d, &e[0]), -ENODEV);
    ck_assert_int_eq(cuda_probe_copy_ns(0, 64, 1, true, &ns, &e[1]), -ENODEV);
    ck_assert_int_eq(cuda_probe_gemm_ns(0, 1, 1, 1, 1, &ns, &e[2]), -ENODEV);
    ck_assert_int_eq(new_compute(8, &e[3]), -ENODEV);
    struct gpu_memory *m;
    ck_assert_int_eq(gpu_memory_new(0, 4096, &m, &e[4]), -ENODEV);
    for (int i = 0; i < 5; i++) {
        ck_assert_msg(strstr(e[i].text, why) != NULL, "%s", e[i].text);
    }
}
END_TEST

START_TEST(test_device)
{
    struct cuda_device d;
    struct err e = ERR_INIT;
    ck_assert_msg(cuda_probe_device(0, &d, &e) == 0, "%s", e.text);
    ck_assert_str_ne(d.name, "");
    ck_assert_uint_ge(d.n_devices, 1);
    ck_assert_int_ge(d.driver_version, 12000);
    ck_assert_int_eq(cuda_probe_device(d.n_devices, &d, &e), -ENODEV);
}
END_TEST

START_TEST(test_copies)
{
    const uint64_t sizes[] = {1, 4096, 1 << 20};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int to_gpu = 0; to_gpu < 2; to_gpu++) {
            struct err e = ERR_INIT;
            double ns = -1;
            ck_assert_msg(cuda_probe_copy_ns(0, sizes[i], 8, to_gpu, &ns, &e) == 0, "%s", e.text);
            ck_assert_double_gt(ns, 0);
        }
    }
    struct err e = ERR_INIT;
    double ns;
    ck_assert_int_eq(cuda_probe_copy_ns(0, 64, 0, true, &ns, &e), -EINVAL);
}
END_TEST

START_TEST(test_gemm)
{
    struct err e = ERR_INIT;
    double ns = -1;
    int rc = cuda_probe_gemm_ns(0, 512, 256, 1024, 8, &ns, &e);
    ck_assert_msg(rc == 0 || rc == -ENODEV, "%s", e.text);
    if (rc) {
        fprintf(stderr, "not measured: %s\n", e.text);
    } else {
        ck_assert_double_gt(ns, 0);
    }
}
END_TEST

START_TEST(test_rows_too_long)
{
    struct err e = ERR_INIT;
    ck_assert_int_eq(new_compute(1024, &e), 0);
    ck_assert_int_eq(new_compute(1025, &e), -EINVAL);
}
END_TEST

/* Of the fake driver, FAKE_CUDA_DMABUF says how it goes; a real one may have dma-bufs or not. */
START_TEST(test_gpu_memory)
{
    static const char *const modes[] = {"offered", "refused", "absent"};
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        struct err e = ERR_INIT;
        struct gpu_memory *m = NULL;
        setenv("FAKE_CUDA_DMABUF", modes[i], 1);
        ck_assert_msg(gpu_memory_new(0, 100000, &m, &e) == 0, "%s", e.text);
        const struct memory_region *r = gpu_memory_region(m);
        ck_assert(r->on_gpu);
        ck_assert_uint_eq((uintptr_t)r->base % 4096, 0);
        ck_assert_uint_eq(r->size_bytes, 100000);
        if (strcmp(kind, "fake") == 0) {
            ck_assert_int_eq(r->dmabuf_fd >= 0, i == 0);
        }
        int fd = r->dmabuf_fd;
        gpu_memory_free(m);
        ck_assert(fd < 0 || fcntl(fd, F_GETFD) < 0); /* closed */
    }
    struct err e = ERR_INIT;
    struct gpu_memory *m = NULL;
    ck_assert_int_eq(gpu_memory_new(1000, 4096, &m, &e), -ENODEV);
    ck_assert_int_eq(gpu_memory_new(0, 0, &m, &(struct err){0}), -EINVAL);
}
END_TEST

static TCase *cases(void)
{
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 90);
    if (strcmp(kind, "stub") == 0 || strcmp(kind, "none") == 0) {
        tcase_add_test(t, test_refused);
        return t;
    }
    tcase_add_test(t, test_device);
    tcase_add_test(t, test_copies);
    tcase_add_test(t, test_rows_too_long);
    tcase_add_test(t, test_gpu_memory);
    if (strcmp(kind, "fake") != 0) {
        tcase_add_test(t, test_gemm);
    }
    return t;
}

int main(int argc, char **argv)
{
    kind = argc > 1 ? argv[1] : kind;
    struct cuda_device d;
    struct err e = ERR_INIT;
    if (kind[0] == '\0' && cuda_probe_device(0, &d, &e) == -ENODEV) {
        fprintf(stderr, "skipped: %s\n", e.text);
        return 77;
    }
    Suite *s = suite_create("cuda_probe");
    suite_add_tcase(s, cases());
    SRunner *r = srunner_create(s);
    srunner_set_fork_status(r, CK_NOFORK); /* the driver does not survive a fork */
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
