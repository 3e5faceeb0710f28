/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/packet_net.h"

#include <assert.h>
#include <math.h>

#define PS_PER_NS 1000u
#define PS_PER_S  1e12

/* The packet at a position: what is left of the segment and of the part, at most a payload. */
static uint32_t packet_bytes(const struct packet_flow *f, uint64_t position)
{
    uint64_t in_part = position % f->part_bytes;
    uint64_t segment = f->segment_bytes - in_part % f->segment_bytes;
    uint64_t part = f->part_bytes - in_part;
    uint64_t left = f->total_bytes - position;
    uint64_t n = segment < part ? segment : part;
    n = n < left ? n : left;
    return n < PACKET_PAYLOAD_BYTES ? (uint32_t)n : PACKET_PAYLOAD_BYTES;
}

static bool is_last(const struct packet_hop *h)
{
    return h == &h->flow->hops[h->flow->n_hops - 1];
}

static bool is_first(const struct packet_hop *h)
{
    return h == &h->flow->hops[0];
}

static bool has_packet(const struct packet_hop *h)
{
    return is_first(h) ? h->left_bytes < h->flow->ready_bytes : h->waiting > 0;
}

static bool is_head(const struct packet_lane_buffer *b, const struct packet_hop *h)
{
    return b->n > 0 && b->queue[b->first] == h;
}

static int32_t turn_bytes(const struct packet_flow *f)
{
    return (int32_t)lround(f->queue_pairs * PACKET_PAYLOAD_BYTES);
}

static bool has_room(const struct packet_hop *h)
{
    if (is_last(h)) {
        return true;
    }
    return h[1].buffer ? h[1].buffer->held < PACKET_LANE_ROOM : h[1].held < h->flow->window;
}

/* Room by lane is not asked for here, where a flow gets its turn, but by the lane: first_of(). */
static bool can_go(const struct packet_hop *h)
{
    return has_packet(h) && (!h->buffer || is_head(h->buffer, h)) && (has_room(h) || h[1].buffer);
}

static unsigned lane_of(const struct packet_hop *h)
{
    return h->station->arbitrated ? h->flow->lane : 0;
}

static void unlist(struct packet_hop *h)
{
    struct packet_station *s = h->station;
    unsigned lane = lane_of(h);
    list_remove(&h->node);
    h->listed = false;
    if (list_empty(&s->ready[lane])) {
        s->lanes_ready &= ~(1u << lane);
    }
}

static void enlist(struct packet_hop *h, bool goes_on)
{
    unsigned lane = lane_of(h);
    if (goes_on) {
        list_add_head(&h->station->ready[lane], &h->node);
    } else {
        list_add_tail(&h->station->ready[lane], &h->node);
    }
    h->station->lanes_ready |= 1u << lane;
    h->listed = true;
}

/* Whose turn it is in a lane, or NULL when the lane has no credits. */
static struct packet_hop *first_of(const struct packet_station *s, unsigned lane)
{
    list_for_each (pos, &s->ready[lane]) {
        struct packet_hop *h = container_of(pos, struct packet_hop, node);
        if (has_room(h)) {
            return h;
        }
    }
    return NULL;
}

/* The flow whose packet goes next, or NULL. */
static struct packet_hop *choose(struct packet_station *s)
{
    if (!s->lanes_ready) {
        return NULL;
    }
    if (!s->arbitrated) {
        return first_of(s, 0);
    }
    uint32_t heads[VLARB_LANES] = {0};
    for (unsigned lane = 0; lane < VLARB_LANES; lane++) {
        if (s->lanes_ready & 1u << lane) {
            const struct packet_hop *h = first_of(s, lane);
            heads[lane] = h ? packet_bytes(h->flow, h->left_bytes) + s->overhead_bytes : 0;
        }
    }
    int lane = vlarb_next(&s->arbiter, heads);
    return lane < 0 ? NULL : first_of(s, (unsigned)lane);
}

static bool busy(const struct packet_station *s)
{
    return loop_armed(&s->timer);
}

/* Charges the packet to the flow's turn; false when the turn is over and another one is due. */
static bool turn_goes_on(struct packet_hop *h, uint32_t bytes)
{
    if (h->station->net->packet_turns) {
        return false;
    }
    h->turn_bytes -= (int32_t)bytes;
    if (h->turn_bytes > 0) {
        return true;
    }
    h->turn_bytes += turn_bytes(h->flow);
    return false;
}

static void wake(struct packet_hop *h);

static void push(struct packet_lane_buffer *b, struct packet_hop *h)
{
    b->queue[(b->first + b->n++) % PACKET_LANE_ROOM] = h;
}

/* Takes the head out; the next packet may be one for another station. */
static void pop(struct packet_lane_buffer *b)
{
    b->first = (b->first + 1) % PACKET_LANE_ROOM;
    b->n--;
}

static void wake_head(struct packet_lane_buffer *b)
{
    if (b->n > 0) {
        wake(b->queue[b->first]);
    }
}

static void take_room(struct packet_hop *h)
{
    h->held++;
    if (h->buffer) {
        h->buffer->held++;
    }
}

static void serve(struct packet_station *s)
{
    if (busy(s) || s->ps_per_byte == 0) {
        return;
    }
    struct packet_hop *h = choose(s);
    if (!h) {
        return;
    }
    struct packet_net *n = s->net;
    s->serving = h;
    s->serving_bytes = packet_bytes(h->flow, h->left_bytes);
    h->left_bytes += s->serving_bytes;
    h->waiting -= !is_first(h);
    if (!is_last(h)) {
        take_room(h + 1);
    }
    if (h->buffer) {
        pop(h->buffer);
    }
    unlist(h);
    bool goes_on = turn_goes_on(h, s->serving_bytes);
    if (can_go(h)) {
        enlist(h, goes_on);
    }
    uint64_t start_ps = s->free_at_ps > n->now_ps ? s->free_at_ps : n->now_ps;
    s->free_at_ps =
        start_ps + (uint64_t)llround((s->serving_bytes + s->overhead_bytes) * s->ps_per_byte);
    loop_arm(n->loop, &s->timer, (s->free_at_ps + PS_PER_NS - 1) / PS_PER_NS);
    if (h->buffer) {
        wake_head(h->buffer);
    }
}

/* Something has come up for h: a packet, or room for one. */
static void wake(struct packet_hop *h)
{
    if (!h->listed && can_go(h)) {
        enlist(h, false);
        serve(h->station);
    }
}

/* A packet has left h: room for the next one. */
static void give_room(struct packet_hop *h)
{
    h->held--;
    if (h->buffer) {
        h->buffer->held--;
        serve(h[-1].station);
    } else {
        wake(h - 1);
    }
}

static void arrived(struct packet_flow *f, uint32_t bytes)
{
    f->arrived_bytes += bytes;
    if (f->arrived_bytes == f->total_bytes) {
        f->open = false;
        f->ended(f);
    } else if (f->arrived_bytes >= f->mark_bytes) {
        f->reached(f);
    }
}

static void served(struct loop_timer *t)
{
    struct packet_station *s = container_of(t, struct packet_station, timer);
    struct packet_hop *h = s->serving;
    uint32_t bytes = s->serving_bytes;
    s->serving = NULL;
    s->net->now_ps = s->free_at_ps;
    s->net->n_served++;
    if (s->moved_bytes) {
        *s->moved_bytes += bytes;
    }
    serve(s);
    if (!h) {
        return; /* of a flow that was aborted */
    }
    if (!is_first(h)) {
        give_room(h);
    }
    if (is_last(h)) {
        arrived(h->flow, bytes);
    } else {
        h[1].waiting++;
        if (h[1].buffer) {
            push(h[1].buffer, h + 1);
        }
        wake(h + 1);
    }
}

void packet_net_init(struct packet_net *n, struct loop *loop)
{
    *n = (struct packet_net){.loop = loop, .window = PACKET_WINDOW};
}

static double ps_per_byte(double rate_Bps)
{
    return rate_Bps > 0 ? PS_PER_S / rate_Bps : 0;
}

int packet_station_init(struct packet_net *n, struct packet_station *s, double rate_Bps,
                        uint32_t overhead_bytes, const struct vlarb_config *arbiter,
                        struct err *err)
{
    *s = (struct packet_station){.net = n,
                                 .ps_per_byte = ps_per_byte(rate_Bps),
                                 .overhead_bytes = overhead_bytes,
                                 .arbitrated = arbiter && arbiter->mode != VLARB_NONE};
    for (unsigned lane = 0; lane < VLARB_LANES; lane++) {
        list_init(&s->ready[lane]);
    }
    loop_timer_init(&s->timer, served);
    return s->arbitrated ? vlarb_init(&s->arbiter, arbiter, err) : 0;
}

/* What comes from outside happens on the loop's nanosecond. */
static void enter(struct packet_net *n)
{
    n->now_ps = loop_now_ns(n->loop) * PS_PER_NS;
}

void packet_station_set_rate(struct packet_station *s, double rate_Bps)
{
    s->ps_per_byte = ps_per_byte(rate_Bps);
    enter(s->net);
    serve(s);
}

void packet_flow_open(struct packet_net *n, struct packet_flow *f,
                      struct packet_station *const *path, unsigned n_path)
{
    assert(n_path > 0 && n_path <= PACKET_MAX_HOPS);
    assert(f->total_bytes > 0 && f->part_bytes > 0 && f->segment_bytes > 0 && f->queue_pairs > 0);
    f->net = n;
    f->n_hops = (uint8_t)n_path;
    f->window = n->window * (uint32_t)ceil(f->queue_pairs);
    f->open = true;
    f->arrived_bytes = 0;
    for (unsigned i = 0; i < n_path; i++) {
        f->hops[i] =
            (struct packet_hop){.flow = f, .station = path[i], .turn_bytes = turn_bytes(f)};
    }
    for (unsigned i = 1; i < n_path && !f->local; i++) {
        struct packet_lane_buffer *b = path[i - 1]->lane_buffers;
        f->hops[i].buffer = b ? &b[lane_of(&f->hops[i - 1])] : NULL;
    }
    enter(n);
    wake(&f->hops[0]);
}

void packet_flow_ready(struct packet_flow *f, uint64_t ready_bytes)
{
    assert(f->open && ready_bytes >= f->ready_bytes && ready_bytes <= f->total_bytes);
    f->ready_bytes = ready_bytes;
    enter(f->net);
    wake(&f->hops[0]);
}

static void leave_buffer(struct packet_hop *h)
{
    struct packet_lane_buffer *b = h->buffer;
    uint32_t n = b->n;
    b->n = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct packet_hop *other = b->queue[(b->first + i) % PACKET_LANE_ROOM];
        if (other != h) {
            push(b, other);
        }
    }
    b->held -= h->held;
    wake_head(b);
    serve(h[-1].station);
}

void packet_flow_abort(struct packet_flow *f)
{
    enter(f->net);
    for (unsigned i = 0; i < f->n_hops; i++) {
        struct packet_hop *h = &f->hops[i];
        if (h->listed) {
            unlist(h);
        }
        if (h->station->serving == h) {
            h->station->serving = NULL;
        }
    }
    for (unsigned i = 0; i < f->n_hops; i++) {
        if (f->hops[i].buffer) {
            leave_buffer(&f->hops[i]);
        }
    }
    f->open = false;
}
