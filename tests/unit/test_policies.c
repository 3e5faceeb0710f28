/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The scheduling rules, case by case. Two prefill and two decode nodes of two GPUs. */
#include <check.h>
#include <stdlib.h>

#include "sched/policy.h"

#define ALPHA 1000u
#define BETA  5000u

struct world {
    struct cluster c;
    struct policy_engine prefill[4], decode[4];
    struct policy_node nodes[4];
    uint64_t queued[2];
    struct policy_view v;
};

static void world_init(struct world *w)
{
    *w = (struct world){.c = {.prefill_nodes = 2,
                              .decode_nodes = 2,
                              .gpus_per_node = 2,
                              .prefill_group_nodes = 2,
                              .decode_group_nodes = 1,
                              .alpha_tok = ALPHA,
                              .beta_tok = BETA}};
    for (int i = 0; i < 4; i++) {
        w->decode[i].free_blocks = 100;
    }
    w->v = (struct policy_view){.cluster = &w->c,
                                .prefill = w->prefill,
                                .decode = w->decode,
                                .nodes = w->nodes,
                                .decode_queued_tok = w->queued};
}

static uint32_t pick_prefill(const struct world *w)
{
    struct policy_group g = policy_prefill_group(&w->c, 0);
    const struct policy_request r = {.prompt_tok = 100, .gen_tok = 10, .blocks = 2};
    return policy_adaptive.pick_prefill(&w->v, &g, &r);
}

/* The engine with the fewest tokens, the first of equals. */
START_TEST(test_fewest_tokens)
{
    struct world w;
    world_init(&w);
    ck_assert_uint_eq(pick_prefill(&w), 0);
    for (int i = 0; i < 4; i++) {
        w.prefill[i].tok = 400 - 100 * i;
    }
    ck_assert_uint_eq(pick_prefill(&w), 3);
}
END_TEST

/* C2 before C3: a short read queue counts more than few tokens; alpha itself is still short. */
START_TEST(test_read_queue_classes)
{
    struct world w;
    world_init(&w);
    w.prefill[2].tok = w.prefill[3].tok = 4000;
    w.nodes[0].read_queue_tok = ALPHA;
    ck_assert_uint_eq(pick_prefill(&w), 0);
    w.nodes[0].read_queue_tok = ALPHA + 1;
    ck_assert_uint_eq(pick_prefill(&w), 2);
    w.nodes[1].read_queue_tok = ALPHA + 1; /* all in C3: the fewest tokens again */
    ck_assert_uint_eq(pick_prefill(&w), 0);
    w.prefill[0].tok = 1;
    ck_assert_uint_eq(pick_prefill(&w), 1);
}
END_TEST

/* C1: nothing beyond beta, which itself is allowed; when all are beyond, the request waits. */
START_TEST(test_beta)
{
    struct world w;
    world_init(&w);
    for (int i = 0; i < 4; i++) {
        w.prefill[i].tok = BETA + 1;
    }
    ck_assert_uint_eq(pick_prefill(&w), POLICY_WAIT);
    w.prefill[3].tok = BETA;
    ck_assert_uint_eq(pick_prefill(&w), 3);
    w.nodes[1].read_queue_tok = 10 * ALPHA; /* C3 is better than waiting */
    ck_assert_uint_eq(pick_prefill(&w), 3);
}
END_TEST

START_TEST(test_prefill_is_global)
{
    struct world w;
    const struct policy_request r = {.prompt_tok = 1, .gen_tok = 1};
    world_init(&w);
    ck_assert_uint_eq(policy_adaptive.place_prefill(&w.v, &r), POLICY_GLOBAL);
}
END_TEST

/* Decode, phase 1: the group with the fewest tokens, its private queue included. */
START_TEST(test_decode_groups)
{
    struct world w;
    const struct policy_request r = {.prompt_tok = 1, .gen_tok = 1};
    world_init(&w);
    ck_assert_uint_eq(policy_adaptive.place_decode(&w.v, &r), 0);
    w.decode[1].tok = 10;
    ck_assert_uint_eq(policy_adaptive.place_decode(&w.v, &r), 1);
    w.queued[1] = 11;
    ck_assert_uint_eq(policy_adaptive.place_decode(&w.v, &r), 0);
}
END_TEST

static uint32_t pick_decode(const struct world *w, uint32_t len_tok, uint32_t blocks, double level)
{
    struct policy_group g = policy_decode_group(&w->c, 1);
    const struct policy_request r = {.prompt_tok = len_tok - 1, .gen_tok = 1, .blocks = blocks};
    const struct policy_decode_plan plan = {.level_tok = level};
    return policy_adaptive.pick_decode(&w->v, &g, &r, &plan);
}

/* Z = 1.05 (tokens that fit + tokens there) / engines. */
START_TEST(test_decode_level)
{
    struct world w;
    struct policy_group g;
    world_init(&w);
    g = policy_decode_group(&w.c, 1);
    ck_assert_uint_eq(g.first_engine, 2);
    ck_assert_uint_eq(g.n_engines, 2);
    w.decode[0].tok = 1000000; /* of another group */
    w.decode[2].tok = 300;
    w.decode[3].tok = 500;
    struct policy_decode_plan plan = policy_adaptive.plan_decode(&w.v, &g, 1200);
    ck_assert_double_eq_tol(plan.level_tok, 1.05 * 2000 / 2, 1e-9);
}
END_TEST

/* Phase 2: fewest requests at or below Z; above it, fewest tokens; never without HBM. */
START_TEST(test_decode_engines)
{
    struct world w;
    world_init(&w);
    w.decode[2] = (struct policy_engine){.tok = 100, .requests = 5, .free_blocks = 10};
    w.decode[3] = (struct policy_engine){.tok = 900, .requests = 1, .free_blocks = 10};
    ck_assert_uint_eq(pick_decode(&w, 100, 2, 1000), 3);  /* 1000 <= Z: fewest requests */
    ck_assert_uint_eq(pick_decode(&w, 101, 2, 1000), 2);  /* 1001 > Z */
    ck_assert_uint_eq(pick_decode(&w, 5000, 2, 1000), 2); /* both above: fewest tokens */
    ck_assert_uint_eq(pick_decode(&w, 100, 11, 1000), POLICY_WAIT);
    w.decode[3].free_blocks = 11;
    ck_assert_uint_eq(pick_decode(&w, 5000, 11, 1000), 3);
}
END_TEST

/* Round robin: nodes alternate, then the engines within them, whoever is less loaded; an engine
 * without room is waited for. */
START_TEST(test_round_robin)
{
    static const uint32_t engines[] = {0, 2, 1, 3, 0, 2, 1, 3};
    struct world w;
    world_init(&w);
    w.c.prefill_group_nodes = 1;
    w.prefill[0].tok = BETA;
    for (uint64_t ticket = 0; ticket < 8; ticket++) {
        const struct policy_request r = {.ticket = ticket, .prompt_tok = 1, .gen_tok = 1};
        uint32_t group = policy_round_robin.place_prefill(&w.v, &r);
        struct policy_group g = policy_prefill_group(&w.c, group);
        uint32_t e = policy_round_robin.pick_prefill(&w.v, &g, &r);
        ck_assert_uint_eq(e, engines[ticket]);
        ck_assert(e >= g.first_engine && e < g.first_engine + g.n_engines);
        group = policy_round_robin.place_decode(&w.v, &r);
        g = policy_decode_group(&w.c, group);
        const struct policy_decode_plan plan = policy_round_robin.plan_decode(&w.v, &g, 0);
        e = policy_round_robin.pick_decode(&w.v, &g, &r, &plan);
        ck_assert_uint_eq(e, engines[ticket]);
        ck_assert(e >= g.first_engine && e < g.first_engine + g.n_engines);
    }
    const struct policy_request r = {.ticket = 0, .prompt_tok = 1, .gen_tok = 1, .blocks = 2};
    const struct policy_decode_plan plan = {0};
    struct policy_group g = policy_prefill_group(&w.c, 0);
    w.prefill[0].tok = BETA + 1;
    ck_assert_uint_eq(policy_round_robin.pick_prefill(&w.v, &g, &r), POLICY_WAIT);
    g = policy_decode_group(&w.c, 0);
    w.decode[0].free_blocks = 2;
    ck_assert_uint_eq(policy_round_robin.pick_decode(&w.v, &g, &r, &plan), 0);
    w.decode[0].free_blocks = 1;
    ck_assert_uint_eq(policy_round_robin.pick_decode(&w.v, &g, &r, &plan), POLICY_WAIT);
}
END_TEST

static bool on_decode(struct world *w, enum cluster_path path, uint64_t ticket)
{
    const struct policy_request r = {.ticket = ticket};
    w->c.path = path;
    return policy_reads_on_decode(&w->v, &r, 1, 3);
}

/* Ties go to the prefill side, which needs one hop less. */
START_TEST(test_paths)
{
    struct world w;
    world_init(&w);
    ck_assert(!on_decode(&w, CLUSTER_SHORTER_QUEUE, 1));
    w.nodes[1].read_queue_tok = 1;
    ck_assert(on_decode(&w, CLUSTER_SHORTER_QUEUE, 0));
    w.nodes[3].read_queue_tok = 2;
    ck_assert(!on_decode(&w, CLUSTER_SHORTER_QUEUE, 0));
    ck_assert(!on_decode(&w, CLUSTER_PREFILL, 0));
    ck_assert(on_decode(&w, CLUSTER_DECODE, 0));
    /* Two nodes of each kind: rounds of two. */
    static const bool sides[8] = {false, false, true, true, false, false, true, true};
    for (uint64_t ticket = 0; ticket < 8; ticket++) {
        ck_assert(on_decode(&w, CLUSTER_PATH_ROUND_ROBIN, ticket) == sides[ticket]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policies");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, test_fewest_tokens);
    tcase_add_test(tc, test_read_queue_classes);
    tcase_add_test(tc, test_beta);
    tcase_add_test(tc, test_prefill_is_global);
    tcase_add_test(tc, test_decode_groups);
    tcase_add_test(tc, test_decode_level);
    tcase_add_test(tc, test_decode_engines);
    tcase_add_test(tc, test_round_robin);
    tcase_add_test(tc, test_paths);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
