/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A control message over ZeroMQ with CURVE keys, hub and node each on a thread of its own, one way:
 * half of a round trip. */
#include <errno.h>
#include <string.h>

#include "base/units.h"
#include "hw/messages_zmq.h"
#include "hw/probe_internal.h"

struct ping {
    struct probe_ground ground;
    struct probe_peer peer;
    struct curve_keypair hub_key, node_key;
    struct curve_guest guest;
    struct messages_zmq hub, node;
    bool has_hub, has_node;
    uint64_t n, end_ns, last_ns;
    struct err lost;
};

static void pong(void *self, uint32_t peer, uint16_t kind, const char *text)
{
    struct ping *p = self;
    messages_zmq_control(&p->hub, peer, kind, text);
}

static void pinged(void *self, uint32_t peer, uint16_t kind, const char *text)
{
    struct ping *p = self;
    p->n++;
    p->last_ns = wall_now_ns();
    if (p->last_ns < p->end_ns) {
        messages_zmq_control(&p->node, peer, kind, text);
    } else {
        loop_stop(&p->ground.loop);
    }
}

static void hub_lost(void *self, uint32_t peer, const char *why)
{
    (void)self;
    (void)peer;
    (void)why; /* the node sees it too */
}

static void node_lost(void *self, uint32_t peer, const char *why)
{
    (void)peer;
    struct ping *p = self;
    err_set(&p->lost, -ECONNRESET, "message: %s", why);
    loop_stop(&p->ground.loop);
}

static void refused(void *self, const char *why)
{
    (void)self;
    (void)why;
}

static int open_hub(struct ping *p, struct err *e)
{
    const struct messages_zmq_options o = {.self = PEER_HUB,
                                           .n_nodes = 1,
                                           .key = p->hub_key,
                                           .nodes = &p->guest,
                                           .host = "127.0.0.1",
                                           .beat_ns = NS_PER_S,
                                           .silence_ns = 60 * NS_PER_S};
    const struct messages_zmq_events events = {
        .self = p, .control = pong, .peer_lost = hub_lost, .refused = refused};
    int rc =
        messages_zmq_init(&p->hub, &p->peer.ground.loop, &p->peer.ground.driver, &o, &events, e);
    p->has_hub = rc == 0;
    return rc;
}

static int open_node(struct ping *p, struct err *e)
{
    const struct messages_zmq_options o = {.self = 0,
                                           .n_nodes = 1,
                                           .key = p->node_key,
                                           .nodes = &p->guest,
                                           .hub_endpoint = messages_zmq_endpoint(&p->hub),
                                           .hub_key = p->hub_key.public_key,
                                           .host = "127.0.0.1",
                                           .beat_ns = NS_PER_S,
                                           .silence_ns = 60 * NS_PER_S};
    const struct messages_zmq_events events = {
        .self = p, .control = pinged, .peer_lost = node_lost, .refused = refused};
    int rc = messages_zmq_init(&p->node, &p->ground.loop, &p->ground.driver, &o, &events, e);
    p->has_node = rc == 0;
    return rc;
}

static int open_both(struct ping *p, struct err *e)
{
    int rc = curve_keypair_new(&p->hub_key, e);
    rc = rc ? rc : curve_keypair_new(&p->node_key, e);
    memcpy(p->guest.public_key, p->node_key.public_key, sizeof(p->guest.public_key));
    memcpy(p->guest.name, "node0", sizeof("node0"));
    rc = rc ? rc : open_hub(p, e);
    rc = rc ? rc : open_node(p, e);
    return rc ? rc : probe_peer_start(&p->peer, e);
}

/* Round trips for rep_ns; *ret_ns is half of one. */
static int run_rep(struct ping *p, uint64_t rep_ns, double *ret_ns)
{
    uint64_t start_ns = wall_now_ns();
    p->n = 0;
    p->end_ns = start_ns + rep_ns;
    messages_zmq_control(&p->node, PEER_HUB, WIRE_NOTE, "ping");
    int rc = loop_run(&p->ground.loop);
    if (rc || p->lost.set) {
        return rc ? rc : p->lost.code;
    }
    *ret_ns = (double)(p->last_ns - start_ns) / (double)p->n / 2;
    return 0;
}

static int measure(struct ping *p, const struct probe_config *c, struct probe_points *ps,
                   struct err *e)
{
    double ns[PROBE_REPETITIONS];
    int rc = run_rep(p, 0, &ns[0]); /* connects */
    for (uint32_t i = 0; rc == 0 && i < PROBE_REPETITIONS; i++) {
        rc = probe_go_on(c);
        rc = rc ? rc : run_rep(p, c->rep_ns, &ns[i]);
    }
    if (rc) {
        return err_set(e, rc, "%s", p->lost.set ? p->lost.text : strerror(-rc));
    }
    const struct probe_point point = {
        .what = PROBE_MESSAGE, .depth = 1, .nodes = 1, .time_ns = probe_stat_of(ns)};
    return probe_points_add(ps, &point, e);
}

int probe_messages(const struct probe_config *c, struct probe_points *ps, struct err *e)
{
    struct ping p = {.n = 0};
    int rc = probe_ground_init(&p.ground, 1, e);
    int peer_rc = probe_peer_init(&p.peer, 1, e);
    rc = rc ? rc : peer_rc;
    rc = rc ? rc : open_both(&p, e);
    rc = rc ? rc : measure(&p, c, ps, e);
    probe_peer_stop(&p.peer);
    if (p.has_node) {
        messages_zmq_done(&p.node, 0);
    }
    if (p.has_hub) {
        messages_zmq_done(&p.hub, 0);
    }
    probe_peer_done(&p.peer);
    probe_ground_done(&p.ground);
    return rc;
}
