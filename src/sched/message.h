/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The message port: everything that the client, the central scheduler and the node agents tell each
 * other. Messages are plain data of fixed size, so that the simulator can carry them through a
 * timer and the hardware backend over a wire; they hold ids, never pointers.
 */
#ifndef DUALPATH_SCHED_MESSAGE_H
#define DUALPATH_SCHED_MESSAGE_H

#include <stdint.h>

#define MSG_VERSION  5
#define MSG_MAX_GPUS 16 /* engines of one node in a report */

/* Endpoints: the client, the central scheduler, then one per node. */
#define MSG_CLIENT     0u
#define MSG_SCHEDULER  1u
#define MSG_NODE(node) ((node) + 2u)
#define MSG_NO_NODE    UINT32_MAX

enum msg_type {
    MSG_SUBMIT = 1,   /* client -> scheduler: a request */
    MSG_FETCH,        /* leader of a node's engines -> scheduler: report, and call for work */
    MSG_START,        /* scheduler -> decode node: engines and path are chosen */
    MSG_DECODE_READY, /* decode node -> prefill node: start; my buffer is there, on the DE path with
                         the hits */
    MSG_DECODE_READ,  /* decode node -> prefill node: my part of a split read is in my buffer */
    MSG_PUSH, /* prefill node -> decode node: stream KV from the decode buffer, layer by layer */
    MSG_PUSH_FEED,   /* prefill node -> decode node: so many layers are in the buffer by now */
    MSG_PUSHED,      /* decode node -> prefill node: so many layers of that stream have arrived */
    MSG_PROMPT_KV,   /* prefill node -> decode node: the whole prompt's KV lies in the decode buffer
                      */
    MSG_EP_READY,    /* node -> leader of an EP group: one of my engines has work */
    MSG_EP_START,    /* leader of an EP group -> its nodes: start a forward */
    MSG_FIRST_TOKEN, /* prefill node -> client */
    MSG_TOKEN,       /* decode node -> client: the second token */
    MSG_FINISHED,    /* decode node -> client: the last token */
    MSG_PROMPT_DURABLE, /* decode node -> client: the prompt's full blocks are in storage */
    MSG_DURABLE, /* decode node -> client: all its blocks are in storage, the request is over */
    MSG_KEPT,    /* decode node -> scheduler: a session's KV stays in my memory, or no longer */
    MSG_FAULT,   /* node or scheduler -> client: an operation failed, the run cannot go on */

    /* With cluster.retry, when a node has died; see sched/retry.h. */
    MSG_DEAD,  /* owner of the run -> scheduler -> every live node */
    MSG_CLEAR, /* node -> client -> scheduler: nothing is left here of what the dead had part in */
    MSG_LOST,  /* scheduler -> client: a request whose node died; nothing of it is left anywhere */
    MSG_OVER,  /* client -> scheduler: a request id is not used any more */

    /* Between the backends of nodes on real machines, not for the node's own endpoint: an EP group
     * that spans nodes meets, see hw/ep_barrier_net.h. */
    MSG_MEET,
};

enum msg_meet_kind { MSG_MEET_ARRIVE = 1, MSG_MEET_CALL, MSG_MEET_RELEASE };

/* What stays the same for a request on its whole way. Tokens. */
struct msg_request {
    uint32_t request; /* unique among the requests in flight */
    uint32_t session;
    uint32_t turn;
    uint32_t prompt_tok; /* hit + miss */
    uint32_t hit_tok;    /* multiple of the KV block, < prompt_tok */
    uint32_t gen_tok;
};

struct msg_fetch {
    uint32_t node;
    /* Totals since the start: robust against messages that cross, unlike levels. */
    uint64_t read_done_tok;
    uint64_t read_added_tok; /* reads that the scheduler did not know of: kept KV was gone */
    uint64_t done_tok[MSG_MAX_GPUS];
    uint64_t done_requests[MSG_MAX_GPUS];
    /* Decode nodes: HBM promised to finished requests; less what was granted when it is not
     * promised (modulo 2^64). */
    uint64_t done_blocks[MSG_MAX_GPUS];
};

struct msg_start {
    struct msg_request r;
    uint32_t prefill_node, decode_node;
    uint16_t prefill_gpu, decode_gpu;
    uint32_t read_on_decode; /* 0: PE read path, 1: DE read path or a part of it */
    /* Hits by way of the decode node, from token 0 on; the prefill node reads the others. Full
     * Blocks; 0 or hit_tok unless the read is split. */
    uint32_t decode_tok;
    uint32_t kept_tok;     /* of those, what the decode node still has and does not read */
    uint64_t scheduled_ns; /* time spent in the scheduler */
};

struct msg_decode_ready {
    struct msg_start start;
    uint64_t decode_offset_bytes; /* of the request's KV in the decode node's buffer */
    uint64_t alloc_ns; /* time spent waiting for buffer space and for the answer where it is */
    uint64_t read_ns;  /* time from the submission of the storage read to its end, less its
                          answer_ns, which is in alloc_ns; of a split read with it */
};

struct msg_decode_read {
    uint32_t request;
};

/* A chunk's KV comes in one stream, or in two when it does not lie in one piece. */
#define MSG_MAX_PUSHES 2

struct msg_push {
    uint32_t request;
    uint32_t stream;
    uint32_t first_tok; /* multiple of the KV block */
    uint32_t n_tok;
    uint64_t gpu_offset_bytes; /* where to write in the prefill GPU */
    uint32_t notify_at;        /* first number of layers to report */
    uint32_t notify_every;
    uint32_t layers_ready; /* in the buffer; MSG_PUSH_FEED tells of the others, if there are any */
};

/* Also for MSG_PUSH_FEED. */
struct msg_pushed {
    uint32_t request;
    uint32_t stream;
    uint32_t layers;
};

struct msg_ep {
    uint32_t group;
    uint32_t node;
};

struct msg_kept {
    uint32_t session;
    uint32_t engine, n_engines; /* that can use it: decode engines, 0-based over all nodes */
    uint32_t tok;               /* from token 0 on, Full Blocks; 0: no longer */
};

/* A token or the end of something, told to the client. */
struct msg_event {
    uint32_t request;
    uint32_t tok; /* tokens generated so far */
    /* MSG_FIRST_TOKEN: parts of the way so far, one after the other. */
    uint64_t scheduled_ns, alloc_ns, read_ns, queue_ns;
};

struct msg_fault {
    uint32_t request;
    int32_t status; /* negative errno */
    uint32_t peer;  /* at the other end of a copy, whose death would explain it; or MSG_NO_NODE */
    char what[64];  /* the operation: "store", "read", "forward", ... */
};

struct msg_dead {
    uint32_t node;
};

struct msg_clear {
    uint32_t node;   /* that is clear */
    uint32_t deaths; /* of how many deaths, in the order in which the scheduler tells of them */
};

struct msg_lost {
    uint32_t request;
};

struct msg_meet {
    uint32_t kind; /* enum msg_meet_kind */
    uint32_t side; /* 0: prefill, 1: decode */
    uint32_t group;
    uint64_t phase, sum;
};

struct msg_over {
    uint32_t request;
    uint32_t prefilled; /* 1: its first token has come, so its prefill node counts it as done */
};

struct msg {
    uint16_t version;
    uint16_t type; /* enum msg_type */
    uint32_t src, dst;
    union {
        struct msg_request submit;
        struct msg_fetch fetch;
        struct msg_start start;
        struct msg_decode_ready decode_ready;
        struct msg_decode_read decode_read;
        struct msg_push push;
        struct msg_pushed pushed;
        struct msg_request prompt_kv;
        struct msg_ep ep;
        struct msg_kept kept;
        struct msg_event event;
        struct msg_fault fault;
        struct msg_dead dead;
        struct msg_clear clear;
        struct msg_lost lost;
        struct msg_over over;
        struct msg_meet meet;
    } u;
};

struct msg_port;

typedef void msg_handler(void *self, const struct msg *m);

struct msg_port_ops {
    const char *name;
    /* Takes a copy of m; delivers it from the loop, no earlier than delay_ns from now (the sender's
     * own working time, which a real backend has already spent and ignores). Order is kept per
     * (src, dst) for messages without delay. */
    void (*send)(struct msg_port *port, const struct msg *m, uint64_t delay_ns);
    /* Makes (handler, self) the receiver of an endpoint that lives in this process. */
    int (*attach)(struct msg_port *port, uint32_t endpoint, msg_handler *handler, void *self);
};

struct msg_port {
    const struct msg_port_ops *ops;
};

static inline void msg_send(struct msg_port *port, const struct msg *m, uint64_t delay_ns)
{
    port->ops->send(port, m, delay_ns);
}

#endif
