/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The client against a scripted cluster: who arrives when, what hits, and what waits for what. The
 * scheduler is a fake that serves every request in fixed times after its submission: first token
 * after 10 s, last one after 20 s, prompt durable after 25 s, everything durable after 40 s.
 */
#include <check.h>

#include "base/units.h"
#include "check_suite.h"
#include "sched/client.h"
#include "sim/sim_messages.h"
#include "sim/virtual_driver.h"

#define S         NS_PER_S
#define MAX_TURNS 16

/* A workload in tables. */
struct script {
    struct workload base;
    const struct workload_session *sessions;
    const struct workload_turn (*turns)[3];
};

static void get_session(const struct workload *w, uint32_t i, struct workload_session *ret)
{
    *ret = container_of(w, const struct script, base)->sessions[i];
}

static void get_turn(const struct workload *w, uint32_t i, uint32_t k, struct workload_turn *ret)
{
    *ret = container_of(w, const struct script, base)->turns[i][k];
}

static const struct workload_ops script_ops = {.session = get_session, .turn = get_turn};

struct fixture {
    struct virtual_driver driver;
    struct loop loop;
    struct sim_messages messages;
    struct cluster cluster;
    struct client client;
    struct client_turn turns[MAX_TURNS]; /* in order of their ends */
    uint32_t n_turns, n_arrived, n_replies;
    uint64_t session_end_ns[8];
    bool over;
};

static void reply(struct fixture *f, uint32_t request, uint16_t type, uint32_t tok, uint64_t after)
{
    /* A sender of its own: messages of one sender would wait for each other. */
    struct msg m = {.type = type, .src = MSG_NODE(f->n_replies++), .dst = MSG_CLIENT};
    m.u.event.request = request;
    m.u.event.tok = tok;
    msg_send(&f->messages.port, &m, after);
}

static void serve(void *self, const struct msg *m)
{
    struct fixture *f = self;
    ck_assert_uint_eq(m->type, MSG_SUBMIT);
    const struct msg_request *r = &m->u.submit;
    reply(f, r->request, MSG_FIRST_TOKEN, 1, 10 * S);
    if (r->gen_tok > 1) {
        reply(f, r->request, MSG_FINISHED, r->gen_tok, 20 * S);
    }
    if (f->cluster.shared_prefixes) {
        reply(f, r->request, MSG_PROMPT_DURABLE, 0, 25 * S);
    }
    reply(f, r->request, MSG_DURABLE, r->gen_tok, 40 * S);
}

static void turn_arrived(void *self)
{
    ((struct fixture *)self)->n_arrived++;
}

static void turn_over(void *self, const struct client_turn *t)
{
    struct fixture *f = self;
    ck_assert_uint_lt(f->n_turns, MAX_TURNS);
    f->turns[f->n_turns++] = *t;
}

static void session_over(void *self, uint32_t session, uint64_t arrival_ns, uint64_t end_ns)
{
    (void)arrival_ns;
    ((struct fixture *)self)->session_end_ns[session] = end_ns;
}

static void all_over(void *self)
{
    struct fixture *f = self;
    f->over = true;
    loop_stop(&f->loop);
}

static void fault(void *self, const struct msg_fault *m, uint32_t node)
{
    (void)self;
    (void)m;
    (void)node;
    ck_abort_msg("a fault");
}

static void play(struct fixture *f, uint32_t n_sessions, const struct workload_session *sessions,
                 const struct workload_turn (*turns)[3])
{
    const struct client_observer observer = {.self = f,
                                             .turn_arrived = turn_arrived,
                                             .turn_over = turn_over,
                                             .session_over = session_over,
                                             .all_over = all_over,
                                             .fault = fault};
    const struct script script = {
        .base = {.ops = &script_ops, .n_sessions = n_sessions, .block_tok = 64},
        .sessions = sessions,
        .turns = turns};
    *f = (struct fixture){
        .cluster = {.kv = {.block_tok = 64}, .shared_prefixes = turns[0][0].block_ids != NULL}};
    virtual_driver_init(&f->driver, NULL, NULL, NULL);
    ck_assert_int_eq(loop_init(&f->loop, &f->driver.driver, 0), 0);
    ck_assert_int_eq(sim_messages_init(&f->messages, &f->loop, MSG_NODE(4 * MAX_TURNS), 0), 0);
    struct msg_port *port = &f->messages.port;
    ck_assert_int_eq(port->ops->attach(port, MSG_SCHEDULER, serve, f), 0);
    ck_assert_int_eq(client_init(&f->client, &f->cluster, &script.base, &f->loop, port, &observer),
                     0);
    loop_run(&f->loop);
    ck_assert(f->over);
    ck_assert_uint_eq(f->client.in_system, 0);
    ck_assert_uint_eq(f->client.requests.n_used, 0);
    ck_assert_uint_eq(f->n_arrived, f->n_turns);
    ck_assert_uint_eq(f->client.totals.served_gen_tok, f->client.totals.gen_tok);
    client_done(&f->client);
    sim_messages_done(&f->messages);
    loop_done(&f->loop);
}

static const struct client_turn *turn_of(const struct fixture *f, uint32_t session, uint32_t turn)
{
    for (uint32_t i = 0; i < f->n_turns; i++) {
        if (f->turns[i].session == session && f->turns[i].turn == turn) {
            return &f->turns[i];
        }
    }
    ck_abort_msg("session %u turn %u never ended", session, turn);
    return NULL;
}

/* seconds */
static void check_times(const struct fixture *f, uint32_t session, uint32_t turn, uint64_t arrival,
                        uint64_t submitted, uint64_t last)
{
    const struct client_turn *t = turn_of(f, session, turn);
    ck_assert_uint_eq(t->arrival_ns, arrival * S);
    ck_assert_uint_eq(t->submit_ns, submitted * S);
    ck_assert_uint_eq(t->last_ns, last * S);
    /* The wait for durable hits is scheduling time; the parts add up. */
    ck_assert_uint_ge(t->scheduled_ns, (submitted - arrival) * S);
    ck_assert_uint_eq(t->scheduled_ns + t->alloc_ns + t->read_ns + t->prefill_ns,
                      t->first_ns - t->arrival_ns);
    ck_assert_uint_le(t->queue_ns, t->prefill_ns);
}

/* A turn arrives its delay after the last token of the one before, but is submitted when that one
 * is durable; it hits the whole blocks of what that one has computed. */
START_TEST(test_chain)
{
    struct fixture f;
    const struct workload_session sessions[] = {
        {.arrival_ns = 3 * S, .n_turns = 3, .parent = WORKLOAD_NONE}};
    const struct workload_turn turns[][3] = {
        {{.prompt_tok = 100, .gen_tok = 29},
         {.prompt_tok = 200, .gen_tok = 1, .delay_ns = 5 * S},
         {.prompt_tok = 300, .gen_tok = 2, .delay_ns = 70 * S}}};
    play(&f, 1, sessions, turns);
    check_times(&f, 0, 0, 3, 3, 23);
    check_times(&f, 0, 1, 28, 43, 53); /* durable at 3 + 40; one token: over with the first */
    check_times(&f, 0, 2, 123, 123, 143);
    ck_assert_uint_eq(turn_of(&f, 0, 0)->hit_tok, 0);
    ck_assert_uint_eq(turn_of(&f, 0, 1)->hit_tok, 128); /* of 100 + 29 - 1, exactly two blocks */
    ck_assert_uint_eq(turn_of(&f, 0, 2)->hit_tok, 192); /* of 200 */
    ck_assert_uint_eq(f.session_end_ns[0], 143 * S);
}
END_TEST

/* One child begins with its parent, one at the end of the parent's first turn; the parent's second
 * turn waits for the latter and its delay counts from there. */
START_TEST(test_subagents)
{
    struct fixture f;
    static const uint32_t waits[] = {2};
    const struct workload_session sessions[] = {
        {.arrival_ns = 0, .n_turns = 2, .parent = WORKLOAD_NONE},
        {.n_turns = 1, .parent = 0, .parent_turn = WORKLOAD_NONE, .spawn_delay_ns = 4 * S},
        {.n_turns = 1, .parent = 0, .parent_turn = 0, .spawn_delay_ns = 100 * S}};
    const struct workload_turn turns[][3] = {
        {{.prompt_tok = 100, .gen_tok = 2},
         {.prompt_tok = 200, .gen_tok = 2, .delay_ns = 5 * S, .waits = waits, .n_waits = 1}},
        {{.prompt_tok = 100, .gen_tok = 2, .delay_ns = 1 * S}},
        {{.prompt_tok = 100, .gen_tok = 2}}};
    play(&f, 3, sessions, turns);
    check_times(&f, 0, 0, 0, 0, 20);
    check_times(&f, 1, 0, 5, 5, 25);
    check_times(&f, 2, 0, 120, 120, 140);
    check_times(&f, 0, 1, 145, 145, 165);
    ck_assert_uint_eq(f.session_end_ns[2], 140 * S);
}
END_TEST

/* A child that begins with a child that begins with its parent. */
START_TEST(test_grandchildren)
{
    struct fixture f;
    const struct workload_session sessions[] = {
        {.arrival_ns = 7 * S, .n_turns = 1, .parent = WORKLOAD_NONE},
        {.n_turns = 1, .parent = 0, .parent_turn = WORKLOAD_NONE, .spawn_delay_ns = 2 * S},
        {.n_turns = 1, .parent = 1, .parent_turn = WORKLOAD_NONE, .spawn_delay_ns = 3 * S}};
    const struct workload_turn turns[][3] = {{{.prompt_tok = 100, .gen_tok = 2}},
                                             {{.prompt_tok = 100, .gen_tok = 2}},
                                             {{.prompt_tok = 100, .gen_tok = 2}}};
    play(&f, 3, sessions, turns);
    check_times(&f, 0, 0, 7, 7, 27);
    check_times(&f, 1, 0, 9, 9, 29);
    check_times(&f, 2, 0, 12, 12, 32);
}
END_TEST

/* Shared prefixes: what hits is decided by the order of arrivals, what is read waits until it is
 * durable, scopes do not mix, and a prompt hit in full computes a token all the same. */
START_TEST(test_shared_prefixes)
{
    struct fixture f;
    static const uint64_t abc[] = {1, 2, 3}, abd[] = {1, 2, 4};
    const struct workload_session sessions[] = {
        {.arrival_ns = 0, .n_turns = 1, .parent = WORKLOAD_NONE},
        {.arrival_ns = 10 * S, .n_turns = 1, .parent = WORKLOAD_NONE},
        {.arrival_ns = 11 * S, .n_turns = 1, .parent = WORKLOAD_NONE},
        {.arrival_ns = 12 * S, .n_turns = 1, .parent = WORKLOAD_NONE, .scope = 1},
        {.arrival_ns = 100 * S, .n_turns = 1, .parent = WORKLOAD_NONE}};
    const struct workload_turn turns[][3] = {
        {{.prompt_tok = 192, .gen_tok = 2, .block_ids = abc, .n_blocks = 3}},
        {{.prompt_tok = 200, .gen_tok = 2, .block_ids = abd, .n_blocks = 3}},
        {{.prompt_tok = 200, .gen_tok = 2, .block_ids = abd, .n_blocks = 3}},
        {{.prompt_tok = 192, .gen_tok = 2, .block_ids = abc, .n_blocks = 3}},
        {{.prompt_tok = 192, .gen_tok = 2, .block_ids = abc, .n_blocks = 3}}};
    play(&f, 5, sessions, turns);
    check_times(&f, 0, 0, 0, 0, 20);
    check_times(&f, 1, 0, 10, 25, 45); /* for blocks 1 and 2 of session 0 */
    check_times(&f, 2, 0, 11, 50, 70); /* for block 4 of session 1, submitted at 25 */
    check_times(&f, 3, 0, 12, 12, 32);
    check_times(&f, 4, 0, 100, 100, 120);
    ck_assert_uint_eq(turn_of(&f, 0, 0)->hit_tok, 0);
    ck_assert_uint_eq(turn_of(&f, 1, 0)->hit_tok, 128);
    ck_assert_uint_eq(turn_of(&f, 2, 0)->hit_tok, 192);
    ck_assert_uint_eq(turn_of(&f, 3, 0)->hit_tok, 0);
    ck_assert_uint_eq(turn_of(&f, 4, 0)->hit_tok, 128); /* 191 of 192, in whole blocks */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, test_chain);
    tcase_add_test(tc, test_subagents);
    tcase_add_test(tc, test_grandchildren);
    tcase_add_test(tc, test_shared_prefixes);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
