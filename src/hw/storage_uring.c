/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/storage_uring.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/units.h"
#include "hw/storage_internal.h"

void storage_fail(struct storage_op *o, int code, const char *fmt, ...)
{
    if (op_has_failed(o)) {
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(o->text, sizeof(o->text), fmt, ap);
    va_end(ap);
    o->code = code;
}

struct io_uring_sqe *storage_request(struct storage_uring *s)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&s->ring);
    if (!sqe) {
        io_uring_submit(&s->ring); /* full of what this turn has queued */
        sqe = io_uring_get_sqe(&s->ring);
    }
    assert(sqe); /* the ring has an entry for everything that can be in flight */
    s->n_requests++;
    if (!loop_armed(&s->submit_timer)) {
        loop_post(s->loop, &s->submit_timer);
    }
    return sqe;
}

static void submit_fires(struct loop_timer *t)
{
    struct storage_uring *s = container_of(t, struct storage_uring, submit_timer);
    int rc = io_uring_submit(&s->ring);
    if (rc < 0 || io_uring_sq_ready(&s->ring) > 0) {
        loop_arm(s->loop, t, loop_now_ns(s->loop) + NS_PER_MS / 10); /* completions first */
    }
}

static void ring_ready(struct wall_source *source, uint32_t events)
{
    struct storage_uring *s = container_of(source, struct storage_uring, source);
    struct io_uring_cqe *cqe;
    (void)events;
    while (io_uring_peek_cqe(&s->ring, &cqe) == 0) {
        struct request *r = io_uring_cqe_get_data(cqe);
        int result = cqe->res;
        io_uring_cqe_seen(&s->ring, cqe);
        s->n_requests--;
        if (r) {
            r->complete(r, result);
        }
    }
}

static void finish(struct storage_op *o)
{
    struct storage_uring *s = o->s;
    struct dp_op *op = o->op;
    int code = o->code;
    if (o->fd >= 0) {
        if (s->options.slots) {
            s->options.slots->file_over(s, o->fd);
        }
        struct io_uring_sqe *sqe = storage_request(s);
        io_uring_prep_close(sqe, o->fd);
        io_uring_sqe_set_data(sqe, NULL);
    }
    int status = op_is_complete(o) ? 0 : -ECANCELED;
    loop_disarm(s->loop, &o->end_timer);
    list_remove(&o->link);
    list_add_tail(&s->idle_ops, &o->link);
    o->op = NULL;
    op->done_ns = wall_now_ns();
    if (code) {
        char text[sizeof(o->text)];
        memcpy(text, o->text, sizeof(text)); /* done() may submit into this slot */
        mover_fail(&s->mover, op, code, "%s/%s: %s", s->directory, o->name, text);
    } else {
        mover_done(&s->mover, op, status);
    }
}

static void start_sync(struct storage_op *o)
{
    struct io_uring_sqe *sqe = storage_request(o->s);
    io_uring_prep_fsync(sqe, o->fd, IORING_FSYNC_DATASYNC);
    io_uring_sqe_set_data(sqe, &o->request);
    o->busy = true;
}

/* Ends the op when nothing of it is under way and nothing is to come. */
void storage_end_if_over(struct storage_op *o)
{
    if (o->busy || o->n_ios > 0 || !(op_has_failed(o) || o->cancelled || op_is_complete(o))) {
        return;
    }
    if (op_is_complete(o) && !op_has_failed(o) && !op_is_read(o) && o->s->options.sync &&
        !o->synced) {
        start_sync(o);
        return;
    }
    finish(o);
}

static void end_timer_fires(struct loop_timer *t)
{
    storage_end_if_over(container_of(t, struct storage_op, end_timer));
}

static void start_open(struct storage_op *o)
{
    int flags = O_CLOEXEC | (op_is_read(o) ? O_RDONLY : O_WRONLY | O_CREAT);
    struct io_uring_sqe *sqe = storage_request(o->s);
    io_uring_prep_openat(sqe, o->s->dir_fd, o->name, flags | (o->direct ? O_DIRECT : 0), 0644);
    io_uring_sqe_set_data(sqe, &o->request);
    o->busy = true;
}

static void register_file(struct storage_op *o)
{
    const struct slot_mover_ops *slots = o->s->options.slots;
    int rc = slots ? slots->file_opened(o->s, o->fd) : 0;
    if (rc) {
        storage_fail(o, rc, "%s does not take the file: %s", slots->name, strerror(-rc));
    }
}

static void opened(struct storage_op *o, int result)
{
    if (result == -EINVAL && o->direct) {
        o->direct = false;
        o->s->counters.direct_refused++;
        start_open(o);
        return;
    }
    if (result < 0) {
        uint32_t first = o->op->chain.first_block;
        bool is_missing = result == -ENOENT && op_is_read(o);
        storage_fail(o, is_missing ? -ENODATA : result, "block %" PRIu32 ": cannot open: %s", first,
                     strerror(-result));
    } else {
        o->fd = result;
        register_file(o);
    }
    storage_want_block(o);
    storage_start_blocks(o->s);
    storage_end_if_over(o);
}

static void op_request_done(struct request *r, int result)
{
    struct storage_op *o = container_of(r, struct storage_op, request);
    o->busy = false;
    if (o->fd < 0) {
        opened(o, result);
        return;
    }
    o->synced = true;
    if (result < 0) {
        storage_fail(o, result, "cannot sync: %s", strerror(-result));
    }
    storage_end_if_over(o);
}

static struct storage_uring *of(struct mover *m)
{
    return container_of(m, struct storage_uring, mover);
}

static struct storage_op *op_of(struct dp_op *op)
{
    return (struct storage_op *)(uintptr_t)op->private_words[0];
}

static void begin(struct storage_op *o, struct dp_op *op, uint8_t *base)
{
    o->op = op;
    o->base = base;
    o->fd = -1;
    o->direct = !o->s->options.buffered;
    o->synced = o->cancelled = false;
    o->next = o->in_order = 0;
    o->code = 0;
    memset(o->arrived, 0, o->s->window / 64 * sizeof(uint64_t));
    storage_file_name(op->chain.chain_id, o->name);
    op->private_words[0] = (uint64_t)(uintptr_t)o;
    start_open(o);
}

static int storage_submit(struct mover *m, struct dp_op *op)
{
    struct storage_uring *s = of(m);
    uint64_t span;
    if (op->part_bytes != s->options.block_bytes || !op_span(op, &span) ||
        op->parts_total - 1 > UINT32_MAX - op->chain.first_block) {
        return -EINVAL;
    }
    uint8_t *base = memory_map_at(s->map, op->kind == DP_STORAGE_READ ? &op->dst : &op->src, span);
    if (!base) {
        return -EFAULT;
    }
    struct list *first = list_first(&s->idle_ops);
    if (!first) {
        return -EAGAIN;
    }
    list_remove(first);
    begin(container_of(first, struct storage_op, link), op, base);
    return 0;
}

static void storage_feed(struct mover *m, struct dp_op *op)
{
    storage_want_block(op_of(op));
    storage_start_blocks(of(m));
}

/* What the kernel or a worker has of the op comes back by itself; only an idle op needs a push. */
static void cancel_op(struct storage_op *o)
{
    o->cancelled = true;
    if (!o->busy && o->n_ios == 0) {
        loop_post(o->s->loop, &o->end_timer);
    }
}

static void storage_cancel(struct mover *m, struct dp_op *op)
{
    (void)m;
    cancel_op(op_of(op));
}

static void storage_cancel_all(struct mover *m)
{
    struct storage_uring *s = of(m);
    for (uint32_t i = 0; i < s->options.max_ops; i++) {
        if (s->ops[i].op) {
            cancel_op(&s->ops[i]);
        }
    }
}

static const struct mover_ops storage_ops = {
    .name = "uring",
    .submit = storage_submit,
    .feed = storage_feed,
    .cancel = storage_cancel,
    .cancel_all = storage_cancel_all,
};

static int open_ring(struct storage_uring *s, struct err *e)
{
    unsigned entries = 2 * (s->options.queue_depth + s->options.max_ops);
    int rc = io_uring_queue_init(entries, &s->ring, IORING_SETUP_CLAMP);
    if (rc) {
        s->ring.ring_fd = -1;
    }
    if (rc == -ENOSYS || rc == -EPERM) {
        return err_set(e, -ENODEV,
                       "no io_uring on this machine: %s (kernel.io_uring_disabled, or a container's"
                       " seccomp filter?)",
                       strerror(-rc));
    }
    if (rc) {
        return err_set(e, rc, "io_uring with %u entries: %s", entries, strerror(-rc));
    }
    s->source.fd = s->ring.ring_fd;
    rc = wall_driver_add(s->driver, &s->source, EPOLLIN);
    return rc ? err_set(e, rc, "epoll: %s", strerror(-rc)) : 0;
}

static int make_buffers(struct storage_uring *s, struct err *e)
{
    if (s->options.slots) {
        return s->options.slots->open(s, e);
    }
    void *p = mmap(NULL, s->options.queue_depth * s->slot_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        return err_nomem(e);
    }
    s->buffers = p;
    return 0;
}

static void free_buffers(struct storage_uring *s)
{
    if (s->buffers && s->options.slots) {
        s->options.slots->close(s);
    } else if (s->buffers) {
        munmap(s->buffers, s->options.queue_depth * s->slot_bytes);
    }
}

static int allocate(struct storage_uring *s, struct err *e)
{
    uint32_t depth = s->options.queue_depth, max_ops = s->options.max_ops;
    s->window = (2 * depth + 63) / 64 * 64;
    s->ios = calloc(depth, sizeof(*s->ios));
    s->ops = calloc(max_ops, sizeof(*s->ops));
    s->arrived_bits = calloc((size_t)max_ops * (s->window / 64), sizeof(uint64_t));
    return s->ios && s->ops && s->arrived_bits ? make_buffers(s, e) : err_nomem(e);
}

static void ops_init(struct storage_uring *s)
{
    for (uint32_t i = 0; i < s->options.max_ops; i++) {
        s->ops[i] = (struct storage_op){.request.complete = op_request_done,
                                        .s = s,
                                        .fd = -1,
                                        .arrived = s->arrived_bits + i * (s->window / 64)};
        loop_timer_init(&s->ops[i].end_timer, end_timer_fires);
        list_add_tail(&s->idle_ops, &s->ops[i].link);
    }
}

/* Without it everything works, only with more work per request: a counter, not an error. */
static void register_buffers(struct storage_uring *s)
{
    uint32_t depth = s->options.queue_depth;
    if (s->options.slots) {
        return;
    }
    struct iovec *iovs = calloc(depth, sizeof(*iovs));
    for (uint32_t i = 0; iovs && i < depth; i++) {
        iovs[i] = (struct iovec){s->ios[i].buffer, s->slot_bytes};
    }
    s->counters.unregistered = !iovs || io_uring_register_buffers(&s->ring, iovs, depth) != 0;
    free(iovs);
}

static int check_options(const struct storage_options *o, struct err *e)
{
    uint64_t total;
    if (o->block_bytes == 0 || o->block_bytes > UINT32_MAX / 2 || o->queue_depth == 0 ||
        o->queue_depth > 4096 || o->max_ops == 0 || o->max_ops > 65536 ||
        __builtin_mul_overflow(o->queue_depth, o->block_bytes, &total)) {
        return err_set(e, -EINVAL,
                       "storage: block of %" PRIu64 " bytes (up to 2 GiB), queue depth %" PRIu32
                       " (1 to 4096), %" PRIu32 " ops (1 to 65536)",
                       o->block_bytes, o->queue_depth, o->max_ops);
    }
    return 0;
}

int storage_uring_init(struct storage_uring *s, struct loop *loop, struct wall_driver *driver,
                       struct work_pool *pool, const struct memory_map *map,
                       const struct storage_options *options, struct err *e)
{
    int rc = check_options(options, e);
    if (rc) {
        return rc;
    }
    *s = (struct storage_uring){.mover.ops = &storage_ops,
                                .options = *options,
                                .loop = loop,
                                .driver = driver,
                                .pool = pool,
                                .map = map,
                                .source = {.fd = -1, .ready = ring_ready},
                                .ring.ring_fd = -1,
                                .slot_bytes = storage_slot_bytes(options->block_bytes)};
    loop_timer_init(&s->submit_timer, submit_fires);
    list_init(&s->idle_ios);
    list_init(&s->idle_ops);
    list_init(&s->wanting);
    s->directory = strdup(options->directory);
    s->options.directory = s->directory;
    s->dir_fd = open(options->directory, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    if (s->dir_fd < 0) {
        rc = err_set(e, -errno, "storage directory %s: %s", options->directory, strerror(errno));
    } else {
        rc = s->directory ? allocate(s, e) : err_nomem(e);
        rc = rc ? rc : open_ring(s, e);
    }
    if (rc) {
        storage_uring_done(s);
        return rc;
    }
    storage_blocks_init(s);
    ops_init(s);
    register_buffers(s);
    return 0;
}

/* Closes of files may be under way still. */
static void drain(struct storage_uring *s)
{
    struct io_uring_cqe *cqe;
    io_uring_submit(&s->ring);
    while (s->n_requests > 0 && io_uring_wait_cqe(&s->ring, &cqe) == 0) {
        assert(!io_uring_cqe_get_data(cqe));
        io_uring_cqe_seen(&s->ring, cqe);
        s->n_requests--;
    }
}

void storage_uring_done(struct storage_uring *s)
{
    loop_disarm(s->loop, &s->submit_timer);
    if (s->ring.ring_fd >= 0) {
        drain(s);
        wall_driver_remove(s->driver, &s->source);
        io_uring_queue_exit(&s->ring);
    }
    free_buffers(s);
    if (s->dir_fd >= 0) {
        close(s->dir_fd);
    }
    free(s->ios);
    free(s->ops);
    free(s->arrived_bits);
    free(s->directory);
}
