/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/transport_tcp.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "hw/tcp_internal.h"

#define DEFAULT_PEER_TIMEOUT_NS (10 * NS_PER_S)
#define STRANGERS               16u /* connections beyond one per peer that wait for a hello */

int tcp_socket_setup(int fd, uint64_t peer_timeout_ns)
{
    int on = 1;
    unsigned timeout_ms = (unsigned)(peer_timeout_ns / NS_PER_MS);
    int probe_s = timeout_ms / 4000 > 0 ? (int)(timeout_ms / 4000) : 1;
    int probes = 3;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) ||
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) ||
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &probe_s, sizeof(probe_s)) ||
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &probe_s, sizeof(probe_s)) ||
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes)) ||
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms))) {
        return -errno;
    }
    return 0;
}

void tcp_name(const struct sockaddr *address, socklen_t len, char name[TCP_NAME_BYTES])
{
    char host[TCP_NAME_BYTES - 16], port[8];
    if (getnameinfo(address, len, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV)) {
        snprintf(name, TCP_NAME_BYTES, "unknown address");
        return;
    }
    snprintf(name, TCP_NAME_BYTES, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

static int resolve(const char *host, uint16_t port, int flags, struct addrinfo **ret, struct err *e)
{
    char service[8];
    snprintf(service, sizeof(service), "%" PRIu16, port);
    struct addrinfo hints = {
        .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV, .ai_family = AF_UNSPEC};
    int rc = getaddrinfo(host, service, &hints, ret);
    if (rc) {
        return err_set(e, -EADDRNOTAVAIL, "address \"%s\": %s", host, gai_strerror(rc));
    }
    return 0;
}

static int open_listener(const struct addrinfo *a)
{
    int on = 1;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
        bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, 128)) {
        int rc = -errno;
        close(fd);
        return rc;
    }
    return fd;
}

static int start_listening(struct transport_tcp *t, struct err *e)
{
    struct addrinfo *found;
    int rc = resolve(t->options.listen_host, t->options.listen_port, AI_PASSIVE, &found, e);
    if (rc) {
        return rc;
    }
    int fd = open_listener(found);
    freeaddrinfo(found);
    if (fd < 0) {
        return err_set(e, fd, "cannot listen at %s, port %" PRIu16 ": %s", t->options.listen_host,
                       t->options.listen_port, strerror(-fd));
    }
    t->listener.fd = fd;
    rc = wall_driver_add(t->driver, &t->listener, EPOLLIN);
    return rc ? err_set(e, rc, "epoll: %s", strerror(-rc)) : 0;
}

/* Out of descriptors or memory: the socket stays readable, so look away for a while. */
static void pause_listening(struct transport_tcp *t, int code)
{
    mover_complain(&t->mover, code, "cannot accept a connection: %s", strerror(-code));
    wall_driver_change(t->driver, &t->listener, 0);
    loop_arm(t->loop, &t->listen_again, loop_now_ns(t->loop) + 100 * NS_PER_MS);
}

static void listen_again(struct loop_timer *timer)
{
    struct transport_tcp *t = container_of(timer, struct transport_tcp, listen_again);
    wall_driver_change(t->driver, &t->listener, EPOLLIN);
}

static void listener_ready(struct wall_source *s, uint32_t events)
{
    struct transport_tcp *t = container_of(s, struct transport_tcp, listener);
    struct sockaddr_storage from;
    socklen_t len = sizeof(from);
    char name[TCP_NAME_BYTES];
    (void)events;
    int fd = accept4(s->fd, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            pause_listening(t, -errno);
        }
        return;
    }
    tcp_name((struct sockaddr *)&from, len, name);
    if (t->n_inbound >= t->map->n_nodes + STRANGERS) {
        t->n_refused++;
        mover_complain(&t->mover, -ECONNREFUSED, "connection from %s: refused: too many", name);
        close(fd);
        return;
    }
    tcp_inbound_start(t, fd, name);
}

uint16_t transport_tcp_port(const struct transport_tcp *t)
{
    struct sockaddr_storage a;
    socklen_t len = sizeof(a);
    if (getsockname(t->listener.fd, (struct sockaddr *)&a, &len)) {
        return 0;
    }
    return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
                                         : ((struct sockaddr_in *)&a)->sin_port);
}

static struct transport_tcp *of(struct mover *m)
{
    return container_of(m, struct transport_tcp, mover);
}

static bool is_local(const struct dp_op *op)
{
    return op->src.node == op->dst.node;
}

static int tcp_submit(struct mover *m, struct dp_op *op)
{
    struct transport_tcp *t = of(m);
    uint64_t span, end;
    if (op->src.node != t->options.node) {
        return -EINVAL;
    }
    if (is_local(op)) {
        return t->local.mover.ops->submit(&t->local.mover, op);
    }
    if (!op_span(op, &span)) {
        return -EINVAL;
    }
    const uint8_t *src = memory_map_at(t->map, &op->src, span);
    if (!src || __builtin_add_overflow(op->dst.offset_bytes, span, &end)) {
        return -EFAULT;
    }
    if (op->dst.node >= t->map->n_nodes || !t->channels[op->dst.node]) {
        return -EHOSTUNREACH;
    }
    return tcp_channel_submit(t->channels[op->dst.node], op, src);
}

static void tcp_feed(struct mover *m, struct dp_op *op)
{
    if (is_local(op)) {
        of(m)->local.mover.ops->feed(&of(m)->local.mover, op);
    } else {
        tcp_channel_feed(op);
    }
}

static void tcp_cancel(struct mover *m, struct dp_op *op)
{
    if (is_local(op)) {
        of(m)->local.mover.ops->cancel(&of(m)->local.mover, op);
    } else {
        tcp_channel_cancel(op);
    }
}

static void tcp_cancel_all(struct mover *m)
{
    struct transport_tcp *t = of(m);
    t->local.mover.ops->cancel_all(&t->local.mover);
    for (uint32_t i = 0; i < t->map->n_nodes; i++) {
        if (t->channels[i]) {
            tcp_channel_cancel_all(t->channels[i]);
        }
    }
}

/* What the node had sent may still lie in the sockets: it must not reach memory that others get. */
static void tcp_forget_node(struct mover *m, uint32_t node)
{
    struct transport_tcp *t = of(m);
    if (node >= t->map->n_nodes) {
        return;
    }
    t->forgotten[node] = true;
    tcp_inbound_cut(t, node);
    if (t->channels[node]) {
        tcp_channel_cut(t->channels[node], -ECONNRESET, "has died");
    }
}

static const struct mover_ops tcp_ops = {
    .name = "tcp",
    .submit = tcp_submit,
    .feed = tcp_feed,
    .cancel = tcp_cancel,
    .cancel_all = tcp_cancel_all,
    .forget_node = tcp_forget_node,
};

int transport_tcp_init(struct transport_tcp *t, struct loop *loop, struct wall_driver *driver,
                       struct work_pool *pool, const struct memory_map *map,
                       const struct tcp_options *options, struct err *e)
{
    assert(options->depth > 0 && options->depth <= TCP_MAX_DEPTH && map->n_nodes > 0);
    *t = (struct transport_tcp){.mover.ops = &tcp_ops,
                                .options = *options,
                                .loop = loop,
                                .driver = driver,
                                .map = map,
                                .listener = {.fd = -1, .ready = listener_ready}};
    if (t->options.peer_timeout_ns == 0) {
        t->options.peer_timeout_ns = DEFAULT_PEER_TIMEOUT_NS;
    }
    list_init(&t->inbound);
    loop_timer_init(&t->listen_again, listen_again);
    int rc = transport_mem_init(&t->local, loop, pool, map, options->depth, e);
    if (rc) {
        return rc;
    }
    t->local.ends_as = &t->mover;
    t->channels = calloc(map->n_nodes, sizeof(struct tcp_channel *));
    t->forgotten = calloc(map->n_nodes, sizeof(*t->forgotten));
    rc = t->channels && t->forgotten ? start_listening(t, e) : err_nomem(e);
    if (rc) {
        transport_tcp_done(t);
    }
    return rc;
}

int transport_tcp_add_peer(struct transport_tcp *t, uint32_t node, const char *host, uint16_t port,
                           struct err *e)
{
    struct addrinfo *found;
    if (node >= t->map->n_nodes || node == t->options.node || t->channels[node]) {
        return err_set(e, -EINVAL, "node %" PRIu32 ": no such peer, or known already", node);
    }
    int rc = resolve(host, port, 0, &found, e);
    if (rc) {
        return rc;
    }
    rc = tcp_channel_new(t, node, found->ai_addr, found->ai_addrlen, &t->channels[node]);
    freeaddrinfo(found);
    return rc ? err_nomem(e) : 0;
}

void transport_tcp_done(struct transport_tcp *t)
{
    for (uint32_t i = 0; t->channels && i < t->map->n_nodes; i++) {
        if (t->channels[i]) {
            tcp_channel_free(t->channels[i]);
        }
    }
    free(t->forgotten);
    free(t->channels);
    tcp_inbound_free_all(t);
    loop_disarm(t->loop, &t->listen_again);
    if (t->listener.fd >= 0) {
        wall_driver_remove(t->driver, &t->listener);
        close(t->listener.fd);
    }
    transport_mem_done(&t->local);
}
