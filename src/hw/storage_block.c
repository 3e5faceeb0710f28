/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One block on its way between a file and memory: the
 * ring moves the slot, a worker checks or makes it. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "hw/storage_internal.h"

static uint64_t block_bytes(const struct storage_io *io)
{
    return io->o->s->options.block_bytes;
}

static uint32_t block_of(const struct storage_io *io)
{
    return io->o->op->chain.first_block + io->part;
}

static uint8_t *trailer_of(const struct storage_io *io)
{
    return io->buffer + io->o->s->slot_bytes - STORAGE_TRAILER_BYTES;
}

static struct storage_block identity_of(const struct storage_io *io)
{
    return (struct storage_block){.chain_id = io->o->op->chain.chain_id,
                                  .block = block_of(io),
                                  .block_bytes = block_bytes(io)};
}

static bool is_in_place(const struct storage_io *io)
{
    return io->payload != io->buffer;
}

static void start_transfer(struct storage_io *io);

static bool wants_block(const struct storage_op *o)
{
    return o->fd >= 0 && !op_has_failed(o) && !o->cancelled && o->next < o->op->parts_ready &&
           o->next - o->in_order < o->s->window;
}

void storage_want_block(struct storage_op *o)
{
    if (wants_block(o) && list_empty(&o->link)) {
        list_add_tail(&o->s->wanting, &o->link);
    }
}

static void note_arrival(struct storage_op *o, uint32_t part)
{
    uint32_t window = o->s->window;
    o->arrived[part % window / 64] |= (uint64_t)1 << (part % 64);
    for (;;) {
        uint32_t p = o->in_order;
        uint64_t bit = (uint64_t)1 << (p % 64);
        if (!(o->arrived[p % window / 64] & bit)) {
            return;
        }
        o->arrived[p % window / 64] &= ~bit;
        o->in_order++;
    }
}

/* The block has arrived, or failed and o->code says why. */
static void end_block(struct storage_io *io, bool arrived)
{
    struct storage_op *o = io->o;
    struct storage_uring *s = o->s;
    if (arrived) {
        s->counters.blocks_read += op_is_read(o);
        s->counters.blocks_written += !op_is_read(o);
        s->counters.in_place += is_in_place(io);
        note_arrival(o, io->part);
    }
    list_add_tail(&s->idle_ios, &io->idle);
    if (!op_is_complete(o)) {
        dp_backend_progress(s->mover.dp, o->op, o->in_order); /* may feed or cancel */
    }
    o->n_ios--;
    storage_want_block(o);
    storage_start_blocks(s);
    storage_end_if_over(o);
}

static void fail_block(struct storage_io *io, int code, const char *what)
{
    storage_fail(io->o, code, "block %" PRIu32 ": %s", block_of(io), what);
    end_block(io, false);
}

/* Worker: checks a block that was read and puts it where it belongs. */
static void check_block(struct storage_io *io)
{
    struct storage_block b = identity_of(io);
    const struct dp_op *op = io->o->op;
    io->code = storage_check(trailer_of(io), &b, io->payload, &io->what);
    const uint8_t *from = io->payload;
    for (uint32_t i = 0; io->code == 0 && !is_in_place(io) && i < op->segments; i++) {
        struct piece p = op_piece(op, io->part, i);
        memcpy(io->o->base + p.at_bytes, from, p.len_bytes);
        from += p.len_bytes;
    }
}

/* Worker: makes the slot of a block that is to be written. */
static void make_block(struct storage_io *io)
{
    struct storage_block b = identity_of(io);
    const struct dp_op *op = io->o->op;
    uint8_t *to = io->payload;
    for (uint32_t i = 0; !is_in_place(io) && i < op->segments; i++) {
        struct piece p = op_piece(op, io->part, i);
        memcpy(to, io->o->base + p.at_bytes, p.len_bytes);
        to += p.len_bytes;
    }
    uint8_t *pad = io->buffer + block_bytes(io);
    memset(pad, 0, (size_t)(trailer_of(io) - pad));
    storage_put_trailer(trailer_of(io), &b, io->payload);
}

static void run_block(struct work *w)
{
    struct storage_io *io = container_of(w, struct storage_io, work);
    io->code = 0;
    if (op_is_read(io->o)) {
        check_block(io);
    } else {
        make_block(io);
    }
}

static void block_was_run(struct work *w)
{
    struct storage_io *io = container_of(w, struct storage_io, work);
    if (!op_is_read(io->o)) {
        start_transfer(io);
    } else if (io->code) {
        fail_block(io, io->code, io->what);
    } else {
        end_block(io, true);
    }
}

/* What is left of the slot, as one or two runs. */
static unsigned plan_transfer(struct storage_io *io)
{
    uint64_t at = io->moved_bytes, slot = io->o->s->slot_bytes, payload = block_bytes(io);
    if (!is_in_place(io) || at >= payload) {
        io->iov[0] = (struct iovec){io->buffer + at, slot - at};
        return 1;
    }
    io->iov[0] = (struct iovec){io->payload + at, payload - at};
    io->iov[1] = (struct iovec){io->buffer + payload, slot - payload};
    return 2;
}

static void start_transfer(struct storage_io *io)
{
    struct storage_op *o = io->o;
    struct storage_uring *s = o->s;
    unsigned n = plan_transfer(io);
    uint64_t at = block_of(io) * s->slot_bytes + io->moved_bytes;
    if (s->options.slots) {
        s->options.slots->start(s, &io->request, op_is_read(o), o->fd, io->iov[0].iov_base,
                                io->iov[0].iov_len, at);
        return;
    }
    struct io_uring_sqe *sqe = storage_request(s);
    bool fixed = n == 1 && !s->counters.unregistered;
    void *buf = io->iov[0].iov_base;
    unsigned len = (unsigned)io->iov[0].iov_len;
    if (fixed && op_is_read(o)) {
        io_uring_prep_read_fixed(sqe, o->fd, buf, len, at, (int)io->index);
    } else if (fixed) {
        io_uring_prep_write_fixed(sqe, o->fd, buf, len, at, (int)io->index);
    } else if (op_is_read(o)) {
        io_uring_prep_readv(sqe, o->fd, io->iov, n, at);
    } else {
        io_uring_prep_writev(sqe, o->fd, io->iov, n, at);
    }
    io_uring_sqe_set_data(sqe, &io->request);
}

static void transfer_is_short(struct storage_io *io)
{
    bool reads = op_is_read(io->o);
    if (reads && io->moved_bytes == 0) {
        fail_block(io, -ENODATA, "not there: the file ends before it");
    } else if (reads) {
        fail_block(io, -EIO, "truncated: the file ends within it");
    } else {
        fail_block(io, -EIO, "written in part");
    }
}

static void transfer_done(struct request *r, int result)
{
    struct storage_io *io = container_of(r, struct storage_io, request);
    if (result == -EINTR || result == -EAGAIN) {
        start_transfer(io);
        return;
    }
    if (result < 0) {
        fail_block(io, result, strerror(-result));
        return;
    }
    io->moved_bytes += (uint64_t)result;
    if (io->moved_bytes == io->o->s->slot_bytes) {
        if (op_is_read(io->o)) {
            work_pool_push(io->o->s->pool, &io->work);
        } else {
            end_block(io, true);
        }
    } else if (result == 0 || io->moved_bytes % STORAGE_ALIGN != 0) {
        transfer_is_short(
            io); /* O_DIRECT could not go on from there; only the end of a file is odd */
    } else {
        start_transfer(io);
    }
}

static bool can_be_in_place(const struct storage_op *o, const uint8_t *at)
{
    const struct dp_op *op = o->op;
    return !o->s->options.slots && op->part_bytes % STORAGE_ALIGN == 0 &&
           (uintptr_t)at % STORAGE_ALIGN == 0 &&
           (op->segments == 1 || op->segment_stride_bytes == op->segment_bytes);
}

static void start_block(struct storage_op *o, struct storage_io *io)
{
    io->o = o;
    io->part = o->next++;
    io->moved_bytes = 0;
    uint8_t *at = o->base + op_piece(o->op, io->part, 0).at_bytes;
    io->payload = can_be_in_place(o, at) ? at : io->buffer;
    o->op->start_ns = io->part == 0 ? wall_now_ns() : o->op->start_ns;
    o->n_ios++;
    if (op_is_read(o)) {
        start_transfer(io);
    } else {
        work_pool_push(o->s->pool, &io->work);
    }
}

/* One block of one op after the other, round robin, while there are buffers. */
void storage_start_blocks(struct storage_uring *s)
{
    struct list *op_link, *io_link;
    while ((io_link = list_first(&s->idle_ios)) && (op_link = list_first(&s->wanting))) {
        struct storage_op *o = container_of(op_link, struct storage_op, link);
        list_remove(op_link);
        if (!wants_block(o)) {
            continue; /* failed or cancelled since */
        }
        list_remove(io_link);
        start_block(o, container_of(io_link, struct storage_io, idle));
        storage_want_block(o);
    }
}

void storage_blocks_init(struct storage_uring *s)
{
    for (uint32_t i = 0; i < s->options.queue_depth; i++) {
        s->ios[i] = (struct storage_io){.request.complete = transfer_done,
                                        .work = {.run = run_block, .done = block_was_run},
                                        .index = i,
                                        .buffer = s->buffers + i * s->slot_bytes};
        list_add_tail(&s->idle_ios, &s->ios[i].idle);
    }
}
