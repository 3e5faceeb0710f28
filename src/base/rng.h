/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Named random streams (GSL, MT19937). A stream is a function of (seed, name) alone, so that adding
 * a component never shifts the numbers of another one. This is the only door to GSL's generators
 * for the simulator; dualpath-node does not link it.
 */
#ifndef DUALPATH_BASE_RNG_H
#define DUALPATH_BASE_RNG_H

#include <stdint.h>

struct rng;

/* A new stream, or NULL when out of memory. Freed with rng_free(). */
struct rng *rng_new(uint64_t seed, const char *name);
void rng_free(struct rng *r);

double rng_uniform(struct rng *r);                                /* in (0, 1) */
uint64_t rng_below(struct rng *r, uint64_t n);                    /* in [0, n), n in 1..2^32-1 */
double rng_exponential(struct rng *r, double mean);               /* mean > 0 */
double rng_lognormal(struct rng *r, double median, double sigma); /* exp(N(ln median, sigma)) */
double rng_normal_inverse_cdf(double p); /* quantile of N(0, 1), p in (0, 1) */

#endif
