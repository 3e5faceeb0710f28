/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "plan/run_steady.h"

#include <math.h>

#define WINDOW_S  150.0
#define BACK_S    1800.0
#define SAME_FRAC 0.05

static double at_s(const struct metrics *m, uint32_t i)
{
    return (double)m->samples[i].t_ns * 1e-9;
}

/* The first sample at or after t_s. */
static uint32_t sample_from(const struct metrics *m, double t_s)
{
    uint32_t i = 0;
    while (i + 1 < m->n_samples && at_s(m, i) < t_s) {
        i++;
    }
    return i;
}

static double window_ttft_s(const struct metrics *m, double end_s)
{
    return metrics_mean_ttft_s(m, sample_from(m, end_s - WINDOW_S), sample_from(m, end_s));
}

static bool agrees(const struct metrics *m, double end_s)
{
    double before = window_ttft_s(m, end_s - BACK_S), now = window_ttft_s(m, end_s);
    return before > 0 && fabs(now / before - 1) <= SAME_FRAC;
}

/* The start of the earlier of the first two windows that agree; negative if none do. */
static double warm_up_end_s(const struct metrics *m, double last_s)
{
    for (double end_s = BACK_S + WINDOW_S; end_s <= last_s; end_s += WINDOW_S) {
        if (agrees(m, end_s)) {
            return end_s - BACK_S - WINDOW_S;
        }
    }
    return -1;
}

static double mean(double from, double to, double n)
{
    return n > 0 ? (to - from) / n : 0;
}

/* What finished from sample a to b. */
static void set_means(const struct metrics *m, uint32_t a, uint32_t b, struct run_steady *ret)
{
    const struct metrics_sample *s = &m->samples[a], *t = &m->samples[b];
    double over = (double)(t->over - s->over);
    ret->start_s = at_s(m, a);
    ret->end_s = at_s(m, b);
    ret->ttft_s = metrics_mean_ttft_s(m, a, b);
    ret->ttst_s = mean(s->ttst_s, t->ttst_s, (double)(t->n_ttst - s->n_ttst));
    ret->tpot_s = mean(s->tpot_s, t->tpot_s, (double)(t->n_tpot - s->n_tpot));
    ret->sched_s = mean(s->sched_s, t->sched_s, over);
    ret->alloc_s = mean(s->alloc_s, t->alloc_s, over);
    ret->read_s = mean(s->read_s, t->read_s, over);
    ret->prefill_s = mean(s->prefill_s, t->prefill_s, over);
    ret->prefill_queue_s = mean(s->queue_s, t->queue_s, over);
}

static double mean_lifetime_s(const struct metrics_sample *s, const struct metrics_sample *t)
{
    return mean(s->agent_jct_s, t->agent_jct_s, (double)(t->agents_over - s->agents_over));
}

static void set_agents(const struct metrics *m, uint32_t a, uint32_t b, struct run_steady *ret)
{
    const struct metrics_sample *s = &m->samples[a], *t = &m->samples[b];
    ret->agents = mean(s->in_system_s, t->in_system_s, at_s(m, b) - at_s(m, a));
    ret->working_set = metrics_working_set(m, a, b);
}

void run_steady_find(const struct metrics *m, uint64_t last_arrival_ns, struct run_steady *ret)
{
    double last_s = (double)last_arrival_ns * 1e-9;
    double start_s = warm_up_end_s(m, last_s);
    *ret = (struct run_steady){.reached = start_s >= 0};
    uint32_t a = sample_from(m, ret->reached ? start_s : last_s / 2), b = sample_from(m, last_s);
    set_means(m, a, b, ret);
    set_agents(m, a, b, ret);
    ret->agent_jct_s = mean_lifetime_s(&m->samples[a], &m->samples[b]);
}

enum run_course run_course(const struct metrics *m, uint64_t last_arrival_ns, double slo_ttft_s)
{
    if (m->n_samples == 0) {
        return RUN_GOES_ON;
    }
    uint32_t last = m->n_samples - 1;
    double now_s = at_s(m, last);
    if (now_s >= WINDOW_S && window_ttft_s(m, now_s) > slo_ttft_s) {
        return RUN_TOO_SLOW;
    }
    if (now_s >= BACK_S + WINDOW_S && agrees(m, now_s)) {
        return RUN_STEADY;
    }
    return m->samples[last].t_ns >= last_arrival_ns ? RUN_OUT_OF_AGENTS : RUN_GOES_ON;
}

void run_steady_end(const struct metrics *m, enum run_course course, struct run_steady *ret)
{
    uint32_t b = m->n_samples - 1;
    *ret = (struct run_steady){.reached = course == RUN_STEADY};
    set_means(m, sample_from(m, at_s(m, b) - WINDOW_S), b, ret);
    set_agents(m, sample_from(m, at_s(m, b) - BACK_S), b, ret);
    ret->agent_jct_s = mean_lifetime_s(&m->samples[0], &m->samples[b]);
}

size_t run_points(const struct metrics *m, struct run_point *ret_points)
{
    uint32_t last = m->n_samples - 1, step = (last + RUNS_MAX_POINTS - 1) / RUNS_MAX_POINTS;
    size_t n = 0;
    for (uint32_t a = 0, b; a < last; a = b) {
        b = a + step < last ? a + step : last;
        const struct metrics_sample *s = &m->samples[a], *t = &m->samples[b];
        double span_s = (double)(t->t_ns - s->t_ns) * 1e-9;
        if (span_s <= 0) {
            continue;
        }
        ret_points[n++] = (struct run_point){
            .t_s = at_s(m, b),
            .agents = (double)m->agents - (double)t->agents_over,
            .prompt_tok_per_s = (double)(t->prompt_tok - s->prompt_tok) / span_s,
            .ttft_s = metrics_mean_ttft_s(m, a, b),
            .snic_max_avg = metrics_max_avg(m, a, b, BALANCE_SNIC),
            .forward_s = t->forward_s - s->forward_s,
            .forward_max_avg_s = t->forward_max_avg_s - s->forward_max_avg_s,
        };
    }
    return n;
}
