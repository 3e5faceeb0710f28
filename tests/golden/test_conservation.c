/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The checks at the end of every run can fail: backends that are wrong by a byte, a token, a
 * message; and every single account, wrong by one. */
#include "check_suite.h"
#include "scenario_run.h"

#include <errno.h>

#include "plan/simulation.h"

static struct scenario sc;

/* A small whole run, not yet started. */
static struct simulation *new_simulation(void)
{
    const struct simulation_options options = {0};
    struct simulation *s;
    struct err err = ERR_INIT;
    /* Split reads: the two loads of a request are under way together. */
    must_read_scenario("quickstart", SETS("workload.agents=3", "system.path_policy=split"), &sc);
    ck_assert_int_eq(simulation_new(&sc, &options, &s, &err), 0);
    return s;
}

static void check_fails(struct simulation *s, int code, const char *text)
{
    struct result r;
    struct err err = ERR_INIT;
    ck_assert_int_eq(simulation_run(s, &r, &err), code);
    ck_assert_msg(strstr(err.text, text) != NULL, "found \"%s\", expected \"%s\"", err.text, text);
    simulation_free(s);
}

/* Datapaths */

static const struct dp_ops *honest_dp;
static enum dp_class wrong_class;
static struct dp_op *victim;

static bool is_first_of_class(const struct dp_op *op)
{
    return !victim && op->traffic_class == wrong_class;
}

static int submit_one_byte_less(struct dp *dp, struct dp_op *op)
{
    if (is_first_of_class(op)) {
        victim = op;
        op->part_bytes--;
    }
    return honest_dp->submit(dp, op);
}

static int submit_never_done(struct dp *dp, struct dp_op *op)
{
    if (is_first_of_class(op)) {
        victim = op;
        return 0;
    }
    return honest_dp->submit(dp, op);
}

static void feed_unless_lost(struct dp *dp, struct dp_op *op)
{
    if (op != victim) {
        honest_dp->feed(dp, op);
    }
}

/* An op is submitted whole and shrinks on its way. */
static int submit_shrinks_the_one_before(struct dp *dp, struct dp_op *op)
{
    if (victim && victim->in_flight && victim->traffic_class == wrong_class) {
        victim->part_bytes -= 1;
        wrong_class = DP_N_CLASSES;
    } else if (op->traffic_class == wrong_class) {
        victim = op;
    }
    return honest_dp->submit(dp, op);
}

static void check_dp(int (*submit)(struct dp *, struct dp_op *), enum dp_class traffic_class,
                     int code, const char *text)
{
    struct simulation *s = new_simulation();
    honest_dp = s->dp.dp.ops;
    struct dp_ops wrong = *honest_dp;
    wrong.submit = submit;
    wrong.feed = submit == submit_never_done ? feed_unless_lost : honest_dp->feed;
    wrong_class = traffic_class;
    victim = NULL;
    s->dp.dp.ops = &wrong;
    check_fails(s, code, text);
}

START_TEST(test_wrong_datapath)
{
    check_dp(submit_one_byte_less, DP_CLASS_READ, -EPROTO, "bytes read from storage");
    check_dp(submit_shrinks_the_one_before, DP_CLASS_LOAD, -EPROTO, "load: found");
    check_dp(submit_shrinks_the_one_before, DP_CLASS_STORE, -EPROTO, "store: found");
    for (enum dp_class c = 0; c < DP_N_CLASSES; c++) {
        check_dp(submit_never_done, c, -EDEADLK, "");
    }
}
END_TEST

/* Message ports: one message of a kind is wrong. */

static const struct msg_port_ops *honest_messages;
static uint16_t wrong_type;
static void (*spoil)(struct msg *m);

static void send_spoilt(struct msg_port *port, const struct msg *m, uint64_t delay_ns)
{
    struct msg copy = *m;
    if (m->type == wrong_type) {
        wrong_type = 0;
        if (!spoil) {
            return; /* lost */
        }
        spoil(&copy);
    }
    honest_messages->send(port, &copy, delay_ns);
}

static void check_messages(uint16_t type, void (*how)(struct msg *m), int code, const char *text)
{
    struct simulation *s = new_simulation();
    honest_messages = s->messages.port.ops;
    struct msg_port_ops wrong = *honest_messages;
    wrong.send = send_spoilt;
    wrong_type = type;
    spoil = how;
    s->messages.port.ops = &wrong;
    check_fails(s, code, text);
}

static void one_token_less_told(struct msg *m)
{
    m->u.event.tok--;
}

static void one_token_less_generated(struct msg *m)
{
    m->u.start.r.gen_tok--;
}

static void one_token_less_computed(struct msg *m)
{
    m->u.start.r.prompt_tok--;
}

static void more_is_read(struct msg *m)
{
    m->u.start.r.hit_tok += 64;
}

START_TEST(test_wrong_messages)
{
    check_messages(MSG_FINISHED, one_token_less_told, -EPROTO, "tokens generated: found");
    check_messages(MSG_START, one_token_less_generated, -EPROTO, "tokens generated: found");
    check_messages(MSG_START, one_token_less_computed, -EPROTO, "tokens computed by prefill");
    check_messages(MSG_START, more_is_read, -EPROTO, "bytes read from storage");
    check_messages(MSG_FIRST_TOKEN, NULL, -EDEADLK, "");
    check_messages(MSG_DURABLE, NULL, -EDEADLK, "");
    check_messages(MSG_PROMPT_KV, NULL, -EDEADLK, "");
}
END_TEST

/* Every account by itself */

struct account {
    const char *text; /* of the message */
    uint64_t *wide;   /* one of the two */
    uint32_t *narrow;
};

static void check_account(const struct simulation *s, const struct account *a)
{
    struct err err = ERR_INIT;
    *(a->wide ? a->wide : &(uint64_t){0}) += 1;
    *(a->narrow ? a->narrow : &(uint32_t){0}) += 1;
    ck_assert_msg(simulation_check(s, &err) == -EPROTO, "%s: wrong by one, not noticed", a->text);
    ck_assert_str_eq(err.field, "conservation");
    ck_assert_msg(strstr(err.text, a->text) != NULL, "found \"%s\", expected \"%s\"", err.text,
                  a->text);
    *(a->wide ? a->wide : &(uint64_t){0}) -= 1;
    *(a->narrow ? a->narrow : &(uint32_t){0}) -= 1;
    err = ERR_INIT;
    ck_assert_int_eq(simulation_check(s, &err), 0);
}

START_TEST(test_every_account)
{
    struct simulation *s = new_simulation();
    struct result r;
    struct err err = ERR_INIT;
    ck_assert_int_eq(simulation_run(s, &r, &err), 0);
    struct sim_node *node = &s->dp.nodes[1];
    struct decode_node *dn = &s->decode[0];
    const struct account accounts[] = {
        {.text = "storage NIC reads of node 1", .wide = &node->snic.bytes_out[0]},
        {.text = "storage NIC writes of node 1", .wide = &node->snic.bytes_in[1]},
        {.text = "DRAM of node 1", .wide = &node->dram.bytes_out},
        {.text = "CNIC TX 3", .wide = &s->dp.cnics[3].tx.bytes_in},
        {.text = "CNIC RX 8", .wide = &s->dp.cnics[8].rx.bytes_out},
        {.text = "persist", .wide = &s->dp.dp.accounts[DP_CLASS_PERSIST].bytes_out},
        {.text = "requests served", .wide = &s->client.totals.requests_over},
        {.text = "prompt tokens served", .wide = &s->client.totals.served_prompt_tok},
        {.text = "tokens generated", .wide = &s->client.totals.served_gen_tok},
        {.text = "tokens computed by prefill", .wide = &s->prefill[0].computed_tok},
        {.text = "tokens from decode steps", .wide = &dn->generated_tok},
        {.text = "blocks persisted", .wide = &dn->persisted_blocks},
        {.text = "prefill DRAM buffer", .wide = &s->prefill[0].dram.used},
        {.text = "prefill HBM in use", .wide = &s->prefill[0].engines[3].direct.used},
        {.text = "decode DRAM buffer", .wide = &dn->dram.used},
        {.text = "decode DRAM buffer", .wide = &dn->dram.given_total},
        {.text = "persist buffer", .wide = &dn->staging.used},
        {.text = "decode HBM", .wide = &dn->hbm[7].used},
        {.text = "requests left at a prefill node", .narrow = &s->prefill[0].requests.n_used},
        {.text = "requests left at a decode node", .narrow = &dn->requests.n_used},
        {.text = "blocks left at a decode node", .narrow = &dn->block_copies.n_used},
        {.text = "requests left at the scheduler", .narrow = &s->central.requests.n_used},
        {.text = "requests left at the client", .narrow = &s->client.requests.n_used},
    };
    for (size_t i = 0; i < sizeof(accounts) / sizeof(accounts[0]); i++) {
        check_account(s, &accounts[i]);
    }
    simulation_free(s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("conservation");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, test_wrong_datapath);
    tcase_add_test(tc, test_wrong_messages);
    tcase_add_test(tc, test_every_account);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
