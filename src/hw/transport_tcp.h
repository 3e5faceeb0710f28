/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Transport over TCP sockets, one process per node: the semantics of an RDMA write. The source
 * pushes the pieces of an op to their offsets in the destination's memory; a part counts, and the
 * op ends, when the destination has said that the bytes are there. Copies within the node are
 * memory copies.
 *
 * One connection per pair and direction, made at the first op, made again after a failure by the
 * next op. Ops to one peer share its connection part by part. Nothing is buffered beyond the
 * sockets' own buffers. A connection needs the cluster's secret; the bytes themselves travel in
 * clear, so the network must be one's own, as with RDMA.
 *
 * Errors an op can end with, each told to hw_faults with the peer's node and address:
 * -ECONNREFUSED, -ECONNRESET or -EPIPE (the peer died), -ETIMEDOUT (it does not answer), -EACCES
 * (wrong secret), -EPROTO (not this protocol or version), -EFAULT (the op does not lie in the
 * peer's memory). A peer whose kernel lives but whose process is stopped is not noticed here; that
 * takes the control plane's heartbeat.
 */
#ifndef DUALPATH_HW_TRANSPORT_TCP_H
#define DUALPATH_HW_TRANSPORT_TCP_H

#include "hw/memory.h"
#include "hw/mover.h"
#include "hw/tcp_wire.h"
#include "hw/transport_mem.h"
#include "hw/wall_driver.h"
#include "hw/work_pool.h"

struct tcp_options {
    uint32_t node;                /* this process */
    const char *listen_host;      /* numeric address or name of an own interface */
    uint16_t listen_port;         /* 0: any free one, see transport_tcp_port() */
    uint32_t depth;               /* ops in flight to one peer (and locally) before -EAGAIN */
    uint64_t connect_patience_ns; /* so long a refused connection is tried again; 0: not at all */
    uint64_t peer_timeout_ns;     /* so long a silent peer is borne; 0: 10 s */
    uint8_t secret[TCP_SECRET_BYTES];
};

struct tcp_channel;

struct transport_tcp {
    struct mover mover;
    struct transport_mem local;
    struct tcp_options options;
    struct loop *loop;
    struct wall_driver *driver;
    const struct memory_map *map;
    struct tcp_channel **channels; /* [map->n_nodes], to each peer; NULL where unknown */
    bool *forgotten;               /* [map->n_nodes]: dead, refused at the door */
    struct wall_source listener;
    struct loop_timer listen_again;
    struct list inbound;
    uint32_t n_inbound;
    uint64_t n_accepted, n_refused; /* connections from peers */
};

/* Listens. map, loop, driver and pool outlive the
 * transport; options are copied. 0 or negative errno. */
int transport_tcp_init(struct transport_tcp *t, struct loop *loop, struct wall_driver *driver,
                       struct work_pool *pool, const struct memory_map *map,
                       const struct tcp_options *options, struct err *e);
uint16_t transport_tcp_port(const struct transport_tcp *t);

/* Where a peer listens. Resolves host now (may block)
 * to its first address; connects at the first op. */
int transport_tcp_add_peer(struct transport_tcp *t, uint32_t node, const char *host, uint16_t port,
                           struct err *e);

/* Nothing in flight; connections of peers are cut. */
void transport_tcp_done(struct transport_tcp *t);

#endif
