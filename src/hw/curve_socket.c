/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "hw/curve_socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#define ZAP_ADDRESS "inproc://zeromq.zap.01"
#define ZAP_DOMAIN  "dualpath"
#define KEY_BYTES   32

static int failed(struct err *e, const char *what)
{
    int code = zmq_errno();
    return err_set(e, -code, "%s: %s", what, zmq_strerror(code));
}

int curve_keypair_new(struct curve_keypair *ret, struct err *e)
{
    if (zmq_curve_keypair(ret->public_key, ret->secret_key)) {
        return failed(e, "making CURVE keys");
    }
    return 0;
}

int curve_secret_new(char ret[CURVE_SECRET_CHARS], struct err *e)
{
    struct curve_keypair pair;
    uint8_t bytes[KEY_BYTES];
    int rc = curve_keypair_new(&pair, e);
    if (rc) {
        return rc;
    }
    zmq_z85_decode(bytes, pair.secret_key);
    for (unsigned i = 0; i < KEY_BYTES; i++) {
        snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
    }
    return 0;
}

static bool set_int(void *socket, int option, int value)
{
    return zmq_setsockopt(socket, option, &value, sizeof(value)) == 0;
}

static bool set_text(void *socket, int option, const char *value)
{
    return zmq_setsockopt(socket, option, value, strlen(value)) == 0;
}

static void *new_socket(void *context, int type, const struct curve_keypair *key, struct err *e)
{
    void *s = zmq_socket(context, type);
    if (!s) {
        failed(e, "opening a ZeroMQ socket");
        return NULL;
    }
    if (!set_int(s, ZMQ_LINGER, 0) || !set_int(s, ZMQ_SNDHWM, 0) || !set_int(s, ZMQ_RCVHWM, 0) ||
        !set_text(s, ZMQ_CURVE_PUBLICKEY, key->public_key) ||
        !set_text(s, ZMQ_CURVE_SECRETKEY, key->secret_key)) {
        failed(e, "setting up a ZeroMQ socket");
        zmq_close(s);
        return NULL;
    }
    return s;
}

void *curve_server_new(void *context, int type, const struct curve_keypair *key, struct err *e)
{
    void *s = new_socket(context, type, key, e);
    if (s && (!set_int(s, ZMQ_CURVE_SERVER, 1) || !set_text(s, ZMQ_ZAP_DOMAIN, ZAP_DOMAIN) ||
              (type == ZMQ_ROUTER && !set_int(s, ZMQ_ROUTER_MANDATORY, 1)))) {
        failed(e, "making a ZeroMQ server");
        zmq_close(s);
        return NULL;
    }
    return s;
}

void *curve_client_new(void *context, int type, const struct curve_keypair *key,
                       const char *server_key, struct err *e)
{
    void *s = new_socket(context, type, key, e);
    if (s && !set_text(s, ZMQ_CURVE_SERVERKEY, server_key)) {
        failed(e, "the server's key");
        zmq_close(s);
        return NULL;
    }
    return s;
}

void curve_linger(void *socket, int linger_ms)
{
    set_int(socket, ZMQ_LINGER, linger_ms);
}

int curve_bind(void *socket, const char *host, uint16_t port, char *ret_endpoint, size_t size,
               struct err *e)
{
    char endpoint[256], what[300];
    if (port) {
        snprintf(endpoint, sizeof(endpoint), "tcp://%s:%u", host, port);
    } else {
        snprintf(endpoint, sizeof(endpoint), "tcp://%s:*", host);
    }
    if (zmq_bind(socket, endpoint) ||
        zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, ret_endpoint, &size)) {
        snprintf(what, sizeof(what), "listening at %s", endpoint);
        return failed(e, what);
    }
    return 0;
}

/* The gate */

int curve_gate_init(struct curve_gate *g, void *context, const struct curve_guest *guests,
                    uint32_t n_guests, struct err *e)
{
    *g = (struct curve_gate){.guests = guests, .n_guests = n_guests};
    g->socket = zmq_socket(context, ZMQ_REP);
    if (!g->socket || !set_int(g->socket, ZMQ_LINGER, 0) || zmq_bind(g->socket, ZAP_ADDRESS)) {
        int rc = failed(e, "opening the ZAP handler");
        curve_gate_done(g);
        return rc;
    }
    return 0;
}

void curve_gate_done(struct curve_gate *g)
{
    if (g->socket) {
        zmq_close(g->socket);
        g->socket = NULL;
    }
}

/* Frames of a ZAP request; what is longer than its buffer is cut and then matches nothing. */
struct zap_request {
    char version[8], id[64], domain[32], address[64], identity[64], mechanism[16];
    uint8_t key[KEY_BYTES];
    size_t id_len, key_len;
};

static bool more_frames(void *socket)
{
    int more = 0;
    size_t size = sizeof(more);
    return zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size) == 0 && more;
}

static bool take_text(void *socket, char *buf, size_t size, size_t *ret_len)
{
    int n = zmq_recv(socket, buf, size - 1, ZMQ_DONTWAIT);
    if (n < 0) {
        return false;
    }
    size_t len = (size_t)n < size - 1 ? (size_t)n : size - 1;
    buf[len] = '\0';
    if (ret_len) {
        *ret_len = len;
    }
    return true;
}

static bool take_request(void *s, struct zap_request *r)
{
    memset(r, 0, sizeof(*r));
    bool ok = take_text(s, r->version, sizeof(r->version), NULL);
    if (!ok) {
        return false;
    }
    ok = more_frames(s) && take_text(s, r->id, sizeof(r->id), &r->id_len) && more_frames(s) &&
         take_text(s, r->domain, sizeof(r->domain), NULL) && more_frames(s) &&
         take_text(s, r->address, sizeof(r->address), NULL) && more_frames(s) &&
         take_text(s, r->identity, sizeof(r->identity), NULL) && more_frames(s) &&
         take_text(s, r->mechanism, sizeof(r->mechanism), NULL);
    if (ok && more_frames(s)) {
        int n = zmq_recv(s, r->key, sizeof(r->key), ZMQ_DONTWAIT);
        r->key_len = n < 0 ? 0 : (size_t)n;
    }
    while (more_frames(s)) {
        char rest[8];
        zmq_recv(s, rest, sizeof(rest), ZMQ_DONTWAIT);
    }
    return true;
}

static const struct curve_guest *guest_of(const struct curve_gate *g, const struct zap_request *r)
{
    char key[CURVE_KEY_CHARS];
    if (strcmp(r->version, "1.0") != 0 || strcmp(r->domain, ZAP_DOMAIN) != 0 ||
        strcmp(r->mechanism, "CURVE") != 0 || r->key_len != KEY_BYTES) {
        return NULL;
    }
    zmq_z85_encode(key, r->key, KEY_BYTES);
    for (uint32_t i = 0; i < g->n_guests; i++) {
        if (strcmp(g->guests[i].public_key, key) == 0) {
            return &g->guests[i];
        }
    }
    return NULL;
}

static void complain(struct curve_gate *g, const struct zap_request *r)
{
    char why[200], key[CURVE_KEY_CHARS] = "none";
    if (r->key_len == KEY_BYTES) {
        zmq_z85_encode(key, r->key, KEY_BYTES);
    }
    snprintf(why, sizeof(why), "refused a peer at %s: its key (%s) is not one of this run",
             r->address, key);
    g->n_refused++;
    if (g->refused) {
        g->refused(g->self, why);
    }
}

bool curve_gate_answer(struct curve_gate *g)
{
    struct zap_request r;
    if (!take_request(g->socket, &r)) {
        return false;
    }
    const struct curve_guest *guest = guest_of(g, &r);
    const char *status = guest ? "200" : "400", *text = guest ? "OK" : "unknown key";
    const char *name = guest ? guest->name : "";
    zmq_send(g->socket, "1.0", 3, ZMQ_SNDMORE);
    zmq_send(g->socket, r.id, r.id_len, ZMQ_SNDMORE);
    zmq_send(g->socket, status, 3, ZMQ_SNDMORE);
    zmq_send(g->socket, text, strlen(text), ZMQ_SNDMORE);
    zmq_send(g->socket, name, strlen(name), ZMQ_SNDMORE);
    zmq_send(g->socket, "", 0, 0);
    g->n_let_in += guest != NULL;
    if (!guest) {
        complain(g, &r);
    }
    return true;
}

/* Monitors */

void *curve_monitor_new(void *context, void *socket, const char *name, struct err *e)
{
    char endpoint[64];
    snprintf(endpoint, sizeof(endpoint), "inproc://%s", name);
    int events = ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                 ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
    void *m = NULL;
    if (zmq_socket_monitor(socket, endpoint, events) || !(m = zmq_socket(context, ZMQ_PAIR)) ||
        zmq_connect(m, endpoint)) {
        failed(e, "monitoring a ZeroMQ socket");
        if (m) {
            zmq_close(m);
        }
        return NULL;
    }
    return m;
}

bool curve_monitor_take(void *monitor, struct curve_monitor_event *ret)
{
    uint8_t head[6];
    if (zmq_recv(monitor, head, sizeof(head), ZMQ_DONTWAIT) != sizeof(head)) {
        return false;
    }
    /* The library writes both numbers in the machine's own order. */
    memcpy(&ret->event, head, 2);
    memcpy(&ret->value, head + 2, 4);
    return take_text(monitor, ret->address, sizeof(ret->address), NULL);
}
