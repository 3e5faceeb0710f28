/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Nodes that die, in virtual time (sched/retry.h): the scheduler, client and nodes of a real run on
 * the simulated backends, with the message port between them made to lose what a dead node says. At
 * the end every turn was served exactly once, no turn has hit a block that was not durable, nothing
 * is held anywhere, and the scheduler's accounts of the nodes left equal what these report.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/units.h"
#include "check_suite.h"
#include "input/scenario.h"
#include "plan/simulation.h"

#define MAX_NODES    8
#define MAX_SESSIONS 32
#define MAX_TURNS    16
#define MAX_REQUESTS 4096

struct death {
    struct drill *drill;
    uint32_t node;
    bool told;
    struct loop_timer timer;
};

struct drill {
    struct msg_port_ops ops; /* of the port, from the first message on */
    const struct msg_port_ops *real_ops;
    struct simulation *s;
    bool dead[MAX_NODES];
    struct death deaths[MAX_NODES];
    struct loop_timer end_timer;
    struct client_observer observer;
    unsigned served[MAX_SESSIONS][MAX_TURNS];
    unsigned n_served, n_hits_served;
    struct msg_request requests[MAX_REQUESTS]; /* by id */
    uint32_t durable_tok[MAX_SESSIONS];
};

static struct drill *drill; /* ops have no self: one drill at a time */

static void watch_message(const struct msg *m)
{
    if (m->type == MSG_SUBMIT) {
        const struct msg_request *r = &m->u.submit;
        ck_assert_uint_lt(r->request, MAX_REQUESTS);
        ck_assert_uint_le(r->hit_tok, drill->durable_tok[r->session]);
        drill->requests[r->request] = *r;
    } else if (m->type == MSG_DURABLE) {
        const struct msg_request *r = &drill->requests[m->u.event.request];
        uint32_t tok = r->prompt_tok + r->gen_tok - 1, block = drill->s->cluster.kv.block_tok;
        drill->durable_tok[r->session] = tok - tok % block;
    }
}

static void send(struct msg_port *port, const struct msg *m, uint64_t delay_ns)
{
    if (m->src >= MSG_NODE(0) && drill->dead[m->src - MSG_NODE(0)]) {
        return;
    }
    watch_message(m);
    drill->real_ops->send(port, m, delay_ns);
}

static void turn_over(void *self, const struct client_turn *t)
{
    (void)self;
    drill->served[t->session][t->turn]++;
    drill->n_served++;
    drill->n_hits_served += t->hit_tok > 0;
    /* The parts of the time to first token add up, whatever happened on the way. */
    ck_assert_uint_eq(t->scheduled_ns + t->alloc_ns + t->read_ns + t->prefill_ns,
                      t->first_ns - t->arrival_ns);
    ck_assert_uint_le(t->queue_ns, t->prefill_ns);
    ck_assert_uint_le(t->first_ns, t->second_ns);
    ck_assert_uint_le(t->second_ns, t->last_ns);
    drill->observer.turn_over(drill->observer.self, t);
}

/* First the node falls silent, then, some time later, that is noticed. */
static void die(struct loop_timer *t)
{
    struct death *d = container_of(t, struct death, timer);
    struct simulation *s = d->drill->s;
    if (!d->drill->dead[d->node]) {
        d->drill->dead[d->node] = true;
        uint64_t later_ns = hash_mix64(loop_now_ns(&s->loop)) % (20 * NS_PER_MS);
        loop_arm(&s->loop, t, loop_now_ns(&s->loop) + later_ns);
        return;
    }
    struct msg m = {
        .type = MSG_DEAD, .src = MSG_CLIENT, .dst = MSG_SCHEDULER, .u.dead = {.node = d->node}};
    d->told = true;
    msg_send(&s->messages.port, &m, 0);
}

static void end(struct loop_timer *t)
{
    loop_stop(&container_of(t, struct drill, end_timer)->s->loop);
}

static void start(struct drill *d, const char *const *sets, size_t n_sets, struct scenario *sc)
{
    struct scenario_notes notes;
    const struct simulation_options options = {0};
    struct err err = ERR_INIT;
    ck_assert_msg(!scenario_read("scenarios/loopback.json", sets, n_sets, sc, &notes, &err), "%s",
                  err.text);
    scenario_notes_done(&notes);
    *d = (struct drill){0};
    ck_assert_msg(!simulation_new(sc, &options, &d->s, &err), "%s", err.text);
    drill = d;
    d->s->cluster.retry = true;
    d->real_ops = d->s->messages.port.ops;
    d->ops = *d->real_ops;
    d->ops.send = send;
    d->s->messages.port.ops = &d->ops;
    d->observer = d->s->client.observer;
    d->s->client.observer.turn_over = turn_over;
    ck_assert_uint_le(cluster_nodes(&d->s->cluster), MAX_NODES);
    ck_assert_uint_le(d->s->workload->n_sessions, MAX_SESSIONS);
    loop_timer_init(&d->end_timer, end);
}

static void kill_at(struct drill *d, uint32_t node, uint64_t at_ns)
{
    d->deaths[node] = (struct death){.drill = d, .node = node};
    loop_timer_init(&d->deaths[node].timer, die);
    loop_arm(&d->s->loop, &d->deaths[node].timer, at_ns);
}

static void run(struct drill *d)
{
    struct simulation *s = d->s;
    loop_run(&s->loop);
    ck_assert_msg(!s->fault.set, "%s", s->fault.text);
    ck_assert(s->over);
    /* The last messages, and what the living still have to put away. */
    loop_arm(&s->loop, &d->end_timer, loop_now_ns(&s->loop) + NS_PER_S);
    loop_run(&s->loop);
    ck_assert_msg(!s->fault.set, "%s", s->fault.text);
}

static void check_turns(const struct drill *d)
{
    const struct simulation *s = d->s;
    unsigned n = 0;
    for (uint32_t i = 0; i < s->workload->n_sessions; i++) {
        struct workload_session ws;
        s->workload->ops->session(s->workload, i, &ws);
        for (uint32_t k = 0; k < ws.n_turns; k++, n++) {
            ck_assert_msg(d->served[i][k] == 1, "session %u, turn %u: served %u times", i, k,
                          d->served[i][k]);
        }
    }
    ck_assert_uint_eq(d->n_served, n);
    ck_assert_uint_eq(s->client.totals.served_gen_tok, s->client.totals.gen_tok);
    ck_assert_uint_eq(s->client.requests.n_used, 0);
}

static void check_engine(const struct central_account *a, const struct node *n, uint32_t gpu)
{
    ck_assert_uint_eq(a->tok, n->report.done_tok[gpu]);
    ck_assert_uint_eq(a->requests, n->report.done_requests[gpu]);
    ck_assert_uint_eq(a->blocks, n->report.done_blocks[gpu]);
}

static void check_node(const struct drill *d, uint32_t i)
{
    const struct simulation *s = d->s;
    const struct cluster *c = &s->cluster;
    bool prefill = cluster_is_prefill(c, i);
    const struct prefill_node *pn = prefill ? &s->prefill[i] : NULL;
    const struct decode_node *dn = prefill ? NULL : &s->decode[i - c->prefill_nodes];
    const struct node *n = prefill ? &pn->node : &dn->node;
    ck_assert_uint_eq(n->n_doomed, 0);
    ck_assert(!n->clear_pending);
    ck_assert_uint_eq(prefill ? pn->dram.used : dn->dram.used + dn->staging.used, 0);
    ck_assert_uint_eq(prefill ? pn->requests.n_used : dn->requests.n_used + dn->block_copies.n_used,
                      0);
    ck_assert_uint_eq(s->central.read_assigned_tok[i], n->report.read_done_tok);
    for (uint32_t gpu = 0; gpu < c->gpus_per_node; gpu++) {
        uint32_t e = (prefill ? i : i - c->prefill_nodes) * c->gpus_per_node + gpu;
        ck_assert(!prefill || !pn->engines[gpu].in_forward);
        ck_assert_uint_eq(prefill ? pn->engines[gpu].hbm.used : dn->hbm[gpu].used, 0);
        ck_assert(!prefill || slots_used(&pn->engines[gpu].hbm_slots) == 0);
        check_engine(prefill ? &s->central.prefill_accounts[e] : &s->central.decode_accounts[e], n,
                     gpu);
    }
}

static void check(const struct drill *d)
{
    const struct central *central = &d->s->central;
    check_turns(d);
    ck_assert(list_empty(&central->open) && list_empty(&central->started));
    ck_assert_uint_eq(central->requests.n_used, 0);
    for (uint32_t i = 0; i < cluster_nodes(&d->s->cluster); i++) {
        if (!d->dead[i]) {
            check_node(d, i);
        }
    }
}

static const char *const variants[][4] = {
    {"system.preset=dualpath", "system.path_policy=round_robin", "timing.decode_fixed_s=5ms",
     "timing.forward_fixed_s=5ms"},
    {"system.preset=dualpath", "system.path_policy=decode", "timing.decode_fixed_s=20ms",
     "timing.forward_fixed_s=20ms"},
    {"system.preset=basic", "cluster.gpus_per_node=2", "timing.decode_fixed_s=5ms",
     "timing.forward_fixed_s=50ms"},
    {"system.preset=dualpath", "system.layerwise=false", "timing.decode_fixed_s=5ms",
     "timing.forward_fixed_s=20ms"},
    {"system.preset=dualpath", "cluster.snic_Bps=2MB/s", "cluster.cnic_Bps=2MB/s",
     "timing.forward_fixed_s=5ms"},
    {"workload.arrival={\"kind\": \"offline\"}", "cluster.dram_buffer_bytes=9MB",
     "cluster.snic_Bps=20MB/s", "timing.forward_fixed_s=20ms"},
    {"system.path_policy=split", "cluster.snic_Bps=2MB/s", "timing.decode_fixed_s=5ms",
     "timing.forward_fixed_s=5ms"},
    {"system.decode_buffer=hbm", "system.path_policy=round_robin", "timing.decode_fixed_s=20ms",
     "timing.forward_fixed_s=20ms"},
    /* Prompts in many chunks, each of which begins before the one before has left. */
    {"system.packing=tokens", "system.forward_tok=64", "system.path_policy=round_robin",
     "timing.forward_fixed_s=20ms"},
    {"system.packing=tokens", "system.forward_tok=64", "cluster.cnic_Bps=2MB/s",
     "timing.forward_fixed_s=1ms"},
};
#define N_VARIANTS (sizeof(variants) / sizeof(variants[0]))

static unsigned rounds(void)
{
    const char *text = getenv("RETRY_ROUNDS");
    return text ? (unsigned)strtoul(text, NULL, 10) : 40;
}

static uint64_t draw(uint64_t *state, uint64_t n)
{
    *state = hash_mix64(*state + 1);
    return *state % n;
}

START_TEST(one_of_two_dies)
{
    uint64_t reruns = 0, not_durable = 0;
    for (unsigned round = 0; round < rounds(); round++) {
        static struct drill d;
        struct scenario sc;
        uint64_t chance = 100 * (uint64_t)_i + round;
        start(&d, variants[_i], 4, &sc);
        kill_at(&d, (uint32_t)draw(&chance, 4), draw(&chance, 9 * NS_PER_S));
        run(&d);
        check(&d);
        reruns += d.s->client.totals.reruns;
        not_durable += d.s->client.totals.not_durable;
        ck_assert_uint_gt(d.n_hits_served, 0);
        simulation_free(d.s);
    }
    printf("variant %d: %llu requests run again, %llu answered but not durable\n", _i,
           (unsigned long long)reruns, (unsigned long long)not_durable);
    ck_assert(rounds() < 40 || reruns > 0);
}
END_TEST

/* Several deaths, some at about the same time, until one node of each kind is left. */
START_TEST(one_of_four_is_left)
{
    for (unsigned round = 0; round < rounds() / 2; round++) {
        static struct drill d;
        struct scenario sc;
        uint64_t chance = 7777 + 100 * (uint64_t)_i + round;
        const char *sets[6] = {"cluster.prefill_nodes=4", "cluster.decode_nodes=4"};
        for (unsigned i = 0; i < 4; i++) {
            sets[2 + i] = variants[_i][i];
        }
        start(&d, sets, 6, &sc);
        uint32_t left[2] = {(uint32_t)draw(&chance, 4), 4 + (uint32_t)draw(&chance, 4)};
        uint64_t together = draw(&chance, 2) ? 30 * NS_PER_MS : 8 * NS_PER_S;
        for (uint32_t i = 0; i < 8; i++) {
            if (i != left[0] && i != left[1]) {
                kill_at(&d, i, NS_PER_S / 2 + draw(&chance, together));
            }
        }
        run(&d);
        check(&d);
        simulation_free(d.s);
    }
}
END_TEST

START_TEST(none_is_left)
{
    static struct drill d;
    struct scenario sc;
    start(&d, variants[0], 4, &sc);
    kill_at(&d, _i == 0 ? 0 : 2, NS_PER_S);
    kill_at(&d, _i == 0 ? 1 : 3, 2 * NS_PER_S);
    loop_run(&d.s->loop);
    ck_assert(d.s->fault.set);
    ck_assert_int_eq(d.s->fault.code, -EHOSTDOWN);
    ck_assert_msg(strstr(d.s->fault.text,
                         _i == 0 ? "no prefill node is left" : "no decode node is left") != NULL,
                  "%s", d.s->fault.text);
    simulation_free(d.s);
}
END_TEST

/* Without a death the key changes nothing that is decided. */
START_TEST(without_a_death_all_is_as_ever)
{
    uint64_t hashes[2], over_ns[2];
    for (unsigned i = 0; i < 2; i++) {
        static struct drill d;
        struct scenario sc;
        start(&d, variants[0], 4, &sc);
        d.s->cluster.retry = i == 1;
        loop_run(&d.s->loop);
        ck_assert(d.s->over);
        hashes[i] = d.s->central.decision_hash;
        over_ns[i] = loop_now_ns(&d.s->loop);
        simulation_free(d.s);
    }
    ck_assert_uint_eq(hashes[0], hashes[1]);
    ck_assert_uint_eq(over_ns[0], over_ns[1]);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("retry");
    TCase *t = tcase_create("retry");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, one_of_two_dies, 0, N_VARIANTS);
    tcase_add_loop_test(t, one_of_four_is_left, 0, N_VARIANTS);
    tcase_add_loop_test(t, none_is_left, 0, 2);
    tcase_add_test(t, without_a_death_all_is_as_ever);
    suite_add_tcase(s, t);
    return run_suite(s);
}
