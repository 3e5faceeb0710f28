/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * ZeroMQ sockets with CURVE keys, and the gate that lets in known keys only (a ZAP handler, RFC 27,
 * that runs on our loop). Keys are in Z85, as ZeroMQ prints them.
 */
#ifndef DUALPATH_HW_CURVE_SOCKET_H
#define DUALPATH_HW_CURVE_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define CURVE_KEY_CHARS 41 /* 40 and the NUL */

struct curve_keypair {
    char public_key[CURVE_KEY_CHARS], secret_key[CURVE_KEY_CHARS];
};

/* A fresh pair. 0, or -ENOTSUP when libzmq was built without CURVE. */
int curve_keypair_new(struct curve_keypair *ret, struct err *e);

#define CURVE_SECRET_CHARS 65 /* 32 bytes in hexadecimal, and the NUL */

/* 32 bytes that nobody can guess, from the generator of the keys. 0 or -ENOTSUP. */
int curve_secret_new(char ret[CURVE_SECRET_CHARS], struct err *e);

/* A socket that accepts holders of keys the gate knows / that proves itself to the holder of
 * server_key. No limit on queued messages, no waiting when closed (see curve_linger()). NULL with e
 * filled. */
void *curve_server_new(void *context, int type, const struct curve_keypair *key, struct err *e);
void *curve_client_new(void *context, int type, const struct curve_keypair *key,
                       const char *server_key, struct err *e);

/* When closed, the socket waits up to linger_ms for its last messages to go out. */
void curve_linger(void *socket, int linger_ms);

/* Binds to host (numeric, without port) and a free port, or to host:port. Returns 0 and "tcp://..."
 * as peers reach it. */
int curve_bind(void *socket, const char *host, uint16_t port, char *ret_endpoint, size_t size,
               struct err *e);

/* The gate */

struct curve_guest {
    char public_key[CURVE_KEY_CHARS];
    char name[24]; /* what messages of this peer carry as "User-Id" */
};

struct curve_gate {
    void *socket;
    const struct curve_guest *guests; /* borrowed */
    uint32_t n_guests;
    void *self;
    void (*refused)(void *self, const char *why);
    uint64_t n_let_in, n_refused;
};

/* One per context, before its first server binds. Set self and refused afterwards. */
int curve_gate_init(struct curve_gate *g, void *context, const struct curve_guest *guests,
                    uint32_t n_guests, struct err *e);
void curve_gate_done(struct curve_gate *g);

/* Answers one question of the context's servers. False: none was there. */
bool curve_gate_answer(struct curve_gate *g);

/* What happens to a socket's connections */

struct curve_monitor_event {
    uint16_t event; /* ZMQ_EVENT_... */
    uint32_t value; /* a file descriptor or a code, see zmq_socket_monitor(3) */
    char address[128];
};

/* A socket that reports disconnections and failed handshakes of another. NULL with e filled. */
void *curve_monitor_new(void *context, void *socket, const char *name, struct err *e);
bool curve_monitor_take(void *monitor, struct curve_monitor_event *ret);

#endif
