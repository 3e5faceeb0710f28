/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The receiving side: a connection that a peer made,
 * whose bytes go straight into this node's memory. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "hw/tcp_internal.h"

#define ACKS_AT_ONCE 64u

/* One op of the peer. */
struct tcp_slot {
    struct list pending; /* in inbound->acks when there is something to tell */
    uint32_t serial, parts_done;
    uint16_t code; /* enum tcp_code */
    bool active;   /* from its first write to its final ack */
    bool final;
};

struct tcp_inbound {
    struct list node; /* in transport->inbound */
    struct transport_tcp *t;
    struct wall_source source;
    struct loop_timer hello_timer; /* armed until the hello has come */
    char name[TCP_NAME_BYTES];
    bool greeted;
    uint32_t src_node, depth;
    uint8_t head[TCP_HELLO_BYTES]; /* hello or frame header, as far as it has come */
    size_t head_have;
    struct tcp_frame frame; /* of the payload under way */
    uint8_t *payload;       /* NULL: thrown away */
    uint64_t payload_left;
    struct tcp_slot *slots; /* [depth] */
    struct list acks;
    uint8_t out[ACKS_AT_ONCE * TCP_ACK_BYTES];
    size_t out_at, out_end;
    bool wants_out;
};

static void close_inbound(struct tcp_inbound *in)
{
    loop_disarm(in->t->loop, &in->hello_timer);
    wall_driver_remove(in->t->driver, &in->source);
    close(in->source.fd);
    list_remove(&in->node);
    in->t->n_inbound--;
    free(in->slots);
    free(in);
}

static int broken(struct tcp_inbound *in, int code, const char *what)
{
    mover_complain(&in->t->mover, code, "connection from %s: %s", in->name, what);
    return code;
}

static void want_out(struct tcp_inbound *in, bool want)
{
    if (in->wants_out != want) {
        in->wants_out = want;
        wall_driver_change(in->t->driver, &in->source, EPOLLIN | (want ? EPOLLOUT : 0));
    }
}

static void fill_acks(struct tcp_inbound *in)
{
    struct list *first;
    in->out_at = in->out_end = 0;
    while (in->out_end < sizeof(in->out) && (first = list_first(&in->acks))) {
        struct tcp_slot *s = container_of(first, struct tcp_slot, pending);
        list_remove(first);
        tcp_put_ack(in->out + in->out_end, &(struct tcp_ack){.slot = (uint32_t)(s - in->slots),
                                                             .serial = s->serial,
                                                             .parts_done = s->parts_done,
                                                             .code = s->code,
                                                             .final = s->final});
        in->out_end += TCP_ACK_BYTES;
        s->active = !s->final;
    }
}

/* Sends what acks there are, as far as the socket takes them. 0 or negative errno. */
static int send_acks(struct tcp_inbound *in)
{
    for (;;) {
        if (in->out_at == in->out_end) {
            fill_acks(in);
        }
        if (in->out_at == in->out_end) {
            want_out(in, false);
            return 0;
        }
        ssize_t n =
            send(in->source.fd, in->out + in->out_at, in->out_end - in->out_at, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            want_out(in, true);
            return 0;
        }
        if (n < 0 && errno != EINTR) {
            return -errno;
        }
        in->out_at += n < 0 ? 0 : (size_t)n;
    }
}

static void tell(struct tcp_inbound *in, struct tcp_slot *s)
{
    if (list_empty(&s->pending)) {
        list_add_tail(&in->acks, &s->pending);
    }
}

static enum tcp_verdict judge(const struct tcp_inbound *in, const struct tcp_hello *h)
{
    const struct tcp_options *o = &in->t->options;
    return h->version != TCP_WIRE_VERSION           ? TCP_BAD_VERSION
           : !tcp_same_secret(h->secret, o->secret) ? TCP_BAD_SECRET
           : h->dst_node != o->node || h->src_node >= in->t->map->n_nodes ||
                   in->t->forgotten[h->src_node]
               ? TCP_BAD_NODE
           : h->depth == 0 || h->depth > TCP_MAX_DEPTH ? TCP_BAD_DEPTH
                                                       : TCP_WELCOME;
}

static int answer(struct tcp_inbound *in, enum tcp_verdict verdict)
{
    uint8_t buf[TCP_WELCOME_BYTES];
    tcp_put_welcome(
        buf, &(struct tcp_welcome){.version = TCP_WIRE_VERSION, .verdict = (uint16_t)verdict});
    ssize_t n = send(in->source.fd, buf, sizeof(buf), MSG_NOSIGNAL); /* a new socket has room */
    return n == (ssize_t)sizeof(buf) ? 0 : -EPIPE;
}

static int take_hello(struct tcp_inbound *in)
{
    static const char *const texts[TCP_N_VERDICTS] = {
        NULL, "refused: speaks another version", "refused: looks for another node",
        "refused: wrong secret", "refused: depth out of range"};
    struct tcp_hello h;
    if (!tcp_get_hello(in->head, &h)) {
        in->t->n_refused++;
        return broken(in, -EPROTO, "refused: not a node of this program");
    }
    enum tcp_verdict verdict = judge(in, &h);
    int rc = answer(in, verdict);
    if (verdict != TCP_WELCOME) {
        in->t->n_refused++;
        return broken(in, -EACCES, texts[verdict]);
    }
    in->slots = calloc(h.depth, sizeof(*in->slots));
    if (rc || !in->slots) {
        return rc ? rc : -ENOMEM;
    }
    for (uint32_t i = 0; i < h.depth; i++) {
        list_init(&in->slots[i].pending);
    }
    loop_disarm(in->t->loop, &in->hello_timer);
    in->src_node = h.src_node;
    in->depth = h.depth;
    in->greeted = true;
    in->t->n_accepted++;
    snprintf(in->name, sizeof(in->name), "node %" PRIu32, in->src_node);
    return 0;
}

/* The slot that the frame is about, made active by its first write; NULL: that makes no sense. */
static struct tcp_slot *slot_of(struct tcp_inbound *in, const struct tcp_frame *f)
{
    struct tcp_slot *s = f->slot < in->depth ? &in->slots[f->slot] : NULL;
    if (!s || (s->active && (s->serial != f->serial || s->final)) ||
        (!s->active && f->type != TCP_WRITE)) {
        return NULL;
    }
    if (!s->active) {
        s->serial = f->serial;
        s->parts_done = 0;
        s->code = TCP_OK;
        s->active = true;
        s->final = false;
    }
    return s;
}

static int take_frame(struct tcp_inbound *in)
{
    struct tcp_frame *f = &in->frame;
    struct tcp_slot *s = tcp_get_frame(in->head, f) ? slot_of(in, f) : NULL;
    if (!s) {
        return broken(in, -EPROTO, "sent a message that makes no sense");
    }
    if (f->type == TCP_CANCEL) {
        s->code = s->code == TCP_OK ? TCP_CANCELLED : s->code;
        s->final = true;
        tell(in, s);
        return 0;
    }
    struct dp_place at = {.node = in->t->options.node,
                          .tier = f->tier,
                          .gpu = f->gpu,
                          .offset_bytes = f->offset_bytes};
    in->payload_left = f->len_bytes;
    in->payload = s->code == TCP_OK ? memory_map_at(in->t->map, &at, f->len_bytes) : NULL;
    if (!in->payload && s->code == TCP_OK) {
        s->code = TCP_BAD_PLACE;
        tell(in, s);
    }
    return 0;
}

static void piece_is_here(struct tcp_inbound *in)
{
    struct tcp_slot *s = &in->slots[in->frame.slot];
    if (in->frame.flags & TCP_ENDS_PART && s->code == TCP_OK) {
        s->parts_done++;
        tell(in, s);
    }
    if (in->frame.flags & TCP_ENDS_OP) {
        s->final = true;
        tell(in, s);
    }
}

/* Accounts for n bytes that read_once() has read. 0 or negative errno. */
static int took(struct tcp_inbound *in, size_t n)
{
    if (in->payload_left > 0) {
        size_t step = n < in->payload_left ? n : (size_t)in->payload_left;
        in->payload = in->payload ? in->payload + step : NULL;
        in->payload_left -= step;
        n -= step;
        if (in->payload_left == 0) {
            piece_is_here(in);
        }
    }
    in->head_have += n;
    if (in->head_have < (in->greeted ? TCP_FRAME_BYTES : TCP_HELLO_BYTES)) {
        return 0;
    }
    in->head_have = 0;
    return in->greeted ? take_frame(in) : take_hello(in);
}

/* Reads the rest of the payload and the next header behind it, or a header alone; throws the
 * payload away (MSG_TRUNC without a buffer, tcp(7)) when it has no place. */
static ssize_t read_once(struct tcp_inbound *in)
{
    size_t head_bytes = in->greeted ? TCP_FRAME_BYTES : TCP_HELLO_BYTES;
    struct iovec iov[2] = {{in->payload, in->payload_left},
                           {in->head + in->head_have, head_bytes - in->head_have}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
    if (in->payload_left > 0 && !in->payload) {
        size_t len = in->payload_left < TCP_TURN_BYTES ? in->payload_left : TCP_TURN_BYTES;
        return recv(in->source.fd, NULL, len, MSG_TRUNC);
    }
    return recvmsg(in->source.fd, &msg, 0);
}

static int read_some(struct tcp_inbound *in)
{
    for (size_t done = 0; done < TCP_TURN_BYTES;) {
        ssize_t n = read_once(in);
        if (n < 0) {
            bool later = errno == EAGAIN || errno == EINTR;
            return later ? 0 : broken(in, -errno, strerror(errno));
        }
        if (n == 0) {
            bool whole = in->head_have == 0 && in->payload_left == 0;
            return whole ? -ENOTCONN : broken(in, -ECONNRESET, "ended within a message");
        }
        int rc = took(in, (size_t)n);
        if (rc) {
            return rc;
        }
        done += (size_t)n;
    }
    return 0;
}

static void inbound_ready(struct wall_source *source, uint32_t events)
{
    struct tcp_inbound *in = container_of(source, struct tcp_inbound, source);
    int rc = events & (EPOLLIN | EPOLLHUP | EPOLLERR) ? read_some(in) : 0;
    rc = rc ? rc : send_acks(in);
    if (rc) {
        close_inbound(in);
    }
}

static void hello_is_late(struct loop_timer *timer)
{
    struct tcp_inbound *in = container_of(timer, struct tcp_inbound, hello_timer);
    in->t->n_refused++;
    broken(in, -ETIMEDOUT, "refused: says nothing");
    close_inbound(in);
}

void tcp_inbound_start(struct transport_tcp *t, int fd, const char *name)
{
    struct tcp_inbound *in = calloc(1, sizeof(*in));
    int rc = in ? tcp_socket_setup(fd, t->options.peer_timeout_ns) : -ENOMEM;
    if (rc == 0) {
        in->source = (struct wall_source){.fd = fd, .ready = inbound_ready};
        rc = wall_driver_add(t->driver, &in->source, EPOLLIN);
    }
    if (rc) {
        mover_complain(&t->mover, rc, "connection from %s: %s", name, strerror(-rc));
        close(fd);
        free(in);
        return;
    }
    in->t = t;
    snprintf(in->name, sizeof(in->name), "%s", name);
    list_init(&in->acks);
    list_add_tail(&t->inbound, &in->node);
    t->n_inbound++;
    loop_timer_init(&in->hello_timer, hello_is_late);
    loop_arm(t->loop, &in->hello_timer, loop_now_ns(t->loop) + t->options.peer_timeout_ns);
}

void tcp_inbound_cut(struct transport_tcp *t, uint32_t src_node)
{
    list_for_each_safe (pos, tmp, &t->inbound) {
        struct tcp_inbound *in = container_of(pos, struct tcp_inbound, node);
        if (in->greeted && in->src_node == src_node) {
            close_inbound(in);
        }
    }
}

void tcp_inbound_free_all(struct transport_tcp *t)
{
    struct list *first;
    while ((first = list_first(&t->inbound))) {
        close_inbound(container_of(first, struct tcp_inbound, node));
    }
}
