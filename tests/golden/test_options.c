/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What goes beyond the paper, in runs of many turns: each turn's read by its rule to the
 * nanosecond, what was kept, evicted and read to the byte, and all of it under memories so tight
 * that claims wait and what is kept is dropped. (Times of single requests: test_unloaded.c.)
 */
#include "check_suite.h"
#include "scenario_run.h"

#include <math.h>

#include "input/scenario_derive.h"
#include "plan/simulation.h"

struct turn {
    unsigned session, turn, prompt_tok, hit_tok, gen_tok;
    double arrival_s, first_s, second_s, last_s, sched_s, read_s;
};

struct run {
    struct scenario sc;
    struct scenario_derived d;
    struct result result;
    uint64_t persist_ops;
    struct turn *turns; /* by session, then turn */
    size_t n;
};

static int by_turn(const void *va, const void *vb)
{
    const struct turn *a = va, *b = vb;
    return a->session != b->session ? (a->session > b->session) - (a->session < b->session)
                                    : (a->turn > b->turn) - (a->turn < b->turn);
}

static void read_turns(struct run *r, const char *csv)
{
    for (const char *line = strchr(csv, '\n') + 1; *line; line = strchr(line, '\n') + 1) {
        struct turn t = {0};
        ck_assert_int_eq(sscanf(line, "%u,%u,%u,%u,%u,%lf,%lf,%lf,%lf,%lf,%*f,%lf", &t.session,
                                &t.turn, &t.prompt_tok, &t.hit_tok, &t.gen_tok, &t.arrival_s,
                                &t.first_s, &t.second_s, &t.last_s, &t.sched_s, &t.read_s),
                         11);
        r->turns = realloc(r->turns, (r->n + 1) * sizeof(t));
        ck_assert_ptr_nonnull(r->turns);
        r->turns[r->n++] = t;
    }
    qsort(r->turns, r->n, sizeof(*r->turns), by_turn);
}

/* A run whose end is checked for conservation, as every run's is. */
static struct run run_of(const char *const *sets)
{
    struct run r = {0};
    struct simulation *s;
    struct err err = ERR_INIT;
    char *csv = NULL;
    size_t size = 0;
    must_read_scenario("quickstart", sets, &r.sc);
    scenario_derive(&r.sc, &r.d);
    struct simulation_options options = {.requests_csv = open_memstream(&csv, &size)};
    int rc = simulation_new(&r.sc, &options, &s, &err);
    ck_assert_msg(rc == 0, "%s: %s: %s", err.source, err.field, err.text);
    rc = simulation_run(s, &r.result, &err);
    ck_assert_msg(rc == 0, "%s: %s", err.field, err.text);
    r.persist_ops = s->dp.dp.accounts[DP_CLASS_PERSIST].ops_in;
    simulation_free(s);
    fclose(options.requests_csv);
    read_turns(&r, csv);
    free(csv);
    ck_assert_uint_gt(r.n, 0);
    return r;
}

static uint64_t hit_bytes(const struct run *r)
{
    uint64_t tok = 0;
    for (size_t i = 0; i < r->n; i++) {
        tok += r->turns[i].hit_tok;
    }
    return tok * r->d.kv_bytes_per_tok;
}

static double storage_s(const struct run *r, unsigned tok)
{
    return (double)(tok * r->d.kv_bytes_per_tok) / r->d.storage_read_Bps;
}

static const char no_latency[] = "cluster.storage.latency_median_s=0s";
/* An agent of 73 turns. */
static const char one_agent[] = "workload.agents=1", seed[] = "seed=3";

/* One agent, so that both storage NICs are idle: each reads half the blocks, in half the time. */
START_TEST(test_split_halves_reads)
{
    struct run r = run_of(SETS(no_latency, "cluster.storage.stream_Bps=0", one_agent, seed,
                               "system.path_policy=split"));
    uint64_t sides[2] = {0};
    for (size_t i = 0; i < r.n; i++) {
        unsigned decode = r.turns[i].hit_tok / 2 / 64 * 64, prefill = r.turns[i].hit_tok - decode;
        ck_assert_double_eq_tol(r.turns[i].read_s, storage_s(&r, prefill), 1.5e-9);
        sides[0] += prefill * r.d.kv_bytes_per_tok;
        sides[1] += decode * r.d.kv_bytes_per_tok;
    }
    ck_assert_uint_eq(r.result.pe_path_bytes, sides[0]);
    ck_assert_uint_eq(r.result.de_path_bytes, sides[1]);
    free(r.turns);
}
END_TEST

/* Nothing but reads, always some in the queue: two storage NICs take half the time of one, whether
 * requests are split or not; less no way of sharing can take. */
START_TEST(test_split_under_load)
{
    static const char free_compute[] = "timing.free_compute=true", agents[] = "workload.agents=64";
    static const char fast[] = "cluster.cnic_Bps=100TB/s", slow[] = "cluster.snic_Bps=1GB/s";
    struct run one =
        run_of(SETS(no_latency, free_compute, agents, fast, slow, "system.path_policy=prefill"));
    struct run two =
        run_of(SETS(no_latency, free_compute, agents, fast, slow, "system.path_policy=split"));
    double bound_s = (double)hit_bytes(&two) / (2 * two.d.storage_read_Bps);
    ck_assert_uint_eq(hit_bytes(&one), hit_bytes(&two));
    ck_assert_double_ge(one.result.jct_s, 2 * bound_s);
    ck_assert_double_ge(two.result.jct_s, bound_s);
    ck_assert_double_lt(two.result.jct_s, 1.1 * one.result.jct_s / 2);
    free(one.turns);
    free(two.turns);
}
END_TEST

/* The second token comes sooner by the copy from DRAM into HBM: whole blocks through the
 * loopback. */
START_TEST(test_direct_saves_the_copy)
{
    struct run dram = run_of(SETS(no_latency, one_agent, seed, "system.decode_buffer=dram"));
    struct run hbm = run_of(SETS(no_latency, one_agent, seed, "system.decode_buffer=hbm"));
    const struct scenario *sc = &dram.sc;
    double request_s =
        sc->system.submit_batched_s + sc->system.submit_doorbell_s / sc->system.submit_batch;
    unsigned checked = 0;
    ck_assert_uint_eq(dram.n, hbm.n);
    for (size_t i = 0; i < dram.n; i++) {
        const struct turn *a = &dram.turns[i], *b = &hbm.turns[i];
        double copy_s =
            (a->prompt_tok + 63) / 64 * (double)dram.d.full_block_bytes / sc->cluster.cnic_Bps;
        if (a->gen_tok == 1) {
            continue;
        }
        /* The first work request must have been begun; those behind it are, while bytes move. */
        double saved_s = copy_s + sc->system.transfer_latency_s + request_s;
        ck_assert_double_eq_tol((a->second_s - a->first_s) - (b->second_s - b->first_s), saved_s,
                                request_s + 5e-9);
        checked++;
    }
    ck_assert_uint_gt(checked, 10);
    ck_assert_double_gt(dram.result.utilization_run[RESULT_DE_DRAM],
                        10 * hbm.result.utilization_run[RESULT_DE_DRAM]);
    free(dram.turns);
    free(hbm.turns);
}
END_TEST

/* A prompt's new blocks leave HBM by one copy, those of decoding as each is full; all of them are
 * written one by one. */
START_TEST(test_prompt_leaves_hbm_at_once)
{
    struct run r = run_of(SETS(one_agent, seed, "system.decode_buffer=hbm"));
    uint64_t copies = 0, blocks = 0;
    for (size_t i = 0; i < r.n; i++) {
        const struct turn *t = &r.turns[i];
        unsigned prompt = t->prompt_tok / 64, context = (t->prompt_tok + t->gen_tok - 1) / 64;
        copies += (prompt > t->hit_tok / 64) + (context - prompt);
        blocks += context - t->hit_tok / 64;
    }
    ck_assert_uint_gt(blocks, 2 * copies);
    ck_assert_uint_eq(r.result.storage_written_bytes, blocks * r.d.full_block_bytes);
    ck_assert_uint_eq(r.persist_ops, copies + blocks);
    free(r.turns);
}
END_TEST

#define EQUALLY_GOOD 0.01 /* so far apart are means of runs whose events come in another order */
#define N_LOADS      8    /* one run against another: up to 3 % */

/*
 * HBM that is short. Gathered in HBM, a request holds it from its start; by way of DRAM from its
 * admission, if the scheduler promises no more. So DRAM pays while prefill takes long against
 * decoding, by at most the share of the HBM's time that goes into that, and long generations make
 * it nothing.
 */
static double direct_over_dram(const char *generation_scale, const char *load, double *ret_most)
{
    static const char agents[] = "workload.agents=64", hbm[] = "cluster.hbm_bytes=8GB";
    struct run direct =
        run_of(SETS(agents, hbm, generation_scale, load, "system.decode_buffer=hbm"));
    struct run dram =
        run_of(SETS(agents, hbm, generation_scale, load, "system.hbm_promise=admission"));
    double decoding_s = 0, held_s = 0;
    for (size_t i = 0; i < direct.n; i++) {
        const struct turn *t = &direct.turns[i];
        decoding_s += t->last_s - t->first_s;
        held_s += t->last_s - t->arrival_s - t->sched_s;
    }
    *ret_most = held_s / decoding_s;
    double ratio = direct.result.jct_s / dram.result.jct_s;
    free(direct.turns);
    free(dram.turns);
    return ratio;
}

/* The same over N_LOADS loads. */
static double mean_direct_over_dram(const char *generation_scale, double *ret_most)
{
    double ratio = 0;
    *ret_most = 0;
    for (int i = 1; i <= N_LOADS; i++) {
        char load[16];
        double most;
        snprintf(load, sizeof(load), "seed=%d", i);
        ratio += direct_over_dram(generation_scale, load, &most) / N_LOADS;
        *ret_most += most / N_LOADS;
    }
    return ratio;
}

START_TEST(test_direct_holds_hbm)
{
    double most, ratio = mean_direct_over_dram("workload.generation_scale=0.25", &most);
    ck_assert_double_gt(ratio, 1.1);
    ck_assert_double_lt(ratio, most + EQUALLY_GOOD);
    ratio = mean_direct_over_dram("workload.generation_scale=8", &most);
    ck_assert_double_lt(most, 1.05);
    ck_assert_double_lt(ratio, most + EQUALLY_GOOD);
}
END_TEST

/* Whether the two, which differ in a setting, came to the same turns; frees them. */
static bool take_same_turns(const struct run *a, const struct run *b)
{
    ck_assert_uint_eq(a->n, b->n);
    bool same = memcmp(a->turns, b->turns, a->n * sizeof(*a->turns)) == 0;
    free(a->turns);
    free(b->turns);
    return same;
}

static double longest_ttst_s(const struct run *r)
{
    double longest_s = 0;
    for (size_t i = 0; i < r->n; i++) {
        longest_s = fmax(longest_s, r->turns[i].second_s - r->turns[i].first_s);
    }
    return longest_s;
}

/* Decode HBM that is short is waited for in the scheduler, before the first token, if it is
 * promised with the assignment, else after it. Prefill HBM counts where whole prompts lie there
 * only. */
START_TEST(test_hbm_is_promised)
{
    static const char agents[] = "workload.agents=24", hbm[] = "cluster.hbm_bytes=8GB";
    struct run all = run_of(SETS(agents, hbm, "system.hbm_promise=assignment"));
    struct run prefill = run_of(SETS(agents, hbm, "system.hbm_promise=prefill"));
    struct run none = run_of(SETS(agents, hbm, "system.hbm_promise=admission"));
    ck_assert_double_lt(longest_ttst_s(&all), 0.1);
    ck_assert_double_gt(longest_ttst_s(&prefill), 1);
    ck_assert(take_same_turns(&prefill, &none));
    free(all.turns);
    static const char basic[] = "system.preset=basic";
    prefill = run_of(SETS(agents, hbm, basic, "system.hbm_promise=prefill"));
    none = run_of(SETS(agents, hbm, basic, "system.hbm_promise=admission"));
    ck_assert(!take_same_turns(&prefill, &none));
}
END_TEST

/* The wait has its place among the parts of the TTFT, and makes the run longer. */
static void check_waited(const struct run *waiting, const struct run *at_once)
{
    const struct result *r = &waiting->result;
    ck_assert_double_eq_tol(r->sched_s + r->alloc_s + r->read_s + r->prefill_s, r->ttft_s.mean,
                            1e-6);
    ck_assert_double_gt(r->jct_s, at_once->result.jct_s);
}

/* Decode engines that answer between steps make readers wait, as long as they decode. */
START_TEST(test_readers_wait_for_answers)
{
    static const char agents[] = "workload.agents=24", late[] = "system.buffer_answer=with_step";
    struct run at_once = run_of(SETS(agents)), waiting = run_of(SETS(agents, late));
    const struct result *r = &waiting.result;
    ck_assert_double_eq(at_once.result.alloc_s, 0);
    ck_assert_double_gt(r->alloc_s, 0.5 * r->tpot_s.mean);
    ck_assert_double_lt(r->alloc_s, 4 * r->tpot_s.mean);
    check_waited(&waiting, &at_once);
    free(at_once.turns);
    free(waiting.turns);
    at_once = run_of(SETS(one_agent, seed)); /* nobody decodes while it reads */
    waiting = run_of(SETS(one_agent, seed, late));
    ck_assert(take_same_turns(&at_once, &waiting));
}
END_TEST

/* Both readers of a split request ask; what lies in DRAM is not asked for. */
START_TEST(test_answers_beside_other_options)
{
    static const char agents[] = "workload.agents=24", late[] = "system.buffer_answer=with_step";
    static const char split[] = "system.path_policy=split";
    struct run at_once = run_of(SETS(agents, split)), waiting = run_of(SETS(agents, split, late));
    const struct result *r = &waiting.result;
    ck_assert_double_gt(r->read_s, at_once.result.read_s + 0.5 * r->tpot_s.mean);
    check_waited(&waiting, &at_once);
    free(at_once.turns);
    free(waiting.turns);
    static const char pool[] = "cluster.dram_cache_bytes=100GB";
    at_once = run_of(SETS(agents, pool));
    waiting = run_of(SETS(agents, pool, late));
    ck_assert(take_same_turns(&at_once, &waiting));
}
END_TEST

/* Copying KV into a decode engine costs its host time, where it is not for nothing. */
START_TEST(test_admission_stalls)
{
    static const char agents[] = "workload.agents=24", dear[] = "timing.decode_admission_s=20ms";
    struct run plain = run_of(SETS(agents)), stalled = run_of(SETS(agents, dear));
    ck_assert_double_gt(stalled.result.jct_s, plain.result.jct_s);
    free(plain.turns);
    free(stalled.turns);
    static const char oracle[] = "system.preset=oracle";
    plain = run_of(SETS(agents, oracle));
    stalled = run_of(SETS(agents, oracle, dear));
    ck_assert(take_same_turns(&plain, &stalled));
    static const char in_hbm[] = "system.decode_buffer=hbm";
    plain = run_of(SETS(agents, in_hbm));
    stalled = run_of(SETS(agents, in_hbm, dear));
    ck_assert(take_same_turns(&plain, &stalled));
}
END_TEST

/* Room for everything: every hit is still in HBM, and nothing is read at all; in DRAM every hit but
 * what the last turn generated. */
START_TEST(test_kept_bytes)
{
    struct run hbm = run_of(SETS("workload.agents=4", "system.decode_reuse=hbm"));
    ck_assert_uint_eq(hbm.result.storage_read_bytes, 0);
    ck_assert_uint_eq(hbm.result.reused_bytes, hit_bytes(&hbm));
    ck_assert_uint_eq(hbm.result.kept_contexts, hbm.n);
    ck_assert_uint_eq(hbm.result.kept_dropped, 0);
    for (size_t i = 0; i < hbm.n; i++) {
        ck_assert(hbm.turns[i].read_s == 0);
    }
    struct run dram = run_of(SETS("workload.agents=4", "system.decode_reuse=dram"));
    uint64_t read_tok = 0;
    for (size_t i = 1; i < dram.n; i++) {
        const struct turn *t = &dram.turns[i];
        read_tok += t->hit_tok > 0 ? t->hit_tok - t[-1].prompt_tok / 64 * 64 : 0;
    }
    ck_assert_uint_eq(dram.result.storage_read_bytes, read_tok * dram.d.kv_bytes_per_tok);
    ck_assert_uint_eq(dram.result.reused_bytes + dram.result.storage_read_bytes, hit_bytes(&dram));
    free(hbm.turns);
    free(dram.turns);
}
END_TEST

/* An agent alone with a storage of 100 blocks hits its first 100 blocks and no more. */
START_TEST(test_capacity_alone)
{
    char capacity[64];
    struct run all = run_of(SETS(one_agent, seed));
    snprintf(capacity, sizeof(capacity), "cluster.storage.capacity_bytes=%llu",
             (unsigned long long)(100 * all.d.full_block_bytes + 1));
    struct run r = run_of(SETS(one_agent, seed, capacity));
    uint64_t lost_tok = 0, written = 0;
    ck_assert_uint_eq(r.n, all.n);
    for (size_t i = 0; i < r.n; i++) {
        unsigned hit = all.turns[i].hit_tok < 6400 ? all.turns[i].hit_tok : 6400;
        ck_assert_uint_eq(r.turns[i].hit_tok, hit);
        lost_tok += all.turns[i].hit_tok - hit;
        written += (r.turns[i].prompt_tok + r.turns[i].gen_tok - 1) / 64 - hit / 64;
    }
    ck_assert_uint_gt(lost_tok, 0);
    ck_assert_uint_eq(r.result.evicted_tok, lost_tok);
    ck_assert_uint_eq(r.result.stored_peak_bytes, 100 * r.d.full_block_bytes);
    ck_assert_uint_eq(r.result.storage_written_bytes, written * r.d.full_block_bytes);
    ck_assert_uint_eq(r.result.evicted_bytes, (written - 100) * r.d.full_block_bytes);
    ck_assert_uint_eq(r.result.miss_tok, all.result.miss_tok + lost_tok);
    free(all.turns);
    free(r.turns);
}
END_TEST

/* A million seconds of tools between the turns: no fetch comes meanwhile, and the fetches that find
 * a turn are those of the period's grid, which the two nodes divide between them. */
START_TEST(test_idle)
{
    struct run r =
        run_of(SETS(one_agent, seed, "workload.tool_latency_s=1e6", "report.balance_window_s=1e6",
                    "cluster.storage.latency_median_s=0"));
    const struct scenario_system *s = &r.sc.system;
    ck_assert_uint_gt(r.n, 10);
    for (size_t i = 0; i < r.n; i++) {
        const struct turn *t = &r.turns[i];
        double fetched = (t->arrival_s + t->sched_s - s->scheduler_cost_s) / s->fetch_period_s;
        /* 1e8 s in a double are exact to 15 ns, 6e-7 of half a period. */
        ck_assert_double_eq_tol(2 * fetched, round(2 * fetched), 1e-6);
        ck_assert_double_le(t->sched_s, s->fetch_period_s + s->scheduler_cost_s + 2e-9);
        ck_assert(i == 0 || t->arrival_s - t[-1].last_s > 1e6 - 1);
    }
    ck_assert_uint_lt(r.result.events, 1000 * r.n); /* else 1e6 / 0.05 of each node */
    free(r.turns);
}
END_TEST

/* Memories that hold a few requests: claims wait, what is kept is dropped, reads fall back. */
static const char *const tight[][5] = {
    {"system.path_policy=split", "cluster.dram_buffer_bytes=1.5GB", "system.quota_s=30ms"},
    {"system.path_policy=split", "system.decode_reuse=dram", "cluster.dram_buffer_bytes=1.5GB"},
    {"system.decode_reuse=dram", "cluster.dram_buffer_bytes=1.5GB", "cluster.snic_Bps=2GB/s"},
    {"system.decode_reuse=hbm", "cluster.hbm_bytes=8GB", "cluster.dram_buffer_bytes=1.5GB"},
    {"system.decode_reuse=hbm", "system.decode_buffer=hbm", "cluster.hbm_bytes=8GB"},
    {"system.decode_buffer=hbm", "cluster.hbm_bytes=8GB", "system.path_policy=split"},
    {"system.preset=layerwise+dpl", "system.decode_reuse=hbm", "cluster.hbm_bytes=8GB"},
    {"system.decode_reuse=dram", "cluster.storage.capacity_bytes=4GB", "system.layerwise=false"},
    {"cluster.storage.capacity_bytes=2GB", "system.path_policy=split",
     "workload.arrival={\"kind\":\"poisson\",\"aps\":0.5}"},
    {"system.hbm_promise=admission", "cluster.hbm_bytes=8GB", "cluster.dram_buffer_bytes=1.5GB"},
    {"system.hbm_promise=admission", "cluster.hbm_bytes=8GB", "system.decode_reuse=dram"},
    {"system.hbm_promise=admission", "cluster.hbm_bytes=8GB", "system.decode_buffer=hbm"},
    {"system.hbm_promise=prefill", "cluster.hbm_bytes=8GB", "system.preset=basic"},
    {"system.hbm_promise=prefill", "cluster.hbm_bytes=12GB", "system.decode_reserve_frac=0.3"},
    {"system.preset=oracle", "system.decode_reuse=hbm", "system.decode_buffer=hbm"},
    {"cluster.dram_cache_bytes=1GB", "system.decode_reuse=dram", "system.path_policy=split"},
    {"cluster.dram_cache_bytes=1GB", "cluster.storage.capacity_bytes=4GB"},
};

START_TEST(test_tight)
{
    const char *const *t = tight[_i];
    const char *const sets[] = {"workload.agents=24", t[0], t[1], t[2], NULL};
    char *text[2];
    for (int i = 0; i < 2; i++) {
        text[i] = text_without_run(run_json("quickstart", sets));
    }
    ck_assert_str_eq(text[0], text[1]);
    json_t *o = json_loads(text[0], 0, NULL), *reuse = json_object_get(o, "reuse");
    if (_i >= 1 && _i <= 4) { /* what is kept competes for the memory that is short */
        ck_assert_double_gt(number(reuse, "contexts_dropped"), 0);
        ck_assert_double_gt(number(reuse, "read_saved_bytes"), 0);
    }
    json_decref(o);
    free(text[0]);
    free(text[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("options");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, test_split_halves_reads);
    tcase_add_test(tc, test_split_under_load);
    tcase_add_test(tc, test_direct_saves_the_copy);
    tcase_add_test(tc, test_prompt_leaves_hbm_at_once);
    tcase_add_test(tc, test_direct_holds_hbm);
    tcase_add_test(tc, test_hbm_is_promised);
    tcase_add_test(tc, test_readers_wait_for_answers);
    tcase_add_test(tc, test_answers_beside_other_options);
    tcase_add_test(tc, test_admission_stalls);
    tcase_add_test(tc, test_kept_bytes);
    tcase_add_test(tc, test_capacity_alone);
    tcase_add_test(tc, test_idle);
    tcase_add_loop_test(tc, test_tight, 0, sizeof(tight) / sizeof(tight[0]));
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
