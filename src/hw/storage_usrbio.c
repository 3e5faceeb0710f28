/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/storage_usrbio.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <hf3fs_usrbio.h>

#define MOUNT_BYTES 256 /* of struct hf3fs_iov */
#define REAP        32

enum { WRITES, READS, N_RINGS }; /* a ring is for one of them */

struct ring {
    struct hf3fs_ior ior;
    bool open;
    bool to_submit;
    unsigned n_in_flight;
};

/* A request that could not be started; told from the loop. */
struct refused {
    struct request *request;
    int code;
};

struct usrbio {
    struct storage_uring *s;
    struct hf3fs_iov iov;
    struct ring rings[N_RINGS];
    struct refused *refused; /* [queue_depth] */
    unsigned n_refused;
    struct loop_timer timer;
};

static void tell_refused(struct usrbio *u)
{
    for (unsigned n = u->n_refused; n > 0; n--) { /* completing one may refuse another */
        struct refused r = u->refused[0];
        memmove(u->refused, u->refused + 1, --u->n_refused * sizeof(r));
        r.request->complete(r.request, r.code);
    }
}

static void reap(struct usrbio *u, struct ring *r)
{
    struct hf3fs_cqe cqes[REAP];
    int n = r->n_in_flight > 0 ? hf3fs_wait_for_ios(&r->ior, cqes, REAP, 0, NULL) : 0;
    if (n < 0) {
        mover_complain(&u->s->mover, n, "3FS: hf3fs_wait_for_ios: %s", strerror(-n));
    }
    for (int i = 0; i < n; i++) {
        struct request *request = (struct request *)(uintptr_t)cqes[i].userdata;
        int64_t result = cqes[i].result;
        r->n_in_flight--;
        request->complete(request, result < INT_MIN ? -EIO : (int)result);
    }
}

static void look_again(struct usrbio *u)
{
    uint64_t wait_ns = UINT64_MAX;
    for (unsigned i = 0; i < N_RINGS; i++) {
        const struct ring *r = &u->rings[i];
        wait_ns = r->n_in_flight > 0 && USRBIO_POLL_NS < wait_ns ? USRBIO_POLL_NS : wait_ns;
        wait_ns = r->to_submit ? 0 : wait_ns;
    }
    wait_ns = u->n_refused > 0 ? 0 : wait_ns;
    if (wait_ns != UINT64_MAX) {
        loop_arm(u->s->loop, &u->timer, loop_now_ns(u->s->loop) + wait_ns);
    }
}

/* One submission serves what a turn of the loop has prepared. */
static void timer_fires(struct loop_timer *t)
{
    struct usrbio *u = container_of(t, struct usrbio, timer);
    tell_refused(u);
    for (unsigned i = 0; i < N_RINGS; i++) {
        struct ring *r = &u->rings[i];
        if (r->to_submit) {
            r->to_submit = hf3fs_submit_ios(&r->ior) != 0; /* a hint: it may be given once more */
        }
        reap(u, r);
    }
    look_again(u);
}

static void usrbio_start(struct storage_uring *s, struct request *request, bool read, int fd,
                         uint8_t *buffer, uint64_t len, uint64_t at)
{
    struct usrbio *u = s->slots;
    struct ring *r = &u->rings[read ? READS : WRITES];
    int rc = hf3fs_prep_io(&r->ior, &u->iov, read, buffer, fd, at, len, request);
    if (rc < 0) {
        u->refused[u->n_refused++] = (struct refused){request, rc};
    } else {
        r->to_submit = true;
        r->n_in_flight++;
    }
    loop_post(s->loop, &u->timer);
}

static int usrbio_file_opened(struct storage_uring *s, int fd)
{
    (void)s;
    int rc = hf3fs_reg_fd(fd, 0); /* a positive errno, or another number of the file */
    return rc > 0 ? -rc : 0;
}

static void usrbio_file_over(struct storage_uring *s, int fd)
{
    (void)s;
    hf3fs_dereg_fd(fd);
}

static void usrbio_free(struct usrbio *u)
{
    loop_disarm(u->s->loop, &u->timer);
    for (unsigned i = 0; i < N_RINGS; i++) {
        if (u->rings[i].open) {
            hf3fs_iordestroy(&u->rings[i].ior);
        }
    }
    if (u->iov.base) {
        hf3fs_iovdestroy(&u->iov);
    }
    free(u->refused);
    free(u);
}

static int make_queues(struct usrbio *u, const char *mount, const char **ret_what)
{
    uint32_t depth = u->s->options.queue_depth;
    *ret_what = "hf3fs_iovcreate";
    int rc = hf3fs_iovcreate(&u->iov, mount, depth * u->s->slot_bytes, 0, -1);
    if (rc) {
        u->iov.base = NULL;
    }
    for (unsigned i = 0; i < N_RINGS && rc == 0; i++) {
        *ret_what = "hf3fs_iorcreate4";
        rc = hf3fs_iorcreate4(&u->rings[i].ior, mount, (int)depth, i == READS, 0, 0, -1, 0);
        u->rings[i].open = rc == 0;
    }
    return rc;
}

static int find_mount(const char *directory, char mount[MOUNT_BYTES], struct err *e)
{
    char *path = realpath(directory, NULL);
    int len = path ? hf3fs_extract_mount_point(mount, MOUNT_BYTES, path) : -1;
    free(path);
    return len > 0 && len <= MOUNT_BYTES
               ? 0
               : err_set(e, -ENODEV, "storage directory %s is not on a mounted 3FS", directory);
}

static int usrbio_open(struct storage_uring *s, struct err *e)
{
    char mount[MOUNT_BYTES];
    const char *what = "";
    int rc = find_mount(s->options.directory, mount, e);
    if (rc) {
        return rc;
    }
    struct usrbio *u = calloc(1, sizeof(*u));
    if (!u) {
        return err_nomem(e);
    }
    u->s = s;
    loop_timer_init(&u->timer, timer_fires);
    u->refused = calloc(s->options.queue_depth, sizeof(*u->refused));
    rc = u->refused ? make_queues(u, mount, &what) : err_nomem(e);
    if (rc) {
        usrbio_free(u);
        return err_set(e, rc, "3FS at %s: %s: %s", mount, what, strerror(-rc));
    }
    s->slots = u;
    s->buffers = u->iov.base;
    return 0;
}

static void usrbio_close(struct storage_uring *s)
{
    usrbio_free(s->slots);
}

const struct slot_mover_ops storage_usrbio = {.name = "3FS",
                                              .open = usrbio_open,
                                              .close = usrbio_close,
                                              .file_opened = usrbio_file_opened,
                                              .file_over = usrbio_file_over,
                                              .start = usrbio_start};
