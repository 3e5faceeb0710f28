/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The message port of a real run: frames (wire.h) over ZeroMQ with CURVE keys.
 *
 *   hub    the process of the client and the central scheduler: a ROUTER that every node connects
 * to node   a DEALER to the hub; a ROUTER for the other nodes; a DEALER to each of them
 *
 * A peer is what its key says it is, whatever it writes into its messages. Messages between
 * endpoints of one process never leave it. Everything arrives from the loop; nothing blocks and
 * nothing is dropped while the peer lives. Order is kept per (src, dst).
 *
 * Hub and nodes send each other beats. A peer is lost when its connection ends, when it has been
 * silent for silence_ns, or when it speaks another version or nonsense; that is told once, and
 * final.
 */
#ifndef DUALPATH_HW_MESSAGES_ZMQ_H
#define DUALPATH_HW_MESSAGES_ZMQ_H

#include "base/err.h"
#include "base/loop.h"
#include "base/pool.h"
#include "hw/curve_socket.h"
#include "hw/wall_driver.h"
#include "hw/wire.h"
#include "sched/message.h"

#define PEER_HUB UINT32_MAX /* the other peers are nodes, by id */

struct messages_zmq_options {
    uint32_t self; /* PEER_HUB, or this node */
    uint32_t n_nodes;
    struct curve_keypair key;
    const struct curve_guest *nodes;    /* [n_nodes], borrowed: who may connect, in order of id */
    const char *hub_endpoint, *hub_key; /* of nodes only: where to connect */
    const char *host;                   /* listen here: a numeric address */
    uint16_t port;                      /* 0: any free one */
    uint64_t beat_ns, silence_ns;
};

struct messages_zmq_events {
    void *self;
    /* A control frame (enum wire_control) with its text, NUL-terminated. Nodes hear the hub's
     * only. */
    void (*control)(void *self, uint32_t peer, uint16_t kind, const char *text);
    void (*peer_lost)(void *self, uint32_t peer, const char *why);
    /* Somebody was turned away at the door. */
    void (*refused)(void *self, const char *why);
};

struct zmq_peer {
    void *dealer; /* node to node; NULL where there is none */
    bool present; /* has been heard of */
    bool ended;   /* its connection has, and what it said before is still to be heard */
    bool lost, told, leaving;
    int fd; /* of its connection, to know it in the monitor's reports */
    uint64_t seen_ns;
    char why[200];
};

struct messages_zmq;

/* A socket that brings something. */
struct zmq_inlet {
    struct messages_zmq *owner;
    void *socket;
    struct wall_source source;
    bool (*take)(struct messages_zmq *mz, void *socket); /* one thing; false: nothing there */
};

#define ZMQ_MAX_INLETS 5

struct messages_zmq {
    struct msg_port port;
    struct messages_zmq_options options;
    struct messages_zmq_events events;
    struct loop *loop;
    struct wall_driver *driver;
    void *context;
    void *router, *hub_dealer;
    struct curve_gate gate;
    struct zmq_inlet inlets[ZMQ_MAX_INLETS]; /* in the order in which they are emptied */
    unsigned n_inlets;
    struct loop_timer drain_timer, beat_timer, lost_timer, local_timer;
    struct zmq_peer *peers; /* [n_nodes + 1], the hub last */
    msg_handler *handlers[2];
    void *handler_selves[2];
    struct pool local; /* messages between endpoints of this process */
    struct list local_queue;
    char endpoint[128];
    uint64_t n_sent, n_received;
};

/* Listens, and as a node connects to the hub. loop and driver outlive it. 0 or negative errno. */
int messages_zmq_init(struct messages_zmq *mz, struct loop *loop, struct wall_driver *driver,
                      const struct messages_zmq_options *options,
                      const struct messages_zmq_events *events, struct err *e);

/* Gives messages on their way out up to linger_ms. */
void messages_zmq_done(struct messages_zmq *mz, int linger_ms);

/* Where peers reach this process: "tcp://host:port". */
const char *messages_zmq_endpoint(const struct messages_zmq *mz);

/* A node's connection to another node. 0 or negative errno. */
int messages_zmq_connect(struct messages_zmq *mz, uint32_t node, const char *endpoint,
                         struct err *e);

/* Sends a control frame: between hub and node only. */
void messages_zmq_control(struct messages_zmq *mz, uint32_t peer, uint16_t kind, const char *text);

/* The peer is about to leave in good order: its end is no loss. */
void messages_zmq_leaving(struct messages_zmq *mz, uint32_t peer);

#endif
