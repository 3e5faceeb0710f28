/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Links over RDMA: every peer gets a card of its own, in hexadecimal. */
#include "real/links.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "hw/transport_verbs.h"

/* Sleeping and waking costs several us; 64 KiB take 1.3 us at 50 GB/s. */
#define SPIN_NS (20 * NS_PER_US)

/* The largest of the device's time-outs, 4.096 us * 2^n, with which all tries (the first one and
 * VERBS_RETRIES) end within limit_ns: short ones would take a busy peer for a dead one, and who is
 * dead the control plane knows. */
#define VERBS_RETRIES 6
static uint8_t timeout_within(uint64_t limit_ns)
{
    uint8_t n = 1;
    while (n < 31 && (VERBS_RETRIES + 1) * (UINT64_C(4096) << (n + 1)) <= limit_ns) {
        n++;
    }
    return n;
}

static int verbs_open(struct links *l, const struct links_parts *p, struct err *err)
{
    const struct run_config *c = p->config;
    struct verbs_options o = {.device = c->rdma_device[0] ? c->rdma_device : NULL,
                              .node = p->node,
                              .depth = c->transport_depth,
                              .spin_ns = SPIN_NS,
                              .timeout = timeout_within(c->peer_timeout_ns),
                              .retries = VERBS_RETRIES};
    memset(o.service_level, (int)c->service_level, sizeof(o.service_level));
    memset(o.traffic_class, (int)c->traffic_class, sizeof(o.traffic_class));
    struct transport_verbs *t = calloc(1, sizeof(*t));
    int rc = t ? transport_verbs_init(t, p->loop, p->driver, p->map->nodes[p->node],
                                      p->map->n_nodes, &o, err)
               : err_nomem(err);
    if (rc) {
        free(t);
        return rc;
    }
    l->impl = t;
    l->mover = &t->mover;
    return 0;
}

static char *to_hex(const uint8_t *bytes, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    char *text = malloc(2 * len + 1);
    if (text) {
        for (size_t i = 0; i < len; i++) {
            text[2 * i] = digits[bytes[i] >> 4];
            text[2 * i + 1] = digits[bytes[i] & 15];
        }
        text[2 * len] = '\0';
    }
    return text;
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* bytes: half as many as text has characters. */
static int from_hex(const char *text, size_t len, uint8_t *bytes)
{
    for (size_t i = 0; i < len; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            return -EPROTO;
        }
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    return 0;
}

static int verbs_offer(struct links *l, uint32_t node, char **ret_text, struct err *err)
{
    struct transport_verbs *t = l->impl;
    size_t len = transport_verbs_card_bytes(t);
    uint8_t *card = malloc(len);
    int rc = card ? transport_verbs_offer(t, node, card, err) : err_nomem(err);
    char *text = rc ? NULL : to_hex(card, len);
    free(card);
    if (!text) {
        return rc ? rc : err_nomem(err);
    }
    *ret_text = text;
    return 0;
}

static int verbs_connect(struct links *l, uint32_t node, const char *text, struct err *err)
{
    size_t chars = strlen(text);
    uint8_t *card = malloc(chars / 2 + 1);
    if (!card) {
        return err_nomem(err);
    }
    int rc = chars % 2 || from_hex(text, chars / 2, card)
                 ? err_set(err, -EPROTO, "node %u: expected its card in hexadecimal", node)
                 : transport_verbs_connect(l->impl, node, card, chars / 2, err);
    free(card);
    return rc;
}

static void verbs_close(struct links *l)
{
    transport_verbs_done(l->impl);
    free(l->impl);
}

const struct links_ops links_verbs = {.name = "verbs",
                                      .open = verbs_open,
                                      .offer = verbs_offer,
                                      .connect = verbs_connect,
                                      .close = verbs_close};
