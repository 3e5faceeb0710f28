/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sched/central.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "sched/retry.h"

static struct policy_view view_of(const struct central *s)
{
    return (struct policy_view){.cluster = s->cluster,
                                .any_dead = s->n_deaths > 0,
                                .prefill = s->prefill,
                                .decode = s->decode,
                                .nodes = s->nodes,
                                .decode_queued_tok = s->decode_queued_tok};
}

/* Accounts */

void central_refresh_engine(struct policy_engine *e, const struct central_account *a,
                            uint64_t capacity_blocks)
{
    e->tok = a->tok - a->done_tok;
    e->requests = (uint32_t)(a->requests - a->done_requests);
    uint64_t promised = a->blocks - a->done_blocks;
    e->free_blocks = promised < capacity_blocks ? capacity_blocks - promised : 0;
}

static void charge(struct policy_engine *e, struct central_account *a, uint64_t tok,
                   uint64_t blocks, uint64_t capacity_blocks)
{
    a->tok += tok;
    a->requests++;
    a->blocks += blocks;
    central_refresh_engine(e, a, capacity_blocks);
}

static void take_report(struct central *s, const struct msg_fetch *f)
{
    const struct cluster *c = s->cluster;
    bool prefill = cluster_is_prefill(c, f->node);
    uint32_t first = (prefill ? f->node : f->node - c->prefill_nodes) * c->gpus_per_node;
    struct policy_engine *engines = prefill ? s->prefill : s->decode;
    struct central_account *accounts = prefill ? s->prefill_accounts : s->decode_accounts;
    for (uint32_t gpu = 0; gpu < c->gpus_per_node; gpu++) {
        struct central_account *a = &accounts[first + gpu];
        a->done_tok = f->done_tok[gpu];
        a->done_requests = f->done_requests[gpu];
        a->done_blocks = f->done_blocks[gpu];
        central_refresh_engine(&engines[first + gpu], a, prefill ? 0 : c->decode_hbm_blocks);
    }
    s->nodes[f->node].read_queue_tok =
        s->read_assigned_tok[f->node] + f->read_added_tok - f->read_done_tok;
}

/* Both engines known: choose the path, tell the decode node (the prefill node hears from it) */

static uint64_t charge_work(struct central *s)
{
    uint64_t now = loop_now_ns(s->loop);
    uint64_t start = s->busy_until_ns > now ? s->busy_until_ns : now;
    s->busy_until_ns = start + s->cluster->scheduler_cost_ns;
    return s->busy_until_ns - now;
}

static void record_decision(struct central *s, const struct central_request *q,
                            const struct policy_read *read, uint32_t kept_tok)
{
    uint64_t h = s->decision_hash;
    h = hash_mix64(h ^ ((uint64_t)q->r.session << 32 | q->r.turn));
    h = hash_mix64(h ^ ((uint64_t)q->prefill_engine << 32 | q->decode_engine));
    h = hash_mix64(h ^ read->on_decode);
    bool whole = kept_tok == 0 && (read->decode_tok == 0 || read->decode_tok == q->r.hit_tok);
    s->decision_hash = whole ? h : hash_mix64(h ^ ((uint64_t)kept_tok << 32 | read->decode_tok));
    s->n_decisions++;
}

/* What decode engines keep */

static void drop_kept(struct central *s, uint32_t session)
{
    uint32_t index;
    if (idmap_get(&s->kept_by_session, session, &index)) {
        idmap_remove(&s->kept_by_session, session);
        pool_put(&s->kept, index);
    }
}

static void on_kept(struct central *s, const struct msg_kept *m)
{
    uint32_t index;
    bool known = idmap_get(&s->kept_by_session, m->session, &index);
    struct central_kept *k = known ? pool_at(&s->kept, index) : NULL;
    if (m->tok == 0) {
        if (k && k->engine == m->engine) {
            drop_kept(s, m->session);
        }
        return;
    }
    if (!known) {
        k = pool_get(&s->kept, &index);
        idmap_put(&s->kept_by_session, m->session, index);
    }
    *k = (struct central_kept){m->engine, m->n_engines, m->tok};
}

/* Between its submission and its assignment a request's KV may come to be kept, or be dropped. */
static void look_up_kept(struct central *s, struct central_request *q)
{
    uint32_t index;
    q->p.kept_tok = 0;
    if (idmap_get(&s->kept_by_session, q->r.session, &index)) {
        const struct central_kept *k = pool_at(&s->kept, index);
        q->p.kept_tok = k->tok < q->r.hit_tok ? k->tok : q->r.hit_tok;
        q->p.kept_first = k->engine;
        q->p.kept_engines = k->n_engines;
    }
}

/* Hits that the chosen decode engine need not read: then it brings all of them. */
static uint32_t take_kept(struct central *s, struct central_request *q)
{
    look_up_kept(s, q);
    drop_kept(s, q->r.session);
    return q->decode_engine - q->p.kept_first < q->p.kept_engines ? q->p.kept_tok : 0;
}

static void assign_read(struct central *s, uint32_t node, uint32_t tok)
{
    s->read_assigned_tok[node] += tok;
    s->nodes[node].read_queue_tok += tok;
}

static void start_if_decided(struct central *s, struct central_request *q)
{
    if (q->prefill_engine == POLICY_WAIT || q->decode_engine == POLICY_WAIT) {
        return;
    }
    const struct cluster *c = s->cluster;
    struct policy_view v = view_of(s);
    uint32_t prefill_node = policy_prefill_node(c, q->prefill_engine);
    uint32_t decode_node = policy_decode_node(c, q->decode_engine);
    uint32_t kept_tok = take_kept(s, q);
    struct policy_read read = kept_tok > 0 ? (struct policy_read){true, q->r.hit_tok}
                                           : policy_read(&v, &q->p, prefill_node, decode_node);
    assign_read(s, decode_node, read.decode_tok - kept_tok);
    assign_read(s, prefill_node, q->r.hit_tok - read.decode_tok);
    record_decision(s, q, &read, kept_tok);
    uint64_t delay_ns = charge_work(s);
    struct msg m = {.type = MSG_START,
                    .src = MSG_SCHEDULER,
                    .dst = MSG_NODE(decode_node),
                    .u.start = {.r = q->r,
                                .prefill_node = prefill_node,
                                .decode_node = decode_node,
                                .prefill_gpu = (uint16_t)(q->prefill_engine % c->gpus_per_node),
                                .decode_gpu = (uint16_t)(q->decode_engine % c->gpus_per_node),
                                .read_on_decode = read.on_decode,
                                .decode_tok = read.decode_tok,
                                .kept_tok = kept_tok,
                                .scheduled_ns = loop_now_ns(s->loop) - q->received_ns + delay_ns}};
    if (s->observer.decided) {
        s->observer.decided(s->observer.self, &m.u.start);
    }
    msg_send(s->messages, &m, delay_ns);
    if (c->retry) {
        central_keep_started(s, q, q->r.hit_tok - read.decode_tok);
    } else {
        pool_put(&s->requests, q->index);
    }
}

/* Prefill side */

static struct central_request *prefill_of(struct list *link)
{
    return container_of(link, struct central_request, prefill_link);
}

static struct central_request *decode_of(struct list *link)
{
    return container_of(link, struct central_request, decode_link);
}

static void place_prefill(struct central *s)
{
    struct policy_view v = view_of(s);
    struct list *link;
    while ((link = list_first(&s->unplaced_prefill))) {
        uint32_t engine = s->policy->place_prefill(&v, &prefill_of(link)->p);
        list_remove(link);
        list_add_tail(engine == POLICY_GLOBAL ? &s->global_prefill : &s->prefill_queues[engine],
                      link);
    }
}

/* Assigns the request at the head of a queue. Returns whether there is one and an engine for it. */
static bool serve_prefill(struct central *s, const struct policy_group *g, struct list *queue)
{
    struct policy_view v = view_of(s);
    struct list *link = list_first(queue);
    uint32_t e = link ? s->policy->pick_prefill(&v, g, &prefill_of(link)->p) : POLICY_WAIT;
    if (e == POLICY_WAIT) {
        return false;
    }
    struct central_request *q = prefill_of(link);
    list_remove(link);
    q->prefill_engine = e;
    charge(&s->prefill[e], &s->prefill_accounts[e], q->r.prompt_tok, 0, 0);
    start_if_decided(s, q);
    return true;
}

/* The engines' own queues take turns. */
static bool serve_prefill_engines(struct central *s, const struct policy_group *g)
{
    bool any = false;
    for (uint32_t e = g->first_engine; e < g->first_engine + g->n_engines; e++) {
        any |= serve_prefill(s, g, &s->prefill_queues[e]);
    }
    return any;
}

static void fetch_prefill(struct central *s, uint32_t group)
{
    struct policy_group g = policy_prefill_group(s->cluster, group);
    place_prefill(s);
    while (serve_prefill_engines(s, &g)) {
    }
    while (serve_prefill(s, &g, &s->global_prefill)) {
    }
}

/* Decode side */

static uint64_t decode_tok(const struct central_request *q)
{
    return (uint64_t)q->r.prompt_tok + q->r.gen_tok;
}

static void place_decode(struct central *s)
{
    struct policy_view v = view_of(s);
    struct list *link;
    while ((link = list_first(&s->unplaced_decode))) {
        struct central_request *q = decode_of(link);
        look_up_kept(s, q);
        uint32_t group = s->policy->place_decode(&v, &q->p);
        list_remove(link);
        list_add_tail(&s->decode_queues[group], link);
        s->decode_queued_tok[group] += decode_tok(q);
    }
}

/* Tokens of the longest prefix of the group's queue that fits its free HBM, all engines together.
 */
static uint64_t fitting_tok(const struct central *s, const struct policy_group *g)
{
    uint64_t free_blocks = 0, tok = 0;
    for (uint32_t e = g->first_engine; e < g->first_engine + g->n_engines; e++) {
        free_blocks += s->decode[e].free_blocks;
    }
    list_for_each (link, &s->decode_queues[g->id]) {
        const struct central_request *q = decode_of(link);
        if (q->p.blocks > free_blocks) {
            break;
        }
        free_blocks -= q->p.blocks;
        tok += decode_tok(q);
    }
    return tok;
}

static void fetch_decode(struct central *s, uint32_t group)
{
    struct policy_view v = view_of(s);
    struct policy_group g = policy_decode_group(s->cluster, group);
    place_decode(s);
    struct policy_decode_plan plan = s->policy->plan_decode(&v, &g, fitting_tok(s, &g));
    struct list *link;
    while ((link = list_first(&s->decode_queues[group]))) {
        struct central_request *q = decode_of(link);
        look_up_kept(s, q);
        uint32_t e = s->policy->pick_decode(&v, &g, &q->p, &plan);
        if (e == POLICY_WAIT) {
            return;
        }
        list_remove(link);
        s->decode_queued_tok[group] -= decode_tok(q);
        q->decode_engine = e;
        charge(&s->decode[e], &s->decode_accounts[e], decode_tok(q),
               s->cluster->promise_decode_hbm ? q->p.blocks : 0, s->cluster->decode_hbm_blocks);
        start_if_decided(s, q);
    }
}

/* The first node of a group that lives. */
static bool leads(const struct central *s, uint32_t group_first_node, uint32_t node)
{
    for (uint32_t i = group_first_node; i < node; i++) {
        if (!central_is_dead(s, i)) {
            return false;
        }
    }
    return true;
}

static void on_fetch(struct central *s, const struct msg_fetch *f)
{
    const struct cluster *c = s->cluster;
    take_report(s, f);
    if (cluster_is_prefill(c, f->node)) {
        uint32_t group = f->node / c->prefill_group_nodes;
        if (leads(s, group * c->prefill_group_nodes, f->node)) {
            fetch_prefill(s, group);
        }
    } else {
        uint32_t group = (f->node - c->prefill_nodes) / c->decode_group_nodes;
        if (leads(s, c->prefill_nodes + group * c->decode_group_nodes, f->node)) {
            fetch_decode(s, group);
        }
    }
}

static void on_submit(struct central *s, const struct msg_request *r)
{
    uint32_t index;
    struct central_request *q = pool_get(&s->requests, &index);
    q->index = index;
    q->r = *r;
    q->p = (struct policy_request){
        .ticket = s->next_ticket++,
        .prompt_tok = r->prompt_tok,
        .hit_tok = r->hit_tok,
        .gen_tok = r->gen_tok,
        .blocks = cluster_decode_blocks(s->cluster, r->prompt_tok, r->gen_tok)};
    q->received_ns = loop_now_ns(s->loop);
    q->prefill_engine = q->decode_engine = POLICY_WAIT;
    list_add_tail(&s->unplaced_prefill, &q->prefill_link);
    list_add_tail(&s->unplaced_decode, &q->decode_link);
    if (s->cluster->retry) {
        central_keep_open(s, q);
    }
}

static void on_message(void *self, const struct msg *m)
{
    struct central *s = self;
    if (m->src >= MSG_NODE(0) && central_is_dead(s, m->src - MSG_NODE(0))) {
        return;
    }
    switch (m->type) {
    case MSG_SUBMIT:
        on_submit(s, &m->u.submit);
        break;
    case MSG_FETCH:
        on_fetch(s, &m->u.fetch);
        break;
    case MSG_KEPT:
        on_kept(s, &m->u.kept);
        break;
    case MSG_DEAD:
        central_take_death(s, m->u.dead.node);
        break;
    case MSG_CLEAR:
        central_take_clear(s, &m->u.clear);
        break;
    case MSG_OVER:
        central_take_over(s, &m->u.over);
        break;
    default:
        break;
    }
}

static struct list *new_queues(uint32_t n)
{
    struct list *queues = calloc(n, sizeof(*queues));
    for (uint32_t i = 0; queues && i < n; i++) {
        list_init(&queues[i]);
    }
    return queues;
}

static int allocate(struct central *s)
{
    const struct cluster *c = s->cluster;
    uint32_t n_prefill = c->prefill_nodes * c->gpus_per_node;
    uint32_t n_decode = c->decode_nodes * c->gpus_per_node;
    s->prefill_queues = new_queues(n_prefill);
    s->decode_queues = new_queues(cluster_decode_groups(c));
    s->decode_queued_tok = calloc(cluster_decode_groups(c), sizeof(*s->decode_queued_tok));
    s->prefill = calloc(n_prefill, sizeof(*s->prefill));
    s->decode = calloc(n_decode, sizeof(*s->decode));
    s->prefill_accounts = calloc(n_prefill, sizeof(*s->prefill_accounts));
    s->decode_accounts = calloc(n_decode, sizeof(*s->decode_accounts));
    s->nodes = calloc(cluster_nodes(c), sizeof(*s->nodes));
    s->read_assigned_tok = calloc(cluster_nodes(c), sizeof(*s->read_assigned_tok));
    s->cleared = calloc(cluster_nodes(c), sizeof(*s->cleared));
    if (!s->prefill_queues || !s->decode_queues || !s->decode_queued_tok || !s->prefill ||
        !s->decode || !s->prefill_accounts || !s->decode_accounts || !s->nodes ||
        !s->read_assigned_tok || !s->cleared) {
        return -ENOMEM;
    }
    for (uint32_t e = 0; e < n_decode; e++) {
        s->decode[e].free_blocks = c->decode_hbm_blocks;
    }
    return 0;
}

int central_init(struct central *s, const struct cluster *cluster, struct loop *loop,
                 struct msg_port *messages)
{
    *s = (struct central){.cluster = cluster,
                          .policy = policy_of(cluster->scheduler),
                          .loop = loop,
                          .messages = messages};
    pool_init(&s->requests, sizeof(struct central_request));
    pool_init(&s->kept, sizeof(struct central_kept));
    idmap_init(&s->kept_by_session);
    list_init(&s->unplaced_prefill);
    list_init(&s->unplaced_decode);
    list_init(&s->global_prefill);
    list_init(&s->open);
    list_init(&s->started);
    idmap_init(&s->by_id);
    int rc = allocate(s);
    rc = rc ? rc : messages->ops->attach(messages, MSG_SCHEDULER, on_message, s);
    if (rc) {
        central_done(s);
    }
    return rc;
}

void central_done(struct central *s)
{
    free(s->prefill_queues);
    free(s->decode_queues);
    free(s->decode_queued_tok);
    free(s->prefill);
    free(s->decode);
    free(s->prefill_accounts);
    free(s->decode_accounts);
    free(s->nodes);
    free(s->read_assigned_tok);
    free(s->cleared);
    idmap_done(&s->by_id);
    pool_done(&s->requests);
    pool_done(&s->kept);
    idmap_done(&s->kept_by_session);
}
