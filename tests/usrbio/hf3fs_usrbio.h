/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The part of 3FS's USRBIO interface that storage_usrbio.c uses, for machines without 3FS. Names,
 * arguments and meaning are those of src/lib/api/hf3fs_usrbio.h and UsrbIo.md of 3FS (MIT
 * licence); structures have the public members that we touch. fake_usrbio.c is behind it.
 */
#ifndef DUALPATH_TESTS_HF3FS_USRBIO_H
#define DUALPATH_TESTS_HF3FS_USRBIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct hf3fs_iov {
    uint8_t *base;
    void *iovh;
    size_t size;
};

struct hf3fs_ior {
    struct hf3fs_iov iov;
    void *iorh;
    bool for_read;
};

struct hf3fs_cqe {
    int32_t index;
    int32_t reserved;
    int64_t result; /* bytes, or a negative error */
    const void *userdata;
};

/* Length with the end, more than size when that is too small; -1: not on a 3FS. */
int hf3fs_extract_mount_point(char *mount_point, int size, const char *path);

int hf3fs_iovcreate(struct hf3fs_iov *iov, const char *mount_point, size_t size, size_t block_size,
                    int numa);
void hf3fs_iovdestroy(struct hf3fs_iov *iov);
int hf3fs_iorcreate4(struct hf3fs_ior *ior, const char *mount_point, int entries, bool for_read,
                     int io_depth, int timeout, int numa, uint64_t flags);
void hf3fs_iordestroy(struct hf3fs_ior *ior);

int hf3fs_reg_fd(int fd, uint64_t flags); /* <= 0, or an errno */
void hf3fs_dereg_fd(int fd);

/* Index, or -errno: -EAGAIN when the ring is full, -EBADF without hf3fs_reg_fd(). */
int hf3fs_prep_io(const struct hf3fs_ior *ior, const struct hf3fs_iov *iov, bool read, void *ptr,
                  int fd, size_t off, uint64_t len, const void *userdata);
int hf3fs_submit_ios(const struct hf3fs_ior *ior);
int hf3fs_wait_for_ios(const struct hf3fs_ior *ior, struct hf3fs_cqe *cqes, int cqec,
                       int min_results, const struct timespec *abs_timeout);

#endif
