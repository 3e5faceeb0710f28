/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * USRBIO over plain files. As strict as the real one about what it takes (registered files, the
 * right ring, memory within the iov, room in the ring), and less orderly: of what was submitted the
 * last comes back first, and every fifth preparation finds the ring full. FAKE_USRBIO=none: no
 * directory is on a 3FS.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hf3fs_usrbio.h>

#define MOUNT   "/"
#define MAX_FDS 4096

struct io {
    bool read;
    uint8_t *at;
    int fd;
    size_t offset;
    uint64_t len;
    const void *userdata;
};

struct fake_ior {
    int entries, n, n_submitted;
    struct io ios[];
};

static bool registered[MAX_FDS];

int hf3fs_extract_mount_point(char *mount_point, int size, const char *path)
{
    const char *mode = getenv("FAKE_USRBIO");
    if ((mode && strcmp(mode, "none") == 0) || path[0] != '/') {
        return -1;
    }
    if (size >= (int)sizeof(MOUNT)) {
        memcpy(mount_point, MOUNT, sizeof(MOUNT));
    }
    return sizeof(MOUNT);
}

int hf3fs_iovcreate(struct hf3fs_iov *iov, const char *mount_point, size_t size, size_t block_size,
                    int numa)
{
    (void)numa;
    if (strcmp(mount_point, MOUNT) != 0 || block_size != 0) {
        return -EINVAL;
    }
    void *p;
    int rc = posix_memalign(&p, 4096, size);
    if (rc == 0) {
        *iov = (struct hf3fs_iov){.base = p, .iovh = p, .size = size};
    }
    return -rc;
}

void hf3fs_iovdestroy(struct hf3fs_iov *iov)
{
    free(iov->iovh);
}

int hf3fs_iorcreate4(struct hf3fs_ior *ior, const char *mount_point, int entries, bool for_read,
                     int io_depth, int timeout, int numa, uint64_t flags)
{
    (void)numa;
    if (strcmp(mount_point, MOUNT) != 0 || entries <= 0 || io_depth != 0 || timeout < 0 || flags) {
        return -EINVAL;
    }
    struct fake_ior *f = calloc(1, sizeof(*f) + (size_t)entries * sizeof(f->ios[0]));
    if (!f) {
        return -ENOMEM;
    }
    f->entries = entries;
    *ior = (struct hf3fs_ior){.iorh = f, .for_read = for_read};
    return 0;
}

void hf3fs_iordestroy(struct hf3fs_ior *ior)
{
    free(ior->iorh);
}

int hf3fs_reg_fd(int fd, uint64_t flags)
{
    (void)flags;
    if (fd < 0 || fd >= MAX_FDS || registered[fd]) {
        return EINVAL;
    }
    registered[fd] = true;
    return -fd;
}

void hf3fs_dereg_fd(int fd)
{
    registered[fd] = false;
}

int hf3fs_prep_io(const struct hf3fs_ior *ior, const struct hf3fs_iov *iov, bool read, void *ptr,
                  int fd, size_t off, uint64_t len, const void *userdata)
{
    struct fake_ior *f = ior->iorh;
    uint8_t *at = ptr;
    if (read != ior->for_read || len == 0 || at < iov->base || at + len > iov->base + iov->size) {
        return -EINVAL;
    }
    if (fd < 0 || fd >= MAX_FDS || !registered[fd]) {
        return -EBADF;
    }
    static unsigned n_prepared;
    if (f->n == f->entries || ++n_prepared % 5 == 0) {
        return -EAGAIN;
    }
    f->ios[f->n] = (struct io){read, at, fd, off, len, userdata};
    return f->n++;
}

int hf3fs_submit_ios(const struct hf3fs_ior *ior)
{
    struct fake_ior *f = ior->iorh;
    f->n_submitted = f->n;
    return 0;
}

static int64_t perform(const struct io *io)
{
    int64_t done = 0;
    while ((uint64_t)done < io->len) {
        size_t left = io->len - (uint64_t)done;
        ssize_t n = io->read ? pread(io->fd, io->at + done, left, (off_t)io->offset + done)
                             : pwrite(io->fd, io->at + done, left, (off_t)io->offset + done);
        if (n < 0) {
            return -errno;
        }
        if (n == 0) {
            break;
        }
        done += n;
    }
    return done;
}

int hf3fs_wait_for_ios(const struct hf3fs_ior *ior, struct hf3fs_cqe *cqes, int cqec,
                       int min_results, const struct timespec *abs_timeout)
{
    struct fake_ior *f = ior->iorh;
    int n = 0;
    (void)abs_timeout;
    if (cqec <= 0 || min_results != 0) {
        return -EINVAL; /* the loop must not be held up */
    }
    while (n < cqec && f->n_submitted > 0) {
        const struct io io = f->ios[--f->n_submitted];
        memmove(&f->ios[f->n_submitted], &f->ios[f->n_submitted + 1],
                (size_t)(--f->n - f->n_submitted) * sizeof(io));
        cqes[n++] = (struct hf3fs_cqe){.result = perform(&io), .userdata = io.userdata};
    }
    return n;
}
