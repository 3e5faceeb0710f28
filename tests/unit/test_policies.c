/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The scheduling rules, case by case. Two prefill and two decode nodes of two GPUs. */
#include <check.h>

#include "check_suite.h"
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

/* Where whole prompts lie in HBM, room for one is promised with the assignment. */
START_TEST(test_prefill_hbm)
{
    struct world w;
    struct policy_group g;
    const struct policy_request r = {.prompt_tok = 65};
    world_init(&w);
    g = policy_prefill_group(&w.c, 0);
    w.c.kv = (struct kv_layout){.n_layers = 4, .block_tok = 64, .layer_tok_bytes = 1};
    w.c.prefill_hbm_bytes = 3 * 64 * 4;
    for (int i = 0; i < 4; i++) {
        w.prefill[i].tok = 128; /* two blocks: with the request four, once rounded up */
    }
    w.prefill[2].tok = 127;
    ck_assert_uint_eq(policy_adaptive.pick_prefill(&w.v, &g, &r), 2); /* no promises: the fewest */
    w.c.promise_prefill_hbm = true;
    ck_assert_uint_eq(policy_adaptive.pick_prefill(&w.v, &g, &r), 2); /* 192 tokens: three */
    ck_assert_uint_eq(policy_round_robin.pick_prefill(&w.v, &g, &r), POLICY_WAIT);
    w.prefill[2].tok = 128;
    ck_assert_uint_eq(policy_adaptive.pick_prefill(&w.v, &g, &r), POLICY_WAIT);
    w.c.layerwise = true;
    ck_assert_uint_eq(policy_adaptive.pick_prefill(&w.v, &g, &r), 0);
    ck_assert_uint_eq(policy_round_robin.pick_prefill(&w.v, &g, &r), 0);
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
        uint32_t e = policy_round_robin.place_prefill(&w.v, &r);
        struct policy_group g = policy_prefill_group(&w.c, e / 2);
        ck_assert_uint_eq(e, engines[ticket]);
        ck_assert_uint_eq(policy_round_robin.pick_prefill(&w.v, &g, &r), e);
        uint32_t group = policy_round_robin.place_decode(&w.v, &r);
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
    const struct policy_request r = {.ticket = ticket, .hit_tok = 640};
    w->c.path = path;
    struct policy_read read = policy_read(&w->v, &r, 1, 3);
    ck_assert_uint_eq(read.decode_tok, read.on_decode ? 640 : 0);
    return read.on_decode;
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
    /* Two nodes of two engines of each kind: rounds of two, changed over after four. */
    static const bool sides[16] = {false, false, true, true, true, true, false, false,
                                   false, false, true, true, true, true, false, false};
    for (uint64_t ticket = 0; ticket < 16; ticket++) {
        ck_assert(on_decode(&w, CLUSTER_PATH_ROUND_ROBIN, ticket) == sides[ticket]);
    }
}
END_TEST

/* Whatever the cluster's shape, every engine has half of its requests' reads on its own side. */
START_TEST(test_round_robin_reads)
{
    static const uint32_t shapes[][3] = {{1, 1, 8}, {2, 4, 8}, {4, 2, 8}, {2, 3, 4},
                                         {3, 2, 1}, {3, 5, 3}, {1, 2, 7}, {44, 88, 8}};
    uint32_t prefill = shapes[_i][0], decode = shapes[_i][1], gpus = shapes[_i][2];
    uint32_t n = 2 * prefill * decode * gpus; /* a multiple of two rounds over all engines */
    struct world w;
    int32_t *more_here = calloc((prefill + decode) * gpus, sizeof(*more_here));
    world_init(&w);
    w.c.prefill_nodes = prefill;
    w.c.decode_nodes = decode;
    w.c.gpus_per_node = gpus;
    for (uint32_t ticket = 0; ticket < n; ticket++) {
        int sign = on_decode(&w, CLUSTER_PATH_ROUND_ROBIN, ticket) ? -1 : 1;
        more_here[ticket % prefill * gpus + ticket / prefill % gpus] += sign;
        more_here[(prefill + ticket % decode) * gpus + ticket / decode % gpus] += sign;
    }
    for (uint32_t e = 0; e < (prefill + decode) * gpus; e++) {
        ck_assert_int_eq(more_here[e], 0);
    }
    free(more_here);
}
END_TEST

static uint32_t split_tok(struct world *w, uint64_t prefill_queue, uint64_t decode_queue,
                          uint32_t hit_tok)
{
    const struct policy_request r = {.hit_tok = hit_tok};
    w->c.path = CLUSTER_SPLIT;
    w->c.kv.block_tok = 64;
    w->nodes[1].read_queue_tok = prefill_queue;
    w->nodes[3].read_queue_tok = decode_queue;
    struct policy_read read = policy_read(&w->v, &r, 1, 3);
    ck_assert(read.on_decode == (read.decode_tok > 0));
    ck_assert_uint_eq(read.decode_tok % 64, 0);
    ck_assert_uint_le(read.decode_tok, hit_tok);
    return read.decode_tok;
}

/* Both queues end together, to less than two blocks; the prefill side has what is left over. */
START_TEST(test_split)
{
    struct world w;
    world_init(&w);
    ck_assert_uint_eq(split_tok(&w, 0, 0, 1280), 640);
    ck_assert_uint_eq(split_tok(&w, 500, 500, 1280), 640);
    ck_assert_uint_eq(split_tok(&w, 0, 0, 64), 0);
    ck_assert_uint_eq(split_tok(&w, 0, 0, 192), 64);
    ck_assert_uint_eq(split_tok(&w, 0, 0, 0), 0);
    ck_assert_uint_eq(split_tok(&w, 0, 1280, 1280), 0);
    ck_assert_uint_eq(split_tok(&w, 0, UINT32_MAX, 1280), 0);
    ck_assert_uint_eq(split_tok(&w, 1280, 0, 1280), 1280);
    ck_assert_uint_eq(split_tok(&w, 1ull << 40, 0, 1280), 1280);
    for (uint32_t prefill = 0; prefill < 2000; prefill += 77) {
        for (uint32_t decode = 0; decode < 2000; decode += 91) {
            uint32_t tok = split_tok(&w, prefill, decode, 4096);
            uint32_t ends[2] = {prefill + 4096 - tok, decode + tok};
            ck_assert_uint_le(ends[1], ends[0]);
            ck_assert_uint_lt(ends[0] - ends[1], 2 * 64);
        }
    }
}
END_TEST

static uint32_t place_kept(const struct world *w, uint32_t first, uint32_t n)
{
    const struct policy_request r = {.prompt_tok = 990,
                                     .gen_tok = 10,
                                     .blocks = 1,
                                     .kept_tok = 64,
                                     .kept_first = first,
                                     .kept_engines = n};
    return policy_adaptive.place_decode(&w->v, &r);
}

/* Phase 1: the keeper's group within 5 % of the mean, the request of 1,000 tokens included, or when
 * no group has less. */
START_TEST(test_kept_group)
{
    struct world w;
    world_init(&w);
    ck_assert_uint_eq(place_kept(&w, 2, 1), 1);
    w.decode[2].tok = 1;
    ck_assert_uint_eq(place_kept(&w, 2, 1), 0); /* 1001 > 1.05 * 1001 / 2 */
    ck_assert_uint_eq(place_kept(&w, 0, 1), 0);
    w.decode[0].tok = 20000; /* 21000 against 1.05 * (40100 + 1000) / 2 = 21577 */
    w.decode[2].tok = 20100; /* 21100 */
    ck_assert_uint_eq(place_kept(&w, 3, 1), 1);
    w.decode[2].tok = 21200; /* 22200 against 1.05 * 42200 / 2 = 22155 */
    ck_assert_uint_eq(place_kept(&w, 3, 1), 0);
    w.decode[2].tok = 20000;
    w.queued[1] = 1200;
    ck_assert_uint_eq(place_kept(&w, 2, 2), 0);
}
END_TEST

static uint32_t pick_kept(const struct world *w, uint32_t first, uint32_t n, double level)
{
    struct policy_group g = policy_decode_group(&w->c, 1);
    const struct policy_request r = {.prompt_tok = 99,
                                     .gen_tok = 1,
                                     .blocks = 50,
                                     .kept_tok = 64,
                                     .kept_first = first,
                                     .kept_engines = n};
    const struct policy_decode_plan plan = {.level_tok = level};
    return policy_adaptive.pick_decode(&w->v, &g, &r, &plan);
}

/* Phase 2: a keeper is taken where the rules allow it, not where they do not. */
START_TEST(test_kept_engine)
{
    struct world w;
    world_init(&w);
    w.decode[3].requests = 5;
    w.decode[3].tok = 500;
    ck_assert_uint_eq(pick_kept(&w, 3, 1, 600), 3);
    ck_assert_uint_eq(pick_kept(&w, 3, 1, 599), 2); /* beyond Z, and another is not */
    ck_assert_uint_eq(pick_kept(&w, 3, 1, 0), 2);   /* all beyond, another has less */
    w.decode[2].tok = 500;
    ck_assert_uint_eq(pick_kept(&w, 3, 1, 0), 3);
    w.decode[3].free_blocks = 49;
    ck_assert_uint_eq(pick_kept(&w, 3, 1, 600), 2);
    ck_assert_uint_eq(pick_kept(&w, 1, 1, 600), 2); /* a keeper of another group */
    w.decode[3].free_blocks = 100;
    ck_assert_uint_eq(pick_kept(&w, 2, 2, 600), 2); /* both keep it: the fewest requests */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policies");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, test_fewest_tokens);
    tcase_add_test(tc, test_read_queue_classes);
    tcase_add_test(tc, test_beta);
    tcase_add_test(tc, test_prefill_hbm);
    tcase_add_test(tc, test_prefill_is_global);
    tcase_add_test(tc, test_decode_groups);
    tcase_add_test(tc, test_decode_level);
    tcase_add_test(tc, test_decode_engines);
    tcase_add_test(tc, test_round_robin);
    tcase_add_loop_test(tc, test_round_robin_reads, 0, 8);
    tcase_add_test(tc, test_paths);
    tcase_add_test(tc, test_split);
    tcase_add_test(tc, test_kept_group);
    tcase_add_test(tc, test_kept_engine);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
