/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A link to a peer: its queue pairs, what both sides tell each other, and its slots for ops. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "hw/verbs_internal.h"

static int make_lane(struct verbs_link *k, unsigned c)
{
    struct verbs_lane *lane = &k->lanes[c];
    uint32_t send_depth = k->t->options.send_depth;
    lane->link = k;
    lane->traffic_class = (enum dp_class)c;
    lane->index = k->index * DP_N_CLASSES + c;
    list_init(&lane->sendable);
    list_init(&lane->eager);
    lane->marks = calloc(send_depth, sizeof(*lane->marks));
    if (!lane->marks) {
        return -ENOMEM;
    }
    lane->qp = verbs_qp_new(&k->t->device, send_depth, &lane->inline_bytes);
    return lane->qp ? 0 : -errno;
}

static int make_sends(struct verbs_link *k)
{
    uint32_t depth = k->t->options.depth;
    list_init(&k->idle);
    k->sends = calloc(depth, sizeof(*k->sends));
    for (uint32_t i = 0; k->sends && i < depth; i++) {
        loop_timer_init(&k->sends[i].end_timer, verbs_send_end_fires);
        list_add_tail(&k->idle, &k->sends[i].link);
    }
    return k->sends ? 0 : -ENOMEM;
}

int verbs_link_new(struct transport_verbs *t, uint32_t index, struct verbs_link **ret)
{
    struct verbs_link *k = calloc(1, sizeof(*k));
    if (!k) {
        return -ENOMEM;
    }
    k->t = t;
    k->index = index;
    int rc = make_sends(k);
    for (unsigned c = 0; c < DP_N_CLASSES && rc == 0; c++) {
        rc = make_lane(k, c);
    }
    if (rc) {
        verbs_link_free(k);
        return rc;
    }
    *ret = k;
    return 0;
}

void verbs_link_free(struct verbs_link *k)
{
    assert(k->n_in_flight == 0);
    for (unsigned c = 0; c < DP_N_CLASSES; c++) {
        if (k->lanes[c].qp) {
            list_remove(&k->lanes[c].eager);
            ibv_destroy_qp(k->lanes[c].qp);
        }
        free(k->lanes[c].marks);
    }
    free(k->sends);
    free(k->remote);
    free(k);
}

int verbs_link_reset(struct verbs_link *k)
{
    int rc = 0;
    k->up = false;
    for (unsigned c = 0; c < DP_N_CLASSES; c++) {
        struct verbs_lane *lane = &k->lanes[c];
        int failed = verbs_qp_reset(&k->t->device, lane->qp);
        rc = rc ? rc : failed;
        lane->epoch++;
        lane->n_marks = 0;
        k->t->n_posted -= lane->n_posted;
        lane->n_posted = 0;
        list_remove(&lane->eager);
    }
    return rc;
}

void verbs_link_describe(const struct verbs_link *k, struct verbs_card *ret,
                         struct verbs_region *regions)
{
    const struct verbs_device *d = &k->t->device;
    *ret = (struct verbs_card){.node = k->t->options.node,
                               .lid = d->lid,
                               .mtu = (uint16_t)d->mtu,
                               .gid = d->gid,
                               .n_regions = d->n_regions,
                               .regions = regions};
    for (unsigned c = 0; c < DP_N_CLASSES; c++) {
        const struct verbs_lane *lane = &k->lanes[c];
        ret->qp_num[c] = lane->qp->qp_num;
        /* Another start in every connection, so that
         * packets of an old one are not taken for the new. */
        ret->psn[c] =
            (uint32_t)(hash_mix64((uint64_t)lane->qp->qp_num << 16 | lane->epoch) & 0xffffff);
    }
    for (uint32_t i = 0; i < d->n_regions; i++) {
        const struct memory_region *r =
            verbs_region_memory(d, i); /* a dma-buf's mr has no address */
        regions[i] = (struct verbs_region){
            .base = (uintptr_t)r->base, .size_bytes = r->size_bytes, .key = d->mrs[i]->rkey};
    }
}

static struct verbs_route route_of(const struct verbs_lane *lane, const struct verbs_card *own,
                                   const struct verbs_card *peer)
{
    const struct verbs_options *o = &lane->link->t->options;
    enum dp_class c = lane->traffic_class;
    return (struct verbs_route){
        .dest_qp_num = peer->qp_num[c],
        .dest_psn = peer->psn[c],
        .psn = own->psn[c],
        .dest_lid = peer->lid,
        .dest_gid = peer->gid,
        .mtu = (enum ibv_mtu)(peer->mtu < own->mtu ? peer->mtu : own->mtu),
        .service_level = o->service_level[c],
        .traffic_class = o->traffic_class[c],
        .timeout = o->timeout,
        .retries = o->retries,
    };
}

int verbs_link_connect(struct verbs_link *k, const struct verbs_card *peer)
{
    uint32_t n = k->t->device.n_regions;
    struct verbs_card own;
    struct verbs_region *regions = calloc(n, sizeof(*regions));
    struct verbs_region *remote = calloc(peer->n_regions, sizeof(*remote));
    int rc = regions && remote ? 0 : -ENOMEM;
    if (rc == 0) {
        verbs_link_describe(k, &own, regions);
        memcpy(remote, peer->regions, peer->n_regions * sizeof(*remote));
    }
    for (unsigned c = 0; c < DP_N_CLASSES && rc == 0; c++) {
        struct verbs_route r = route_of(&k->lanes[c], &own, peer);
        rc = verbs_qp_connect(&k->t->device, k->lanes[c].qp, &r);
    }
    free(regions);
    if (rc) {
        free(remote);
        return rc;
    }
    free(k->remote);
    k->remote = remote;
    k->n_remote = peer->n_regions;
    k->up = k->was_up = true;
    return 0;
}

/* A queue pair to oneself is not possible on every device; a pair of them is. */
int verbs_connect_loopback(struct transport_verbs *t)
{
    struct verbs_link **near = &t->links[t->options.node], **far = &t->links[t->n_nodes];
    struct verbs_region *regions = calloc(2 * (size_t)t->device.n_regions, sizeof(*regions));
    struct verbs_card cards[2];
    int rc = regions ? verbs_link_new(t, t->options.node, near) : -ENOMEM;
    rc = rc ? rc : verbs_link_new(t, t->n_nodes, far);
    if (rc == 0) {
        verbs_link_describe(*near, &cards[0], regions);
        verbs_link_describe(*far, &cards[1], regions + t->device.n_regions);
        rc = verbs_link_connect(*far, &cards[0]);
        rc = rc ? rc : verbs_link_connect(*near, &cards[1]);
    }
    free(regions);
    return rc;
}

size_t transport_verbs_card_bytes(const struct transport_verbs *t)
{
    return verbs_card_bytes(t->device.n_regions);
}

int transport_verbs_offer(struct transport_verbs *t, uint32_t node, uint8_t *ret_card,
                          struct err *e)
{
    if (node >= t->n_nodes || node == t->options.node ||
        (t->links[node] && (t->links[node]->up || t->links[node]->n_in_flight > 0))) {
        return err_set(e, -EINVAL, "verbs: node %" PRIu32 ": no such peer, or connected", node);
    }
    int rc = t->links[node] ? verbs_link_reset(t->links[node])
                            : verbs_link_new(t, node, &t->links[node]);
    struct verbs_region *regions = calloc(t->device.n_regions, sizeof(*regions));
    rc = rc ? rc : regions ? 0 : -ENOMEM;
    if (rc == 0) {
        struct verbs_card card;
        verbs_link_describe(t->links[node], &card, regions);
        verbs_card_put(&card, ret_card);
    }
    free(regions);
    return rc ? err_set(e, rc, "verbs: queue pairs for node %" PRIu32 ": %s", node, strerror(-rc))
              : 0;
}

int transport_verbs_connect(struct transport_verbs *t, uint32_t node, const uint8_t *card,
                            size_t len, struct err *e)
{
    struct verbs_card peer;
    if (node >= t->n_nodes || !t->links[node] || t->links[node]->up) {
        return err_set(e, -EINVAL, "verbs: node %" PRIu32 ": nothing was offered to it", node);
    }
    int rc = verbs_card_get(card, len, &peer);
    if (rc) {
        return err_set(e, rc, "verbs: node %" PRIu32 ": %s", node,
                       rc == -EPROTO ? "its card is not of this version" : strerror(-rc));
    }
    rc = peer.node == node ? verbs_link_connect(t->links[node], &peer) : -EPROTO;
    if (rc) {
        err_set(e, rc,
                "verbs: node %" PRIu32 ": cannot connect with the card of node %" PRIu32 ": %s",
                node, peer.node, strerror(-rc));
    }
    free(peer.regions);
    return rc;
}
