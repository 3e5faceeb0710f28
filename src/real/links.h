/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A node's links to the other nodes of a run: the transport that the scenario names, and what two
 * nodes must tell each other before they can write into each other's memory. That is a text (mem:
 * where the memory is; tcp: where to connect; verbs: the card with queue pairs, addresses and
 * keys), one for every peer. It travels over the control plane, by the hub, encrypted: keys of
 * memory stand in it.
 *
 *   links_open()     this node can be reached
 *   links_offer()    once for every peer: the text for it
 *   links_connect()  once for every peer, with the text it has offered to this node
 */
#ifndef DUALPATH_REAL_LINKS_H
#define DUALPATH_REAL_LINKS_H

#include <stdint.h>

#include "base/err.h"
#include "hw/memory.h"
#include "hw/mover.h"
#include "hw/wall_driver.h"
#include "hw/work_pool.h"
#include "real/run_config.h"

struct links;

/* What links are made of; all of it outlives them. */
struct links_parts {
    const struct run_config *config;
    uint32_t node;
    const char *host; /* numeric address to listen at */
    struct loop *loop;
    struct wall_driver *driver;
    struct work_pool *pool; /* for copies */
    const struct memory_map *map;
};

struct links_ops {
    const char *name;
    /* Sets impl and mover. */
    int (*open)(struct links *l, const struct links_parts *p, struct err *err);
    int (*offer)(struct links *l, uint32_t node, char **ret_text, struct err *err);
    int (*connect)(struct links *l, uint32_t node, const char *text, struct err *err);
    void (*close)(struct links *l);
};

struct links {
    const struct links_ops *ops;
    void *impl;
    struct mover *mover; /* what the data path submits to */
};

/* By config->transport. 0, -EINVAL (no such transport), -ENODEV (no device, or not in this program)
 * or another negative errno, with err. */
int links_open(struct links *l, const struct links_parts *p, struct err *err);
void links_close(struct links *l); /* nothing in flight */

/* The text to free(). 0 or negative errno with err. */
int links_offer(struct links *l, uint32_t node, char **ret_text, struct err *err);

/* 0; -EPROTO when that is no text of this transport, or not of that node. Transfers to the node may
 * begin when it has connected too. */
int links_connect(struct links *l, uint32_t node, const char *text, struct err *err);

extern const struct links_ops links_mem, links_tcp, links_verbs;

#endif
