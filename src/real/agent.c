/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "real/agent.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/units.h"
#include "hw/messages_zmq.h"
#include "real/join_file.h"
#include "real/machine.h"

#define QUIET_LOOK_NS  (2 * NS_PER_MS)
#define QUIET_LIMIT_NS (10 * NS_PER_S)
#define LINGER_MS      2000

struct agent {
    struct agent_options options;
    struct join_file join;
    char host[64];
    struct wall_driver driver;
    struct loop loop;
    struct messages_zmq messages;
    struct run_config config;
    struct machine machine;
    struct loop_timer join_timer, quiet_timer;
    uint64_t stop_ns;
    bool configured, stopping, winding_up;
    struct err fault;
};

static void give_up(struct agent *a)
{
    if (!a->winding_up) { /* that stops by itself */
        loop_stop(&a->loop);
    }
}

/* Tells the hub why, and ends. */
static void fail(struct agent *a)
{
    char reason[1200], text[1240];
    err_format(&a->fault, reason, sizeof(reason));
    snprintf(text, sizeof(text), "%d %s", a->fault.code, reason);
    messages_zmq_control(&a->messages, PEER_HUB, WIRE_FAILED, text);
    give_up(a);
}

/* Where we are, seen from the hub: the address that packets to it carry. */
static int own_address(const char *hub_endpoint, char *ret, size_t size, struct err *err)
{
    char host[128], port[16];
    if (sscanf(hub_endpoint, "tcp://%127[^:]:%15s", host, port) != 2) {
        return err_set(err, -EINVAL, "found the hub %s, expected tcp://HOST:PORT", hub_endpoint);
    }
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_DGRAM}, *info;
    int rc = getaddrinfo(host, port, &hints, &info);
    if (rc) {
        return err_set(err, -EHOSTUNREACH, "cannot find the hub's host %s: %s", host,
                       gai_strerror(rc));
    }
    struct sockaddr_in own;
    socklen_t len = sizeof(own);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    rc = fd < 0 || connect(fd, info->ai_addr, info->ai_addrlen) ||
                 getsockname(fd, (struct sockaddr *)&own, &len)
             ? err_set(err, -errno, "no way to the hub's host %s: %s", host, strerror(errno))
             : 0;
    if (fd >= 0) {
        close(fd);
    }
    freeaddrinfo(info);
    if (rc == 0) {
        inet_ntop(AF_INET, &own.sin_addr, ret, (socklen_t)size);
    }
    return rc;
}

/* Faults of the machine: MSG_FAULT follows from the node, and this says what lies behind it. */
static void machine_fault(struct hw_faults *f, const struct dp_op *op, const struct err *e)
{
    struct hw_dp *dp = container_of(f, struct hw_dp, faults);
    struct machine *m = container_of(dp, struct machine, dp);
    struct agent *a = container_of(m, struct agent, machine);
    char text[1200];
    (void)op;
    err_format(e, text, sizeof(text));
    messages_zmq_control(&a->messages, PEER_HUB, WIRE_NOTE, text);
}

/* One text for every node; none for this one. */
static int add_offers(struct agent *a, json_t *offers)
{
    uint32_t n = cluster_nodes(&a->config.cluster);
    int rc = offers ? 0 : err_nomem(&a->fault);
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        char *text = NULL;
        rc = i == a->options.node ? 0 : links_offer(&a->machine.links, i, &text, &a->fault);
        json_array_append_new(offers, text ? json_string(text) : json_null());
        free(text);
    }
    return rc;
}

static void send_listening(struct agent *a)
{
    json_t *offers = json_array();
    int rc = add_offers(a, offers);
    json_t *root =
        json_pack("{s:s, s:o}", "messages", messages_zmq_endpoint(&a->messages), "links", offers);
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    rc = rc || text ? rc : err_nomem(&a->fault);
    if (rc) {
        fail(a);
    } else {
        messages_zmq_control(&a->messages, PEER_HUB, WIRE_LISTENING, text);
    }
    free(text);
    json_decref(root);
}

static void on_config(struct agent *a, const char *text)
{
    int rc = run_config_read(text, &a->config, &a->fault);
    if (rc == 0 && a->options.node >= cluster_nodes(&a->config.cluster)) {
        rc = err_set(&a->fault, -EINVAL, "there is no node %u in this run", a->options.node);
    }
    if (rc == 0) {
        a->configured = true;
        rc = machine_init(&a->machine, &a->config, a->options.node, &a->loop, &a->driver,
                          &a->messages.port, a->host, &a->fault);
    }
    if (rc) {
        fail(a);
        return;
    }
    a->machine.dp.faults.report = machine_fault;
    send_listening(a);
}

static int add_peer(struct agent *a, uint32_t node, const json_t *peer)
{
    const char *endpoint = json_string_value(json_object_get(peer, "messages"));
    const char *offer = json_string_value(json_object_get(peer, "link"));
    if (node == a->options.node) {
        return 0;
    }
    if (!endpoint || !offer) {
        return err_set(&a->fault, -EPROTO, "the hub sent no usable address of node %u", node);
    }
    int rc = messages_zmq_connect(&a->messages, node, endpoint, &a->fault);
    return rc ? rc : links_connect(&a->machine.links, node, offer, &a->fault);
}

static void on_peers(struct agent *a, const char *text)
{
    json_t *peers = json_loads(text, 0, NULL);
    uint32_t n = cluster_nodes(&a->config.cluster);
    int rc = json_array_size(peers) == n
                 ? 0
                 : err_set(&a->fault, -EPROTO, "the hub sent %zu addresses, expected %u",
                           json_array_size(peers), n);
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        rc = add_peer(a, i, json_array_get(peers, i));
    }
    json_decref(peers);
    if (rc) {
        fail(a);
    } else {
        messages_zmq_control(&a->messages, PEER_HUB, WIRE_READY, "");
    }
}

static void report(struct agent *a)
{
    struct agent_report r;
    machine_report(&a->machine, &r);
    char *text = agent_report_write(&r);
    if (!text) {
        err_nomem(&a->fault);
        fail(a);
        return;
    }
    messages_zmq_leaving(&a->messages, PEER_HUB);
    messages_zmq_control(&a->messages, PEER_HUB, WIRE_REPORT, text);
    free(text);
    give_up(a);
}

/* Messages and completions may still be on their way when the client has seen the last of
 * everything. */
static void look_if_quiet(struct loop_timer *t)
{
    struct agent *a = container_of(t, struct agent, quiet_timer);
    uint64_t now = loop_now_ns(&a->loop);
    if (machine_is_quiet(&a->machine) || now - a->stop_ns > QUIET_LIMIT_NS) {
        report(a);
    } else {
        loop_arm(&a->loop, t, now + QUIET_LOOK_NS);
    }
}

static void on_stop(struct agent *a)
{
    a->stopping = true;
    a->stop_ns = loop_now_ns(&a->loop);
    loop_post(&a->loop, &a->quiet_timer);
}

/* Whether the hub may say this now. */
static bool in_order(const struct agent *a, uint16_t kind)
{
    bool built = a->configured && a->machine.stage == MACHINE_NODE;
    return kind == WIRE_CONFIG ? !a->configured : built && !a->stopping;
}

static void on_control(void *self, uint32_t peer, uint16_t kind, const char *text)
{
    struct agent *a = self;
    (void)peer; /* always the hub */
    loop_disarm(&a->loop, &a->join_timer);
    if (kind == WIRE_FAILED) {
        err_set(&a->fault, -ECONNABORTED, "the hub ended the run: %s", text);
        give_up(a);
    } else if (!in_order(a, kind)) {
        err_set(&a->fault, -EPROTO, "the hub sent control frame %u out of order", kind);
        fail(a);
    } else if (kind == WIRE_CONFIG) {
        on_config(a, text);
    } else if (kind == WIRE_PEERS) {
        on_peers(a, text);
    } else if (kind == WIRE_START) {
        machine_start(&a->machine);
    } else if (kind == WIRE_STOP) {
        on_stop(a);
    }
}

/* The hub learns of a lost peer by itself, and ends the run. */
static void on_peer_lost(void *self, uint32_t peer, const char *why)
{
    struct agent *a = self;
    if (peer == PEER_HUB) {
        err_set(&a->fault, -ECONNRESET, "the hub is lost: %s", why);
        give_up(a);
    }
}

static void on_refused(void *self, const char *why)
{
    struct agent *a = self;
    messages_zmq_control(&a->messages, PEER_HUB, WIRE_NOTE, why);
}

static void join_timed_out(struct loop_timer *t)
{
    struct agent *a = container_of(t, struct agent, join_timer);
    err_set(&a->fault, -ETIMEDOUT, "no answer from the hub at %s for %.0f s", a->join.hub_endpoint,
            (double)a->options.join_timeout_ns / NS_PER_S);
    give_up(a);
}

static int join(struct agent *a, struct err *err)
{
    const struct agent_options *o = &a->options;
    if (o->node >= a->join.n_nodes) {
        return err_set(err, -EINVAL,
                       "found node %u, expected one below %u, as the join file has keys", o->node,
                       a->join.n_nodes);
    }
    int rc = o->host ? 0 : own_address(a->join.hub_endpoint, a->host, sizeof(a->host), err);
    if (o->host) {
        snprintf(a->host, sizeof(a->host), "%s", o->host);
    }
    const struct messages_zmq_options mo = {.self = o->node,
                                            .n_nodes = a->join.n_nodes,
                                            .key = a->join.keys[o->node],
                                            .nodes = a->join.guests,
                                            .hub_endpoint = a->join.hub_endpoint,
                                            .hub_key = a->join.hub.public_key,
                                            .host = a->host,
                                            .beat_ns = a->join.beat_ns,
                                            .silence_ns = a->join.silence_ns};
    const struct messages_zmq_events ev = {
        .self = a, .control = on_control, .peer_lost = on_peer_lost, .refused = on_refused};
    return rc ? rc : messages_zmq_init(&a->messages, &a->loop, &a->driver, &mo, &ev, err);
}

static void look_if_idle(struct loop_timer *t)
{
    struct agent *a = container_of(t, struct agent, quiet_timer);
    uint64_t now = loop_now_ns(&a->loop);
    if (machine_is_idle(&a->machine) || now - a->stop_ns > QUIET_LIMIT_NS) {
        loop_stop(&a->loop);
    } else {
        loop_arm(&a->loop, t, now + QUIET_LOOK_NS);
    }
}

/* Ends what is under way. False when something does not end in time: then worker threads may still
 * be at it, and nothing must be freed before the process ends. */
static bool wind_up(struct agent *a)
{
    loop_disarm(&a->loop, &a->join_timer);
    if (!a->configured) {
        return true;
    }
    a->winding_up = true;
    machine_stop(&a->machine);
    a->stop_ns = loop_now_ns(&a->loop);
    loop_disarm(&a->loop, &a->quiet_timer);
    loop_timer_init(&a->quiet_timer, look_if_idle);
    loop_post(&a->loop, &a->quiet_timer);
    loop_run(&a->loop);
    if (!machine_is_idle(&a->machine)) {
        return false;
    }
    machine_done(&a->machine);
    return true;
}

/* *ret_clean: everything may be freed. */
static int serve(struct agent *a, bool *ret_clean, struct err *err)
{
    int rc = join(a, err);
    if (rc) {
        return rc;
    }
    char hello[64];
    snprintf(hello, sizeof(hello), "{\"version\":\"%s\",\"pid\":%ld}", DUALPATH_VERSION,
             (long)getpid());
    messages_zmq_control(&a->messages, PEER_HUB, WIRE_HELLO, hello);
    loop_timer_init(&a->quiet_timer, look_if_quiet);
    loop_timer_init(&a->join_timer, join_timed_out);
    loop_arm(&a->loop, &a->join_timer, loop_now_ns(&a->loop) + a->options.join_timeout_ns);
    rc = loop_run(&a->loop);
    if (rc) {
        err_set(&a->fault, rc, "interrupted");
    }
    *ret_clean = wind_up(a);
    messages_zmq_done(&a->messages, LINGER_MS);
    *err = a->fault;
    return err->code;
}

static int run(struct agent *a, bool *ret_clean, struct err *err)
{
    int rc = wall_driver_init(&a->driver, err);
    if (rc) {
        return rc;
    }
    rc = loop_init(&a->loop, &a->driver.driver, 0);
    if (rc == 0) {
        wall_driver_attach(&a->driver, &a->loop);
        rc = serve(a, ret_clean, err);
    } else {
        err_nomem(err);
    }
    if (*ret_clean) {
        wall_driver_done(&a->driver);
        loop_done(&a->loop);
    }
    return rc;
}

int agent_run(const struct agent_options *options, struct err *err)
{
    struct agent *a = calloc(1, sizeof(*a));
    bool clean = true;
    if (!a) {
        return err_nomem(err);
    }
    a->options = *options;
    int rc = join_file_read(options->join_path, &a->join, err);
    if (rc == 0) {
        rc = run(a, &clean, err);
    }
    if (clean) {
        join_file_done(&a->join);
        free(a);
    }
    return rc;
}
