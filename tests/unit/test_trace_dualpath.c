/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The project's own trace format: what is exported and read back is the same workload, byte for
 * byte. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "check_suite.h"
#include "input/generator.h"
#include "input/trace.h"
#include "input/workload.h"

static struct scenario_workload config(uint32_t agents, enum arrival_kind arrival)
{
    struct scenario_workload cfg = {.agents = agents,
                                    .arrival = arrival,
                                    .aps = 3,
                                    .append_scale = 1,
                                    .generation_scale = 1,
                                    .tool_latency_scale = 1};
    return cfg;
}

static uint64_t random_state;

static uint32_t below(uint32_t n)
{
    random_state = hash_mix64(random_state);
    return (uint32_t)(random_state % n);
}

/* Sessions of several scopes; some spawned by an earlier one, some turns waiting for a child. */
static struct trace random_trace(uint32_t block_tok)
{
    enum { SESSIONS = 12, TURNS = 6 };
    struct trace t = {.closed_loop = true, .block_tok = block_tok, .n_sessions = SESSIONS};
    t.sessions = calloc(SESSIONS, sizeof(*t.sessions));
    t.turns = calloc(SESSIONS * TURNS, sizeof(*t.turns));
    t.ids = calloc(SESSIONS * TURNS * 4, sizeof(*t.ids));
    t.waits = calloc(SESSIONS, sizeof(*t.waits));
    for (uint32_t i = 0; i < SESSIONS; i++) {
        struct trace_session *s = &t.sessions[i];
        *s = (struct trace_session){.first_turn = t.n_turns,
                                    .n_turns = 1 + below(TURNS),
                                    .scope = below(3),
                                    .parent = TRACE_NONE,
                                    .parent_turn = TRACE_NONE};
        snprintf(s->name, sizeof(s->name), "s%u", i);
        s->arrival_ns = below(4) * 1000000000000000ull + below(3); /* some at the same time */
        uint32_t prompt_tok = 0;
        for (uint32_t k = 0; k < s->n_turns; k++) {
            struct trace_turn *turn = &t.turns[t.n_turns++];
            *turn = (struct trace_turn){.prompt_tok = prompt_tok + 1 + below(100),
                                        .gen_tok = 1 + below(30),
                                        .delay_ns = below(2) ? below(1000000) * 10000000001ull : 0,
                                        .first_id = t.n_ids};
            prompt_tok = turn->prompt_tok + turn->gen_tok;
            turn->n_ids = block_tok ? below(5) : 0;
            for (uint32_t m = 0; m < turn->n_ids; m++) {
                t.ids[t.n_ids++] = hash_mix64(below(50)) | (m == 0 ? 1ull << 63 : 0);
            }
        }
    }
    for (uint32_t i = 1; i < SESSIONS; i++) {
        struct trace_session *s = &t.sessions[i];
        const struct trace_session *p = &t.sessions[below(i)];
        if (below(2) == 0) {
            s->parent = (uint32_t)(p - t.sessions);
            s->parent_turn = below(3) ? below(p->n_turns) : TRACE_NONE;
            s->spawn_delay_ns = below(1000);
            struct trace_turn *last = &t.turns[p->first_turn + p->n_turns - 1];
            if (p->n_turns > 1 && last->n_waits == 0 &&
                (s->parent_turn == TRACE_NONE || s->parent_turn + 1 < p->n_turns)) {
                last->first_wait = (uint32_t)t.n_waits;
                last->n_waits = 1;
                t.waits[t.n_waits++] = i;
            }
        }
    }
    return t;
}

static void make_path(char *path, size_t size)
{
    const char *dir = getenv("TMPDIR");
    snprintf(path, size, "%s/dualpath-trace-XXXXXX", dir ? dir : "/tmp");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

static char *export_text(const struct workload *w, size_t *ret_size)
{
    char *text;
    FILE *out = open_memstream(&text, ret_size);
    struct err err = ERR_INIT;
    ck_assert_int_eq(workload_export(w, out, &err), 0);
    fclose(out);
    return text;
}

static int read_text(const char *text, size_t size, const struct trace_options *options,
                     struct trace *ret_trace, struct err *err)
{
    char path[256];
    make_path(path, sizeof(path));
    FILE *out = fopen(path, "w");
    fwrite(text, 1, size, out);
    fclose(out);
    int rc = trace_read(path, options, ret_trace, err);
    unlink(path);
    return rc;
}

static void expect_same_turn(const struct workload_turn *a, const struct workload_turn *b)
{
    ck_assert_uint_eq(a->prompt_tok, b->prompt_tok);
    ck_assert_uint_eq(a->gen_tok, b->gen_tok);
    ck_assert_uint_eq(a->delay_ns, b->delay_ns);
    ck_assert_uint_eq(a->n_blocks, b->n_blocks);
    ck_assert_int_eq(a->block_ids != NULL, b->block_ids != NULL);
    for (uint32_t i = 0; i < a->n_blocks; i++) {
        ck_assert_uint_eq(a->block_ids[i], b->block_ids[i]);
    }
    ck_assert_uint_eq(a->n_waits, b->n_waits);
    for (uint32_t i = 0; i < a->n_waits; i++) {
        ck_assert_uint_eq(a->waits[i], b->waits[i]);
    }
}

static void expect_same(const struct workload *a, const struct workload *b)
{
    ck_assert_uint_eq(a->n_sessions, b->n_sessions);
    ck_assert_uint_eq(a->block_tok, b->block_tok);
    for (uint32_t i = 0; i < a->n_sessions; i++) {
        struct workload_session s, r;
        a->ops->session(a, i, &s);
        b->ops->session(b, i, &r);
        ck_assert_uint_eq(s.arrival_ns, r.arrival_ns);
        ck_assert_uint_eq(s.n_turns, r.n_turns);
        ck_assert_uint_eq(s.scope, r.scope);
        ck_assert_uint_eq(s.parent, r.parent);
        ck_assert_uint_eq(s.parent_turn, r.parent_turn);
        ck_assert_uint_eq(s.spawn_delay_ns, r.spawn_delay_ns);
        for (uint32_t k = 0; k < s.n_turns; k++) {
            struct workload_turn x, y;
            a->ops->turn(a, i, k, &x);
            b->ops->turn(b, i, k, &y);
            expect_same_turn(&x, &y);
        }
    }
}

/* Exports w, reads that, compares, exports again, compares the text; frees w. */
static void round_trip(struct workload *w)
{
    size_t size, again_size;
    char *text = export_text(w, &size);
    struct trace t;
    struct err err = ERR_INIT;
    int rc = read_text(text, size, NULL, &t, &err);
    ck_assert_msg(rc == 0, "%s:%u %s: %s", err.source, err.line, err.field, err.text);
    ck_assert_str_eq(t.format, "dualpath");
    struct scenario_workload cfg = config(0, ARRIVAL_RECORDED);
    struct workload *back;
    rc = workload_from_trace(&t, &cfg, 0, 64, 99, &back, &err);
    ck_assert_msg(rc == 0, "%s: %s", err.field, err.text);
    expect_same(w, back);
    char *again = export_text(back, &again_size);
    ck_assert_uint_eq(size, again_size);
    ck_assert_mem_eq(text, again, size);
    free(text);
    free(again);
    workload_free(back);
    workload_free(w);
}

static struct workload *build(struct trace t, const struct scenario_workload *cfg, uint64_t seed)
{
    struct workload *w;
    struct err err = ERR_INIT;
    int rc = workload_from_trace(&t, cfg, 0, 64, seed, &w, &err);
    ck_assert_msg(rc == 0, "%s: %s", err.field, err.text);
    return w;
}

/* _i: seeds. With and without ids, every arrival, fewer and more agents than sessions, cut ones. */
START_TEST(any_workload_comes_back_as_it_was)
{
    for (int variant = 0; variant < 24; variant++) {
        random_state = hash_mix64((uint64_t)_i * 100 + (uint64_t)variant);
        const enum arrival_kind arrivals[] = {ARRIVAL_OFFLINE, ARRIVAL_POISSON, ARRIVAL_RECORDED};
        const uint32_t agents[] = {0, 2, 40, 7};
        struct scenario_workload cfg = config(agents[variant % 4], arrivals[variant % 3]);
        cfg.max_len_tok = below(3) ? 0 : 200;
        cfg.tool_latency_scale = below(2) ? 1 : 0.37;
        round_trip(build(random_trace(variant < 12 ? 16 : 0), &cfg, (uint64_t)_i));
    }
}
END_TEST

START_TEST(a_generated_run_comes_back_as_it_was)
{
    struct scenario_workload cfg = config(120, ARRIVAL_POISSON);
    struct trace t;
    struct err err = ERR_INIT;
    ck_assert_int_eq(generator_make(32768, 50, 4, &t, &err), 0);
    cfg.max_len_tok = 32768;
    round_trip(build(t, &cfg, 4));
}
END_TEST

START_TEST(the_text_is_the_documented_one)
{
    struct trace t = {
        .block_tok = 16, .closed_loop = true, .n_sessions = 2, .n_turns = 3, .n_ids = 2};
    t.sessions = calloc(2, sizeof(*t.sessions));
    t.turns = calloc(3, sizeof(*t.turns));
    t.ids = calloc(2, sizeof(*t.ids));
    t.waits = calloc(1, sizeof(*t.waits));
    t.sessions[0] = (struct trace_session){.n_turns = 2,
                                           .arrival_ns = 9007199254740993,
                                           .parent = TRACE_NONE,
                                           .parent_turn = TRACE_NONE};
    t.sessions[1] =
        (struct trace_session){.first_turn = 2, .n_turns = 1, .scope = 4, .spawn_delay_ns = 8};
    t.turns[0] = (struct trace_turn){.prompt_tok = 32, .gen_tok = 2, .n_ids = 2, .delay_ns = 3};
    t.turns[1] = (struct trace_turn){.prompt_tok = 5, .gen_tok = 1, .n_waits = 1};
    t.turns[2] = (struct trace_turn){.prompt_tok = 7, .gen_tok = 1};
    t.ids[0] = UINT64_MAX;
    t.ids[1] = 14879255164371896291u;
    t.waits[0] = 1;
    t.n_waits = 1;
    struct scenario_workload cfg = config(0, ARRIVAL_RECORDED);
    struct workload *w = build(t, &cfg, 1);
    size_t size;
    char *text = export_text(w, &size);
    ck_assert_str_eq(text,
                     "{\"schema\":\"dualpath/trace/1\",\"block_tok\":16,\"sessions\":2}\n"
                     "{\"arrival_ns\":9007199254740993,\"scope\":0,\"turns\":["
                     "{\"prompt_tok\":32,\"gen_tok\":2,\"delay_ns\":3,"
                     "\"hash_ids\":[18446744073709551615,14879255164371896291]},"
                     "{\"prompt_tok\":5,\"gen_tok\":1,\"hash_ids\":[],\"waits\":[1]}]}\n"
                     "{\"parent\":0,\"parent_turn\":0,\"spawn_delay_ns\":8,\"scope\":4,\"turns\":["
                     "{\"prompt_tok\":7,\"gen_tok\":1,\"hash_ids\":[]}]}\n");
    free(text);
    round_trip(w);
}
END_TEST

#define HEAD          "{\"schema\":\"dualpath/trace/1\",\"block_tok\":0,\"sessions\":1}\n"
#define HEADB         "{\"schema\":\"dualpath/trace/1\",\"block_tok\":16,\"sessions\":1}\n"
#define TURN          "{\"prompt_tok\":3,\"gen_tok\":1}"
#define LINE(members) "{\"arrival_ns\":0,\"turns\":[" members "]}\n"

static const struct {
    const char *text;
    unsigned line;
    const char *field, *message;
} bad[] = {
    {"{\"schema\":\"dualpath/trace/2\",\"block_tok\":0,\"sessions\":1}\n", 1, "schema",
     "dualpath/trace/1"},
    {"{\"schema\":\"dualpath/trace/1\",\"sessions\":1}\n", 1, "block_tok", "missing"},
    {"{\"schema\":\"dualpath/trace/1\",\"block_tok\":-1,\"sessions\":1}\n", 1, "block_tok",
     "0 or more"},
    {"{\"schema\":\"dualpath/trace/1\",\"block_tok\":0,\"sessions\":1,\"x\":1}\n", 1, "x",
     "unknown key"},
    {HEAD, 2, "", "after 0 sessions, expected the 1"},
    {HEAD LINE(TURN) LINE(TURN), 3, "", "more sessions than the 1"},
    {HEAD "[]\n", 2, "", "expected an object"},
    {HEAD "{\"arrival_ns\":0}\n", 2, "turns", "missing"},
    {HEAD "{\"arrival_ns\":0,\"turns\":[]}\n", 2, "turns", "one or more"},
    {HEAD "{\"turns\":[" TURN "]}\n", 2, "arrival_ns", "missing"},
    {HEAD "{\"arrival_ns\":1.5,\"turns\":[" TURN "]}\n", 2, "arrival_ns", "whole nanoseconds"},
    {HEAD "{\"arrival_ns\":-1,\"turns\":[" TURN "]}\n", 2, "arrival_ns", "0 or more"},
    {HEAD "{\"arrival_ns\":0,\"scope\":1,\"turns\":[" TURN "]}\n", 2, "scope", "block_tok 0"},
    {HEAD "{\"arrival_ns\":0,\"parent\":0,\"turns\":[" TURN "]}\n", 2, "arrival_ns", "unknown key"},
    {HEAD "{\"parent\":1,\"spawn_delay_ns\":0,\"turns\":[" TURN "]}\n", 2, "parent",
     "session 1 of 1"},
    {HEAD "{\"parent\":0,\"turns\":[" TURN "]}\n", 2, "spawn_delay_ns", "missing"},
    {HEAD LINE(TURN ",7"), 2, "turns[1]", "a turn"},
    {HEAD LINE("{\"prompt_tok\":3}"), 2, "turns[0].gen_tok", "missing"},
    {HEAD LINE("{\"prompt_tok\":\"3\",\"gen_tok\":1}"), 2, "turns[0].prompt_tok", "whole number"},
    {HEAD LINE("{\"prompt_tok\":4294967295,\"gen_tok\":1}"), 2, "turns[0].prompt_tok", "2^32"},
    {HEAD LINE("{\"prompt_tok\":3,\"gen_tok\":1,\"delay\":2}"), 2, "turns[0].delay", "unknown key"},
    {HEAD LINE("{\"prompt_tok\":3,\"gen_tok\":1,\"hash_ids\":[]}"), 2, "turns[0].hash_ids",
     "block_tok 0"},
    {HEAD LINE("{\"prompt_tok\":3,\"gen_tok\":1,\"waits\":[1]}"), 2, "turns[0].waits", "below 1"},
    {HEAD LINE("{\"prompt_tok\":3,\"gen_tok\":1,\"waits\":1}"), 2, "turns[0].waits", "an array"},
    {HEAD LINE("{\"prompt_tok\":3,\"gen_tok\":1,\"delay_ns\":9223372036854775807},"
               "{\"prompt_tok\":5,\"gen_tok\":1,\"delay_ns\":1}"),
     2, "turns[1].delay_ns", "2^63"},
    {HEADB LINE(TURN), 2, "scope", "missing"},
    {HEADB "{\"arrival_ns\":0,\"scope\":0,\"turns\":[" TURN "]}\n", 2, "turns[0].hash_ids",
     "block ids"},
};

START_TEST(bad_files_are_named_with_line_and_field)
{
    const struct trace_options options = {.format = "dualpath"};
    struct trace t;
    struct err err = ERR_INIT;
    int rc = read_text(bad[_i].text, strlen(bad[_i].text), &options, &t, &err);
    ck_assert_msg(rc < 0, "%s was read", bad[_i].text);
    ck_assert_uint_eq(err.line, bad[_i].line);
    ck_assert_str_eq(err.field, bad[_i].field);
    ck_assert_msg(strstr(err.text, bad[_i].message), "'%s' lacks '%s'", err.text, bad[_i].message);
}
END_TEST

/* What is accepted can be replayed and exported, or is refused by name; nothing crashes. */
static int read_damaged(const char *text, size_t size)
{
    const struct trace_options options = {.format = "dualpath"};
    struct trace t;
    struct err err = ERR_INIT;
    int rc = read_text(text, size, &options, &t, &err);
    if (rc == 0) {
        struct scenario_workload cfg = config(0, ARRIVAL_RECORDED);
        struct workload *w;
        rc = workload_from_trace(&t, &cfg, 0, 64, 1, &w, &err);
        if (rc == 0) {
            round_trip(w);
            return 0;
        }
    }
    ck_assert_int_lt(rc, 0);
    ck_assert_int_eq(rc, err.code);
    ck_assert_uint_gt(strlen(err.text), 0);
    return rc;
}

START_TEST(damaged_files_are_read_or_refused)
{
    static const char letters[] = "{}[]\",:0123456789.-eE\\ \n\x80";
    unsigned accepted = 0, refused = 0;
    for (int seed = 0; seed < 4; seed++) {
        random_state = hash_mix64((uint64_t)seed);
        struct scenario_workload cfg = config(3, ARRIVAL_RECORDED);
        struct workload *w = build(random_trace(seed % 2 ? 16 : 0), &cfg, 1);
        size_t size;
        char *text = export_text(w, &size);
        workload_free(w);
        for (int i = 0; i < 400; i++) {
            size_t at = below((uint32_t)size);
            char before = text[at];
            text[at] = letters[below(sizeof(letters) - 1)];
            int rc = read_damaged(text, i % 4 ? size : at);
            accepted += rc == 0;
            refused += rc < 0;
            text[at] = before;
        }
        free(text);
    }
    ck_assert_uint_gt(accepted, 100); /* both outcomes are really reached */
    ck_assert_uint_gt(refused, 100);
}
END_TEST

START_TEST(times_are_not_rebased)
{
    const char *text = HEAD "{\"arrival_ns\":5000,\"turns\":[" TURN "]}\n";
    struct trace t;
    struct err err = ERR_INIT;
    ck_assert_int_eq(read_text(text, strlen(text), NULL, &t, &err), 0);
    ck_assert_uint_eq(t.sessions[0].arrival_ns, 5000);
    ck_assert_uint_eq(t.turns[0].t_ns, 5000);
    ck_assert(!t.closed_loop);
    trace_done(&t);
}
END_TEST

START_TEST(a_full_disk_is_an_error)
{
    FILE *out = fopen("/dev/full", "w");
    if (!out) {
        return; /* not every system has it */
    }
    struct trace t;
    struct err err = ERR_INIT;
    ck_assert_int_eq(generator_make(32768, 3, 4, &t, &err), 0);
    struct scenario_workload cfg = config(0, ARRIVAL_OFFLINE);
    struct workload *w = build(t, &cfg, 1);
    ck_assert_int_eq(workload_export(w, out, &err), -EIO);
    fclose(out);
    workload_free(w);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("trace_dualpath");
    TCase *t = tcase_create("trace_dualpath");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, any_workload_comes_back_as_it_was, 1, 11);
    tcase_add_test(t, a_generated_run_comes_back_as_it_was);
    tcase_add_test(t, the_text_is_the_documented_one);
    tcase_add_loop_test(t, bad_files_are_named_with_line_and_field, 0,
                        (int)(sizeof(bad) / sizeof(*bad)));
    tcase_add_test(t, damaged_files_are_read_or_refused);
    tcase_add_test(t, times_are_not_rebased);
    tcase_add_test(t, a_full_disk_is_an_error);
    suite_add_tcase(s, t);
    return run_suite(s);
}
