/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the control plane says on the wire. A frame is a header and a body:
 *
 *   bytes  0-1  "dp"
 *          2-3  version: MSG_VERSION of the sender
 *          4-5  type: enum msg_type, or enum wire_control
 *          6-7  zero
 *          8-11 src endpoint, 12-15 dst endpoint (message.h)
 *          16-  the fields of the message in the order of its struct, without padding; control
 * frames carry a text (JSON, or a sentence for a person)
 *
 * All integers are little endian. The first four bytes stay as they are in every version, so that
 * two versions can tell that they differ.
 */
#ifndef DUALPATH_HW_WIRE_H
#define DUALPATH_HW_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "sched/message.h"

#define WIRE_HEAD_BYTES 16
#define WIRE_MSG_BYTES  512 /* no message is larger */

/* Set-up and end of a run, between the hub and one node. */
enum wire_control {
    WIRE_HELLO = 64, /* node -> hub: here I am */
    WIRE_CONFIG,     /* hub -> node: the run's configuration */
    WIRE_LISTENING,  /* node -> hub: memories are there, port of messages, links offered to peers */
    WIRE_PEERS,      /* hub -> node: ports and links of the other nodes */
    WIRE_READY,      /* node -> hub: connected, engines stand */
    WIRE_START,      /* hub -> node: the run begins */
    WIRE_STOP,       /* hub -> node: the run is over, report */
    WIRE_REPORT,     /* node -> hub: counters and checks; the node then ends */
    WIRE_FAILED,     /* either: a sentence that says why the sender cannot go on */
    WIRE_ABSENT,     /* node -> hub: likewise, and the reason is hardware that is not there */
    WIRE_NOTE, /* node -> hub: a sentence for the log, and for the cause of a fault that follows */
    WIRE_BEAT, /* either: still here */
    WIRE_CONTROL_END,
};

struct wire_head {
    uint16_t version, type;
    uint32_t src, dst;
};

/* Writes the header to buf[WIRE_HEAD_BYTES]. */
void wire_put_head(uint8_t *buf, const struct wire_head *h);

/* Returns 0; -EPROTO when this is no frame; -EPROTONOSUPPORT when it is one of another version,
 * which is then in ret->version and nothing else is known of the frame. */
int wire_get_head(const uint8_t *buf, size_t len, struct wire_head *ret);

/* Writes m as a frame to buf[WIRE_MSG_BYTES], with this program's version. Returns its length, or 0
 * when m->type is none of enum msg_type. */
size_t wire_put_msg(uint8_t *buf, const struct msg *m);

/* As wire_get_head(), and -EPROTO also when type, length or a text is not what it has to be. Bytes
 * of *ret that the type does not use are zero. */
int wire_get_msg(const uint8_t *buf, size_t len, struct msg *ret);

#endif
