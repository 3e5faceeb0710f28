/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "plan/capacity.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TRIES    8u
#define OWN_SETS     3u
#define SETTING_SIZE 64

/* One load to try. */
struct attempt {
    unsigned steps; /* load in steps */
    const char **sets;
    char texts[OWN_SETS][SETTING_SIZE];
    struct run_outcome outcome;
};

struct search {
    const struct run_job *base;
    const struct capacity_options *options;
    struct scenario scenario; /* for its SLO */
    struct attempt attempts[MAX_TRIES];
    unsigned good, bad; /* steps known to meet the SLO, and not to; bad 0: none known */
    struct capacity found;
    struct err *err;
};

static int attempt_init(const struct search *s, struct attempt *a, unsigned steps)
{
    double aps = steps * s->options->step_aps;
    const struct run_job *b = s->base;
    const char **sets = realloc(a->sets, (b->n_sets + OWN_SETS) * sizeof(*sets));
    if (!sets) {
        return err_nomem(s->err);
    }
    *a = (struct attempt){.steps = steps, .sets = sets};
    snprintf(a->texts[0], SETTING_SIZE, "workload.arrival.kind=poisson");
    snprintf(a->texts[1], SETTING_SIZE, "workload.arrival.aps=%.9g", aps);
    snprintf(a->texts[2], SETTING_SIZE, "workload.agents=%.0f", ceil(aps * s->options->span_s));
    memcpy(sets, b->sets, b->n_sets * sizeof(*sets));
    for (unsigned i = 0; i < OWN_SETS; i++) {
        sets[b->n_sets + i] = a->texts[i];
    }
    return 0;
}

static bool meets(const struct search *s, const struct attempt *a)
{
    const struct run_steady *steady = &a->outcome.steady;
    bool settled = s->base->until_steady ? steady->reached : !a->outcome.result.unstable;
    return a->outcome.err.code == 0 && settled && steady->ttft_s <= s->scenario.slo.ttft_s &&
           steady->tpot_s <= s->scenario.slo.tpot_s;
}

/* Results of a round, from the lowest load up. */
static int judge(struct search *s, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct attempt *a = &s->attempts[i];
        if (a->outcome.err.code) {
            *s->err = a->outcome.err;
            return s->err->code;
        }
        if (!meets(s, a)) {
            s->bad = a->steps;
            return 0;
        }
        s->good = a->steps;
        s->found.aps = a->steps * s->options->step_aps;
        s->found.steady = a->outcome.steady;
    }
    return 0;
}

static int run_round(struct search *s, const unsigned *steps, unsigned n)
{
    struct run_job jobs[MAX_TRIES];
    struct run_outcome *outcomes = calloc(n, sizeof(*outcomes));
    int rc = outcomes ? 0 : err_nomem(s->err);
    for (unsigned i = 0; rc == 0 && i < n; i++) {
        rc = attempt_init(s, &s->attempts[i], steps[i]);
        jobs[i] = (struct run_job){s->base->scenario, s->attempts[i].sets,
                                   s->base->n_sets + OWN_SETS, s->base->until_steady};
    }
    rc = rc ? rc : runs_execute(jobs, n, &s->options->runs, outcomes, s->err);
    for (unsigned i = 0; rc == 0 && i < n; i++) {
        s->attempts[i].outcome = outcomes[i];
    }
    free(outcomes);
    s->found.n_runs += n;
    return rc ? rc : judge(s, n);
}

/* Doubling until a load fails, then the gap is divided evenly among the workers. */
static unsigned choose(const struct search *s, unsigned most, unsigned *ret_steps)
{
    unsigned workers = s->options->runs.workers, n = 0;
    workers = workers < MAX_TRIES ? workers : MAX_TRIES;
    if (s->bad == 0) {
        unsigned first = (unsigned)lround(s->options->first_aps / s->options->step_aps);
        unsigned next = s->good ? 2 * s->good : first > 0 ? first : 1;
        for (; n < workers && s->good < most && (n == 0 || ret_steps[n - 1] < most); n++) {
            ret_steps[n] = next < most ? next : most;
            next *= 2;
        }
        return n;
    }
    unsigned gap = s->bad - s->good;
    for (unsigned i = 1; i <= workers && gap > 1; i++) {
        unsigned at = s->good + (gap * i + workers / 2) / (workers + 1);
        if (at > s->good && at < s->bad && (n == 0 || at > ret_steps[n - 1])) {
            ret_steps[n++] = at;
        }
    }
    return n;
}

int capacity_search(const struct run_job *base, const struct capacity_options *options,
                    struct capacity *ret, struct err *err)
{
    struct search *s = calloc(1, sizeof(*s));
    struct scenario_notes notes;
    if (!s) {
        return err_nomem(err);
    }
    s->base = base;
    s->options = options;
    s->err = err;
    int rc = scenario_read(base->scenario, base->sets, base->n_sets, &s->scenario, &notes, err);
    if (rc == 0) {
        scenario_notes_done(&notes);
    }
    unsigned most = (unsigned)lround(options->most_aps / options->step_aps);
    unsigned steps[MAX_TRIES], n;
    while (rc == 0 && (n = choose(s, most, steps)) > 0) {
        rc = run_round(s, steps, n);
    }
    s->found.at_most = s->good == most;
    if (rc == 0) {
        *ret = s->found;
    }
    for (unsigned i = 0; i < MAX_TRIES; i++) {
        free(s->attempts[i].sets);
    }
    free(s);
    return rc;
}
