/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The sending side: one connection to one peer, and the ops in flight to it. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/units.h"
#include "hw/tcp_internal.h"

#define BATCH_FRAMES 32u
#define RETRY_NS     (20 * NS_PER_MS)

struct tcp_send {
    struct tcp_channel *channel;
    struct list link; /* in channel->idle or ->sendable, or alone */
    struct loop_timer end_timer;
    struct dp_op *op; /* NULL: idle */
    const uint8_t *src;
    uint32_t slot, serial;
    uint32_t next_part, next_segment; /* to be framed */
    bool cancelled, cancel_framed;
    bool refused; /* by the peer: -EFAULT */
    bool failing; /* the connection is gone, fail_all() will end it */
};

enum state {
    IDLE,       /* no connection, none wanted */
    WAITING,    /* connect_timer will try */
    CONNECTING, /* the kernel is at it */
    GREETING,   /* hello sent, the answer is to come */
    UP,
};

struct tcp_channel {
    struct transport_tcp *t;
    struct wall_source source;
    enum state state;
    uint32_t node;
    struct sockaddr_storage address;
    socklen_t address_len;
    char name[TCP_NAME_BYTES];
    struct loop_timer connect_timer; /* WAITING: try; CONNECTING, GREETING: give up */
    uint64_t patient_until_ns;
    struct tcp_send *sends; /* [options.depth] */
    struct list idle, sendable;
    uint8_t frames[BATCH_FRAMES][TCP_FRAME_BYTES];
    struct iovec iov[2 * BATCH_FRAMES];
    unsigned iov_first, iov_end;
    bool wants_out;
    uint8_t in[64 * TCP_ACK_BYTES];
    size_t in_have;
};

static bool framed_any(const struct tcp_send *s)
{
    return s->next_part > 0 || s->next_segment > 0;
}

static bool framed_all(const struct tcp_send *s)
{
    return s->next_part == s->op->parts_total;
}

static bool cancel_is_due(const struct tcp_send *s)
{
    return s->cancelled && !s->cancel_framed && framed_any(s) && !framed_all(s);
}

static bool can_frame(const struct tcp_send *s)
{
    return s->cancelled ? cancel_is_due(s) : s->next_part < s->op->parts_ready;
}

static void want_out(struct tcp_channel *ch, bool want)
{
    if (ch->state == UP && ch->wants_out != want) {
        ch->wants_out = want;
        wall_driver_change(ch->t->driver, &ch->source, EPOLLIN | (want ? EPOLLOUT : 0));
    }
}

static void make_sendable(struct tcp_send *s)
{
    if (can_frame(s) && list_empty(&s->link)) {
        list_add_tail(&s->channel->sendable, &s->link);
        want_out(s->channel, true);
    }
}

/* Takes the op out of its slot, which is free again before done() runs. */
static struct dp_op *release(struct tcp_send *s)
{
    struct dp_op *op = s->op;
    loop_disarm(s->channel->t->loop, &s->end_timer);
    list_remove(&s->link);
    list_add_tail(&s->channel->idle, &s->link);
    s->op = NULL;
    s->failing = false;
    op->done_ns = wall_now_ns();
    return op;
}

static void finish(struct tcp_send *s, int status)
{
    struct tcp_channel *ch = s->channel;
    bool refused = s->refused;
    struct dp_op *op = release(s);
    if (refused) {
        mover_fail(&ch->t->mover, op, -EFAULT,
                   "node %" PRIu32 " (%s): the copy does not lie in its memory", ch->node,
                   ch->name);
    } else {
        mover_done(&ch->t->mover, op, status);
    }
}

static void disconnect(struct tcp_channel *ch)
{
    loop_disarm(ch->t->loop, &ch->connect_timer);
    if (ch->source.fd >= 0) {
        wall_driver_remove(ch->t->driver, &ch->source);
        close(ch->source.fd);
        ch->source.fd = -1;
    }
    ch->state = IDLE;
    ch->wants_out = false;
    ch->iov_first = ch->iov_end = 0;
    ch->in_have = 0;
}

/* Ends every op in flight. What a done() submits meanwhile
 * is not among them: it waits for a new connection. */
static void fail_all(struct tcp_channel *ch, int code, const char *what)
{
    disconnect(ch);
    uint32_t depth = ch->t->options.depth;
    for (uint32_t i = 0; i < depth; i++) {
        ch->sends[i].failing = ch->sends[i].op != NULL;
        if (ch->sends[i].op) {
            list_remove(&ch->sends[i].link);
        }
    }
    for (uint32_t i = 0; i < depth; i++) {
        if (ch->sends[i].failing) {
            struct dp_op *op = release(&ch->sends[i]);
            mover_fail(&ch->t->mover, op, code, "node %" PRIu32 " (%s): %s: %s", ch->node, ch->name,
                       what, strerror(-code));
        }
    }
}

static void frame_piece(struct tcp_channel *ch, struct tcp_send *s, unsigned i)
{
    const struct dp_op *op = s->op;
    struct piece p = op_piece(op, s->next_part, s->next_segment);
    bool ends_part = s->next_segment + 1 == op->segments;
    bool ends_op = ends_part && s->next_part + 1 == op->parts_total;
    tcp_put_frame(ch->frames[i], &(struct tcp_frame){
                                     .type = TCP_WRITE,
                                     .flags = (uint8_t)((ends_part ? TCP_ENDS_PART : 0) |
                                                        (ends_op ? TCP_ENDS_OP : 0)),
                                     .tier = op->dst.tier,
                                     .gpu = op->dst.gpu,
                                     .slot = s->slot,
                                     .serial = s->serial,
                                     .offset_bytes = op->dst.offset_bytes + p.at_bytes,
                                     .len_bytes = p.len_bytes,
                                 });
    ch->iov[ch->iov_end++] = (struct iovec){ch->frames[i], TCP_FRAME_BYTES};
    ch->iov[ch->iov_end++] = (struct iovec){(void *)(uintptr_t)(s->src + p.at_bytes), p.len_bytes};
    s->op->start_ns = framed_any(s) ? s->op->start_ns : wall_now_ns();
    s->next_segment = ends_part ? 0 : s->next_segment + 1;
    s->next_part += ends_part;
}

static void frame_cancel(struct tcp_channel *ch, struct tcp_send *s, unsigned i)
{
    tcp_put_frame(ch->frames[i],
                  &(struct tcp_frame){.type = TCP_CANCEL, .slot = s->slot, .serial = s->serial});
    ch->iov[ch->iov_end++] = (struct iovec){ch->frames[i], TCP_FRAME_BYTES};
    s->cancel_framed = true;
}

/* The rest of one part of one op after the other, round robin. */
static void fill_batch(struct tcp_channel *ch)
{
    struct list *first;
    unsigned n = 0;
    ch->iov_first = ch->iov_end = 0;
    while (n < BATCH_FRAMES && (first = list_first(&ch->sendable))) {
        struct tcp_send *s = container_of(first, struct tcp_send, link);
        list_remove(first);
        if (cancel_is_due(s)) {
            frame_cancel(ch, s, n++);
            continue;
        }
        uint32_t part = s->next_part;
        while (can_frame(s) && s->next_part == part && n < BATCH_FRAMES) {
            frame_piece(ch, s, n++);
        }
        if (can_frame(s)) {
            list_add_tail(&ch->sendable, first);
        }
    }
}

static void advance(struct tcp_channel *ch, size_t sent)
{
    while (sent > 0) {
        struct iovec *v = &ch->iov[ch->iov_first];
        size_t step = sent < v->iov_len ? sent : v->iov_len;
        v->iov_base = (uint8_t *)v->iov_base + step;
        v->iov_len -= step;
        sent -= step;
        ch->iov_first += v->iov_len == 0;
    }
}

static void pump(struct tcp_channel *ch)
{
    for (size_t budget = TCP_TURN_BYTES; budget > 0;) {
        if (ch->iov_first == ch->iov_end) {
            fill_batch(ch);
        }
        if (ch->iov_first == ch->iov_end) {
            want_out(ch, false);
            return;
        }
        struct msghdr msg = {.msg_iov = &ch->iov[ch->iov_first],
                             .msg_iovlen = ch->iov_end - ch->iov_first};
        ssize_t n = sendmsg(ch->source.fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) {
            if (errno != EAGAIN && errno != EINTR) {
                fail_all(ch, -errno, "connection lost while sending");
            }
            return;
        }
        advance(ch, (size_t)n);
        budget -= (size_t)n < budget ? (size_t)n : budget;
    }
}

/* Whether the peer may say this about the slot now. */
static bool ack_is_sound(const struct tcp_send *s, const struct tcp_ack *a)
{
    if (!s->op || s->serial != a->serial || a->parts_done > s->next_part) {
        return false;
    }
    if (!a->final) {
        return true;
    }
    return a->code == TCP_OK ? a->parts_done == s->op->parts_total
                             : s->cancel_framed || (a->code == TCP_BAD_PLACE && framed_all(s));
}

static void obey_ack(struct tcp_send *s, const struct tcp_ack *a)
{
    s->refused = s->refused || a->code == TCP_BAD_PLACE;
    if (a->final) {
        finish(s, a->code == TCP_OK ? 0 : -ECANCELED);
    } else if (a->code == TCP_OK) {
        dp_backend_progress(s->channel->t->mover.dp, s->op, a->parts_done);
    } else {
        s->cancelled = true;
        make_sendable(s);
    }
}

/* Handles the whole acks in the buffer. False: the connection has failed. */
static bool take_acks(struct tcp_channel *ch)
{
    size_t at = 0;
    for (; ch->in_have - at >= TCP_ACK_BYTES; at += TCP_ACK_BYTES) {
        struct tcp_ack a;
        if (!tcp_get_ack(ch->in + at, &a) || a.slot >= ch->t->options.depth ||
            !ack_is_sound(&ch->sends[a.slot], &a)) {
            fail_all(ch, -EPROTO, "sent an acknowledgement that makes no sense");
            return false;
        }
        obey_ack(&ch->sends[a.slot], &a);
    }
    ch->in_have -= at;
    memmove(ch->in, ch->in + at, ch->in_have);
    return true;
}

static bool take_welcome(struct tcp_channel *ch)
{
    static const int codes[TCP_N_VERDICTS] = {0, -EPROTO, -EHOSTUNREACH, -EACCES, -EINVAL};
    static const char *const texts[TCP_N_VERDICTS] = {NULL, "speaks another version",
                                                      "is another node", "refused the secret",
                                                      "refused the depth"};
    struct tcp_welcome w;
    if (ch->in_have < TCP_WELCOME_BYTES) {
        return true;
    }
    if (!tcp_get_welcome(ch->in, &w)) {
        fail_all(ch, -EPROTO, "is not a node of this program");
        return false;
    }
    if (w.verdict != TCP_WELCOME) {
        fail_all(ch, codes[w.verdict], texts[w.verdict]);
        return false;
    }
    loop_disarm(ch->t->loop, &ch->connect_timer);
    ch->in_have -= TCP_WELCOME_BYTES;
    memmove(ch->in, ch->in + TCP_WELCOME_BYTES, ch->in_have);
    ch->state = UP;
    want_out(ch, !list_empty(&ch->sendable));
    return true;
}

static void read_acks(struct tcp_channel *ch)
{
    for (unsigned i = 0; i < 16; i++) {
        ssize_t n = recv(ch->source.fd, ch->in + ch->in_have, sizeof(ch->in) - ch->in_have, 0);
        if (n < 0) {
            if (errno != EAGAIN && errno != EINTR) {
                fail_all(ch, -errno, "connection lost");
            }
            return;
        }
        if (n == 0) {
            fail_all(ch, -ECONNRESET, "closed the connection");
            return;
        }
        ch->in_have += (size_t)n;
        if (ch->state == GREETING && !take_welcome(ch)) {
            return;
        }
        if (ch->state == UP && !take_acks(ch)) {
            return;
        }
    }
}

static void connect_failed(struct tcp_channel *ch, int code)
{
    if (code == -ECONNREFUSED && loop_now_ns(ch->t->loop) < ch->patient_until_ns) {
        disconnect(ch);
        ch->state = WAITING;
        loop_arm(ch->t->loop, &ch->connect_timer, loop_now_ns(ch->t->loop) + RETRY_NS);
        return;
    }
    fail_all(ch, code, "cannot connect");
}

static void greet(struct tcp_channel *ch)
{
    uint8_t buf[TCP_HELLO_BYTES];
    struct tcp_hello h = {.version = TCP_WIRE_VERSION,
                          .src_node = ch->t->options.node,
                          .dst_node = ch->node,
                          .depth = ch->t->options.depth};
    memcpy(h.secret, ch->t->options.secret, sizeof(h.secret));
    tcp_put_hello(buf, &h);
    /* A new socket's buffer always has room for it. */
    ssize_t n = send(ch->source.fd, buf, sizeof(buf), MSG_NOSIGNAL);
    if (n != (ssize_t)sizeof(buf)) {
        connect_failed(ch, n < 0 ? -errno : -EIO);
        return;
    }
    ch->state = GREETING;
    wall_driver_change(ch->t->driver, &ch->source, EPOLLIN);
}

static void channel_ready(struct wall_source *source, uint32_t events)
{
    struct tcp_channel *ch = container_of(source, struct tcp_channel, source);
    if (ch->state == CONNECTING) {
        int error = 0;
        socklen_t len = sizeof(error);
        getsockopt(source->fd, SOL_SOCKET, SO_ERROR, &error, &len);
        if (error) {
            connect_failed(ch, -error);
        } else if (events & EPOLLOUT) {
            greet(ch);
        }
        return;
    }
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        read_acks(ch);
    }
    if ((events & EPOLLOUT) && ch->state == UP) {
        pump(ch);
    }
}

static int open_connection(struct tcp_channel *ch)
{
    int fd = socket(ch->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    int rc = tcp_socket_setup(fd, ch->t->options.peer_timeout_ns);
    if (rc == 0 && connect(fd, (struct sockaddr *)&ch->address, ch->address_len) &&
        errno != EINPROGRESS) {
        rc = -errno;
    }
    ch->source.fd = fd;
    if (rc == 0) {
        rc = wall_driver_add(ch->t->driver, &ch->source, EPOLLOUT);
    }
    if (rc) {
        close(fd);
        ch->source.fd = -1;
    }
    return rc;
}

static void connect_timer_fires(struct loop_timer *timer)
{
    struct tcp_channel *ch = container_of(timer, struct tcp_channel, connect_timer);
    if (ch->state != WAITING) {
        fail_all(ch, -ETIMEDOUT, "cannot connect");
        return;
    }
    int rc = open_connection(ch);
    if (rc) {
        connect_failed(ch, rc);
        return;
    }
    ch->state = CONNECTING;
    loop_arm(ch->t->loop, timer, loop_now_ns(ch->t->loop) + ch->t->options.peer_timeout_ns);
}

static void end_timer_fires(struct loop_timer *timer)
{
    finish(container_of(timer, struct tcp_send, end_timer), -ECANCELED);
}

int tcp_channel_submit(struct tcp_channel *ch, struct dp_op *op, const uint8_t *src)
{
    struct list *first = list_first(&ch->idle);
    if (!first) {
        return -EAGAIN;
    }
    list_remove(first);
    struct tcp_send *s = container_of(first, struct tcp_send, link);
    s->op = op;
    s->src = src;
    s->serial++;
    s->next_part = s->next_segment = 0;
    s->cancelled = s->cancel_framed = s->refused = false;
    op->private_words[0] = (uint64_t)(uintptr_t)s;
    if (ch->state == IDLE) {
        uint64_t now_ns = loop_now_ns(ch->t->loop);
        ch->state = WAITING;
        ch->patient_until_ns = now_ns + ch->t->options.connect_patience_ns;
        loop_post(ch->t->loop, &ch->connect_timer);
    }
    make_sendable(s);
    return 0;
}

static struct tcp_send *send_of(struct dp_op *op)
{
    return (struct tcp_send *)(uintptr_t)op->private_words[0];
}

void tcp_channel_feed(struct dp_op *op)
{
    struct tcp_send *s = send_of(op);
    if (!s->failing) {
        make_sendable(s);
    }
}

/* Once the peer knows of the op, it has the last word: until then it may be writing. */
static void cancel_send(struct tcp_send *s)
{
    if (s->failing || s->cancelled) {
        return;
    }
    s->cancelled = true;
    if (!framed_any(s)) {
        list_remove(&s->link);
        loop_post(s->channel->t->loop, &s->end_timer);
    } else {
        make_sendable(s);
    }
}

void tcp_channel_cancel(struct dp_op *op)
{
    cancel_send(send_of(op));
}

void tcp_channel_cancel_all(struct tcp_channel *ch)
{
    for (uint32_t i = 0; i < ch->t->options.depth; i++) {
        if (ch->sends[i].op) {
            cancel_send(&ch->sends[i]);
        }
    }
}

void tcp_channel_cut(struct tcp_channel *ch, int code, const char *what)
{
    fail_all(ch, code, what);
}

int tcp_channel_new(struct transport_tcp *t, uint32_t node, const struct sockaddr *address,
                    socklen_t address_len, struct tcp_channel **ret)
{
    struct tcp_channel *ch = calloc(1, sizeof(*ch));
    struct tcp_send *sends = calloc(t->options.depth, sizeof(*sends));
    if (!ch || !sends) {
        free(ch);
        free(sends);
        return -ENOMEM;
    }
    ch->t = t;
    ch->node = node;
    ch->source = (struct wall_source){.fd = -1, .ready = channel_ready};
    memcpy(&ch->address, address, address_len);
    ch->address_len = address_len;
    tcp_name(address, address_len, ch->name);
    loop_timer_init(&ch->connect_timer, connect_timer_fires);
    list_init(&ch->idle);
    list_init(&ch->sendable);
    ch->sends = sends;
    for (uint32_t i = 0; i < t->options.depth; i++) {
        sends[i] = (struct tcp_send){.channel = ch, .slot = i};
        loop_timer_init(&sends[i].end_timer, end_timer_fires);
        list_add_tail(&ch->idle, &sends[i].link);
    }
    *ret = ch;
    return 0;
}

void tcp_channel_free(struct tcp_channel *ch)
{
    for (uint32_t i = 0; i < ch->t->options.depth; i++) {
        assert(!ch->sends[i].op);
    }
    disconnect(ch);
    free(ch->sends);
    free(ch);
}
