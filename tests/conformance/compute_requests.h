/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Forwards and sequences for the cases in compute.c: engines of node 0 prefill, those of node 1
 * decode. */
#ifndef DUALPATH_TESTS_COMPUTE_REQUESTS_H
#define DUALPATH_TESTS_COMPUTE_REQUESTS_H

#include "compute_world.h"

struct fwd {
    struct compute_forward f;
    struct world *w;
    struct compute_item items[3];
    uint32_t n_done, n_progress;
    uint32_t seen[WORLD_LAYERS + 1]; /* layers_done at each progress() */
    uint32_t step;                   /* by which notify_at is raised */
    struct fwd *feeds;               /* gets its next layer when this one has done one */
};

/* A forward of prefill engine (0, rank) with n_items items in spans of their own, fed in full. */
void fwd_init(struct fwd *x, struct world *w, uint32_t rank, uint32_t n_items);

/* What the data path would bring: the KV of the cached tokens. */
void fwd_bring_cached(struct fwd *x, uint32_t layer);
void fwd_bring_all_cached(struct fwd *x);

int fwd_submit(struct fwd *x);
void fwd_check_done_well(const struct fwd *x);

struct seq {
    struct compute_sequence s;
    struct world *w;
    uint32_t total, n_notified, last_steps;
    uint32_t marks[4]; /* values of notify_at, then total */
    uint32_t n_marks;
    struct seq *then; /* joins when this one gets its first notice */
};

/* A sequence of decode engine gpu whose KV is in place; marks at the first, fifth and last token.
 */
void seq_init(struct seq *q, struct world *w, uint32_t gpu, uint32_t span, uint32_t context,
              uint32_t total);
void seq_notify(struct compute_sequence *s);
void seq_join(struct seq *q);
void seq_check(const struct seq *q);

#endif
