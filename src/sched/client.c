/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sched/client.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define NONE WORKLOAD_NONE

struct client_session {
    uint32_t next_turn;   /* the turn that is to arrive, or has arrived and is not over */
    uint32_t context_tok; /* private context in storage once durable: KV of the turns so far */
    struct stored_context stored;       /* what of it is still there */
    uint32_t request;                   /* of the turn in flight, NONE */
    uint32_t first_child, next_sibling; /* sessions that this one spawns */
    uint32_t next_to_start;             /* while sessions that start together are started */
    uint32_t waiting_on_me,
        next_waiting; /* sessions whose next turn waits for the end of this one */
    uint64_t arrival_ns;
    uint64_t ready_ns; /* latest end of what the next turn waits for */
    bool over;
};

struct client_request {
    struct client *client;
    struct loop_timer timer; /* arrival */
    struct client_turn t;
    uint32_t index;      /* in the pool */
    uint32_t id;         /* on the wire, from submission on; a new one every time */
    uint32_t trie_node;  /* last node of the prompt's chain, BLOCK_TRIE_NONE */
    uint32_t hit_blocks; /* trace blocks hit */
    struct list waiters; /* requests that wait for this prompt to be durable */
    struct list wait_link;
    uint32_t predecessor; /* request of the session's turn before, while not durable; NONE */
    uint32_t successor;   /* request that waits for this one to be durable; NONE */
    uint64_t reported_ns; /* scheduled + alloc + read, from the first token's message */
    bool arrived, first, second, finished, durable;
    bool prefilled; /* under this id: the first token has come */
};

static struct client_request *request_at(struct client *c, uint32_t index)
{
    return pool_at(&c->requests, index);
}

static void begin_turn(struct client *c, uint32_t session);

/* Storage index */

static uint32_t round_down_to_block(const struct client *c, uint64_t tok, uint32_t prompt_tok)
{
    /* At least one token is computed, to have logits. */
    uint64_t hit = tok < prompt_tok ? tok : prompt_tok - 1;
    return (uint32_t)(hit - hit % c->cluster->kv.block_tok);
}

/* Value of a trie node: index + 1 of the request whose prompt brings the block, 0 once it is
 * durable. */
static int index_prompt(struct client *c, struct client_request *q, const struct workload_turn *wt,
                        uint32_t scope)
{
    q->hit_blocks = block_trie_match(&c->trie, scope, wt->block_ids, wt->n_blocks, NULL);
    int rc = block_trie_insert(&c->trie, scope, wt->block_ids, wt->n_blocks, &q->trie_node);
    uint32_t node = q->trie_node;
    for (uint32_t b = wt->n_blocks; rc == 0 && b > q->hit_blocks; b--) {
        block_trie_set_value(&c->trie, node, q->index + 1);
        node = block_trie_parent(&c->trie, node);
    }
    return rc;
}

static void prompt_is_durable(struct client *c, struct client_request *q)
{
    uint32_t node = q->trie_node;
    while (node != BLOCK_TRIE_NONE && block_trie_value(&c->trie, node) == q->index + 1) {
        block_trie_set_value(&c->trie, node, 0);
        node = block_trie_parent(&c->trie, node);
    }
}

/* A request in flight that is still writing one of the blocks q hits, or NULL. */
static struct client_request *writer_of_hits(struct client *c, const struct client_request *q,
                                             const struct workload_turn *wt)
{
    uint32_t node = q->trie_node;
    for (uint32_t b = wt->n_blocks; b > 0 && node != BLOCK_TRIE_NONE; b--) {
        uint32_t writer = block_trie_value(&c->trie, node);
        if (b <= q->hit_blocks && writer != 0) {
            return request_at(c, writer - 1);
        }
        node = block_trie_parent(&c->trie, node);
    }
    return NULL;
}

/* Submission */

static void submit(struct client *c, struct client_request *q)
{
    q->t.submit_ns = q->first ? q->t.submit_ns : loop_now_ns(c->loop);
    q->id = c->next_id++;
    q->prefilled = false;
    idmap_put(&c->by_id, q->id, q->index);
    struct msg m = {.type = MSG_SUBMIT,
                    .src = MSG_CLIENT,
                    .dst = MSG_SCHEDULER,
                    .u.submit = {.request = q->id,
                                 .session = q->t.session,
                                 .turn = q->t.turn,
                                 .prompt_tok = q->t.prompt_tok,
                                 .hit_tok = q->t.hit_tok,
                                 .gen_tok = q->t.gen_tok}};
    msg_send(c->messages, &m, 0);
}

static void submit_when_durable(struct client *c, struct client_request *q)
{
    if (q->predecessor != NONE) {
        return; /* its MSG_DURABLE comes back here */
    }
    struct workload_turn wt;
    c->workload->ops->turn(c->workload, q->t.session, q->t.turn, &wt);
    struct client_request *writer = wt.block_ids ? writer_of_hits(c, q, &wt) : NULL;
    if (writer) {
        list_add_tail(&writer->waiters, &q->wait_link);
    } else {
        submit(c, q);
    }
}

static uint32_t private_hit_tokens(struct client *c, struct client_session *s, uint32_t prompt_tok)
{
    uint32_t hit = round_down_to_block(c, s->context_tok, prompt_tok);
    if (c->stored.capacity_blocks == 0) {
        return hit;
    }
    stored_lease(&s->stored);
    uint64_t left_tok = (uint64_t)s->stored.blocks * c->cluster->kv.block_tok;
    if (left_tok >= hit) {
        return hit;
    }
    c->totals.evicted_tok += hit - left_tok;
    return (uint32_t)left_tok;
}

static uint32_t hit_tokens(struct client *c, struct client_request *q,
                           const struct workload_turn *wt)
{
    struct workload_session ws;
    if (!wt->block_ids) {
        return private_hit_tokens(c, &c->sessions[q->t.session], wt->prompt_tok);
    }
    c->workload->ops->session(c->workload, q->t.session, &ws);
    if (index_prompt(c, q, wt, ws.scope)) {
        abort(); /* out of memory while the run is on: as the pools do */
    }
    return round_down_to_block(c, (uint64_t)q->hit_blocks * c->workload->block_tok, wt->prompt_tok);
}

static void count_in_system(struct client *c, int by)
{
    bool was_busy = c->in_system > 0;
    c->in_system += (uint64_t)by;
    bool is_busy = c->in_system > 0;
    if (c->observer.busy && is_busy != was_busy) {
        c->observer.busy(c->observer.self, is_busy);
    }
}

static void arrive(struct loop_timer *t)
{
    struct client_request *q = container_of(t, struct client_request, timer);
    struct client *c = q->client;
    struct workload_turn wt;
    c->workload->ops->turn(c->workload, q->t.session, q->t.turn, &wt);
    q->arrived = true;
    q->t.arrival_ns = loop_now_ns(c->loop);
    q->t.prompt_tok = wt.prompt_tok;
    q->t.gen_tok = wt.gen_tok;
    q->t.hit_tok = hit_tokens(c, q, &wt);
    c->totals.requests++;
    c->totals.prompt_tok += wt.prompt_tok;
    c->totals.hit_tok += q->t.hit_tok;
    c->totals.gen_tok += wt.gen_tok;
    count_in_system(c, 1);
    c->observer.turn_arrived(c->observer.self);
    submit_when_durable(c, q);
}

/* Sessions */

/* A session, and in turn those that start with it. */
static void start_session(struct client *c, uint32_t session, uint64_t arrival_ns)
{
    uint32_t last = session;
    c->sessions[session].arrival_ns = arrival_ns;
    c->sessions[session].next_to_start = NONE;
    for (uint32_t i = session; i != NONE; i = c->sessions[i].next_to_start) {
        struct client_session *s = &c->sessions[i];
        s->ready_ns = s->arrival_ns;
        begin_turn(c, i);
        for (uint32_t k = s->first_child; k != NONE; k = c->sessions[k].next_sibling) {
            struct workload_session child;
            c->workload->ops->session(c->workload, k, &child);
            if (child.parent_turn == NONE) {
                c->sessions[k].arrival_ns = s->arrival_ns + child.spawn_delay_ns;
                c->sessions[k].next_to_start = NONE;
                c->sessions[last].next_to_start = k;
                last = k;
            }
        }
    }
}

/* Children spawned at the end of a turn. */
static void spawn_children(struct client *c, uint32_t session, uint32_t turn, uint64_t from_ns)
{
    for (uint32_t k = c->sessions[session].first_child; k != NONE;
         k = c->sessions[k].next_sibling) {
        struct workload_session child;
        c->workload->ops->session(c->workload, k, &child);
        if (child.parent_turn == turn) {
            start_session(c, k, from_ns + child.spawn_delay_ns);
        }
    }
}

/* A session that the next turn waits for and that is not over, or NONE; takes note of when they
 * ended. */
static uint32_t unfinished_wait(struct client *c, struct client_session *s,
                                const struct workload_turn *wt)
{
    for (uint32_t i = 0; i < wt->n_waits; i++) {
        const struct client_session *w = &c->sessions[wt->waits[i]];
        if (!w->over) {
            return wt->waits[i];
        }
        s->ready_ns = w->ready_ns > s->ready_ns ? w->ready_ns : s->ready_ns;
    }
    return NONE;
}

/* Arms the arrival of the session's next turn, or queues the session behind the one it waits for.
 */
static void begin_turn(struct client *c, uint32_t session)
{
    struct client_session *s = &c->sessions[session];
    struct workload_turn wt;
    c->workload->ops->turn(c->workload, session, s->next_turn, &wt);
    uint32_t wait = unfinished_wait(c, s, &wt);
    if (wait != NONE) {
        s->next_waiting = c->sessions[wait].waiting_on_me;
        c->sessions[wait].waiting_on_me = session;
        return;
    }
    uint32_t index;
    struct client_request *q = pool_get(&c->requests, &index);
    q->client = c;
    q->index = index;
    q->trie_node = BLOCK_TRIE_NONE;
    q->t.session = session;
    q->t.turn = s->next_turn;
    q->successor = NONE;
    q->predecessor = s->request;
    if (s->request != NONE) {
        request_at(c, s->request)->successor = index;
    }
    s->request = index;
    list_init(&q->waiters);
    list_init(&q->wait_link);
    loop_timer_init(&q->timer, arrive);
    if (s->ready_ns + wt.delay_ns <= loop_now_ns(c->loop)) {
        arrive(&q->timer); /* at once: simultaneous arrivals keep the order of their sessions */
    } else {
        loop_arm(c->loop, &q->timer, s->ready_ns + wt.delay_ns);
    }
}

static void session_over(struct client *c, uint32_t session)
{
    struct client_session *s = &c->sessions[session];
    s->over = true;
    c->totals.sessions_over++;
    c->observer.session_over(c->observer.self, session, s->arrival_ns, s->ready_ns);
    uint32_t waiting = s->waiting_on_me;
    s->waiting_on_me = NONE;
    while (waiting != NONE) {
        uint32_t next = c->sessions[waiting].next_waiting;
        begin_turn(c, waiting);
        waiting = next;
    }
}

static void turn_over(struct client *c, struct client_request *q)
{
    struct client_session *s = &c->sessions[q->t.session];
    struct workload_session ws;
    c->workload->ops->session(c->workload, q->t.session, &ws);
    q->t.prefill_ns =
        q->t.first_ns - q->t.arrival_ns - q->reported_ns - (q->t.submit_ns - q->t.arrival_ns);
    q->t.scheduled_ns += q->t.submit_ns - q->t.arrival_ns;
    c->totals.requests_over++;
    c->totals.served_prompt_tok += q->t.prompt_tok;
    count_in_system(c, -1);
    c->observer.turn_over(c->observer.self, &q->t);
    s->context_tok = q->t.prompt_tok + q->t.gen_tok - 1;
    uint32_t block_tok = c->cluster->kv.block_tok;
    stored_release(&c->stored, &s->stored, q->t.hit_tok / block_tok, s->context_tok / block_tok);
    s->ready_ns = q->t.last_ns;
    s->next_turn++;
    spawn_children(c, q->t.session, q->t.turn, q->t.last_ns);
    if (s->next_turn < ws.n_turns) {
        begin_turn(c, q->t.session);
    } else {
        session_over(c, q->t.session);
    }
}

/* Nothing that still comes under the id is for this request. */
static void retire_id(struct client *c, const struct client_request *q)
{
    struct msg m = {.type = MSG_OVER,
                    .src = MSG_CLIENT,
                    .dst = MSG_SCHEDULER,
                    .u.over = {.request = q->id, .prefilled = q->prefilled}};
    idmap_remove(&c->by_id, q->id);
    if (c->cluster->retry) {
        msg_send(c->messages, &m, 0);
    }
}

static void forget_if_over(struct client *c, struct client_request *q)
{
    if (!q->first || !q->finished || !q->durable) {
        return;
    }
    retire_id(c, q);
    struct client_session *s = &c->sessions[q->t.session];
    if (s->request == q->index) {
        s->request = NONE;
    }
    if (q->successor != NONE) {
        struct client_request *next = request_at(c, q->successor);
        next->predecessor = NONE;
        if (next->arrived) {
            submit_when_durable(c, next);
        }
    }
    pool_put(&c->requests, q->index);
    if (c->totals.sessions_over == c->workload->n_sessions && c->requests.n_used == 0) {
        c->observer.all_over(c->observer.self);
    }
}

static void finish(struct client *c, struct client_request *q, uint32_t gen_tok)
{
    q->finished = true;
    q->t.last_ns = loop_now_ns(c->loop);
    c->totals.served_gen_tok += gen_tok;
    if (q->first) {
        turn_over(c, q);
    }
}

/* Messages; those of the two nodes may come in any order */

static void on_first_token(struct client *c, struct client_request *q, const struct msg_event *e)
{
    q->prefilled = true;
    if (q->first) {
        return; /* run again: the agent has this token since the first time */
    }
    q->first = true;
    q->t.first_ns = loop_now_ns(c->loop);
    q->t.second_ns = q->t.second_ns ? q->t.second_ns : q->t.first_ns;
    q->t.scheduled_ns = e->scheduled_ns;
    q->t.alloc_ns = e->alloc_ns;
    q->t.read_ns = e->read_ns;
    q->t.queue_ns = e->queue_ns;
    q->reported_ns = e->scheduled_ns + e->alloc_ns + e->read_ns;
    if (q->t.gen_tok == 1) {
        finish(c, q, 1);
    } else if (q->finished) {
        turn_over(c, q);
    }
}

static void release_waiters(struct client *c, struct client_request *q)
{
    prompt_is_durable(c, q);
    struct list waiting;
    list_init(&waiting);
    while (!list_empty(&q->waiters)) {
        struct list *link = list_first(&q->waiters);
        list_remove(link);
        list_add_tail(&waiting, link);
    }
    while (!list_empty(&waiting)) {
        struct list *link = list_first(&waiting);
        list_remove(link);
        submit_when_durable(c, container_of(link, struct client_request, wait_link));
    }
}

static void on_second_token(struct client *c, struct client_request *q)
{
    q->t.second_ns = q->second ? q->t.second_ns : loop_now_ns(c->loop);
    q->second = true;
}

/* NULL: an id that is not in use any more, which only a dead node's can be. */
static struct client_request *find(struct client *c, uint32_t id)
{
    uint32_t index;
    bool known = idmap_get(&c->by_id, id, &index);
    assert(known || c->cluster->retry);
    return known ? request_at(c, index) : NULL;
}

/* What the session has in storage is what it had before this turn. The next turn may have arrived
 * and counted on more. */
static void lose_durability(struct client *c, struct client_request *q)
{
    c->totals.not_durable++;
    q->durable = true; /* nothing more will become so */
    if (q->successor == NONE) {
        return;
    }
    struct client_request *next = request_at(c, q->successor);
    c->sessions[q->t.session].context_tok = q->t.hit_tok;
    if (next->arrived) {
        c->totals.hit_tok -= next->t.hit_tok;
        next->t.hit_tok = round_down_to_block(c, q->t.hit_tok, next->t.prompt_tok);
        c->totals.hit_tok += next->t.hit_tok;
    }
}

static void on_lost(struct client *c, struct client_request *q)
{
    if (q->first && q->finished) {
        if (!q->durable) {
            lose_durability(c, q);
            forget_if_over(c, q);
        }
        return;
    }
    retire_id(c, q);
    q->durable = false;
    if (q->finished) { /* but the first token went down with its node */
        q->finished = false;
        c->totals.served_gen_tok -= q->t.gen_tok;
    }
    c->totals.reruns++;
    submit(c, q);
}

static void on_event(struct client *c, uint32_t type, const struct msg_event *e)
{
    struct client_request *q = find(c, e->request);
    if (!q) {
        return;
    }
    switch (type) {
    case MSG_FIRST_TOKEN:
        on_first_token(c, q, e);
        break;
    case MSG_TOKEN:
        on_second_token(c, q);
        break;
    case MSG_FINISHED:
        finish(c, q, e->tok);
        break;
    case MSG_PROMPT_DURABLE:
        release_waiters(c, q);
        break;
    default:
        q->durable = true;
    }
    forget_if_over(c, q);
}

static void on_message(void *self, const struct msg *m)
{
    struct client *c = self;
    if (m->type == MSG_FAULT) {
        bool node = m->src >= MSG_NODE(0);
        c->observer.fault(c->observer.self, &m->u.fault, node ? m->src - MSG_NODE(0) : MSG_NO_NODE);
    } else if (m->type == MSG_CLEAR) {
        struct msg on = *m;
        on.src = MSG_CLIENT;
        on.dst = MSG_SCHEDULER;
        on.u.clear.node = m->src - MSG_NODE(0);
        msg_send(c->messages, &on, 0);
    } else if (m->type == MSG_LOST) {
        struct client_request *q = find(c, m->u.lost.request);
        if (q) {
            on_lost(c, q);
        }
    } else {
        on_event(c, m->type, &m->u.event);
    }
}

static void root_arrives(struct loop_timer *t)
{
    struct client *c = container_of(t, struct client, arrival_timer);
    while (c->next_root < c->workload->n_sessions) {
        struct workload_session ws;
        c->workload->ops->session(c->workload, c->next_root, &ws);
        if (ws.parent == NONE && ws.arrival_ns > loop_now_ns(c->loop)) {
            loop_arm(c->loop, t, ws.arrival_ns);
            return;
        }
        uint32_t session = c->next_root++;
        if (ws.parent == NONE) {
            start_session(c, session, ws.arrival_ns);
        }
    }
}

/* Lists the children of each session, in index order. */
static void link_children(struct client *c)
{
    for (uint32_t i = c->workload->n_sessions; i-- > 0;) {
        struct workload_session ws;
        c->workload->ops->session(c->workload, i, &ws);
        if (ws.parent != NONE) {
            c->sessions[i].next_sibling = c->sessions[ws.parent].first_child;
            c->sessions[ws.parent].first_child = i;
        }
    }
}

int client_init(struct client *c, const struct cluster *cluster, const struct workload *workload,
                struct loop *loop, struct msg_port *messages,
                const struct client_observer *observer)
{
    *c = (struct client){.cluster = cluster,
                         .workload = workload,
                         .loop = loop,
                         .messages = messages,
                         .observer = *observer};
    c->totals.sessions = workload->n_sessions;
    block_trie_init(&c->trie);
    stored_init(&c->stored, cluster->storage_blocks);
    pool_init(&c->requests, sizeof(struct client_request));
    idmap_init(&c->by_id);
    c->sessions = calloc(workload->n_sessions, sizeof(*c->sessions));
    if (!c->sessions) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < workload->n_sessions; i++) {
        struct client_session *s = &c->sessions[i];
        stored_context_init(&s->stored);
        s->request = s->first_child = s->next_sibling = s->waiting_on_me = s->next_waiting = NONE;
    }
    link_children(c);
    loop_timer_init(&c->arrival_timer, root_arrives);
    loop_post(loop, &c->arrival_timer);
    int rc = messages->ops->attach(messages, MSG_CLIENT, on_message, c);
    if (rc) {
        client_done(c);
    }
    return rc;
}

void client_done(struct client *c)
{
    free(c->sessions);
    c->sessions = NULL;
    pool_done(&c->requests);
    idmap_done(&c->by_id);
    block_trie_done(&c->trie);
}
