/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The cache in DRAM in whole runs: one that holds everything, one that holds nothing, and on
 * Mooncake's conversation trace against an LRU cache that is counted another way (and against the
 * reference numbers of traces/expected_lru.tsv).
 */
#include "check_suite.h"
#include "scenario_run.h"

#include <errno.h>
#include <math.h>

#include "plan/simulation.h"

#define TRACE     "traces/mooncake/conversation_trace.jsonl"
#define ID_TOK    512
#define N_PRESETS 5

static const char *const presets[N_PRESETS] = {"system.preset=basic", "system.preset=layerwise",
                                               "system.preset=layerwise+dpl",
                                               "system.preset=dualpath", "system.preset=oracle"};

static json_t *run_preset(size_t p, const char *cache)
{
    return run_json("quickstart", SETS("workload.agents=6", presets[p], cache));
}

/* Every block that is hit was written by the run: nothing is left to read from storage. */
START_TEST(test_holds_everything)
{
    for (size_t p = 0; p < N_PRESETS; p++) {
        json_t *with = run_preset(p, "cluster.dram_cache_bytes=100GB");
        json_t *without = run_preset(p, "cluster.dram_cache_bytes=0");
        double found =
            number(with, "dram_cache.local_bytes") + number(with, "dram_cache.remote_bytes");
        ck_assert_double_eq(number(with, "bytes.storage_read"), 0);
        ck_assert_double_eq(number(with, "dram_cache.storage_bytes"), 0);
        ck_assert_double_eq(number(with, "dram_cache.hit_ratio"), 1);
        ck_assert_double_eq(number(with, "dram_cache.evicted_blocks"), 0);
        ck_assert_double_eq(found, number(with, "tokens.hit") * 21720); /* DS 27B, bytes a token */
        ck_assert(found > 0);
        ck_assert_double_eq(number(with, "bytes.storage_written"),
                            number(without, "bytes.storage_written"));
        ck_assert_double_eq(number(with, "tokens.hit"), number(without, "tokens.hit"));
        ck_assert_ptr_null(json_object_get(without, "dram_cache"));
        json_decref(with);
        json_decref(without);
    }
}
END_TEST

/* Less than a block: every read goes to storage, as if there were none, to the byte. */
START_TEST(test_holds_nothing)
{
    for (size_t p = 0; p < N_PRESETS; p++) {
        json_t *with = run_preset(p, "cluster.dram_cache_bytes=1MB");
        json_t *without = run_preset(p, "cluster.dram_cache_bytes=0");
        ck_assert_double_eq(number(with, "dram_cache.hit_ratio"), 0);
        ck_assert_double_eq(number(with, "dram_cache.storage_bytes"),
                            number(with, "tokens.hit") * 21720);
        json_object_del(with, "dram_cache");
        char *x = text_without_run(with), *y = text_without_run(without);
        ck_assert_str_eq(x, y);
        free(x);
        free(y);
    }
}
END_TEST

START_TEST(test_more_is_never_worse)
{
    static const char *const sizes[] = {
        "cluster.dram_cache_bytes=0.2GB", "cluster.dram_cache_bytes=0.5GB",
        "cluster.dram_cache_bytes=1GB", "cluster.dram_cache_bytes=3GB"};
    double before = 0;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        json_t *o = run_preset(3, sizes[i]);
        double local = number(o, "dram_cache.local_bytes");
        double remote = number(o, "dram_cache.remote_bytes");
        double storage = number(o, "dram_cache.storage_bytes");
        ck_assert(local > 0 && remote > 0);
        ck_assert_double_eq(storage, number(o, "bytes.storage_read"));
        ck_assert_double_eq(local + remote + storage, number(o, "tokens.hit") * 21720);
        ck_assert(number(o, "dram_cache.hit_ratio") > before);
        ck_assert(number(o, "dram_cache.peak_bytes") <= number(o, "dram_cache.capacity_bytes"));
        before = number(o, "dram_cache.hit_ratio");
        json_decref(o);
    }
}
END_TEST

/* Beside the other options that change who reads what; every run checks its bytes. */
START_TEST(test_with_other_options)
{
    static const char *const options[] = {"system.path_policy=split", "system.decode_reuse=hbm",
                                          "system.decode_reuse=dram",
                                          "cluster.storage.capacity_bytes=3GB"};
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        json_t *o = run_json(
            "quickstart", SETS("workload.agents=6", options[i], "cluster.dram_cache_bytes=0.3GB"));
        double saved = json_object_get(o, "reuse") ? number(o, "reuse.read_saved_bytes") : 0;
        double local = number(o, "dram_cache.local_bytes");
        double remote = number(o, "dram_cache.remote_bytes");
        double storage = number(o, "dram_cache.storage_bytes");
        ck_assert_double_eq(storage, number(o, "bytes.storage_read"));
        ck_assert_double_eq(local + remote + storage + saved, number(o, "tokens.hit") * 21720);
        json_decref(o);
    }
}
END_TEST

/* SGLang with Mooncake Store: one engine a node, every copy into HBM made 8 times for a latent. */
START_TEST(test_sgl_mc)
{
    json_t *o = run_json("quickstart", SETS("workload.agents=6", "system.preset=sgl-mc"));
    ck_assert_double_eq(number(o, "bytes.storage_read"), 0);
    ck_assert_double_eq(number(o, "dram_cache.hit_ratio"), 1);
    /* Whole blocks of 64 tokens in 1.5 TB, on two nodes. */
    double block = 64 * 21720;
    ck_assert_double_eq(number(o, "dram_cache.capacity_bytes"), 2 * floor(1.5e12 / block) * block);
    ck_assert_double_eq_tol(number(o, "cost.gpu_hours"), 16 * number(o, "jct_s") / 3600, 1e-9);
    ck_assert_double_eq(number(o, "balance.attention_max_avg"), 1); /* there is one engine */
    /* Into the HBM of prefill, over 8 NICs of 48.5 GB/s: every prompt's hits, for each GPU, and
     * what came from the other node's pool. */
    double hits = number(o, "tokens.hit") * 21720, remote = number(o, "dram_cache.remote_bytes");
    ck_assert_double_eq_tol(number(o, "utilization_run.pe_cnic_write") * number(o, "jct_s") * 8 *
                                48.5e9 / (8 * hits + remote),
                            1, 0.01);
    json_decref(o);
}
END_TEST

/* The trace, its ids as they stand in the file (chained and global: equal ids, equal prefix). */

struct requests {
    uint32_t *ids, n_ids; /* of all requests */
    uint32_t *first, n;   /* [n + 1] */
    uint32_t most_id;
};

static struct requests read_trace(void)
{
    struct requests r = {.ids = malloc(400000 * sizeof(*r.ids)),
                         .first = malloc(20000 * sizeof(*r.first))};
    FILE *in = fopen(TRACE, "r");
    ck_assert_ptr_nonnull(in);
    json_t *row;
    while ((row = json_loadf(in, JSON_DISABLE_EOF_CHECK, NULL))) {
        const json_t *list = json_object_get(row, "hash_ids");
        r.first[r.n++] = r.n_ids;
        for (size_t i = 0; i < json_array_size(list); i++) {
            uint32_t id = (uint32_t)json_integer_value(json_array_get(list, i));
            r.ids[r.n_ids++] = id;
            r.most_id = id > r.most_id ? id : r.most_id;
        }
        json_decref(row);
    }
    fclose(in);
    r.first[r.n] = r.n_ids;
    return r;
}

/*
 * An LRU cache of c blocks holds those among the c distinct ids used last (Mattson et al. 1970).
 * marks[] is a Fenwick tree over the references: one at the last use of every id so far.
 */
struct last_uses {
    int32_t *marks;
    uint32_t *last; /* by id: reference + 1, 0 = none */
    uint32_t n;
};

static void mark(struct last_uses *u, uint32_t reference, int32_t by)
{
    for (uint32_t i = reference + 1; i <= u->n; i += i & -i) {
        u->marks[i] += by;
    }
}

static uint32_t marks_up_to(const struct last_uses *u, uint32_t reference)
{
    int32_t sum = 0;
    for (uint32_t i = reference + 1; i > 0; i -= i & -i) {
        sum += u->marks[i];
    }
    return (uint32_t)sum;
}

static bool is_cached(const struct last_uses *u, uint32_t id, uint32_t distinct, uint32_t capacity)
{
    uint32_t last = u->last[id];
    return last > 0 && distinct - marks_up_to(u, last - 1) < capacity;
}

struct counts {
    uint64_t leading;     /* as expected_lru.tsv counts */
    uint64_t read, found; /* blocks that a run reads: seen before, but for a prompt's last one */
};

static struct counts count(const struct requests *r, uint32_t capacity)
{
    struct last_uses u = {.marks = calloc(r->n_ids + 1, sizeof(*u.marks)),
                          .last = calloc(r->most_id + 1, sizeof(*u.last)),
                          .n = r->n_ids};
    struct counts c = {0};
    uint32_t distinct = 0;
    for (uint32_t q = 0; q < r->n; q++) {
        bool leading = true, seen = true;
        for (uint32_t i = r->first[q]; i < r->first[q + 1]; i++) {
            uint32_t id = r->ids[i];
            bool cached = is_cached(&u, id, distinct, capacity);
            leading = leading && cached;
            seen = seen && u.last[id] > 0 && i + 1 < r->first[q + 1];
            c.leading += leading;
            c.read += seen;
            c.found += seen && cached;
        }
        for (uint32_t i = r->first[q]; i < r->first[q + 1]; i++) {
            uint32_t id = r->ids[i];
            if (u.last[id] > 0) {
                mark(&u, u.last[id] - 1, -1);
            }
            distinct += u.last[id] == 0;
            u.last[id] = i + 1;
            mark(&u, i, 1);
        }
    }
    free(u.marks);
    free(u.last);
    return c;
}

/* The trace with whole blocks, one token out, and one request after the other. */
static void write_serial(const struct requests *r, const char *path)
{
    FILE *out = fopen(path, "w");
    ck_assert_ptr_nonnull(out);
    for (uint32_t q = 0; q < r->n; q++) {
        uint32_t n = r->first[q + 1] - r->first[q];
        fprintf(out,
                "{\"timestamp\": %u, \"input_length\": %u, \"output_length\": 1, \"hash_ids\": [",
                q * 5000, n * ID_TOK);
        for (uint32_t i = 0; i < n; i++) {
            fprintf(out, "%s%u", i ? ", " : "", r->ids[r->first[q] + i]);
        }
        fprintf(out, "]}\n");
    }
    fclose(out);
}

static void check_trace(const struct requests *r, const char *path, uint32_t capacity,
                        uint64_t expected_leading)
{
    const double block = 21720.0 * ID_TOK;
    struct counts c = count(r, capacity);
    char trace[128], cache[96];
    ck_assert_uint_eq(c.leading, expected_leading);
    snprintf(trace, sizeof(trace), "workload.trace=%s", path);
    snprintf(cache, sizeof(cache), "cluster.dram_cache_bytes=%.0f", capacity / 2 * block);
    json_t *o =
        run_json("quickstart", SETS(trace, cache, "workload.agents=0", "workload.max_len_tok=0",
                                    "workload.arrival=recorded", "workload.trace_block_tok=512",
                                    "system.block_tok=512", "system.fetch_period_s=1s",
                                    "model.max_context_tok=1000000", "timing.free_compute=true"));
    ck_assert_double_eq(number(o, "tokens.hit"), (double)c.read * ID_TOK);
    ck_assert_double_eq(number(o, "dram_cache.local_bytes") + number(o, "dram_cache.remote_bytes"),
                        (double)c.found * block);
    ck_assert_double_eq(number(o, "dram_cache.capacity_bytes"), capacity * block);
    json_decref(o);
}

START_TEST(test_trace)
{
    char path[] = "/tmp/dualpath-cache-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    struct requests r = read_trace();
    write_serial(&r, path);
    /* expected_lru.tsv */
    check_trace(&r, path, 1000, 12831);
    check_trace(&r, path, 10000, 60921);
    unlink(path);
    free(r.ids);
    free(r.first);
}
END_TEST

/* The checks at the end of a run notice a pool that is wrong by one. */
START_TEST(test_conserved)
{
    const struct simulation_options options = {0};
    struct scenario sc;
    struct simulation *s;
    struct result r;
    struct err err = ERR_INIT;
    must_read_scenario("quickstart", SETS("workload.agents=3", "cluster.dram_cache_bytes=0.1GB"),
                       &sc);
    ck_assert_int_eq(simulation_new(&sc, &options, &s, &err), 0);
    ck_assert_int_eq(simulation_run(s, &r, &err), 0);
    ck_assert_uint_gt(r.dram_cache.evicted_blocks, 0);
    const struct {
        const char *text;
        uint64_t *at;
    } accounts[] = {
        {"bytes read from DRAM pools and storage", &s->tier.read_bytes[DRAM_TIER_LOCAL]},
        {"bytes read from DRAM pools and storage", &s->tier.read_bytes[DRAM_TIER_REMOTE]},
        {"bytes read from DRAM pools and storage", &s->tier.read_bytes[DRAM_TIER_STORAGE]},
        {"blocks held by and evicted from", &s->tier.added_blocks},
        {"blocks held by and evicted from", &s->tier.evicted_blocks},
        {"DRAM pool", &s->tier.used_blocks[1]},
    };
    for (size_t i = 0; i < sizeof(accounts) / sizeof(accounts[0]); i++) {
        ++*accounts[i].at;
        err = ERR_INIT;
        ck_assert_int_eq(simulation_check(s, &err), -EPROTO);
        ck_assert_msg(strstr(err.text, accounts[i].text) != NULL, "found \"%s\"", err.text);
        --*accounts[i].at;
    }
    s->tier.read_bytes[DRAM_TIER_LOCAL]++;
    s->tier.read_bytes[DRAM_TIER_STORAGE]--;
    err = ERR_INIT;
    ck_assert_int_eq(simulation_check(s, &err), -EPROTO);
    ck_assert_msg(strstr(err.text, "left to storage") != NULL, "found \"%s\"", err.text);
    simulation_free(s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("dram_cache");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 240);
    tcase_add_test(tc, test_holds_everything);
    tcase_add_test(tc, test_holds_nothing);
    tcase_add_test(tc, test_more_is_never_worse);
    tcase_add_test(tc, test_with_other_options);
    tcase_add_test(tc, test_sgl_mc);
    tcase_add_test(tc, test_trace);
    tcase_add_test(tc, test_conserved);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
