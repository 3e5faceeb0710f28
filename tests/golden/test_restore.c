/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What is stored and how it comes back (system.restore): the bytes that every kind of transfer
 * moves, against sums worked out from the requests themselves, over whole runs whose conservation
 * is checked at their end. Chunked prompts too, which take another way with hidden states.
 */
#include "check_suite.h"
#include "scenario_run.h"

#include <errno.h>

#include "plan/simulation.h"

struct request {
    unsigned session, turn, prompt_tok, hit_tok, gen_tok;
};

struct outcome {
    struct scenario sc;
    struct result result;
    uint64_t moved_bytes[DP_N_CLASSES];
    uint64_t chunks;
    struct request *requests;
    size_t n_requests;
};

static void read_requests(char *text, struct outcome *o)
{
    char *line = strchr(text, '\n'); /* behind the header */
    o->requests = calloc(o->result.requests, sizeof(*o->requests));
    for (; line && line[1]; line = strchr(line + 1, '\n')) {
        struct request *r = &o->requests[o->n_requests++];
        ck_assert_int_eq(sscanf(line + 1, "%u,%u,%u,%u,%u", &r->session, &r->turn, &r->prompt_tok,
                                &r->hit_tok, &r->gen_tok),
                         5);
    }
    ck_assert_uint_eq(o->n_requests, o->result.requests);
}

static struct outcome run(const char *const *sets)
{
    struct outcome o = {0};
    struct simulation *s;
    struct err err = ERR_INIT;
    char *text = NULL;
    size_t size = 0;
    FILE *csv = open_memstream(&text, &size);
    const struct simulation_options options = {.requests_csv = csv};
    must_read_scenario("quickstart", sets, &o.sc);
    ck_assert_msg(!simulation_new(&o.sc, &options, &s, &err), "%s: %s", err.field, err.text);
    ck_assert_msg(!simulation_run(s, &o.result, &err), "%s: %s", err.field, err.text);
    for (unsigned c = 0; c < DP_N_CLASSES; c++) {
        o.moved_bytes[c] = s->dp.dp.accounts[c].bytes_out;
    }
    o.chunks = s->prefill[0].n_chunks;
    simulation_free(s);
    fclose(csv);
    read_requests(text, &o);
    free(text);
    return o;
}

/* Bytes of one token over all layers: of KV, and of what is stored. 27B: 724 B of KV (latent,
 * rotary key, indexer) a layer, hidden states of 2560 values. */
#define LAYERS       30u
#define KV_BYTES     (LAYERS * 724ull)
#define HIDDEN_BYTES (LAYERS * 2 * 2560ull)
#define QUARTER      (LAYERS * 181ull)
#define BLOCK_TOK    64u

static uint64_t whole_blocks(uint64_t tok)
{
    return (tok + BLOCK_TOK - 1) / BLOCK_TOK * BLOCK_TOK;
}

struct sums {
    uint64_t prompt_tok, hit_tok, admitted_tok, persisted_tok, requests;
};

static struct sums add_up(const struct outcome *o)
{
    struct sums s = {0};
    for (size_t i = 0; i < o->n_requests; i++) {
        const struct request *r = &o->requests[i];
        s.prompt_tok += r->prompt_tok;
        s.hit_tok += r->hit_tok;
        s.admitted_tok += r->gen_tok > 1 ? whole_blocks(r->prompt_tok) : 0;
        s.persisted_tok += ((r->prompt_tok + r->gen_tok - 1) / BLOCK_TOK) * BLOCK_TOK - r->hit_tok;
    }
    s.requests = o->n_requests;
    return s;
}

static void check_storage(const struct outcome *o, const struct sums *s, uint64_t stored_bytes)
{
    ck_assert_uint_gt(s->hit_tok, 0);
    ck_assert_uint_eq(o->moved_bytes[DP_CLASS_READ], s->hit_tok * stored_bytes);
    ck_assert_uint_eq(o->result.storage_read_bytes, s->hit_tok * stored_bytes);
    ck_assert_uint_eq(o->result.storage_written_bytes, s->persisted_tok * stored_bytes);
}

/* One side reads everything and every prompt is computed in one chunk, so that the copies add up
 * too. */
static struct outcome run_unchunked(const char *restore, const char *path)
{
    struct outcome o = run(SETS("workload.agents=6", restore, path, "system.quota_s=1000"));
    ck_assert_uint_eq(o.chunks, o.n_requests);
    return o;
}

START_TEST(test_kv)
{
    static const char *const paths[] = {"system.path_policy=prefill", "system.path_policy=decode"};
    for (unsigned i = 0; i < 2; i++) {
        struct outcome o = run_unchunked("system.restore=kv", paths[i]);
        struct sums s = add_up(&o);
        uint64_t stored_tok = i == 0 ? s.prompt_tok : s.prompt_tok - s.hit_tok;
        check_storage(&o, &s, KV_BYTES);
        ck_assert_uint_eq(o.moved_bytes[DP_CLASS_LOAD], s.hit_tok * KV_BYTES);
        ck_assert_uint_eq(o.moved_bytes[DP_CLASS_STORE], stored_tok * KV_BYTES);
        ck_assert_uint_eq(o.moved_bytes[DP_CLASS_ADMIT], s.admitted_tok * KV_BYTES);
        free(o.requests);
    }
}
END_TEST

START_TEST(test_hidden_states)
{
    static const char *const paths[] = {"system.path_policy=prefill", "system.path_policy=decode"};
    for (unsigned i = 0; i < 2; i++) {
        struct outcome o = run_unchunked("system.restore=hidden_states", paths[i]);
        struct sums s = add_up(&o);
        check_storage(&o, &s, HIDDEN_BYTES);
        ck_assert_uint_eq(o.moved_bytes[DP_CLASS_LOAD], s.hit_tok * HIDDEN_BYTES);
        /* KV of hits and misses on both paths, and the hidden states of the misses. */
        ck_assert_uint_eq(o.moved_bytes[DP_CLASS_STORE],
                          s.prompt_tok * KV_BYTES + (s.prompt_tok - s.hit_tok) * HIDDEN_BYTES);
        ck_assert_uint_eq(o.moved_bytes[DP_CLASS_ADMIT], s.admitted_tok * KV_BYTES);
        free(o.requests);
    }
}
END_TEST

START_TEST(test_compressed)
{
    struct outcome o = run_unchunked("system.restore=compressed", "system.path_policy=prefill");
    struct sums s = add_up(&o);
    check_storage(&o, &s, QUARTER);
    ck_assert_uint_eq(o.moved_bytes[DP_CLASS_LOAD], s.hit_tok * QUARTER);
    ck_assert_uint_eq(o.moved_bytes[DP_CLASS_STORE], s.prompt_tok * QUARTER);
    ck_assert_uint_eq(o.moved_bytes[DP_CLASS_ADMIT], s.admitted_tok * QUARTER);
    free(o.requests);
}
END_TEST

START_TEST(test_gpu_direct)
{
    struct outcome o = run_unchunked("system.restore=gpu_direct", "system.path_policy=prefill");
    struct sums s = add_up(&o);
    check_storage(&o, &s, KV_BYTES);
    ck_assert_uint_eq(o.moved_bytes[DP_CLASS_LOAD], 0);
    ck_assert_uint_eq(o.moved_bytes[DP_CLASS_STORE], s.prompt_tok * KV_BYTES);
    ck_assert_double_le(o.result.utilization_run[RESULT_PE_DRAM], 1e-12); /* nothing touches it */
    free(o.requests);
}
END_TEST

/* Prompts in many chunks: storage moves the same, each token is computed once (conservation), and
 * with hidden states the hits are loaded once only: what later chunks need is KV from the decode
 * buffer. */
START_TEST(test_chunks)
{
    static const struct {
        const char *restore;
        uint64_t stored_bytes;
    } cases[] = {{"system.restore=kv", KV_BYTES},
                 {"system.restore=hidden_states", HIDDEN_BYTES},
                 {"system.restore=compressed", QUARTER},
                 {"system.restore=gpu_direct", KV_BYTES}};
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct outcome o = run(SETS("workload.agents=6", cases[i].restore, "system.quota_s=3ms",
                                    "system.path_policy=round_robin"));
        struct sums s = add_up(&o);
        ck_assert_uint_gt(o.chunks, 2 * o.n_requests);
        check_storage(&o, &s, cases[i].stored_bytes);
        free(o.requests);
    }
}
END_TEST

/* A ratio of 1 and nothing to expand is plain KV, to the last nanosecond. */
START_TEST(test_ratio_of_one)
{
    char *plain = text_without_run(run_json("quickstart", SETS("workload.agents=12")));
    char *whole = text_without_run(
        run_json("quickstart", SETS("workload.agents=12", "system.restore=compressed",
                                    "system.restore_ratio=1")));
    ck_assert_str_eq(plain, whole);
    free(plain);
    free(whole);
}
END_TEST

/* One agent alone on Basic, so that nothing waits for anything and transfers hide nothing: its hits
 * are expanded in the prefill GPU, and its prompt in the decode GPU before the second token. */
START_TEST(test_expansion_takes_its_time)
{
#define ALONE "workload.agents=1", "system.restore=compressed", "system.preset=basic"
    const double rate_Bps = 10e9;
    struct outcome in_no_time = run(SETS(ALONE));
    struct outcome o = run(SETS(ALONE, "system.restore_expand_Bps=10GB/s"));
    struct sums s = add_up(&o);
    double n = (double)s.requests;
    double prefill_s = (double)(s.hit_tok * KV_BYTES) / rate_Bps / n;
    double decode_s = (double)(s.prompt_tok * KV_BYTES) / rate_Bps / n;
    ck_assert_uint_eq(o.chunks, o.n_requests);
    /* Not of the whole TTFT: what a request waits for the next fetch depends on when it comes. */
    ck_assert_double_eq_tol(o.result.prefill_s - in_no_time.result.prefill_s, prefill_s,
                            0.02 * prefill_s);
    ck_assert_double_eq_tol(o.result.ttst_s.mean - in_no_time.result.ttst_s.mean, decode_s,
                            0.02 * decode_s);
    free(in_no_time.requests);
    free(o.requests);
}
END_TEST

/* Where a restoration cannot be. */
START_TEST(test_refused)
{
    static const char *const bad[][2] = {
        {"system.restore=gpu_direct", "system.preset=basic"},
        {"system.restore=hidden_states", "system.fidelity=packet"},
        {"system.restore=magic", "system.preset=dualpath"},
    };
    for (unsigned i = 0; i < 3; i++) {
        struct scenario sc;
        struct scenario_notes notes;
        struct err err = ERR_INIT;
        ck_assert_int_eq(scenario_read("quickstart", bad[i], 2, &sc, &notes, &err), -EINVAL);
        ck_assert_str_eq(err.field, "system.restore");
    }
}
END_TEST

/* That hidden states are the larger thing is said. */
START_TEST(test_larger_is_told)
{
    struct scenario sc;
    struct scenario_notes notes;
    struct err err = ERR_INIT;
    const char *sets[] = {"system.restore=hidden_states"};
    ck_assert_int_eq(scenario_read("quickstart", sets, 1, &sc, &notes, &err), 0);
    ck_assert_uint_eq(notes.n_warnings, 1);
    ck_assert_ptr_nonnull(strstr(notes.warnings[0], "5120 bytes per token and layer, its KV 724"));
    scenario_notes_done(&notes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("restore");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, test_kv);
    tcase_add_test(tc, test_hidden_states);
    tcase_add_test(tc, test_compressed);
    tcase_add_test(tc, test_gpu_direct);
    tcase_add_test(tc, test_chunks);
    tcase_add_test(tc, test_ratio_of_one);
    tcase_add_test(tc, test_expansion_takes_its_time);
    tcase_add_test(tc, test_refused);
    tcase_add_test(tc, test_larger_is_told);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
