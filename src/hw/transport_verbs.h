/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Transport over RDMA: every piece of an op is one RDMA WRITE (more where the device's message size
 * or VERBS_CHUNK_BYTES asks for it) from the source's memory into the destination's, same node or
 * not: a copy within the node goes over a loopback pair of queue pairs, so that all copies obey the
 * same QoS.
 *
 *   - Per peer and traffic class one RC queue pair, with the class's service level and traffic
 * class.
 *   - The work requests of a turn of the loop are posted in batches, one doorbell each; short
 * pieces inline. Signalled is the last request of a batch, and of every run that brings the bytes
 * since the last signal to VERBS_SIGNAL_BYTES: a batch of large writes that told of its end only
 * would leave the queue empty until the next one comes.
 *   - Completions are polled; when there was none for spin_ns, the loop sleeps on the completion
 * channel.
 *   - While ops are in flight and nothing is posted to a peer, an empty write every keepalive_ns
 * finds out whether it lives.
 *
 * A peer's `card` (queue pairs, addresses, keys) travels over the control plane: each side calls
 * transport_verbs_offer(), sends the bytes, and gives what it gets to transport_verbs_connect(). A
 * link that has failed stays down (-ECONNRESET) until both do so again.
 *
 * Errors an op can end with: -ECONNRESET (the peer does not answer), -EIO (the device's words are
 * told).
 */
#ifndef DUALPATH_HW_TRANSPORT_VERBS_H
#define DUALPATH_HW_TRANSPORT_VERBS_H

#include "hw/mover.h"
#include "hw/verbs_device.h"
#include "hw/wall_driver.h"

#define VERBS_CHUNK_BYTES  ((uint32_t)1 << 20)
#define VERBS_BATCH        32u
#define VERBS_SIGNAL_BYTES ((uint64_t)256 << 10)

struct verbs_options {
    const char *device; /* NULL: the first with an active port */
    uint32_t node;
    uint32_t depth;      /* ops in flight to one peer before -EAGAIN */
    uint32_t send_depth; /* work requests per queue pair; 0: 256 */
    uint64_t spin_ns;
    uint64_t keepalive_ns; /* 0: 1 s */
    uint8_t timeout;       /* 4.096 us * 2^timeout per try; 0: 14, i.e. 67 ms */
    uint8_t retries;       /* 1 to 6; 0: 6 */
    uint8_t service_level[DP_N_CLASSES];
    uint8_t traffic_class[DP_N_CLASSES];
};

struct verbs_link;

struct transport_verbs {
    struct mover mover;
    struct verbs_options options;
    struct verbs_device device;
    struct loop *loop;
    struct wall_driver *driver;
    const struct node_memory *memory;
    uint32_t n_nodes;
    struct verbs_link **links; /* [n_nodes + 1]; the last is the far end of the loopback */
    struct loop_poller poller;
    struct wall_source channel_source, async_source;
    struct loop_timer post_timer, keepalive_timer;
    struct list eager; /* lanes with something to post */
    uint32_t n_posted; /* work requests on their way, all lanes */
    uint64_t last_completion_ns;
    bool armed; /* the channel will tell of the next completion */
    uint64_t n_doorbells, n_requests, n_inline;
    struct ibv_send_wr wrs[VERBS_BATCH];
    struct ibv_sge sges[VERBS_BATCH];
};

/* Opens the device, registers memory and connects the
 * loopback. 0, -ENODEV, or another negative errno. */
int transport_verbs_init(struct transport_verbs *t, struct loop *loop, struct wall_driver *driver,
                         const struct node_memory *memory, uint32_t n_nodes,
                         const struct verbs_options *options, struct err *e);
void transport_verbs_done(struct transport_verbs *t); /* nothing in flight */

size_t transport_verbs_card_bytes(const struct transport_verbs *t);

/* Makes queue pairs for a peer and writes the card for it. The link is down until connected. */
int transport_verbs_offer(struct transport_verbs *t, uint32_t node, uint8_t *ret_card,
                          struct err *e);

/* Connects to the peer whose card this is, len bytes. -EPROTO when it is none, or not node's. */
int transport_verbs_connect(struct transport_verbs *t, uint32_t node, const uint8_t *card,
                            size_t len, struct err *e);

#endif
