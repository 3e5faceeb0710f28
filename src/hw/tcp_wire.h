/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the tcp transport says on a connection. The node that has the bytes connects to the node
 * that wants them, so a connection carries writes one way and acknowledgements the other:
 *
 *   source                                   destination
 *   hello {version, nodes, depth, secret} ->
 *                                         <- welcome {verdict}
 *   write {slot, place, length} bytes...  ->     one per piece of an op, in order
 *                                         <- ack {slot, parts_done, code, final}
 *   cancel {slot}                         ->     answered by a final ack, as the last write of an
 * op is
 *
 * A slot is one of the source's `depth` ops in flight; serial tells its uses apart. An ack with a
 * code that is not final asks the source to cancel. Acks of a slot are cumulative, so that the
 * destination never holds more than one per slot. All integers are little endian, every message has
 * a fixed size.
 */
#ifndef DUALPATH_HW_TCP_WIRE_H
#define DUALPATH_HW_TCP_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#define TCP_WIRE_VERSION 1
#define TCP_SECRET_BYTES 32
#define TCP_MAX_DEPTH    65536u

#define TCP_HELLO_BYTES   56
#define TCP_WELCOME_BYTES 12
#define TCP_FRAME_BYTES   40
#define TCP_ACK_BYTES     16

struct tcp_hello {
    uint16_t version;
    uint32_t src_node, dst_node;
    uint32_t depth; /* slots that the source uses */
    uint8_t secret[TCP_SECRET_BYTES];
};

enum tcp_verdict {
    TCP_WELCOME,
    TCP_BAD_VERSION,
    TCP_BAD_NODE, /* the hello was for another node */
    TCP_BAD_SECRET,
    TCP_BAD_DEPTH,
    TCP_N_VERDICTS,
};

struct tcp_welcome {
    uint16_t version;
    uint16_t verdict; /* enum tcp_verdict */
};

enum tcp_frame_type {
    TCP_WRITE = 1,
    TCP_CANCEL,
};

enum tcp_frame_flags {
    TCP_ENDS_PART = 1,
    TCP_ENDS_OP = 2,
};

struct tcp_frame {
    uint8_t type;
    uint8_t flags;
    uint16_t tier, gpu;
    uint32_t slot, serial;
    uint64_t offset_bytes; /* of the piece, in the destination's memory */
    uint64_t len_bytes;    /* that follow; > 0 for a write, 0 for a cancel */
};

enum tcp_code {
    TCP_OK,
    TCP_CANCELLED,
    TCP_BAD_PLACE, /* the piece does not lie in the memory */
    TCP_N_CODES,
};

struct tcp_ack {
    uint32_t slot, serial, parts_done;
    uint16_t code; /* enum tcp_code */
    bool final;
};

void tcp_put_hello(uint8_t *buf, const struct tcp_hello *h);
void tcp_put_welcome(uint8_t *buf, const struct tcp_welcome *w);
void tcp_put_frame(uint8_t *buf, const struct tcp_frame *f);
void tcp_put_ack(uint8_t *buf, const struct tcp_ack *a);

/* False: not such a message (wrong magic, type, flag or length). */
bool tcp_get_hello(const uint8_t *buf, struct tcp_hello *ret);
bool tcp_get_welcome(const uint8_t *buf, struct tcp_welcome *ret);
bool tcp_get_frame(const uint8_t *buf, struct tcp_frame *ret);
bool tcp_get_ack(const uint8_t *buf, struct tcp_ack *ret);

/* Compares in a time that does not depend on where they differ. */
bool tcp_same_secret(const uint8_t *a, const uint8_t *b);

#endif
