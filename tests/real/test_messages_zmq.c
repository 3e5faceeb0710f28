/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The message port over ZeroMQ: a hub and nodes on one loop, and strangers at the door. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

#include "base/units.h"
#include "check_suite.h"
#include "hw/messages_zmq.h"

#define N_NODES 3
#define LOG     64
/* Never waited for: what is awaited comes, however busy the machine is. */
#define LIMIT_NS (20 * NS_PER_S)

/* What one process has heard. */
struct ear {
    uint32_t control_peers[LOG];
    uint16_t control_kinds[LOG];
    char last_text[64];
    unsigned n_control, n_lost, n_refused, n_messages;
    uint32_t lost_peer;
    char why[256];
    struct msg messages[LOG];
};

struct world {
    struct wall_driver driver;
    struct loop loop;
    uint64_t silence_ns;
    struct loop_timer limit;
    bool too_late;
    struct curve_keypair hub_key, keys[N_NODES];
    struct curve_guest guests[N_NODES];
    struct messages_zmq hub, nodes[N_NODES];
    bool up[N_NODES];
    struct ear hub_ear, node_ears[N_NODES];
};

static struct world w;

static void heard_control(void *self, uint32_t peer, uint16_t kind, const char *text)
{
    struct ear *e = self;
    e->control_peers[e->n_control % LOG] = peer;
    e->control_kinds[e->n_control++ % LOG] = kind;
    snprintf(e->last_text, sizeof(e->last_text), "%s", text);
}

static void heard_lost(void *self, uint32_t peer, const char *why)
{
    struct ear *e = self;
    e->n_lost++;
    e->lost_peer = peer;
    snprintf(e->why, sizeof(e->why), "%s", why);
}

static void heard_refused(void *self, const char *why)
{
    struct ear *e = self;
    e->n_refused++;
    snprintf(e->why, sizeof(e->why), "%s", why);
}

static void heard_message(void *self, const struct msg *m)
{
    struct ear *e = self;
    e->messages[e->n_messages++ % LOG] = *m;
}

static void too_late(struct loop_timer *t)
{
    (void)t;
    w.too_late = true;
    loop_stop(&w.loop);
}

/* A look at the world every millisecond, as the loop has no hook after each turn. */
static bool (*wanted)(void);
static struct loop_timer look_timer;

static void look(struct loop_timer *t)
{
    if (wanted && wanted()) {
        loop_stop(&w.loop);
        return;
    }
    loop_arm(&w.loop, t, loop_now_ns(&w.loop) + NS_PER_MS);
}

static bool run_until(bool (*what)(void), uint64_t limit_ns)
{
    wanted = what;
    w.too_late = false;
    loop_timer_init(&w.limit, too_late);
    loop_timer_init(&look_timer, look);
    w.loop.now_ns = wall_now_ns();
    loop_arm(&w.loop, &w.limit, wall_now_ns() + limit_ns);
    loop_post(&w.loop, &look_timer);
    ck_assert_int_eq(loop_run(&w.loop), 0);
    loop_disarm(&w.loop, &w.limit);
    loop_disarm(&w.loop, &look_timer);
    return !w.too_late;
}

static struct messages_zmq_options options_of(uint32_t self)
{
    return (struct messages_zmq_options){.self = self,
                                         .n_nodes = N_NODES,
                                         .key = self == PEER_HUB ? w.hub_key : w.keys[self],
                                         .nodes = w.guests,
                                         .hub_endpoint = w.hub.endpoint,
                                         .hub_key = w.hub_key.public_key,
                                         .host = "127.0.0.1",
                                         .beat_ns = 20 * NS_PER_MS,
                                         .silence_ns = w.silence_ns};
}

static struct messages_zmq_events events_of(struct ear *e)
{
    return (struct messages_zmq_events){
        .self = e, .control = heard_control, .peer_lost = heard_lost, .refused = heard_refused};
}

static void start_node(uint32_t i)
{
    struct err e = ERR_INIT;
    struct messages_zmq_options o = options_of(i);
    struct messages_zmq_events ev = events_of(&w.node_ears[i]);
    ck_assert_int_eq(messages_zmq_init(&w.nodes[i], &w.loop, &w.driver, &o, &ev, &e), 0);
    struct msg_port *p = &w.nodes[i].port;
    ck_assert_int_eq(p->ops->attach(p, MSG_NODE(i), heard_message, &w.node_ears[i]), 0);
    w.up[i] = true;
    messages_zmq_control(&w.nodes[i], PEER_HUB, WIRE_HELLO, w.guests[i].name);
}

static void stop_node(uint32_t i)
{
    messages_zmq_done(&w.nodes[i], 0);
    w.up[i] = false;
}

static void setup_with(uint64_t silence_ns)
{
    struct err e = ERR_INIT;
    memset(&w, 0, sizeof(w));
    w.silence_ns = silence_ns;
    ck_assert_int_eq(wall_driver_init(&w.driver, &e), 0);
    ck_assert_int_eq(loop_init(&w.loop, &w.driver.driver, 0), 0);
    wall_driver_attach(&w.driver, &w.loop);
    ck_assert_int_eq(curve_keypair_new(&w.hub_key, &e), 0);
    for (uint32_t i = 0; i < N_NODES; i++) {
        ck_assert_int_eq(curve_keypair_new(&w.keys[i], &e), 0);
        memcpy(w.guests[i].public_key, w.keys[i].public_key, CURVE_KEY_CHARS);
        snprintf(w.guests[i].name, sizeof(w.guests[i].name), "node%u", i);
    }
    struct messages_zmq_options o = options_of(PEER_HUB);
    struct messages_zmq_events ev = events_of(&w.hub_ear);
    ck_assert_int_eq(messages_zmq_init(&w.hub, &w.loop, &w.driver, &o, &ev, &e), 0);
    struct msg_port *p = &w.hub.port;
    ck_assert_int_eq(p->ops->attach(p, MSG_SCHEDULER, heard_message, &w.hub_ear), 0);
    ck_assert_int_eq(p->ops->attach(p, MSG_SCHEDULER, heard_message, &w.hub_ear), -EINVAL);
    ck_assert_int_eq(p->ops->attach(p, MSG_NODE(0), heard_message, &w.hub_ear), -EINVAL);
}

/* Nobody counts as silent in the time of a test. */
static void setup(void)
{
    setup_with(60 * NS_PER_S);
}

/* Who sends no beats does. */
static void setup_impatient(void)
{
    setup_with(500 * NS_PER_MS);
}

static void teardown(void)
{
    for (uint32_t i = 0; i < N_NODES; i++) {
        if (w.up[i]) {
            messages_zmq_done(&w.nodes[i], 0);
        }
    }
    messages_zmq_done(&w.hub, 0);
    wall_driver_done(&w.driver);
    loop_done(&w.loop);
}

static bool all_said_hello(void)
{
    return w.hub_ear.n_control == N_NODES;
}

static bool hub_lost_one(void)
{
    return w.hub_ear.n_lost == 1;
}

static bool hub_refused_one(void)
{
    return w.hub_ear.n_refused >= 1;
}

static bool node_0_heard_the_hub(void)
{
    return w.node_ears[0].n_control > 0;
}

static bool node_1_heard_the_hub(void)
{
    return w.node_ears[1].n_control > 0;
}

static void start_all(void)
{
    for (uint32_t i = 0; i < N_NODES; i++) {
        start_node(i);
    }
    ck_assert(run_until(all_said_hello, LIMIT_NS));
}

static void send(struct messages_zmq *from, uint32_t src, uint32_t dst, uint32_t number)
{
    struct msg m = {.type = MSG_TOKEN, .src = src, .dst = dst, .u.event.request = number};
    msg_send(&from->port, &m, 0);
}

static bool everybody_has_heard(void)
{
    return w.hub_ear.n_messages == 30 && w.node_ears[0].n_messages == 20 &&
           w.node_ears[1].n_messages == 10 && w.node_ears[2].n_messages == 20;
}

START_TEST(messages_go_every_way_in_order)
{
    struct err e = ERR_INIT;
    start_all();
    ck_assert_int_eq(messages_zmq_connect(&w.nodes[0], 2, messages_zmq_endpoint(&w.nodes[2]), &e),
                     0);
    ck_assert_int_eq(messages_zmq_connect(&w.nodes[1], 2, messages_zmq_endpoint(&w.nodes[2]), &e),
                     0);
    for (uint32_t i = 0; i < 10; i++) {
        send(&w.hub, MSG_SCHEDULER, MSG_NODE(0), i);
        send(&w.hub, MSG_CLIENT, MSG_SCHEDULER, i); /* within the hub */
        send(&w.hub, MSG_SCHEDULER, MSG_NODE(1), i);
        send(&w.nodes[0], MSG_NODE(0), MSG_SCHEDULER, i);
        send(&w.nodes[0], MSG_NODE(0), MSG_NODE(2), i);
        send(&w.nodes[0], MSG_NODE(0), MSG_NODE(0), i); /* within the node */
        send(&w.nodes[1], MSG_NODE(1), MSG_NODE(2), i);
        send(&w.nodes[2], MSG_NODE(2), MSG_SCHEDULER, i);
    }
    ck_assert_uint_eq(w.hub_ear.n_messages + w.node_ears[0].n_messages, 0); /* nothing inline */
    ck_assert(run_until(everybody_has_heard, LIMIT_NS));
    uint32_t next[N_NODES + 2] = {0};
    for (unsigned i = 0; i < w.hub_ear.n_messages; i++) {
        const struct msg *m = &w.hub_ear.messages[i];
        ck_assert_uint_eq(m->u.event.request, next[m->src]++);
        ck_assert_uint_eq(m->dst, MSG_SCHEDULER);
    }
    ck_assert_uint_eq(w.hub_ear.n_lost + w.hub_ear.n_refused, 0);
}
END_TEST

START_TEST(control_frames_carry_text)
{
    start_all();
    messages_zmq_control(&w.hub, 1, WIRE_CONFIG, "{\"a\": 1}");
    ck_assert(run_until(node_1_heard_the_hub, LIMIT_NS));
    ck_assert_uint_eq(w.node_ears[1].n_control, 1);
    ck_assert_uint_eq(w.node_ears[1].control_peers[0], PEER_HUB);
    ck_assert_uint_eq(w.node_ears[1].control_kinds[0], WIRE_CONFIG);
    ck_assert_str_eq(w.node_ears[1].last_text, "{\"a\": 1}");
    ck_assert_uint_eq(w.node_ears[0].n_control, 0);
}
END_TEST

START_TEST(beats_keep_a_silent_peer_alive)
{
    start_all();
    run_until(NULL, 2000 * NS_PER_MS); /* four times the silence that counts as a loss */
    ck_assert_uint_eq(w.hub_ear.n_lost, 0);
    ck_assert_uint_eq(w.node_ears[0].n_lost, 0);
}
END_TEST

START_TEST(a_peer_that_ends_is_named)
{
    start_all();
    stop_node(1);
    ck_assert(run_until(hub_lost_one, LIMIT_NS));
    ck_assert_uint_eq(w.hub_ear.lost_peer, 1);
    ck_assert_str_eq(w.hub_ear.why, "its connection has ended");
    send(&w.hub, MSG_SCHEDULER, MSG_NODE(1), 0);
    run_until(NULL, 50 * NS_PER_MS);
    ck_assert_uint_eq(w.hub_ear.n_lost, 1);
}
END_TEST

/* The loop does not run while the peer ends, so that it is sending that finds nobody there. */
START_TEST(last_words_are_heard_before_the_end)
{
    const struct timespec ms = {0, NS_PER_MS};
    start_all();
    messages_zmq_control(&w.nodes[1], PEER_HUB, WIRE_FAILED, "last words");
    messages_zmq_done(&w.nodes[1], (int)(LIMIT_NS / NS_PER_MS));
    w.up[1] = false;
    for (uint64_t i = 0; i < LIMIT_NS / NS_PER_MS && !w.hub.peers[1].ended; i++) {
        messages_zmq_control(&w.hub, 1, WIRE_CONFIG, "");
        nanosleep(&ms, NULL);
    }
    ck_assert(w.hub.peers[1].ended);
    ck_assert(run_until(hub_lost_one, LIMIT_NS));
    ck_assert_str_eq(w.hub_ear.why, "its connection has ended");
    ck_assert_str_eq(w.hub_ear.last_text, "last words");
}
END_TEST

START_TEST(a_peer_that_leaves_is_no_loss)
{
    start_all();
    messages_zmq_leaving(&w.hub, 1);
    stop_node(1);
    run_until(NULL, 500 * NS_PER_MS);
    ck_assert_uint_eq(w.hub_ear.n_lost, 0);
}
END_TEST

static bool node_0_lost_the_hub(void)
{
    return w.node_ears[0].n_lost == 1;
}

START_TEST(a_hub_that_ends_is_noticed)
{
    struct err e = ERR_INIT;
    start_all();
    messages_zmq_control(&w.hub, 0, WIRE_CONFIG, "");
    ck_assert(run_until(node_0_heard_the_hub, LIMIT_NS));
    messages_zmq_done(&w.hub, 0);
    ck_assert(run_until(node_0_lost_the_hub, LIMIT_NS));
    ck_assert_uint_eq(w.node_ears[0].lost_peer, PEER_HUB);
    struct messages_zmq_options o = options_of(PEER_HUB);
    struct messages_zmq_events ev = events_of(&w.hub_ear);
    ck_assert_int_eq(messages_zmq_init(&w.hub, &w.loop, &w.driver, &o, &ev, &e), 0);
}
END_TEST

/* A peer made by hand, outside the message port. */
struct stranger {
    void *context, *socket;
};

static struct stranger stranger_new(const struct curve_keypair *key, const char *server_key,
                                    const char *name)
{
    struct stranger s = {.context = zmq_ctx_new()};
    struct err e = ERR_INIT;
    s.socket = key ? curve_client_new(s.context, ZMQ_DEALER, key, server_key, &e)
                   : zmq_socket(s.context, ZMQ_DEALER);
    ck_assert_ptr_nonnull(s.socket);
    curve_linger(s.socket, 0);
    ck_assert_int_eq(zmq_setsockopt(s.socket, ZMQ_ROUTING_ID, name, strlen(name)), 0);
    ck_assert_int_eq(zmq_connect(s.socket, messages_zmq_endpoint(&w.hub)), 0);
    return s;
}

static void stranger_say(struct stranger *s, uint16_t version, uint16_t type, uint32_t src)
{
    uint8_t frame[WIRE_HEAD_BYTES];
    wire_put_head(frame, &(struct wire_head){version, type, src, MSG_SCHEDULER});
    ck_assert_int_ge(zmq_send(s->socket, frame, sizeof(frame), ZMQ_DONTWAIT), 0);
}

static void stranger_done(struct stranger *s)
{
    zmq_close(s->socket);
    zmq_ctx_term(s->context);
}

START_TEST(a_peer_with_an_unknown_key_is_refused)
{
    struct err e = ERR_INIT;
    struct curve_keypair key;
    ck_assert_int_eq(curve_keypair_new(&key, &e), 0);
    struct stranger s = stranger_new(&key, w.hub_key.public_key, "node1");
    stranger_say(&s, MSG_VERSION, WIRE_HELLO, MSG_NODE(1));
    ck_assert(run_until(hub_refused_one, LIMIT_NS));
    ck_assert_ptr_nonnull(strstr(w.hub_ear.why, "127.0.0.1"));
    ck_assert_ptr_nonnull(strstr(w.hub_ear.why, key.public_key));
    ck_assert_uint_eq(w.hub_ear.n_control + w.hub_ear.n_messages, 0);
    stranger_done(&s);
}
END_TEST

START_TEST(a_peer_without_a_key_is_refused)
{
    struct stranger s = stranger_new(NULL, NULL, "node1");
    stranger_say(&s, MSG_VERSION, WIRE_HELLO, MSG_NODE(1));
    ck_assert(run_until(hub_refused_one, LIMIT_NS));
    ck_assert_ptr_nonnull(strstr(w.hub_ear.why, "does not speak CURVE"));
    ck_assert_uint_eq(w.hub_ear.n_control + w.hub_ear.n_messages, 0);
    stranger_done(&s);
}
END_TEST

START_TEST(a_false_hub_is_noticed)
{
    /* Node 0 expects another key than the hub has. */
    struct err e = ERR_INIT;
    struct curve_keypair other;
    ck_assert_int_eq(curve_keypair_new(&other, &e), 0);
    struct messages_zmq_options o = options_of(0);
    o.hub_key = other.public_key;
    struct messages_zmq_events ev = events_of(&w.node_ears[0]);
    ck_assert_int_eq(messages_zmq_init(&w.nodes[0], &w.loop, &w.driver, &o, &ev, &e), 0);
    w.up[0] = true;
    ck_assert(run_until(hub_refused_one, LIMIT_NS));
    ck_assert_uint_eq(w.hub_ear.n_control, 0);
}
END_TEST

START_TEST(a_name_that_is_not_the_keys_is_refused)
{
    struct stranger s = stranger_new(&w.keys[0], w.hub_key.public_key, "node1");
    stranger_say(&s, MSG_VERSION, WIRE_HELLO, MSG_NODE(1));
    ck_assert(run_until(hub_refused_one, LIMIT_NS));
    ck_assert_uint_eq(w.hub_ear.n_control, 0);
    stranger_done(&s);
}
END_TEST

START_TEST(another_version_is_refused_on_both_sides)
{
    struct stranger s = stranger_new(&w.keys[1], w.hub_key.public_key, "node1");
    stranger_say(&s, MSG_VERSION + 1, WIRE_HELLO, MSG_NODE(1));
    ck_assert(run_until(hub_lost_one, LIMIT_NS));
    ck_assert_uint_eq(w.hub_ear.lost_peer, 1);
    char expected[100];
    snprintf(expected, sizeof(expected),
             "speaks version %d of the messages, this program version %d", MSG_VERSION + 1,
             MSG_VERSION);
    ck_assert_str_eq(w.hub_ear.why, expected);
    uint8_t frame[256];
    int limit_ms = (int)(LIMIT_NS / NS_PER_MS);
    ck_assert_int_eq(zmq_setsockopt(s.socket, ZMQ_RCVTIMEO, &limit_ms, sizeof(limit_ms)), 0);
    ck_assert_int_gt(zmq_recv(s.socket, frame, sizeof(frame), 0), WIRE_HEAD_BYTES);
    ck_assert_uint_eq(frame[2], MSG_VERSION);
    ck_assert_uint_eq(frame[4], WIRE_FAILED);
    stranger_done(&s);
}
END_TEST

START_TEST(a_peer_that_speaks_for_another_is_cut_off)
{
    struct stranger s = stranger_new(&w.keys[1], w.hub_key.public_key, "node1");
    struct msg m = {.type = MSG_TOKEN, .src = MSG_NODE(2), .dst = MSG_SCHEDULER};
    uint8_t frame[WIRE_MSG_BYTES];
    size_t len = wire_put_msg(frame, &m);
    ck_assert_int_ge(zmq_send(s.socket, frame, len, ZMQ_DONTWAIT), 0);
    ck_assert(run_until(hub_lost_one, LIMIT_NS));
    ck_assert_uint_eq(w.hub_ear.lost_peer, 1);
    ck_assert_uint_eq(w.hub_ear.n_messages, 0);
    stranger_done(&s);
}
END_TEST

static bool node_2_lost_a_peer(void)
{
    return w.node_ears[2].n_lost == 1;
}

START_TEST(a_node_that_plays_the_hub_is_cut_off)
{
    struct err e = ERR_INIT;
    start_all();
    ck_assert_int_eq(messages_zmq_connect(&w.nodes[0], 2, messages_zmq_endpoint(&w.nodes[2]), &e),
                     0);
    messages_zmq_control(&w.nodes[0], 2, WIRE_STOP, "");
    ck_assert(run_until(node_2_lost_a_peer, LIMIT_NS));
    ck_assert_uint_eq(w.node_ears[2].lost_peer, 0);
    ck_assert_uint_eq(w.node_ears[2].n_control, 0);
}
END_TEST

START_TEST(a_peer_that_falls_silent_is_named)
{
    struct stranger s = stranger_new(&w.keys[2], w.hub_key.public_key, "node2");
    stranger_say(&s, MSG_VERSION, WIRE_HELLO, MSG_NODE(2));
    ck_assert(run_until(hub_lost_one, LIMIT_NS));
    ck_assert_uint_eq(w.hub_ear.lost_peer, 2);
    ck_assert_ptr_nonnull(strstr(w.hub_ear.why, "has not been heard of for "));
    stranger_done(&s);
}
END_TEST

START_TEST(nonsense_cuts_the_peer_off)
{
    struct stranger s = stranger_new(&w.keys[1], w.hub_key.public_key, "node1");
    ck_assert_int_ge(zmq_send(s.socket, "hello", 5, ZMQ_DONTWAIT), 0);
    ck_assert(run_until(hub_lost_one, LIMIT_NS));
    ck_assert_str_eq(w.hub_ear.why, "sent something that is no message (5 bytes)");
    stranger_done(&s);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("messages_zmq");
    TCase *t = tcase_create("messages_zmq");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 90);
    tcase_add_test(t, messages_go_every_way_in_order);
    tcase_add_test(t, control_frames_carry_text);
    tcase_add_test(t, a_peer_that_ends_is_named);
    tcase_add_test(t, last_words_are_heard_before_the_end);
    tcase_add_test(t, a_peer_that_leaves_is_no_loss);
    tcase_add_test(t, a_hub_that_ends_is_noticed);
    tcase_add_test(t, a_peer_with_an_unknown_key_is_refused);
    tcase_add_test(t, a_peer_without_a_key_is_refused);
    tcase_add_test(t, a_false_hub_is_noticed);
    tcase_add_test(t, a_name_that_is_not_the_keys_is_refused);
    tcase_add_test(t, another_version_is_refused_on_both_sides);
    tcase_add_test(t, a_peer_that_speaks_for_another_is_cut_off);
    tcase_add_test(t, a_node_that_plays_the_hub_is_cut_off);
    tcase_add_test(t, nonsense_cuts_the_peer_off);
    suite_add_tcase(s, t);
    TCase *silence = tcase_create("silence");
    tcase_add_checked_fixture(silence, setup_impatient, teardown);
    tcase_set_timeout(silence, 90);
    tcase_add_test(silence, beats_keep_a_silent_peer_alive);
    tcase_add_test(silence, a_peer_that_falls_silent_is_named);
    suite_add_tcase(s, silence);
    return run_suite(s);
}
