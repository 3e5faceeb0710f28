/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Shared by transport_verbs.c (the data path) and verbs_link.c (links come and go). */
#ifndef DUALPATH_HW_VERBS_INTERNAL_H
#define DUALPATH_HW_VERBS_INTERNAL_H

#include "hw/transport_verbs.h"
#include "hw/verbs_card.h"

struct verbs_send {
    struct verbs_lane *lane;
    struct list link; /* in link->idle or lane->sendable, or alone */
    struct loop_timer end_timer;
    struct dp_op *op; /* NULL: idle */
    uint64_t src_base, dst_base;
    uint32_t lkey, rkey;
    uint32_t next_part, next_segment; /* to be posted */
    uint64_t next_byte;               /* within the piece */
    uint32_t n_marks;                 /* posted, not completed */
    bool can_inline;                  /* the processor can read the source */
    bool cancelled;
    bool failing; /* the link is down, it will be ended */
};

/* A run of work requests of one send; completions are counted in marks. */
struct verbs_mark {
    struct verbs_send *send; /* NULL: a keep-alive */
    uint32_t n_requests;
    uint32_t parts; /* of the send that are posted with it and before it */
};

/* One queue pair: a peer and a traffic class. */
struct verbs_lane {
    struct verbs_link *link;
    enum dp_class traffic_class;
    struct ibv_qp *qp;
    uint32_t index; /* among all lanes: part of the work requests' ids */
    uint32_t psn, inline_bytes;
    uint16_t epoch; /* of the connection: completions of an earlier one are ignored */
    struct list sendable;
    struct list eager;        /* in transport->eager */
    struct verbs_mark *marks; /* ring [send_depth] */
    uint32_t first_mark, n_marks;
    uint32_t n_posted;          /* work requests */
    uint64_t unsignalled_bytes; /* since the last signalled request */
};

struct verbs_link {
    struct transport_verbs *t;
    uint32_t index; /* in transport->links: the peer's node, or n_nodes */
    bool up;
    bool was_up;
    struct verbs_lane lanes[DP_N_CLASSES];
    struct verbs_region *remote; /* of the peer, n_remote */
    uint32_t n_remote;
    struct verbs_send *sends; /* [depth] */
    struct list idle;
    uint32_t n_in_flight;
};

int verbs_link_new(struct transport_verbs *t, uint32_t index, struct verbs_link **ret);
void verbs_link_free(struct verbs_link *k);

/* Queue pairs as new, nothing posted. 0 or negative errno. */
int verbs_link_reset(struct verbs_link *k);

void verbs_link_describe(const struct verbs_link *k, struct verbs_card *ret,
                         struct verbs_region *regions);
int verbs_link_connect(struct verbs_link *k, const struct verbs_card *peer);

/* Links the node with itself. 0 or negative errno. */
int verbs_connect_loopback(struct transport_verbs *t);

/* A timer of struct verbs_send: ends a cancelled one of which nothing was posted. */
void verbs_send_end_fires(struct loop_timer *timer);

#endif
