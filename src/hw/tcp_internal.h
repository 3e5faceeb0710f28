/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Shared by transport_tcp.c, tcp_channel.c (sends) and tcp_inbound.c (receives). */
#ifndef DUALPATH_HW_TCP_INTERNAL_H
#define DUALPATH_HW_TCP_INTERNAL_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "hw/transport_tcp.h"

/* A turn of the loop moves about so much per connection before others have theirs. */
#define TCP_TURN_BYTES ((size_t)1 << 20)
#define TCP_NAME_BYTES 80 /* "[address]:port" */

struct tcp_inbound;

int tcp_channel_new(struct transport_tcp *t, uint32_t node, const struct sockaddr *address,
                    socklen_t address_len, struct tcp_channel **ret);
void tcp_channel_free(struct tcp_channel *ch);

/* As in mover_ops. */
int tcp_channel_submit(struct tcp_channel *ch, struct dp_op *op, const uint8_t *src);
void tcp_channel_feed(struct dp_op *op);
void tcp_channel_cancel(struct dp_op *op);
void tcp_channel_cancel_all(struct tcp_channel *ch);

/* Ends the connection and every op in flight. */
void tcp_channel_cut(struct tcp_channel *ch, int code, const char *what);

/* Takes over the accepted socket fd. */
void tcp_inbound_start(struct transport_tcp *t, int fd, const char *name);
void tcp_inbound_free_all(struct transport_tcp *t);
void tcp_inbound_cut(struct transport_tcp *t, uint32_t src_node); /* its connections */

/* No Nagle, and a peer that has gone is noticed in time. Returns 0 or negative errno. */
int tcp_socket_setup(int fd, uint64_t peer_timeout_ns);
void tcp_name(const struct sockaddr *address, socklen_t len, char name[TCP_NAME_BYTES]);

#endif
