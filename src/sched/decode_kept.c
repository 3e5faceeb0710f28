/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sched/decode_kept.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static bool in_hbm(const struct decode_node *dn)
{
    return dn->node.cluster->reuse == CLUSTER_REUSE_HBM;
}

static struct space *space_of(struct decode_node *dn, const struct decode_kept *k)
{
    return in_hbm(dn) ? &dn->hbm[k->gpu] : &dn->dram;
}

static struct list *lru_of(struct decode_node *dn, const struct decode_kept *k)
{
    return &dn->kept_lru[in_hbm(dn) ? k->gpu : 0];
}

static void tell_scheduler(struct decode_node *dn, const struct decode_kept *k, uint32_t tok)
{
    const struct cluster *c = dn->node.cluster;
    struct msg m = {
        .type = MSG_KEPT,
        .u.kept = {.session = k->session,
                   .engine = cluster_decode_engine(c, dn->node.id, in_hbm(dn) ? k->gpu : 0),
                   .n_engines = in_hbm(dn) ? 1 : c->gpus_per_node,
                   .tok = tok}};
    node_send(&dn->node, MSG_SCHEDULER, &m);
}

static void set_idle(struct decode_node *dn, struct decode_kept *k, bool idle)
{
    uint64_t amount = idle ? k->claim.amount : k->idle_amount;
    space_set_idle(space_of(dn, k), amount, idle);
    k->idle_amount = idle ? amount : 0;
}

/* Takes it off the books; the room is the caller's. */
static void forget(struct decode_node *dn, struct decode_kept *k)
{
    list_remove(&k->lru);
    idmap_remove(&dn->kept_by_session, k->session);
    pool_put(&dn->kept, k->index);
}

static void drop(struct decode_node *dn, struct decode_kept *k)
{
    if (k->idle_amount > 0) {
        set_idle(dn, k, false);
    }
    space_give(space_of(dn, k), &k->claim, k->claim.amount);
    forget(dn, k);
}

/* The turn that was to use it has to read instead, and needs all of its room. */
static void disappoint(struct decode_node *dn, struct decode_kept *k)
{
    struct decode_request *r = k->request;
    r->dram.amount += k->claim.amount;
    r->dram.into = NULL;
    r->kept = NULL;
    dn->node.report.read_added_tok += r->start.kept_tok;
    r->start.kept_tok = 0;
}

/* The least recently kept goes, but not what the waiting claim itself would grow. */
static bool reclaim(struct space *s, struct space_claim *claim)
{
    struct decode_node *dn = s->owner;
    list_for_each (pos, &dn->kept_lru[in_hbm(dn) ? s - dn->hbm : 0]) {
        struct decode_kept *k = container_of(pos, struct decode_kept, lru);
        if (claim->into == &k->claim) {
            continue;
        }
        if (k->request) {
            disappoint(dn, k);
        } else {
            tell_scheduler(dn, k, 0);
        }
        dn->kept_counts.dropped++;
        drop(dn, k);
        return true;
    }
    return false;
}

static struct decode_kept *find(struct decode_node *dn, uint32_t session)
{
    uint32_t index;
    return idmap_get(&dn->kept_by_session, session, &index) ? pool_at(&dn->kept, index) : NULL;
}

void decode_kept_put(struct decode_request *r, struct space_claim *claim, uint32_t tok)
{
    struct decode_node *dn = r->owner;
    uint32_t index;
    struct decode_kept *k = pool_get(&dn->kept, &index);
    *k = (struct decode_kept){.index = index,
                              .session = r->start.r.session,
                              .tok = tok,
                              .gpu = r->start.decode_gpu,
                              .claim = {.amount = claim->amount, .slot = claim->slot}};
    claim->amount = 0;
    idmap_put(&dn->kept_by_session, k->session, index);
    list_add_tail(lru_of(dn, k), &k->lru);
    set_idle(dn, k, true);
    dn->kept_counts.put++;
    tell_scheduler(dn, k, tok);
}

void decode_kept_take(struct decode_request *r)
{
    struct decode_node *dn = r->owner;
    struct decode_kept *k = find(dn, r->start.r.session);
    uint32_t wanted = r->start.kept_tok;
    bool usable =
        k && wanted > 0 && k->tok >= wanted && (!in_hbm(dn) || k->gpu == r->start.decode_gpu);
    if (!usable) {
        if (k) {
            drop(dn, k); /* of a turn before the last: the scheduler has forgotten it */
        }
        dn->node.report.read_added_tok += wanted;
        r->start.kept_tok = 0;
        return;
    }
    r->kept = k;
    k->request = r;
    if (in_hbm(dn)) {
        list_remove(&k->lru);
        set_idle(dn, k, false);
    }
}

void decode_kept_use(struct decode_request *r, struct space_claim *claim)
{
    struct decode_node *dn = r->owner;
    struct decode_kept *k = r->kept;
    if (k->idle_amount > 0) {
        set_idle(dn, k, false);
    }
    claim->amount = k->claim.amount;
    claim->slot = k->claim.slot;
    claim->into = NULL;
    r->kept = NULL;
    forget(dn, k);
}

void decode_kept_give(struct decode_request *r)
{
    drop(r->owner, r->kept);
    r->kept = NULL;
}

int decode_kept_init(struct decode_node *dn)
{
    uint32_t gpus = dn->node.cluster->gpus_per_node;
    pool_init(&dn->kept, sizeof(struct decode_kept));
    idmap_init(&dn->kept_by_session);
    dn->kept_lru = calloc(gpus, sizeof(*dn->kept_lru));
    if (!dn->kept_lru) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < gpus; i++) {
        list_init(&dn->kept_lru[i]);
        dn->hbm[i].reclaim = reclaim;
        dn->hbm[i].owner = dn;
    }
    dn->dram.reclaim = reclaim;
    dn->dram.owner = dn;
    return 0;
}

void decode_kept_done(struct decode_node *dn)
{
    pool_done(&dn->kept);
    idmap_done(&dn->kept_by_session);
    free(dn->kept_lru);
    dn->kept_lru = NULL;
}
