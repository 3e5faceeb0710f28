/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What seeds change and what they do not. */
#include "check_suite.h"
#include "scenario_run.h"

static const char *const cases[][4] = {
    {"quickstart", NULL},
    {"quickstart", "workload.arrival={\"kind\":\"poisson\",\"aps\":1.5}", "workload.agents=200"},
    {"quickstart", "system.preset=basic", "workload.agents=64"},
    {"weka-sessions", NULL},
    {"weka-sessions", "workload.arrival={\"kind\":\"poisson\",\"aps\":0.05}",
     "workload.agents=40"}, /* copies, too */
    {"mooncake-conversation", NULL},
    /* Caches that evict. */
    {"quickstart", "cluster.dram_cache_bytes=0.5GB", "workload.agents=12"},
    {"weka-sessions", "cluster.dram_cache_bytes=3GB", "workload.agents=4"},
    {"quickstart", "system.restore=hidden_states", "workload.agents=24"},
    {"quickstart", "system.restore=compressed", "system.restore_expand_Bps=50GB/s"},
    {"quickstart", "system.restore=gpu_direct", "workload.agents=64"},
};
#define N_CASES (sizeof(cases) / sizeof(cases[0]))

static json_t *run_case(size_t i, const char *seed)
{
    const char *sets[5] = {0};
    size_t n = 0;
    for (size_t k = 1; k < 4 && cases[i][k]; k++) {
        sets[n++] = cases[i][k];
    }
    sets[n] = seed;
    return run_json(cases[i][0], sets);
}

START_TEST(test_same_seed_same_bytes)
{
    for (size_t i = 0; i < N_CASES; i++) {
        json_t *a = run_case(i, NULL), *b = run_case(i, NULL);
        char *x = json_dumps(a, JSON_INDENT(1)), *y = json_dumps(b, JSON_INDENT(1));
        ck_assert_str_eq(x, y); /* the run block is not yet stamped with wall time and memory */
        free(x);
        free(y);
        json_decref(a);
        json_decref(b);
    }
}
END_TEST

/* Another order at equal times: the same work, in whatever order it was done. */
START_TEST(test_tie_seed_same_totals)
{
    static const char *const totals[] = {
        "agents",      "requests",         "tokens.prompt",         "tokens.hit",
        "tokens.miss", "tokens.generated", "bytes.storage_written", "bytes.storage_read",
    };
    for (size_t i = 0; i < N_CASES; i++) {
        json_t *plain = run_case(i, NULL);
        for (unsigned seed = 1; seed <= 3; seed++) {
            char set[32];
            snprintf(set, sizeof(set), "tie_seed=%u", seed);
            json_t *o = run_case(i, set);
            /* What an LRU cache leaves to storage depends on the order. */
            size_t n_totals =
                sizeof(totals) / sizeof(totals[0]) - (json_object_get(plain, "dram_cache") != NULL);
            for (size_t k = 0; k < n_totals; k++) {
                ck_assert_msg(number(o, totals[k]) == number(plain, totals[k]),
                              "case %zu, tie seed %u: %s is %.17g, was %.17g", i, seed, totals[k],
                              number(o, totals[k]), number(plain, totals[k]));
            }
            json_decref(o);
        }
        json_decref(plain);
    }
}
END_TEST

START_TEST(test_other_seed_other_run)
{
    for (size_t i = 0; i < 3; i++) {
        json_t *a = run_case(i, NULL), *b = run_case(i, "seed=7");
        ck_assert_double_ne(number(a, "jct_s"), number(b, "jct_s"));
        ck_assert_double_ne(number(a, "tokens.prompt"), number(b, "tokens.prompt"));
        json_decref(a);
        json_decref(b);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("repeat");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 240);
    tcase_add_test(tc, test_same_seed_same_bytes);
    tcase_add_test(tc, test_tie_seed_same_totals);
    tcase_add_test(tc, test_other_seed_other_run);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
