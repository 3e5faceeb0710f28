/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Links over tcp: every peer is told the same "host:port"; the connection is made when it is first
 * needed, and proves itself by the run's secret. */
#include "real/links.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hw/transport_tcp.h"

struct tcp_links {
    struct transport_tcp transport;
    char host[64];
};

static int parse_secret(const char *hex, uint8_t secret[TCP_SECRET_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    for (unsigned i = 0; i < 2 * TCP_SECRET_BYTES; i++) {
        const char *d = hex[i] ? strchr(digits, hex[i]) : NULL;
        if (!d) {
            return -EINVAL;
        }
        secret[i / 2] = (uint8_t)(secret[i / 2] << 4 | (d - digits));
    }
    return hex[2 * TCP_SECRET_BYTES] ? -EINVAL : 0;
}

static int tcp_open(struct links *l, const struct links_parts *p, struct err *err)
{
    struct tcp_options o = {.node = p->node,
                            .listen_host = p->host,
                            .depth = p->config->transport_depth,
                            .peer_timeout_ns = p->config->peer_timeout_ns};
    if (parse_secret(p->config->tcp_secret, o.secret)) {
        err_field(err, "tcp_secret");
        return err_set(err, -EINVAL, "expected %d hexadecimal digits", 2 * TCP_SECRET_BYTES);
    }
    struct tcp_links *t = calloc(1, sizeof(*t));
    int rc = t ? transport_tcp_init(&t->transport, p->loop, p->driver, p->pool, p->map, &o, err)
               : err_nomem(err);
    if (rc) {
        free(t);
        return rc;
    }
    snprintf(t->host, sizeof(t->host), "%s", p->host);
    l->impl = t;
    l->mover = &t->transport.mover;
    return 0;
}

static int tcp_offer(struct links *l, uint32_t node, char **ret_text, struct err *err)
{
    const struct tcp_links *t = l->impl;
    size_t size = sizeof(t->host) + sizeof(":65535");
    char *text = malloc(size);
    (void)node;
    if (!text) {
        return err_nomem(err);
    }
    snprintf(text, size, "%s:%u", t->host, transport_tcp_port(&t->transport));
    *ret_text = text;
    return 0;
}

static int tcp_connect(struct links *l, uint32_t node, const char *text, struct err *err)
{
    struct tcp_links *t = l->impl;
    char host[64], *end;
    const char *colon = strrchr(text, ':');
    size_t host_len = colon ? (size_t)(colon - text) : 0;
    unsigned long port = colon ? strtoul(colon + 1, &end, 10) : 0;
    if (host_len == 0 || host_len >= sizeof(host) || *end || port == 0 || port > UINT16_MAX) {
        return err_set(err, -EPROTO, "node %u: found the address \"%.80s\", expected HOST:PORT",
                       node, text);
    }
    memcpy(host, text, host_len);
    host[host_len] = '\0';
    return transport_tcp_add_peer(&t->transport, node, host, (uint16_t)port, err);
}

static void tcp_close(struct links *l)
{
    struct tcp_links *t = l->impl;
    transport_tcp_done(&t->transport);
    free(t);
}

const struct links_ops links_tcp = {.name = "tcp",
                                    .open = tcp_open,
                                    .offer = tcp_offer,
                                    .connect = tcp_connect,
                                    .close = tcp_close};
