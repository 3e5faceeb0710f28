/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Links by memory copies, between processes of one machine: every node's memories are shared, every
 * peer attaches them, and a copy to a peer is a memory copy on a worker thread. Peers are told
 * "pid:fd" of the memory. There is nothing to forget when a peer dies: a process that is dead
 * writes no more, and copies into its memory harm nobody.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hw/transport_mem.h"
#include "real/links.h"

struct mem_links {
    struct transport_mem transport;
    const struct run_config *config;
    uint32_t node;
    const struct node_memory *own;
    struct node_memory *attached; /* [n], all zero where it is not */
    struct node_memory **nodes;   /* [n]: own and attached */
    struct memory_map map;
};

static int allocate(struct mem_links *t, const struct links_parts *p, struct err *err)
{
    uint32_t n = p->map->n_nodes;
    t->config = p->config;
    t->node = p->node;
    t->own = p->map->nodes[p->node];
    t->attached = calloc(n, sizeof(*t->attached));
    t->nodes = calloc(n, sizeof(struct node_memory *));
    if (!t->attached || !t->nodes) {
        return err_nomem(err);
    }
    t->nodes[p->node] = p->map->nodes[p->node];
    t->map = (struct memory_map){.nodes = t->nodes, .n_nodes = n};
    return 0;
}

static void release(struct mem_links *t)
{
    for (uint32_t i = 0; t->nodes && i < t->map.n_nodes; i++) {
        if (t->nodes[i] == &t->attached[i]) {
            node_memory_done(&t->attached[i]);
        }
    }
    free(t->attached);
    free(t->nodes);
    free(t);
}

static int mem_open(struct links *l, const struct links_parts *p, struct err *err)
{
    struct mem_links *t = calloc(1, sizeof(*t));
    if (!t) {
        return err_nomem(err);
    }
    int rc = allocate(t, p, err);
    rc = rc ? rc
            : transport_mem_init(&t->transport, p->loop, p->pool, &t->map,
                                 p->config->transport_depth, err);
    if (rc) {
        release(t);
        return rc;
    }
    l->impl = t;
    l->mover = &t->transport.mover;
    return 0;
}

static int mem_offer(struct links *l, uint32_t node, char **ret_text, struct err *err)
{
    const struct mem_links *t = l->impl;
    char text[48];
    (void)node;
    snprintf(text, sizeof(text), "%ld:%d", (long)getpid(), t->own->fd);
    *ret_text = strdup(text);
    return *ret_text ? 0 : err_nomem(err);
}

static int mem_connect(struct links *l, uint32_t node, const char *text, struct err *err)
{
    struct mem_links *t = l->impl;
    long pid;
    int fd, end = 0;
    if (sscanf(text, "%ld:%d%n", &pid, &fd, &end) != 2 || text[end] || pid <= 0 || fd < 0 ||
        node >= t->map.n_nodes || t->nodes[node]) {
        return err_set(err, -EPROTO, "node %u: found the memory \"%.80s\", expected PID:FD", node,
                       text);
    }
    int rc = node_memory_attach(&t->attached[node], node, pid, fd, t->own,
                                run_config_hbm_bytes(t->config, node), err);
    if (rc) {
        err_field(err, "hw.transport");
        return rc;
    }
    t->nodes[node] = &t->attached[node];
    return 0;
}

static void mem_close(struct links *l)
{
    struct mem_links *t = l->impl;
    transport_mem_done(&t->transport);
    release(t);
}

const struct links_ops links_mem = {.name = "mem",
                                    .open = mem_open,
                                    .offer = mem_offer,
                                    .connect = mem_connect,
                                    .close = mem_close};
