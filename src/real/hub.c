/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "real/hub_internal.h"

/* For the root cause to come to light behind its consequences. */
#define GRACE_NS          (500 * NS_PER_MS)
#define STOP_LIMIT_NS     (30 * NS_PER_S)
#define LEAVE_LIMIT_NS    (10 * NS_PER_S)
#define INTERRUPT_LOOK_NS (50 * NS_PER_MS)
#define LINGER_MS         200

void hub_node_name(const struct cluster *c, uint32_t node, char *buf, size_t size)
{
    bool prefill = cluster_is_prefill(c, node);
    snprintf(buf, size, "%s node %u", prefill ? "prefill" : "decode",
             prefill ? node : node - c->prefill_nodes);
}

/* Causes */

void hub_note(struct hub *h, const char *fmt, ...)
{
    char text[1400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    h->options.note(h->options.self, text);
}

static void grace_over(struct loop_timer *t)
{
    loop_stop(&container_of(t, struct hub, grace_timer)->loop);
}

void hub_fail(struct hub *h, enum hub_cause cause, int code, const char *fmt, ...)
{
    if (cause <= h->cause || h->phase >= HUB_OVER) {
        return;
    }
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    h->fault = ERR_INIT;
    err_set(&h->fault, code, "%s", text);
    h->cause = cause;
    if (cause == CAUSE_KILLED) {
        loop_stop(&h->loop);
    } else if (!loop_armed(&h->grace_timer)) {
        loop_arm(&h->loop, &h->grace_timer, loop_now_ns(&h->loop) + GRACE_NS);
    }
}

/* The workload on the loop's clock */

static const struct workload *original_of(const struct workload *w)
{
    return container_of(w, struct hub, shifted)->options.workload;
}

static void shifted_session(const struct workload *w, uint32_t session,
                            struct workload_session *ret)
{
    const struct workload *original = original_of(w);
    original->ops->session(original, session, ret);
    ret->arrival_ns += container_of(w, struct hub, shifted)->start_ns;
}

static void shifted_turn(const struct workload *w, uint32_t session, uint32_t turn,
                         struct workload_turn *ret)
{
    const struct workload *original = original_of(w);
    original->ops->turn(original, session, turn, ret);
}

static const struct workload_ops shifted_ops = {.session = shifted_session, .turn = shifted_turn};

/* Phases */

static uint32_t n_nodes(const struct hub *h)
{
    return cluster_nodes(h->cluster);
}

void hub_over_if_all_left(struct hub *h)
{
    if (h->launcher.n_running == 0) {
        h->phase = HUB_OVER;
        loop_stop(&h->loop);
    }
}

static void limit_over(struct loop_timer *t)
{
    struct hub *h = container_of(t, struct hub, limit_timer);
    if (h->phase == HUB_FAILED) {
        loop_stop(&h->loop);
        return;
    }
    if (h->phase == HUB_LEAVING) {
        hub_fail(h, CAUSE_LOST, -ETIMEDOUT, "%u agents have reported but do not end",
                 h->launcher.n_running);
        return;
    }
    char missing[300] = "", name[32];
    size_t used = 0;
    for (uint32_t i = 0; i < n_nodes(h); i++) {
        const struct hub_node *n = &h->nodes[i];
        bool there = n->dead || (h->phase == HUB_STOPPING ? n->reported : n->ready);
        if (!there && used < sizeof(missing) - 40) {
            hub_node_name(h->cluster, i, name, sizeof(name));
            used += (size_t)snprintf(missing + used, sizeof(missing) - used, "%s%s",
                                     used ? ", " : "", name);
        }
    }
    hub_fail(h, CAUSE_LOST, -ETIMEDOUT, "%s in time: %s",
             h->phase == HUB_STOPPING ? "no report" : "not ready", missing);
}

static void to_all(struct hub *h, uint16_t kind, const char *text)
{
    for (uint32_t i = 0; i < n_nodes(h); i++) {
        if (!h->nodes[i].dead) {
            messages_zmq_control(&h->messages, i, kind, text);
        }
    }
}

/* What all nodes have said, as far as it is meant for this one. NULL when out of memory. */
static char *peers_of(const struct hub *h, uint32_t node)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < n_nodes(h); i++) {
        json_t *port = json_object_get(h->nodes[i].address, "messages");
        json_t *link = json_array_get(json_object_get(h->nodes[i].address, "links"), node);
        json_array_append_new(all, json_pack("{s:O?, s:O?}", "messages", port, "link", link));
    }
    char *text = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    return text;
}

static void connect_all(struct hub *h)
{
    h->phase = HUB_CONNECTING;
    for (uint32_t i = 0; i < n_nodes(h); i++) {
        char *text = peers_of(h, i);
        if (!text) {
            hub_fail(h, CAUSE_FAILED, -ENOMEM, "out of memory");
            return;
        }
        messages_zmq_control(&h->messages, i, WIRE_PEERS, text);
        free(text);
    }
}

static void all_over(void *self)
{
    struct hub *h = self;
    if (h->phase != HUB_RUNNING) {
        return;
    }
    h->phase = HUB_STOPPING;
    loop_arm(&h->loop, &h->limit_timer, loop_now_ns(&h->loop) + STOP_LIMIT_NS);
    to_all(h, WIRE_STOP, "");
}

static void turn_arrived(void *self)
{
    const struct client_observer *o = &((struct hub *)self)->options.observer;
    o->turn_arrived(o->self);
}

static void turn_over(void *self, const struct client_turn *t)
{
    const struct client_observer *o = &((struct hub *)self)->options.observer;
    o->turn_over(o->self, t);
}

static void session_over(void *self, uint32_t session, uint64_t arrival_ns, uint64_t end_ns)
{
    const struct client_observer *o = &((struct hub *)self)->options.observer;
    o->session_over(o->self, session, arrival_ns, end_ns);
}

static void watch(struct loop_timer *t)
{
    struct hub *h = container_of(t, struct hub, watch_timer);
    uint64_t over = h->client.totals.requests_over;
    if (h->phase == HUB_RUNNING && h->client.in_system > 0 && over == h->watched_over) {
        hub_fail(h, CAUSE_LOST, -ETIMEDOUT, "stuck: no request has finished for %.0f s",
                 (double)h->options.stuck_ns / NS_PER_S);
        return;
    }
    h->watched_over = over;
    loop_arm(&h->loop, t, loop_now_ns(&h->loop) + h->options.stuck_ns);
}

static void start(struct hub *h)
{
    const struct client_observer observer = {.self = h,
                                             .turn_arrived = turn_arrived,
                                             .turn_over = turn_over,
                                             .session_over = session_over,
                                             .all_over = all_over,
                                             .fault = hub_node_fault};
    loop_disarm(&h->loop, &h->limit_timer);
    h->phase = HUB_RUNNING;
    to_all(h, WIRE_START, "");
    h->start_ns = loop_now_ns(&h->loop);
    int rc = h->options.begin(h->options.self, h);
    rc = rc ? rc
            : client_init(&h->client, h->cluster, &h->shifted, &h->loop, &h->messages.port,
                          &observer);
    if (rc) {
        hub_fail(h, CAUSE_FAILED, rc, "cannot start the client: %s", strerror(-rc));
        return;
    }
    h->have_client = true;
    loop_arm(&h->loop, &h->watch_timer, h->start_ns + h->options.stuck_ns);
}

static void look_if_interrupted(struct loop_timer *t)
{
    struct hub *h = container_of(t, struct hub, interrupt_timer);
    if (atomic_load(h->options.interrupted)) {
        h->interrupted = true;
        loop_stop(&h->loop);
        return;
    }
    loop_arm(&h->loop, t, loop_now_ns(&h->loop) + INTERRUPT_LOOK_NS);
}

/* What agents say */

static void on_hello(struct hub *h, uint32_t node, const char *text)
{
    char name[32];
    hub_node_name(h->cluster, node, name, sizeof(name));
    json_t *root = json_loads(text, 0, NULL);
    const char *version = json_string_value(json_object_get(root, "version"));
    if (!version || strcmp(version, DUALPATH_VERSION) != 0) {
        hub_fail(h, CAUSE_FAILED, -EPROTO,
                 "%s is dualpath-node %s, this is dualpath " DUALPATH_VERSION, name,
                 version ? version : "of no version");
    } else {
        char *config = run_config_write(h->options.config);
        h->nodes[node].hello = true;
        if (config) {
            messages_zmq_control(&h->messages, node, WIRE_CONFIG, config);
        } else {
            hub_fail(h, CAUSE_FAILED, -ENOMEM, "out of memory");
        }
        free(config);
    }
    json_decref(root);
}

static void on_listening(struct hub *h, uint32_t node, const char *text)
{
    struct hub_node *n = &h->nodes[node];
    n->address = json_loads(text, 0, NULL);
    n->listening = true;
    if (!n->address) {
        hub_fail(h, CAUSE_FAILED, -EPROTO, "node %u sent no usable address", node);
    } else if (++h->n_listening == n_nodes(h)) {
        connect_all(h);
    }
}

static void on_ready(struct hub *h, uint32_t node)
{
    h->nodes[node].ready = true;
    if (++h->n_ready == n_nodes(h)) {
        start(h);
    }
}

static void on_report(struct hub *h, uint32_t node, const char *text)
{
    struct hub_node *n = &h->nodes[node];
    struct err err = ERR_INIT;
    messages_zmq_leaving(&h->messages, node);
    if (agent_report_read(text, &n->report, &err)) {
        hub_fail(h, CAUSE_FAILED, err.code, "%s: %s: %s", err.source, err.field, err.text);
        return;
    }
    n->reported = true;
    h->n_reported++;
    hub_look_if_all_reported(h);
}

void hub_look_if_all_reported(struct hub *h)
{
    if (h->phase == HUB_STOPPING && h->n_reported + h->n_deaths == n_nodes(h)) {
        h->phase = HUB_LEAVING;
        loop_arm(&h->loop, &h->limit_timer, loop_now_ns(&h->loop) + LEAVE_LIMIT_NS);
        hub_over_if_all_left(h);
    }
}

static void on_failed(struct hub *h, const char *name, const char *text)
{
    char *rest;
    long code = strtol(text, &rest, 10);
    bool has_code = code < 0 && code > -4096 && *rest == ' ';
    hub_fail(h, CAUSE_FAILED, has_code ? (int)code : -ECONNABORTED, "%s: %s", name,
             has_code ? rest + 1 : text);
}

/* Whether an agent may say this now. */
static bool in_order(const struct hub *h, uint32_t node, uint16_t kind)
{
    const struct hub_node *n = &h->nodes[node];
    switch (kind) {
    case WIRE_HELLO:
        return !n->hello;
    case WIRE_LISTENING:
        return n->hello && !n->listening;
    case WIRE_READY:
        return h->phase == HUB_CONNECTING && !n->ready;
    case WIRE_REPORT:
        return h->phase == HUB_STOPPING && !n->reported;
    default:
        return kind == WIRE_FAILED || kind == WIRE_NOTE;
    }
}

static void on_control(void *self, uint32_t node, uint16_t kind, const char *text)
{
    struct hub *h = self;
    char name[32];
    if (h->nodes[node].dead || h->phase == HUB_FAILED) {
        return;
    }
    hub_node_name(h->cluster, node, name, sizeof(name));
    if (!in_order(h, node, kind)) {
        hub_fail(h, CAUSE_FAILED, -EPROTO, "%s sent control frame %u out of order", name, kind);
        return;
    }
    switch (kind) {
    case WIRE_HELLO:
        on_hello(h, node, text);
        break;
    case WIRE_LISTENING:
        on_listening(h, node, text);
        break;
    case WIRE_READY:
        on_ready(h, node);
        break;
    case WIRE_REPORT:
        on_report(h, node, text);
        break;
    case WIRE_FAILED:
        on_failed(h, name, text);
        break;
    default:
        snprintf(h->nodes[node].note, sizeof(h->nodes[node].note), "%s", text);
        hub_note(h, "%s: %s", name, text);
    }
}

static void on_refused(void *self, const char *why)
{
    hub_note(self, "%s", why);
}

/* Life */

static int start_agents(struct hub *h, struct err *err)
{
    char program[4096];
    int rc = launcher_find_program(program, sizeof(program), err);
    for (uint32_t i = 0; i < n_nodes(h) && rc == 0; i++) {
        rc = launcher_start(&h->launcher, program, h->options.join_path, i, err);
    }
    return rc;
}

static int open_door(struct hub *h, struct err *err)
{
    const struct messages_zmq_options mo = {.self = PEER_HUB,
                                            .n_nodes = n_nodes(h),
                                            .key = h->join.hub,
                                            .nodes = h->join.guests,
                                            .host = h->options.host,
                                            .beat_ns = h->join.beat_ns,
                                            .silence_ns = h->join.silence_ns};
    const struct messages_zmq_events ev = {
        .self = h, .control = on_control, .peer_lost = hub_peer_lost, .refused = on_refused};
    int rc = messages_zmq_init(&h->messages, &h->loop, &h->driver, &mo, &ev, err);
    if (rc) {
        return rc;
    }
    h->have_messages = true;
    snprintf(h->join.hub_endpoint, sizeof(h->join.hub_endpoint), "%s",
             messages_zmq_endpoint(&h->messages));
    rc = join_file_write(&h->join, h->options.join_path, err);
    h->have_join_file = rc == 0;
    return rc;
}

static int build(struct hub *h, struct err *err)
{
    h->nodes = calloc(n_nodes(h), sizeof(*h->nodes));
    for (uint32_t i = 0; h->nodes && i < n_nodes(h); i++) {
        hub_node_init(h, i);
    }
    int rc = h->nodes ? wall_driver_init(&h->driver, err) : err_nomem(err);
    if (rc) {
        return rc;
    }
    h->have_driver = true;
    rc = loop_init(&h->loop, &h->driver.driver, 0);
    if (rc) {
        return err_nomem(err);
    }
    h->have_loop = true;
    wall_driver_attach(&h->driver, &h->loop);
    rc = join_file_init(&h->join, n_nodes(h), err);
    rc = rc ? rc : open_door(h, err);
    if (rc) {
        return rc;
    }
    rc = central_init(&h->central, h->cluster, &h->loop, &h->messages.port);
    if (rc) {
        return err_set(err, rc, "cannot build the scheduler: %s", strerror(-rc));
    }
    h->have_central = true;
    rc = launcher_init(&h->launcher, &h->driver, n_nodes(h), err);
    h->launcher.self = h;
    h->launcher.ended = hub_agent_ended;
    return rc || !h->options.start_agents ? rc : start_agents(h, err);
}

int hub_new(const struct hub_options *options, struct hub **ret, struct err *err)
{
    struct hub *h = calloc(1, sizeof(*h));
    if (!h) {
        return err_nomem(err);
    }
    h->options = *options;
    h->cluster = &options->config->cluster;
    h->shifted = *options->workload;
    h->shifted.ops = &shifted_ops;
    loop_timer_init(&h->limit_timer, limit_over);
    loop_timer_init(&h->grace_timer, grace_over);
    loop_timer_init(&h->watch_timer, watch);
    loop_timer_init(&h->interrupt_timer, look_if_interrupted);
    int rc = build(h, err);
    if (rc) {
        hub_free(h);
        return rc;
    }
    *ret = h;
    return 0;
}

int hub_run(struct hub *h, struct err *err)
{
    h->loop.now_ns = wall_now_ns(); /* some time has passed since hub_new() */
    loop_arm(&h->loop, &h->limit_timer, loop_now_ns(&h->loop) + h->options.join_timeout_ns);
    loop_post(&h->loop, &h->interrupt_timer);
    int rc = loop_run(&h->loop);
    if (h->phase == HUB_OVER && !h->fault.set) {
        return 0;
    }
    if (h->interrupted) {
        h->fault = ERR_INIT;
        err_set(&h->fault, -ECANCELED, "interrupted");
    } else if (rc && !h->fault.set) {
        err_set(&h->fault, rc, "the event loop failed: %s", strerror(-rc));
    }
    if (h->have_messages) {
        to_all(h, WIRE_FAILED, h->fault.text);
        hub_wait_for_agents(h);
    }
    *err = h->fault;
    return err->code;
}

void hub_free(struct hub *h)
{
    if (!h) {
        return;
    }
    /* First, as it disarms timers: the loop's heap must not point to what is freed below. */
    if (h->have_messages) {
        messages_zmq_done(&h->messages, LINGER_MS);
    }
    if (h->have_client) {
        client_done(&h->client);
    }
    if (h->have_central) {
        central_done(&h->central);
    }
    launcher_done(&h->launcher);
    if (h->have_join_file) {
        unlink(h->options.join_path);
    }
    join_file_done(&h->join);
    for (uint32_t i = 0; h->nodes && i < n_nodes(h); i++) {
        json_decref(h->nodes[i].address);
    }
    if (h->have_driver) {
        wall_driver_done(&h->driver);
    }
    if (h->have_loop) {
        loop_done(&h->loop);
    }
    free(h->nodes);
    free(h);
}

struct loop *hub_loop(struct hub *h)
{
    return &h->loop;
}

struct central *hub_central(struct hub *h)
{
    return &h->central;
}

const struct client *hub_client(const struct hub *h)
{
    return &h->client;
}

uint64_t hub_start_ns(const struct hub *h)
{
    return h->start_ns;
}

const struct agent_report *hub_report(const struct hub *h, uint32_t node)
{
    return &h->nodes[node].report;
}
