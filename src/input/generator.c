/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "input/generator.h"

#include <errno.h>
#include <math.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

#define EARLY_SHARE     0.12
#define EARLY_TURNS_MAX 0.35 /* of the mean number of turns */
#define TURNS_SIGMA     0.4
#define EARLY_SPREAD    0.2
#define GEN_SHARE_SIGMA 0.97
#define APPEND_SIGMA    1.5
#define BURST_TURNS     10.0
/* Lengths as uneven as these, divided by their sum, are more alike than their means are: without
 * this factor, sets come out 1.3 to 2.2 % short of the table's mean context. */
#define BURST_FLATTENED 1.013
#define GEN_SIGMA       0.8

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

/* P(N = n) of a trajectory that ends early: ln N uniform on [0, ln most], rounded. */
static double early_probability(double most, uint32_t n)
{
    double low = fmax(n - 0.5, 1), high = fmin(n + 0.5, most);
    return high > low ? log(high / low) / log(most) : 0;
}

/* The share of their sum that the lengths of n turns have reached by turn i: a burst that dies
 * away, and as much with each turn. */
static double growth(double i, double n, double burst)
{
    double whole = burst * (1 - exp(-n / BURST_TURNS)) + (1 - burst);
    return (burst * (1 - exp(-i / BURST_TURNS)) + (1 - burst) * i / n) / whole;
}

/* Mean prompt of a trajectory of n turns over its total. */
static double context_share(const struct generator_params *p, uint32_t n, double burst)
{
    double appends = 0;
    for (uint32_t i = 1; i <= n; i++) {
        appends += growth(i, n, burst) / n;
    }
    return (1 - p->gen_share) * appends + p->gen_share * (0.5 - 0.5 / n);
}

static double mean_context(const struct generator_params *p, double burst)
{
    double early = 0, share = p->early_share;
    for (uint32_t n = 1; n <= p->early_turns_max + 1; n++) {
        early += early_probability(p->early_turns_max, n) * context_share(p, n, burst);
    }
    return share * p->early_total_tok * early +
           (1 - share) * p->late_total_tok *
               context_share(p, (uint32_t)lround(p->late_turns), burst);
}

/* The burst that gives the table's mean context, which grows with it; from 32K to 64K there is one.
 */
static double solve_burst(const struct generator_params *p)
{
    double low = 0, high = 1;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        *(mean_context(p, middle) < BURST_FLATTENED * p->context_tok ? &low : &high) = middle;
    }
    return low;
}

static void derive(struct generator_params *p)
{
    double early_turns = 0, early_inverse = 0, q = p->early_share;
    double per_turn = p->append_tok + p->gen_tok;
    p->early_turns_max = EARLY_TURNS_MAX * p->turns;
    for (uint32_t n = 1; n <= p->early_turns_max + 1; n++) {
        early_turns += early_probability(p->early_turns_max, n) * n;
        early_inverse += early_probability(p->early_turns_max, n) / n;
    }
    p->late_turns = (p->turns - q * early_turns) / (1 - q);
    double late_inverse = exp(p->turns_sigma * p->turns_sigma) / p->late_turns;
    p->early_total_tok =
        (per_turn - late_inverse * p->total_tok) / (q * (early_inverse - late_inverse));
    p->late_total_tok = (p->total_tok - q * p->early_total_tok) / (1 - q);
    p->gen_share = p->gen_tok / per_turn;
    p->append_burst = solve_burst(p);
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
        .early_share = EARLY_SHARE,
        .turns_sigma = TURNS_SIGMA,
    };
    derive(&p);
    *ret_params = p;
    return 0;
}

/* What is drawn for each trajectory before its turns are. */
struct outline {
    uint32_t *n_turns, *total_tok; /* [n] */
    double *gen_share;             /* [n] */
};

static void shuffle_shares(struct rng *r, double *values, uint32_t n)
{
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = (uint32_t)rng_below(r, i);
        double v = values[i - 1];
        values[i - 1] = values[j];
        values[j] = v;
    }
}

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

/* The first n_early of n trajectories end early. */
static int draw_turns(const struct generator_params *p, uint64_t seed, uint32_t n_early, uint32_t n,
                      uint32_t *values)
{
    struct rng *r = rng_new(seed, "generator.turns");
    if (!r) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < n_early; i++) {
        double u = ((double)i + rng_uniform(r)) / n_early;
        values[i] = (uint32_t)lround(exp(u * log(p->early_turns_max)));
    }
    double median = p->late_turns * exp(-p->turns_sigma * p->turns_sigma / 2);
    for (uint32_t i = n_early; i < n; i++) {
        double z = stratum_normal(r, i - n_early, n - n_early);
        values[i] = (uint32_t)lround(median * exp(p->turns_sigma * z));
    }
    rng_free(r);
    return 0;
}

/* Uniform on [low, high], in slices, shuffled. */
static void draw_uniform(struct rng *r, double low, double high, uint32_t *values, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        double v = low + (high - low) * (((double)i + rng_uniform(r)) / n);
        values[i] = (uint32_t)lround(v);
    }
    shuffle(r, values, n);
}

static int draw_totals(const struct generator_params *p, uint64_t max_len_tok, uint64_t seed,
                       uint32_t n_early, uint32_t n, uint32_t *values)
{
    struct rng *r = rng_new(seed, "generator.total");
    if (!r) {
        return -ENOMEM;
    }
    double early = p->early_total_tok, max = (double)max_len_tok;
    draw_uniform(r, early * (1 - EARLY_SPREAD), early * (1 + EARLY_SPREAD), values, n_early);
    draw_uniform(r, 2 * p->late_total_tok - max, max, values + n_early, n - n_early);
    rng_free(r);
    return 0;
}

/* Share of generated tokens: its logit is normal. */
static double gen_share(double centre, double z)
{
    return 1 / (1 + exp(-centre - GEN_SHARE_SIGMA * z));
}

/* The centre at which the shares' mean is the table's. */
static double solve_centre(double mean)
{
    const uint32_t n = 1000;
    double low = -10, high = 10;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2, sum = 0;
        for (uint32_t k = 0; k < n; k++) {
            sum += gen_share(middle, rng_normal_inverse_cdf((k + 0.5) / n));
        }
        *(sum / n < mean ? &low : &high) = middle;
    }
    return low;
}

/* Those that end early have the mean: a few of them make up much of the table's mean of gen. */
static int draw_shares(const struct generator_params *p, uint64_t seed, uint32_t n_early,
                       uint32_t n, double *values)
{
    struct rng *r = rng_new(seed, "generator.share");
    double centre = solve_centre(p->gen_share);
    if (!r) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < n; i++) {
        values[i] = i < n_early ? p->gen_share
                                : gen_share(centre, stratum_normal(r, i - n_early, n - n_early));
    }
    shuffle_shares(r, values + n_early, n - n_early);
    rng_free(r);
    return 0;
}

/* The same random order for all arrays. */
static int mix_order(uint64_t seed, struct outline *o, uint32_t n)
{
    struct rng *r = rng_new(seed, "generator.order");
    if (!r) {
        return -ENOMEM;
    }
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = (uint32_t)rng_below(r, i);
        uint32_t turns = o->n_turns[i - 1], total = o->total_tok[i - 1];
        double share = o->gen_share[i - 1];
        o->n_turns[i - 1] = o->n_turns[j];
        o->total_tok[i - 1] = o->total_tok[j];
        o->gen_share[i - 1] = o->gen_share[j];
        o->gen_share[j] = share;
        o->n_turns[j] = turns;
        o->total_tok[j] = total;
    }
    rng_free(r);
    return 0;
}

static int draw_outline(const struct generator_params *p, uint64_t max_len_tok, uint32_t n,
                        uint64_t seed, struct outline *o)
{
    uint32_t n_early = (uint32_t)lround(p->early_share * n);
    o->n_turns = calloc(n, sizeof(*o->n_turns));
    o->total_tok = calloc(n, sizeof(*o->total_tok));
    o->gen_share = calloc(n, sizeof(*o->gen_share));
    if (!o->n_turns || !o->total_tok || !o->gen_share) {
        return -ENOMEM;
    }
    int rc = draw_turns(p, seed, n_early, n, o->n_turns);
    rc = rc ? rc : draw_totals(p, max_len_tok, seed, n_early, n, o->total_tok);
    rc = rc ? rc : draw_shares(p, seed, n_early, n, o->gen_share);
    return rc ? rc : mix_order(seed, o, n);
}

static void outline_done(struct outline *o)
{
    free(o->n_turns);
    free(o->total_tok);
    free(o->gen_share);
}

/*
 * Splits sum into n lengths >= 1 with lognormal weights around a running sum as growth() has it;
 * weights is scratch for n values. Rounding the running sum, not each length, makes the lengths add
 * up exactly. sum >= n, because N is cut at four sigma.
 */
static void split(struct rng *r, uint32_t sum, uint32_t n, double burst, double sigma,
                  double *weights, uint32_t *ret_lengths)
{
    double all = 0, grown = 0;
    for (uint32_t i = 0; i < n; i++) {
        double upto = growth(i + 1.0, n, burst);
        weights[i] = (upto - grown) * rng_lognormal(r, 1, sigma);
        all += weights[i];
        grown = upto;
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
                       double share, double burst, struct trace_turn *turns)
{
    /* Every turn appends and generates something. */
    double least = n_turns, most = (double)total_tok - n_turns;
    uint32_t gen = (uint32_t)lround(fmin(fmax(share * total_tok, least), most));
    split(r, total_tok - gen, n_turns, burst, APPEND_SIGMA, s->weights, s->append);
    split(r, gen, n_turns, 0, GEN_SIGMA, s->weights, s->gen);
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
        fill_turns(r, &s, o->n_turns[i], o->total_tok[i], o->gen_share[i], p->append_burst,
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
