/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Packets over a network of stations in virtual time: the reference that sim/network.h, the fluid
 * model of the same links, is measured against.
 *
 * A station is a link or a memory: it moves one packet at a time, store and forward, in
 *     (payload + overhead) / rate.
 * A flow is a queue pair: its packets pass its stations in order. Which packet a station moves next
 * is decided twice: an arbiter (sim/vlarb.h) chooses the lane, and within a lane flows take turns.
 * A turn is a full packet's worth of payload (deficit round robin, M. Shreedhar & G. Varghese,
 * IEEE/ACM ToN 4(3), 1996), or one packet of whatever size. A flow that stands for several queue
 * pairs has the turn and the buffers of all of them.
 *
 * Buffers are bounded and nothing is lost: a station holds at most `window` packets of a flow,
 * those under way to it included, and the one before waits for room (credits per queue pair and
 * hop). Round robin with such windows converges to the max-min fair rates (E. L. Hahne, Round-Robin
 * Scheduling for Max-Min Fairness in Data Networks, IEEE JSAC 9(7), 1991). Or a switch buffers by
 * input port and lane, first in, first out, as InfiniBand's credits have it.
 *
 * Time inside is kept in picoseconds (a packet takes 84.5 ns at 48.5 GB/s); events are rounded up
 * to the loop's nanosecond without shifting what follows.
 *
 * Nothing is allocated: stations and flows are the caller's. A packet and station cost one event.
 */
#ifndef DUALPATH_SIM_PACKET_NET_H
#define DUALPATH_SIM_PACKET_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/loop.h"
#include "sim/vlarb.h"

#define PACKET_PAYLOAD_BYTES 4096u /* InfiniBand's largest MTU */
#define PACKET_MAX_HOPS      5
/* Packets of a queue pair that a hop has room for, 16 KB. With fewer it misses turns where links
 * are shared; eight such queue pairs fill what a switch has for a port and lane [128 KB, assumed].
 * README.md measures others. */
#define PACKET_WINDOW 4u

struct packet_net {
    struct loop *loop;
    uint32_t window;   /* PACKET_WINDOW; may be changed before the first flow, >= 2 */
    bool packet_turns; /* one packet a turn; may be changed before the first flow */
    uint64_t now_ps;   /* exact time of the packet event being handled */
    uint64_t n_served; /* packets times stations */
};

/* Packets of one lane that have come in through one port, first in, first out. */
#define PACKET_LANE_ROOM 32u
struct packet_lane_buffer {
    uint32_t first, n; /* of the queue, a ring */
    uint32_t held;     /* in the queue, being moved on, or under way to here */
    struct packet_hop *queue[PACKET_LANE_ROOM];
};

struct packet_station {
    struct packet_net *net;
    double ps_per_byte;      /* 0: stands still */
    uint32_t overhead_bytes; /* of a packet */
    bool arbitrated;         /* else one turn for all lanes */
    struct vlarb arbiter;
    struct list
        ready[VLARB_LANES];     /* packet_hop.node: flows with a packet that could go, in turn */
    uint32_t lanes_ready;       /* bit per lane */
    struct packet_hop *serving; /* NULL when idle, or when its flow was aborted */
    uint32_t serving_bytes;
    uint64_t free_at_ps;
    struct loop_timer timer;
    /* NULL: what it sends is buffered by queue pair; or VLARB_LANES of them, the caller's: what it
     * sends is buffered by lane, flows with `local` set apart. */
    struct packet_lane_buffer *lane_buffers;
    double *moved_bytes; /* NULL, or a sum of payload that left the station */
};

struct packet_hop {
    struct list node;
    bool listed;
    struct packet_flow *flow;
    struct packet_station *station;
    struct packet_lane_buffer *buffer; /* where its packets wait here, or NULL */
    uint64_t left_bytes;               /* position in the flow of the next packet to leave */
    int32_t turn_bytes;                /* left of its turn; > 0 */
    uint32_t waiting; /* packets here, not started; the first hop's are those that are ready */
    uint32_t held;    /* packets here or under way to here */
};

struct packet_flow {
    /* Set by the caller. A packet never spans two segments, nor two parts. */
    uint8_t lane;
    bool local; /* passes no switch: station.lane_buffers */
    uint64_t total_bytes, ready_bytes, mark_bytes;
    uint64_t part_bytes, segment_bytes;
    double queue_pairs;                     /* that it stands for, > 0 */
    void (*reached)(struct packet_flow *f); /* arrived >= mark_bytes (< total): set another mark */
    void (*ended)(struct packet_flow *f);   /* all has arrived; the flow may be opened again */
    void *owner;

    struct packet_net *net;
    uint8_t n_hops;
    uint32_t window;
    bool open; /* between packet_flow_open() and the end */
    uint64_t arrived_bytes;
    struct packet_hop hops[PACKET_MAX_HOPS];
};

void packet_net_init(struct packet_net *n, struct loop *loop);

/*
 * A station of so many bytes per second, the overhead of packets included (0: stands still).
 * arbiter: NULL or of mode VLARB_NONE = every flow like another, whatever its lane. Returns 0, or
 * -EINVAL with err (vlarb_init()).
 */
int packet_station_init(struct packet_net *n, struct packet_station *s, double rate_Bps,
                        uint32_t overhead_bytes, const struct vlarb_config *arbiter,
                        struct err *err);

/* From the next packet on. */
void packet_station_set_rate(struct packet_station *s, double rate_Bps);

/* Starts a flow over n <= PACKET_MAX_HOPS distinct stations. total_bytes, part_bytes and
 * segment_bytes and queue_pairs must be positive, ready_bytes a whole number of parts or the
 * total. */
void packet_flow_open(struct packet_net *n, struct packet_flow *f,
                      struct packet_station *const *path, unsigned n_path);

/* Raises ready_bytes. */
void packet_flow_ready(struct packet_flow *f, uint64_t ready_bytes);

/* Drops its packets; a packet being moved keeps its station busy to its end. */
void packet_flow_abort(struct packet_flow *f);

#endif
