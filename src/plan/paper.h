/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The published results of arXiv 2602.21548 beside ours: every row of the targets file, figures
 * that follow from several rows (speed-ups, the ablation's mean reductions, equivalent set-ups, the
 * run at scale), and the bars that the errors have to stay within.
 */
#ifndef DUALPATH_PLAN_PAPER_H
#define DUALPATH_PLAN_PAPER_H

#include <stdio.h>

#include "plan/runs.h"
#include "plan/target.h"

struct paper_row {
    char experiment[32], model[32], metric[48];
    const struct target *target; /* NULL for a figure that follows from others */
    char cell[192];              /* of such a figure: which */
    double published, ours;
    double low, high;              /* over the runs that count */
    unsigned seeds;                /* runs, one with each */
    unsigned n_values, n_unsteady; /* runs that count; that ended above the SLO or nowhere */
    bool fitted;
    struct err err; /* err.code != 0: it could not be computed */
};

/* One thing that must hold. */
struct paper_bar {
    char what[128];
    double value, limit; /* holds while |value| <= limit */
    bool holds;
    /* A bar that is missed: why, and the value that the fast subset must not pass all the same.
     * NULL, 0 for one that has to hold. */
    const char *missed;
    double guard;
};

struct paper_report {
    struct paper_row *rows;
    size_t n_rows;
    struct paper_bar *bars;
    size_t n_bars;
};

struct paper_options {
    const char *only; /* NULL, or one experiment */
    bool fast;        /* the small offline cells with one seed */
    struct runs_options runs;
    void (*searching)(void *arg, const struct target *t); /* NULL, or before a capacity search */
};

/* Relative error of a row, ours / published - 1. */
double paper_error(const struct paper_row *row);

/* Whether the bar holds; of one known to be missed, in the fast subset, whether it is within its
 * guard. */
bool paper_bar_passes(const struct paper_bar *bar, bool fast);

/* Runs everything. Returns 0 with *ret, whose rows point into targets; freed with paper_done(). */
int paper_run(const struct targets *targets, const struct paper_options *options,
              struct paper_report *ret, struct err *err);
void paper_done(struct paper_report *report);

/* The report for a person, as a JSON array, as CSV. 0 or -EIO / -ENOMEM. */
int paper_write_text(const struct paper_report *report, FILE *out);
int paper_write_json(const struct paper_report *report, FILE *out);
int paper_write_csv(const struct paper_report *report, FILE *out);

/* For paper.c: adds the figures that follow from the rows and the bars. 0 or -ENOMEM. */
int paper_derive(struct paper_report *report);
struct paper_row *paper_add_row(struct paper_report *report);

#endif
