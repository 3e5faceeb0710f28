/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/units.h"
#include "cli/cli.h"
#include "cli/cli_args.h"
#include "cli/cmd_trace.h"
#include "input/trace_stats.h"

static const char help[] =
    "Usage: dualpath trace inspect [OPTIONS] FILE...\n\n"
    "Prints what traces hold and which share of their blocks a KV cache would have: the longest\n"
    "leading run of blocks seen in earlier requests, in file order. A directory is read as one\n"
    "trace. With --format json, one object for one file, an array for several.\n\n"
    "  --format text|json   for a person, or for a program\n"
    "  --lru N,...          also against LRU caches of N blocks\n"
    "%s";

struct inspection {
    struct trace_stats stats;
    struct trace_lru *lru;
    size_t n_lru;
};

/* "1000,5000" to one entry per number. */
static int parse_lru(const char *list, struct inspection *ret)
{
    for (const char *c = list; c; c = *c == ',' ? c + 1 : NULL) {
        struct trace_lru *lru = realloc(ret->lru, (ret->n_lru + 1) * sizeof(*lru));
        if (!lru) {
            return -ENOMEM;
        }
        ret->lru = lru;
        char *end;
        errno = 0;
        uint64_t n = *c >= '0' && *c <= '9' ? strtoull(c, &end, 10) : 0;
        if (n == 0 || errno || (*end && *end != ',')) {
            return -EINVAL;
        }
        ret->lru[ret->n_lru++] = (struct trace_lru){.capacity_blocks = n};
        c = end;
    }
    return 0;
}

static void print_text(const char *path, const struct trace *t, const struct inspection *in)
{
    const struct trace_stats *s = &in->stats;
    printf("%s: %s trace, %s\n", path, t->format, t->closed_loop ? "closed loop" : "open loop");
    printf("  requests          %" PRIu64 " in %" PRIu64 " sessions over %.3f s\n", s->requests,
           s->sessions, (double)(s->last_ns - s->first_ns) / (double)NS_PER_S);
    printf("  input tokens      %" PRIu64 " (mean %.1f)\n", s->input_tok,
           (double)s->input_tok / (double)s->requests);
    printf("  output tokens     %" PRIu64 " (mean %.1f)\n", s->output_tok,
           (double)s->output_tok / (double)s->requests);
    if (s->block_refs > 0) {
        printf("  blocks            %" PRIu64 " references of %" PRIu32 " tokens, %" PRIu64
               " distinct\n",
               s->block_refs, t->block_tok, s->distinct_blocks);
        printf("  hit, infinite     %" PRIu64
               " blocks: %.2f %% of all (ratio of sums), %.2f %% mean of the "
               "requests' ratios\n",
               s->hit_blocks, 100 * s->hit_blocks_frac, 100 * s->mean_hit_blocks_frac);
        printf("  hit tokens        %" PRIu64
               ": %.2f %% of all (ratio of sums), %.2f %% mean of the "
               "requests' ratios\n",
               s->hit_tok, 100 * s->hit_tok_frac, 100 * s->mean_hit_tok_frac);
        printf("  hit in full       %" PRIu64 " requests\n", s->full_hit_requests);
    }
    for (size_t i = 0; i < in->n_lru; i++) {
        printf("  hit, LRU %-8" PRIu64 " %" PRIu64 " blocks: %.2f %% of all, %" PRIu64
               " evictions\n",
               in->lru[i].capacity_blocks, in->lru[i].hit_blocks,
               s->block_refs ? 100 * (double)in->lru[i].hit_blocks / (double)s->block_refs : 0,
               in->lru[i].evictions);
    }
    for (uint32_t i = 0; i < t->n_repairs; i++) {
        printf("  repaired          %" PRIu64 " x %s\n", t->repairs[i].count, t->repairs[i].reason);
    }
}

static json_t *lru_json(const struct inspection *in)
{
    json_t *list = json_array();
    for (size_t i = 0; i < in->n_lru; i++) {
        json_array_append_new(list, json_pack("{sI sI sI}", "capacity_blocks",
                                              (json_int_t)in->lru[i].capacity_blocks, "hit",
                                              (json_int_t)in->lru[i].hit_blocks, "evictions",
                                              (json_int_t)in->lru[i].evictions));
    }
    return list;
}

static json_t *repairs_json(const struct trace *t)
{
    json_t *repairs = json_object();
    for (uint32_t i = 0; i < t->n_repairs; i++) {
        json_object_set_new(repairs, t->repairs[i].reason,
                            json_integer((json_int_t)t->repairs[i].count));
    }
    return repairs;
}

/* NULL when out of memory. */
static json_t *inspection_json(const char *path, const struct trace *t, const struct inspection *in)
{
    const struct trace_stats *s = &in->stats;
    return json_pack("{ss ss sb sI sI sI sI sI s{sI sI sI sI} s{sf sf sf sf} sI sI sI sI so so ss}",
                     "file", path, "format", t->format, "closed_loop", t->closed_loop, "block_tok",
                     (json_int_t)t->block_tok, "requests", (json_int_t)s->requests, "sessions",
                     (json_int_t)s->sessions, "input_tok", (json_int_t)s->input_tok, "output_tok",
                     (json_int_t)s->output_tok, "blocks", "refs", (json_int_t)s->block_refs,
                     "distinct", (json_int_t)s->distinct_blocks, "hit", (json_int_t)s->hit_blocks,
                     "any_hit", (json_int_t)s->any_hit_blocks, "hit_ratio",
                     "blocks_ratio_of_sums_frac", s->hit_blocks_frac, "blocks_mean_of_ratios_frac",
                     s->mean_hit_blocks_frac, "tok_ratio_of_sums_frac", s->hit_tok_frac,
                     "tok_mean_of_ratios_frac", s->mean_hit_tok_frac, "hit_tok",
                     (json_int_t)s->hit_tok, "full_hit_requests", (json_int_t)s->full_hit_requests,
                     "first_ns", (json_int_t)s->first_ns, "last_ns", (json_int_t)s->last_ns, "lru",
                     lru_json(in), "repairs", repairs_json(t), "sha256", t->sha256);
}

static int inspect(const char *path, const struct trace_arguments *a, struct inspection *in,
                   json_t *results, struct err *err)
{
    struct trace t;
    int rc = trace_read(path, &a->options, &t, err);
    if (rc < 0) {
        return rc;
    }
    rc = trace_stats_compute(&t, &in->stats, err);
    for (size_t i = 0; rc == 0 && i < in->n_lru; i++) {
        rc = trace_lru_compute(&t, &in->lru[i], err);
    }
    if (rc == 0 && a->json) {
        rc = json_array_append_new(results, inspection_json(path, &t, in)) < 0 ? err_nomem(err) : 0;
    } else if (rc == 0) {
        print_text(path, &t, in);
    }
    trace_done(&t);
    return rc;
}

static int inspect_all(const struct trace_arguments *a, struct inspection *in)
{
    json_t *results = json_array();
    int status = EXIT_OK;
    for (int i = 0; i < a->n_files && status == EXIT_OK; i++) {
        struct err err = ERR_INIT;
        if (inspect(a->files[i], a, in, results, &err) < 0) {
            status = cli_bad_input(&err);
        }
    }
    if (a->json && status == EXIT_OK) {
        status = cli_print_json(a->n_files == 1 ? json_incref(json_array_get(results, 0))
                                                : json_incref(results));
    }
    json_decref(results);
    return status;
}

int cmd_trace_inspect(int argc, char **argv)
{
    struct trace_arguments a;
    struct inspection in = {0};
    int status = trace_parse_arguments(argc, argv, true, &a);
    if (status != EXIT_OK) {
        return status;
    }
    if (a.help) {
        printf(help, trace_reader_help);
        return EXIT_OK;
    }
    if (parse_lru(a.lru, &in) < 0) {
        status =
            cli_usage("trace inspect",
                      "--lru: found \"%s\", expected numbers of blocks, e.g. 1000,5000", a.lru);
    } else {
        status = inspect_all(&a, &in);
    }
    free(in.lru);
    return status;
}
