/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/messages_zmq.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/units.h"

#define TURN_MESSAGES 64 /* so many from one socket before others have their turn */

/* Peers */

static bool is_hub(const struct messages_zmq *mz)
{
    return mz->options.self == PEER_HUB;
}

static struct zmq_peer *peer_at(struct messages_zmq *mz, uint32_t peer)
{
    return &mz->peers[peer == PEER_HUB ? mz->options.n_nodes : peer];
}

static uint32_t peer_id(const struct messages_zmq *mz, const struct zmq_peer *p)
{
    uint32_t i = (uint32_t)(p - mz->peers);
    return i == mz->options.n_nodes ? PEER_HUB : i;
}

/* Told from the loop, as everything is. */
static void lose(struct messages_zmq *mz, uint32_t peer, const char *fmt, ...)
{
    struct zmq_peer *p = peer_at(mz, peer);
    if (p->lost || p->leaving) {
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(p->why, sizeof(p->why), fmt, ap);
    va_end(ap);
    p->lost = true;
    loop_post(mz->loop, &mz->lost_timer);
}

static void tell_lost(struct loop_timer *t)
{
    struct messages_zmq *mz = container_of(t, struct messages_zmq, lost_timer);
    for (uint32_t i = 0; i <= mz->options.n_nodes; i++) {
        struct zmq_peer *p = &mz->peers[i];
        if (p->lost && !p->told) {
            p->told = true;
            mz->events.peer_lost(mz->events.self, peer_id(mz, p), p->why);
        }
    }
}

static void refuse(void *self, const char *why)
{
    struct messages_zmq *mz = self;
    mz->events.refused(mz->events.self, why);
}

void messages_zmq_leaving(struct messages_zmq *mz, uint32_t peer)
{
    peer_at(mz, peer)->leaving = true;
}

/* Sending */

static int put(struct messages_zmq *mz, uint32_t peer, const void *frame, size_t len)
{
    /* Sending can swallow the wake-up of what has arrived: look again before the loop sleeps. */
    loop_post(mz->loop, &mz->drain_timer);
    if (is_hub(mz)) {
        const char *name = mz->options.nodes[peer].name;
        if (zmq_send(mz->router, name, strlen(name), ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0) {
            return -zmq_errno();
        }
        return zmq_send(mz->router, frame, len, ZMQ_DONTWAIT) < 0 ? -zmq_errno() : 0;
    }
    void *s = peer == PEER_HUB ? mz->hub_dealer : peer_at(mz, peer)->dealer;
    if (!s) {
        return -ENOTCONN;
    }
    return zmq_send(s, frame, len, ZMQ_DONTWAIT) < 0 ? -zmq_errno() : 0;
}

static void put_or_lose(struct messages_zmq *mz, uint32_t peer, const void *frame, size_t len)
{
    struct zmq_peer *p = peer_at(mz, peer);
    int rc = put(mz, peer, frame, len);
    if (rc == -EHOSTUNREACH && p->present) {
        p->ended = true; /* and will be lost behind what it has said */
    } else if (rc) {
        lose(mz, peer, "cannot be sent messages: %s", zmq_strerror(-rc));
    }
}

static uint32_t own_endpoint(const struct messages_zmq *mz)
{
    return is_hub(mz) ? MSG_SCHEDULER : MSG_NODE(mz->options.self);
}

void messages_zmq_control(struct messages_zmq *mz, uint32_t peer, uint16_t kind, const char *text)
{
    size_t len = strlen(text);
    uint8_t *frame = malloc(WIRE_HEAD_BYTES + len);
    if (!frame) {
        lose(mz, peer, "cannot be sent messages: out of memory");
        return;
    }
    uint32_t dst = peer == PEER_HUB ? MSG_SCHEDULER : MSG_NODE(peer);
    wire_put_head(frame, &(struct wire_head){MSG_VERSION, kind, own_endpoint(mz), dst});
    memcpy(frame + WIRE_HEAD_BYTES, text, len);
    put_or_lose(mz, peer, frame, WIRE_HEAD_BYTES + len);
    free(frame);
}

/* Endpoints of this process */

static bool is_local(const struct messages_zmq *mz, uint32_t endpoint)
{
    return is_hub(mz) ? endpoint <= MSG_SCHEDULER : endpoint == MSG_NODE(mz->options.self);
}

static unsigned local_index(const struct messages_zmq *mz, uint32_t endpoint)
{
    return is_hub(mz) ? endpoint : 0;
}

struct local_message {
    struct list node;
    uint32_t index;
    struct msg m;
};

static void deliver(struct messages_zmq *mz, const struct msg *m)
{
    unsigned i = local_index(mz, m->dst);
    if (mz->handlers[i]) {
        mz->n_received++;
        mz->handlers[i](mz->handler_selves[i], m);
    }
}

/* Those that were there when it began: answers to them come in the next turn, like all answers. */
static void deliver_local(struct loop_timer *t)
{
    struct messages_zmq *mz = container_of(t, struct messages_zmq, local_timer);
    for (uint32_t n = mz->local.n_used; n > 0; n--) {
        struct local_message *l =
            container_of(list_first(&mz->local_queue), struct local_message, node);
        struct msg m = l->m;
        list_remove(&l->node);
        pool_put(&mz->local, l->index);
        deliver(mz, &m);
    }
}

static void send_local(struct messages_zmq *mz, const struct msg *m)
{
    uint32_t index;
    struct local_message *l = pool_get(&mz->local, &index);
    l->index = index;
    l->m = *m;
    l->m.version = MSG_VERSION;
    list_add_tail(&mz->local_queue, &l->node);
    loop_post(mz->loop, &mz->local_timer);
}

static void port_send(struct msg_port *port, const struct msg *m, uint64_t delay_ns)
{
    struct messages_zmq *mz = container_of(port, struct messages_zmq, port);
    (void)delay_ns; /* the sender's work has taken its time already */
    mz->n_sent++;
    if (is_local(mz, m->dst)) {
        send_local(mz, m);
        return;
    }
    uint32_t peer = m->dst <= MSG_SCHEDULER ? PEER_HUB : m->dst - MSG_NODE(0);
    assert(peer == PEER_HUB || peer < mz->options.n_nodes);
    uint8_t frame[WIRE_MSG_BYTES];
    size_t len = wire_put_msg(frame, m);
    assert(len > 0);
    put_or_lose(mz, peer, frame, len);
}

static int port_attach(struct msg_port *port, uint32_t endpoint, msg_handler *handler, void *self)
{
    struct messages_zmq *mz = container_of(port, struct messages_zmq, port);
    if (!is_local(mz, endpoint) || mz->handlers[local_index(mz, endpoint)]) {
        return -EINVAL;
    }
    mz->handlers[local_index(mz, endpoint)] = handler;
    mz->handler_selves[local_index(mz, endpoint)] = self;
    return 0;
}

static const struct msg_port_ops port_ops = {
    .name = "zmq", .send = port_send, .attach = port_attach};

/* Receiving */

static void take_control(struct messages_zmq *mz, uint32_t peer, uint16_t kind, const void *body,
                         size_t len)
{
    if (kind == WIRE_BEAT) {
        return;
    }
    char *text = malloc(len + 1);
    if (!text) {
        lose(mz, peer, "cannot be heard: out of memory");
        return;
    }
    memcpy(text, body, len);
    text[len] = '\0';
    mz->events.control(mz->events.self, peer, kind, text);
    free(text);
}

static bool may_say(const struct messages_zmq *mz, uint32_t peer, const struct msg *m)
{
    bool own = peer == PEER_HUB ? m->src <= MSG_SCHEDULER : m->src == MSG_NODE(peer);
    return own && is_local(mz, m->dst);
}

static void take_frame(struct messages_zmq *mz, uint32_t peer, const uint8_t *frame, size_t len)
{
    struct wire_head h;
    struct msg m;
    int rc = wire_get_head(frame, len, &h);
    if (rc == -EPROTONOSUPPORT) {
        char text[120];
        snprintf(text, sizeof(text), "the other side speaks version %d of the messages",
                 MSG_VERSION);
        if (peer == PEER_HUB || is_hub(mz)) {
            messages_zmq_control(mz, peer, WIRE_FAILED, text); /* its header says so to the peer */
        }
        lose(mz, peer, "speaks version %u of the messages, this program version %d", h.version,
             MSG_VERSION);
    } else if (rc == 0 && h.type >= WIRE_HELLO && h.type < WIRE_CONTROL_END &&
               (is_hub(mz) || peer == PEER_HUB)) {
        take_control(mz, peer, h.type, frame + WIRE_HEAD_BYTES, len - WIRE_HEAD_BYTES);
    } else if (rc || wire_get_msg(frame, len, &m)) {
        lose(mz, peer, "sent something that is no message (%zu bytes)", len);
    } else if (!may_say(mz, peer, &m)) {
        lose(mz, peer, "sent a message from endpoint %" PRIu32 " to %" PRIu32 ", which it may not",
             m.src, m.dst);
    } else {
        deliver(mz, &m);
    }
}

static void take_from(struct messages_zmq *mz, uint32_t peer, zmq_msg_t *msg)
{
    struct zmq_peer *p = peer_at(mz, peer);
    if (p->lost) {
        return;
    }
    p->present = true;
    p->seen_ns = loop_now_ns(mz->loop);
    p->fd = zmq_msg_get(msg, ZMQ_SRCFD);
    take_frame(mz, peer, zmq_msg_data(msg), zmq_msg_size(msg));
}

/* The node whose key the message came with, or n_nodes. */
static uint32_t node_of(const struct messages_zmq *mz, zmq_msg_t *msg)
{
    const char *user = zmq_msg_gets(msg, "User-Id");
    uint32_t node = 0;
    while (node < mz->options.n_nodes &&
           (!user || strcmp(mz->options.nodes[node].name, user) != 0)) {
        node++;
    }
    return node;
}

static bool take_router(struct messages_zmq *mz, void *socket)
{
    char identity[32];
    int n = zmq_recv(socket, identity, sizeof(identity) - 1, ZMQ_DONTWAIT);
    if (n < 0) {
        return false;
    }
    identity[n < (int)sizeof(identity) - 1 ? n : (int)sizeof(identity) - 1] = '\0';
    zmq_msg_t msg;
    zmq_msg_init(&msg);
    unsigned n_frames = 0;
    uint32_t node = mz->options.n_nodes;
    while (n_frames == 0 || zmq_msg_more(&msg)) {
        if (zmq_msg_recv(&msg, socket, ZMQ_DONTWAIT) < 0) {
            break;
        }
        node = n_frames++ == 0 ? node_of(mz, &msg) : node;
    }
    if (node == mz->options.n_nodes || strcmp(mz->options.nodes[node].name, identity) != 0) {
        refuse(mz, "ignored a message of a peer that gives itself another name than its key");
    } else if (n_frames != 1) {
        lose(mz, node, "sent a message of %u frames", n_frames);
    } else {
        take_from(mz, node, &msg);
    }
    zmq_msg_close(&msg);
    return true;
}

static bool take_hub(struct messages_zmq *mz, void *socket)
{
    zmq_msg_t msg;
    zmq_msg_init(&msg);
    bool got = zmq_msg_recv(&msg, socket, ZMQ_DONTWAIT) >= 0;
    if (got) {
        take_from(mz, PEER_HUB, &msg);
    }
    zmq_msg_close(&msg);
    return got;
}

static bool take_gate(struct messages_zmq *mz, void *socket)
{
    (void)socket;
    return curve_gate_answer(&mz->gate);
}

/* What a peer has said before its end has still to be heard: it is lost behind that, in the same
 * pass, as its messages were there before the news of its end. */
static void connection_ended(struct messages_zmq *mz, int fd)
{
    for (uint32_t i = 0; i <= mz->options.n_nodes; i++) {
        struct zmq_peer *p = &mz->peers[i];
        p->ended = p->ended || (p->present && p->fd == fd);
    }
}

static void lose_ended(struct messages_zmq *mz)
{
    for (uint32_t i = 0; i <= mz->options.n_nodes; i++) {
        if (mz->peers[i].ended) {
            lose(mz, peer_id(mz, &mz->peers[i]), "its connection has ended");
        }
    }
}

static bool take_router_monitor(struct messages_zmq *mz, void *socket)
{
    struct curve_monitor_event ev;
    if (!curve_monitor_take(socket, &ev)) {
        return false;
    }
    if (ev.event == ZMQ_EVENT_DISCONNECTED) {
        connection_ended(mz, (int)ev.value);
    } else if (ev.event != ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) { /* the gate has told of those */
        char why[256];
        snprintf(why, sizeof(why),
                 "refused a peer at %s: it does not speak CURVE with our key (%u)", ev.address,
                 ev.value);
        refuse(mz, why);
    }
    return true;
}

static bool take_hub_monitor(struct messages_zmq *mz, void *socket)
{
    struct curve_monitor_event ev;
    if (!curve_monitor_take(socket, &ev)) {
        return false;
    }
    if (ev.event != ZMQ_EVENT_DISCONNECTED) {
        lose(mz, PEER_HUB, "it refuses this node's key, or has another key than it should");
    } else {
        peer_at(mz, PEER_HUB)->ended = peer_at(mz, PEER_HUB)->present;
    }
    return true;
}

/* ZeroMQ's descriptors signal a change, not a state: every socket is emptied each time. */
static void drain(struct loop_timer *t)
{
    struct messages_zmq *mz = container_of(t, struct messages_zmq, drain_timer);
    bool more = false;
    for (unsigned i = 0; i < mz->n_inlets; i++) {
        struct zmq_inlet *in = &mz->inlets[i];
        unsigned n = 0;
        while (n < TURN_MESSAGES && in->take(mz, in->socket)) {
            n++;
        }
        more = more || n == TURN_MESSAGES;
    }
    if (more) {
        loop_post(mz->loop, &mz->drain_timer);
    } else {
        lose_ended(mz);
    }
}

static void inlet_ready(struct wall_source *s, uint32_t events)
{
    struct zmq_inlet *in = container_of(s, struct zmq_inlet, source);
    (void)events;
    loop_post(in->owner->loop, &in->owner->drain_timer);
}

/* Beats */

static void beat(struct loop_timer *t)
{
    struct messages_zmq *mz = container_of(t, struct messages_zmq, beat_timer);
    uint64_t now = loop_now_ns(mz->loop);
    /* Who was held up itself has not heard the others, and cannot blame them. */
    bool late = now - t->when_ns > mz->options.beat_ns;
    for (uint32_t i = 0; i <= mz->options.n_nodes; i++) {
        struct zmq_peer *p = &mz->peers[i];
        uint32_t peer = peer_id(mz, p);
        if (!p->present || p->lost || p->leaving || (!is_hub(mz) && peer != PEER_HUB)) {
            continue;
        }
        p->seen_ns = late ? now : p->seen_ns;
        if (now - p->seen_ns > mz->options.silence_ns) {
            lose(mz, peer, "has not been heard of for %.1f s",
                 (double)(now - p->seen_ns) / NS_PER_S);
        } else {
            messages_zmq_control(mz, peer, WIRE_BEAT, "");
        }
    }
    loop_arm(mz->loop, t, now + mz->options.beat_ns);
}

/* Setting up */

static int add_inlet(struct messages_zmq *mz, void *socket,
                     bool (*take)(struct messages_zmq *, void *), struct err *e)
{
    assert(mz->n_inlets < ZMQ_MAX_INLETS);
    struct zmq_inlet *in = &mz->inlets[mz->n_inlets];
    *in = (struct zmq_inlet){
        .owner = mz, .socket = socket, .source = {.fd = -1, .ready = inlet_ready}, .take = take};
    size_t size = sizeof(in->source.fd);
    int rc = zmq_getsockopt(socket, ZMQ_FD, &in->source.fd, &size) ? -zmq_errno() : 0;
    rc = rc ? rc : wall_driver_add(mz->driver, &in->source, EPOLLIN);
    if (rc) {
        return err_set(e, rc, "watching a ZeroMQ socket: %s", strerror(-rc));
    }
    mz->n_inlets++;
    return 0;
}

/* Disconnections before messages: a descriptor may be used again by the next connection. */
static int add_monitored(struct messages_zmq *mz, void *socket, const char *name,
                         bool (*take_event)(struct messages_zmq *, void *),
                         bool (*take)(struct messages_zmq *, void *), struct err *e)
{
    void *monitor = curve_monitor_new(mz->context, socket, name, e);
    if (!monitor) {
        return e->code;
    }
    int rc = add_inlet(mz, monitor, take_event, e);
    if (rc) {
        zmq_close(monitor);
        return rc;
    }
    return add_inlet(mz, socket, take, e);
}

static int open_router(struct messages_zmq *mz, struct err *e)
{
    const struct messages_zmq_options *o = &mz->options;
    int rc = curve_gate_init(&mz->gate, mz->context, o->nodes, o->n_nodes, e);
    if (rc) {
        return rc;
    }
    mz->gate.self = mz;
    mz->gate.refused = refuse;
    rc = add_inlet(mz, mz->gate.socket, take_gate, e);
    if (rc) {
        return rc;
    }
    mz->router = curve_server_new(mz->context, ZMQ_ROUTER, &o->key, e);
    if (!mz->router) {
        return e->code;
    }
    rc = add_monitored(mz, mz->router, "router-events", take_router_monitor, take_router, e);
    return rc ? rc
              : curve_bind(mz->router, o->host, o->port, mz->endpoint, sizeof(mz->endpoint), e);
}

static void *open_dealer(struct messages_zmq *mz, const char *endpoint, const char *server_key,
                         struct err *e)
{
    const struct messages_zmq_options *o = &mz->options;
    const char *name = o->nodes[o->self].name;
    void *s = curve_client_new(mz->context, ZMQ_DEALER, &o->key, server_key, e);
    if (s && (zmq_setsockopt(s, ZMQ_ROUTING_ID, name, strlen(name)) || zmq_connect(s, endpoint))) {
        err_set(e, -zmq_errno(), "connecting to %s: %s", endpoint, zmq_strerror(zmq_errno()));
        zmq_close(s);
        return NULL;
    }
    return s;
}

static int open_sockets(struct messages_zmq *mz, struct err *e)
{
    int rc = open_router(mz, e);
    if (rc || is_hub(mz)) {
        return rc;
    }
    mz->hub_dealer = open_dealer(mz, mz->options.hub_endpoint, mz->options.hub_key, e);
    if (!mz->hub_dealer) {
        return e->code;
    }
    return add_monitored(mz, mz->hub_dealer, "hub-events", take_hub_monitor, take_hub, e);
}

int messages_zmq_connect(struct messages_zmq *mz, uint32_t node, const char *endpoint,
                         struct err *e)
{
    assert(!is_hub(mz) && node < mz->options.n_nodes && node != mz->options.self);
    struct zmq_peer *p = peer_at(mz, node);
    p->dealer = open_dealer(mz, endpoint, mz->options.nodes[node].public_key, e);
    return p->dealer ? 0 : e->code;
}

int messages_zmq_init(struct messages_zmq *mz, struct loop *loop, struct wall_driver *driver,
                      const struct messages_zmq_options *options,
                      const struct messages_zmq_events *events, struct err *e)
{
    *mz = (struct messages_zmq){.port.ops = &port_ops,
                                .options = *options,
                                .events = *events,
                                .loop = loop,
                                .driver = driver};
    loop_timer_init(&mz->drain_timer, drain);
    loop_timer_init(&mz->beat_timer, beat);
    loop_timer_init(&mz->lost_timer, tell_lost);
    loop_timer_init(&mz->local_timer, deliver_local);
    list_init(&mz->local_queue);
    pool_init(&mz->local, sizeof(struct local_message));
    mz->peers = calloc(options->n_nodes + 1, sizeof(*mz->peers));
    mz->context = zmq_ctx_new();
    int rc = mz->peers && mz->context ? open_sockets(mz, e) : err_nomem(e);
    if (rc) {
        messages_zmq_done(mz, 0);
        return rc;
    }
    loop_arm(loop, &mz->beat_timer, loop_now_ns(loop) + options->beat_ns);
    loop_post(loop, &mz->drain_timer);
    return 0;
}

static void close_socket(void *socket, int linger_ms)
{
    if (socket) {
        curve_linger(socket, linger_ms);
        zmq_close(socket);
    }
}

void messages_zmq_done(struct messages_zmq *mz, int linger_ms)
{
    loop_disarm(mz->loop, &mz->drain_timer);
    loop_disarm(mz->loop, &mz->beat_timer);
    loop_disarm(mz->loop, &mz->lost_timer);
    loop_disarm(mz->loop, &mz->local_timer);
    for (unsigned i = 0; i < mz->n_inlets; i++) {
        void *s = mz->inlets[i].socket;
        wall_driver_remove(mz->driver, &mz->inlets[i].source);
        if (s != mz->router && s != mz->hub_dealer && s != mz->gate.socket) {
            zmq_close(s); /* a monitor */
        }
    }
    for (uint32_t i = 0; mz->peers && i < mz->options.n_nodes; i++) {
        close_socket(mz->peers[i].dealer, mz->peers[i].lost ? 0 : linger_ms);
    }
    close_socket(mz->hub_dealer, linger_ms);
    close_socket(mz->router, linger_ms);
    curve_gate_done(&mz->gate);
    if (mz->context) {
        zmq_ctx_term(mz->context);
    }
    free(mz->peers);
    pool_done(&mz->local);
    mz->peers = NULL;
    mz->context = NULL;
}

const char *messages_zmq_endpoint(const struct messages_zmq *mz)
{
    return mz->endpoint;
}
