/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "input/generator.h"

#include <errno.h>
#include <math.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

#define FIRST_SIGMA  0.2
#define APPEND_SIGMA 1.2
#define GEN_SIGMA    0.8

/* Table 2 of the paper. */
static const struct {
    double max_len, turns, append, gen, total, context;
} table[] = {
    {32768, 60, 608, 148, 28639, 17183},
    {49152, 106, 474, 172, 42607, 25120},
    {65536, 157, 429, 176, 55958, 32721},
};

static double mix(double a, double b, double share)
{
    return a + (b - a) * share;
}

int generator_params(uint64_t max_len_tok, struct generator_params *ret_params, struct err *err)
{
    if (max_len_tok < GENERATOR_MIN_LEN_TOK || max_len_tok > GENERATOR_MAX_LEN_TOK) {
        return err_set(err, -ERANGE,
                       "found a longest trajectory of %llu tokens; the generator " GENERATOR_NAME
                       " knows 32K to 64K (%d to %d)",
                       (unsigned long long)max_len_tok, GENERATOR_MIN_LEN_TOK,
                       GENERATOR_MAX_LEN_TOK);
    }
    int i = (double)max_len_tok > table[1].max_len;
    double share =
        ((double)max_len_tok - table[i].max_len) / (table[i + 1].max_len - table[i].max_len);
    struct generator_params p = {
        .turns = mix(table[i].turns, table[i + 1].turns, share),
        .append_tok = mix(table[i].append, table[i + 1].append, share),
        .gen_tok = mix(table[i].gen, table[i + 1].gen, share),
        .total_tok = mix(table[i].total, table[i + 1].total, share),
        .context_tok = mix(table[i].context, table[i + 1].context, share),
    };
    double per_turn = p.append_tok + p.gen_tok;
    p.turns_sigma = sqrt(log(p.turns * per_turn / p.total_tok));
    p.first_tok = 2 * p.context_tok - p.total_tok + p.gen_tok;
    p.gen_share = p.gen_tok / (per_turn * (1 - p.first_tok / p.total_tok));
    *ret_params = p;
    return 0;
}

/* What is drawn for each trajectory before its turns are. */
struct outline {
    uint32_t *n_turns, *total_tok, *first_tok; /* [n] */
};

/* A draw in slice i of n of the standard normal distribution cut at +-4. */
static double stratum_normal(struct rng *r, uint32_t i, uint32_t n)
{
    const double below = 3.167124183311986e-05; /* Phi(-4) */
    double u = ((double)i + rng_uniform(r)) / n;
    return rng_normal_inverse_cdf(below + u * (1 - 2 * below));
}

static void shuffle(struct rng *r, uint32_t *values, uint32_t n)
{
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = (uint32_t)rng_below(r, i);
        uint32_t v = values[i - 1];
        values[i - 1] = values[j];
        values[j] = v;
    }
}

static int draw_lognormal(uint64_t seed, const char *stream, double mean, double sigma,
                          uint32_t *values, uint32_t n)
{
    struct rng *r = rng_new(seed, stream);
    if (!r) {
        return -ENOMEM;
    }
    double median = mean * exp(-sigma * sigma / 2);
    for (uint32_t i = 0; i < n; i++) {
        values[i] = (uint32_t)lround(median * exp(sigma * stratum_normal(r, i, n)));
    }
    shuffle(r, values, n);
    rng_free(r);
    return 0;
}

static int draw_totals(uint64_t seed, double mean, double max, uint32_t *values, uint32_t n)
{
    struct rng *r = rng_new(seed, "generator.total");
    if (!r) {
        return -ENOMEM;
    }
    double min = 2 * mean - max;
    for (uint32_t i = 0; i < n; i++) {
        double v = min + (max + 1 - min) * (((double)i + rng_uniform(r)) / n);
        values[i] = (uint32_t)fmin(v, max); /* with millions of slices the last draw rounds to 1 */
    }
    shuffle(r, values, n);
    rng_free(r);
    return 0;
}

static int draw_outline(const struct generator_params *p, uint64_t max_len_tok, uint32_t n,
                        uint64_t seed, struct outline *o)
{
    o->n_turns = calloc(n, sizeof(*o->n_turns));
    o->total_tok = calloc(n, sizeof(*o->total_tok));
    o->first_tok = calloc(n, sizeof(*o->first_tok));
    if (!o->n_turns || !o->total_tok || !o->first_tok) {
        return -ENOMEM;
    }
    int rc = draw_lognormal(seed, "generator.turns", p->turns, p->turns_sigma, o->n_turns, n);
    if (rc == 0) {
        rc = draw_lognormal(seed, "generator.first", p->first_tok, FIRST_SIGMA, o->first_tok, n);
    }
    return rc ? rc : draw_totals(seed, p->total_tok, (double)max_len_tok, o->total_tok, n);
}

static void outline_done(struct outline *o)
{
    free(o->n_turns);
    free(o->total_tok);
    free(o->first_tok);
}

/*
 * Splits sum into n lengths >= 1 with lognormal weights; weights is scratch for n values. Rounding
 * the running sum, not each length, makes the lengths add up exactly. sum >= n, because N and A_1
 * are cut at four sigma.
 */
static void split(struct rng *r, uint32_t sum, uint32_t n, double sigma, double *weights,
                  uint32_t *ret_lengths)
{
    double all = 0;
    for (uint32_t i = 0; i < n; i++) {
        weights[i] = rng_lognormal(r, 1, sigma);
        all += weights[i];
    }
    double spare = sum - n, running = 0;
    uint32_t before = 0;
    for (uint32_t i = 0; i < n; i++) {
        running += weights[i];
        uint32_t upto = i + 1 == n ? sum - n : (uint32_t)(spare * (running / all) + 0.5);
        ret_lengths[i] = 1 + upto - before;
        before = upto;
    }
}

struct scratch {
    double *weights;
    uint32_t *append, *gen;
};

static int scratch_init(struct scratch *s, const struct outline *o, uint32_t n)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < n; i++) {
        most = o->n_turns[i] > most ? o->n_turns[i] : most;
    }
    s->weights = calloc(most, sizeof(*s->weights));
    s->append = calloc(most, sizeof(*s->append));
    s->gen = calloc(most, sizeof(*s->gen));
    return s->weights && s->append && s->gen ? 0 : -ENOMEM;
}

static void scratch_done(struct scratch *s)
{
    free(s->weights);
    free(s->append);
    free(s->gen);
}

static void fill_turns(struct rng *r, const struct scratch *s, uint32_t n_turns, uint32_t total_tok,
                       uint32_t first_tok, double gen_share, struct trace_turn *turns)
{
    uint32_t rest = total_tok - first_tok;
    uint32_t gen = (uint32_t)lround(gen_share * rest);
    s->append[0] = first_tok;
    split(r, rest - gen, n_turns - 1, APPEND_SIGMA, s->weights, s->append + 1);
    split(r, gen, n_turns, GEN_SIGMA, s->weights, s->gen);
    uint32_t context_tok = 0;
    for (uint32_t i = 0; i < n_turns; i++) {
        context_tok += s->append[i];
        turns[i] = (struct trace_turn){.prompt_tok = context_tok, .gen_tok = s->gen[i]};
        context_tok += s->gen[i];
    }
}

static int alloc_trace(struct trace *t, const struct outline *o, uint32_t n)
{
    snprintf(t->format, sizeof(t->format), "%s", GENERATOR_NAME);
    t->closed_loop = true;
    t->n_sessions = t->n_scopes = n;
    for (uint32_t i = 0; i < n; i++) {
        t->n_turns += o->n_turns[i];
    }
    t->sessions = calloc(n, sizeof(*t->sessions));
    t->turns = calloc(t->n_turns, sizeof(*t->turns));
    t->file_order = calloc(t->n_turns, sizeof(*t->file_order));
    return t->sessions && t->turns && t->file_order ? 0 : -ENOMEM;
}

static int fill_trace(struct trace *t, const struct outline *o, const struct generator_params *p,
                      uint64_t seed)
{
    struct scratch s;
    struct rng *r = rng_new(seed, "generator.lengths");
    int rc = scratch_init(&s, o, t->n_sessions);
    uint64_t turn = 0;
    for (uint32_t i = 0; r && rc == 0 && i < t->n_sessions; i++) {
        t->sessions[i] = (struct trace_session){.first_turn = turn,
                                                .n_turns = o->n_turns[i],
                                                .scope = i,
                                                .parent = TRACE_NONE,
                                                .parent_turn = TRACE_NONE};
        snprintf(t->sessions[i].name, sizeof(t->sessions[i].name), "trajectory-%u", i);
        fill_turns(r, &s, o->n_turns[i], o->total_tok[i], o->first_tok[i], p->gen_share,
                   t->turns + turn);
        turn += o->n_turns[i];
    }
    for (uint64_t i = 0; i < t->n_turns; i++) {
        t->file_order[i] = i;
    }
    scratch_done(&s);
    rng_free(r);
    return r ? rc : -ENOMEM;
}

static void hash_u32(struct sha256_ctx *ctx, uint32_t v)
{
    const uint8_t bytes[4] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16),
                              (uint8_t)(v >> 24)};
    sha256_update(ctx, sizeof(bytes), bytes);
}

/* Of each session the number of turns, then every prompt and gen; 32 bits, low byte first. */
static void hash_trace(struct trace *t)
{
    struct sha256_ctx ctx;
    sha256_init(&ctx);
    for (uint32_t i = 0; i < t->n_sessions; i++) {
        const struct trace_session *s = &t->sessions[i];
        hash_u32(&ctx, s->n_turns);
        for (uint32_t k = 0; k < s->n_turns; k++) {
            hash_u32(&ctx, t->turns[s->first_turn + k].prompt_tok);
            hash_u32(&ctx, t->turns[s->first_turn + k].gen_tok);
        }
    }
    uint8_t digest[SHA256_DIGEST_SIZE];
    sha256_digest(&ctx, sizeof(digest), digest);
    for (size_t i = 0; i < sizeof(digest); i++) {
        snprintf(t->sha256 + 2 * i, 3, "%02x", digest[i]);
    }
}

int generator_make(uint64_t max_len_tok, uint32_t n_trajectories, uint64_t seed,
                   struct trace *ret_trace, struct err *err)
{
    struct generator_params p;
    int rc = generator_params(max_len_tok, &p, err);
    if (rc) {
        return rc;
    }
    if (n_trajectories < 1) {
        return err_set(err, -EINVAL, "found 0 trajectories, expected 1 or more");
    }
    struct outline o = {NULL, NULL, NULL};
    struct trace t = {0};
    rc = draw_outline(&p, max_len_tok, n_trajectories, seed, &o);
    if (rc == 0) {
        rc = alloc_trace(&t, &o, n_trajectories);
    }
    if (rc == 0) {
        rc = fill_trace(&t, &o, &p, seed);
    }
    outline_done(&o);
    if (rc) {
        trace_done(&t);
        return err_nomem(err);
    }
    hash_trace(&t);
    *ret_trace = t;
    return 0;
}
