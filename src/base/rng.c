/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/rng.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_randist.h>
#include <gsl/gsl_rng.h>
#include <math.h>
#include <stdlib.h>

#include "base/hash.h"

struct rng {
    gsl_rng *gsl;
};

struct rng *rng_new(uint64_t seed, const char *name)
{
    struct rng *r = calloc(1, sizeof(*r));
    if (!r) {
        return NULL;
    }
    r->gsl = gsl_rng_alloc(gsl_rng_mt19937);
    if (!r->gsl) {
        free(r);
        return NULL;
    }
    /* MT19937 takes 32 bits of seed: fold the mixed (seed, name) into them; 0 would mean "default".
     */
    uint64_t h = hash_mix64(seed ^ hash_string64(name));
    unsigned long folded = (unsigned long)((h ^ (h >> 32)) & 0xffffffffu);
    gsl_rng_set(r->gsl, folded ? folded : 1);
    return r;
}

void rng_free(struct rng *r)
{
    if (r) {
        gsl_rng_free(r->gsl);
        free(r);
    }
}

double rng_uniform(struct rng *r)
{
    return gsl_rng_uniform_pos(r->gsl);
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
    return gsl_rng_uniform_int(r->gsl, (unsigned long)n);
}

double rng_exponential(struct rng *r, double mean)
{
    return gsl_ran_exponential(r->gsl, mean);
}

double rng_lognormal(struct rng *r, double median, double sigma)
{
    return gsl_ran_lognormal(r->gsl, log(median), sigma);
}

double rng_normal_inverse_cdf(double p)
{
    return gsl_cdf_ugaussian_Pinv(p);
}
