/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "report/metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

#define FIRST_INTERVAL_NS (10 * NS_PER_MS)

static void integrate_in_system(struct metrics *m)
{
    uint64_t now = loop_now_ns(m->loop);
    m->in_system_integral_s += (double)m->in_system * (double)(now - m->in_system_since_ns) * 1e-9;
    m->in_system_since_ns = now;
}

/* The arrays of the samples stay where they are, so a sample that moves takes the values, not the
 * arrays. */
static void copy_sample(struct metrics *m, uint32_t to, uint32_t from)
{
    struct metrics_sample *d = &m->samples[to];
    double *snic = d->snic_bytes;
    *d = m->samples[from];
    memcpy(snic, d->snic_bytes, m->config.n_nodes * sizeof(double));
    d->snic_bytes = snic;
}

static void thin_out(struct metrics *m)
{
    for (uint32_t i = 1; i < m->n_samples / 2; i++) {
        copy_sample(m, i, 2 * i);
    }
    m->n_samples /= 2;
    m->interval_ns *= 2;
}

static double sum_s(const struct hist *h)
{
    return hist_mean_s(h) * (double)h->count;
}

/* The window that is over by now; a sample and a window that end together may come in any order. */
static void end_window(struct metrics *m)
{
    if (loop_now_ns(m->loop) - m->origin_ns >= m->window_end_ns) {
        m->probe.read(m->probe.self, &m->window);
        balance_window(&m->balance, m->window.snic_bytes);
        m->window_end_ns += m->config.balance_window_ns;
    }
}

static void window_over(struct loop_timer *t)
{
    struct metrics *m = container_of(t, struct metrics, window_timer);
    end_window(m);
    loop_arm(m->loop, t, m->origin_ns + m->window_end_ns);
}

static void take_sample(struct metrics *m)
{
    end_window(m);
    if (m->n_samples == METRICS_MAX_SAMPLES) {
        thin_out(m);
    }
    integrate_in_system(m);
    struct metrics_sample *s = &m->samples[m->n_samples++];
    s->t_ns = loop_now_ns(m->loop) - m->origin_ns;
    s->arrived = m->arrived;
    s->over = m->requests;
    s->in_system_s = m->in_system_integral_s;
    s->latency_s = m->latency_s;
    s->sched_s = m->sched_s;
    s->alloc_s = m->alloc_s;
    s->read_s = m->read_s;
    s->prefill_s = m->prefill_s;
    s->queue_s = m->queue_s;
    s->context_tok_s = m->context_tok_s;
    s->ttft_s = sum_s(&m->ttft);
    s->ttst_s = sum_s(&m->ttst);
    s->tpot_s = sum_s(&m->tpot);
    s->agent_jct_s = sum_s(&m->agent_jct);
    s->n_ttst = m->ttst.count;
    s->n_tpot = m->tpot.count;
    s->prompt_tok = m->prompt_tok;
    s->agents_over = m->agents;
    s->balance = m->balance.sums;
    s->total_tok = m->total_tok;
    m->probe.read(m->probe.self, s);
}

static void sample(struct loop_timer *t)
{
    struct metrics *m = container_of(t, struct metrics, timer);
    take_sample(m);
    loop_arm(m->loop, t, loop_now_ns(m->loop) + m->interval_ns);
}

static int allocate(struct metrics *m)
{
    const struct metrics_config *c = &m->config;
    m->samples = calloc(METRICS_MAX_SAMPLES, sizeof(*m->samples));
    m->memory = calloc((METRICS_MAX_SAMPLES + 1) * (size_t)c->n_nodes, sizeof(*m->memory));
    if (!m->samples || !m->memory || hist_init(&m->ttft) || hist_init(&m->ttst) ||
        hist_init(&m->tpot) || hist_init(&m->agent_jct) ||
        balance_init(&m->balance, c->n_prefill_nodes, c->n_nodes)) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i <= METRICS_MAX_SAMPLES; i++) {
        struct metrics_sample *s = i < METRICS_MAX_SAMPLES ? &m->samples[i] : &m->window;
        s->snic_bytes = m->memory + i * (size_t)c->n_nodes;
    }
    return 0;
}

int metrics_init(struct metrics *m, struct loop *loop, const struct metrics_probe *probe,
                 const struct metrics_config *config)
{
    *m = (struct metrics){.loop = loop,
                          .origin_ns = loop_now_ns(loop),
                          .in_system_since_ns = loop_now_ns(loop),
                          .probe = *probe,
                          .config = *config,
                          .interval_ns = FIRST_INTERVAL_NS,
                          .window_end_ns = config->balance_window_ns};
    if (allocate(m)) {
        metrics_done(m);
        return -ENOMEM;
    }
    loop_timer_init(&m->timer, sample);
    loop_timer_init(&m->window_timer, window_over);
    loop_post(loop, &m->timer);
    loop_arm(loop, &m->window_timer, m->origin_ns + m->window_end_ns);
    return 0;
}

void metrics_done(struct metrics *m)
{
    hist_done(&m->ttft);
    hist_done(&m->ttst);
    hist_done(&m->tpot);
    hist_done(&m->agent_jct);
    balance_done(&m->balance);
    free(m->samples);
    free(m->memory);
    m->samples = NULL;
    m->memory = NULL;
}

void metrics_turn_arrived(struct metrics *m)
{
    integrate_in_system(m);
    m->in_system++;
    if (m->arrived++ == 0) {
        m->first_arrival_ns = loop_now_ns(m->loop) - m->origin_ns;
    }
}

void metrics_turn_over(struct metrics *m, const struct metrics_turn *t)
{
    integrate_in_system(m);
    m->in_system--;
    m->requests++;
    m->prompt_tok += t->prompt_tok;
    m->hit_tok += t->hit_tok;
    m->gen_tok += t->gen_tok;
    hist_add(&m->ttft, t->first_ns - t->arrival_ns);
    if (t->gen_tok >= 2) {
        hist_add(&m->ttst, t->second_ns - t->first_ns);
    }
    if (t->gen_tok >= 3) {
        hist_add(&m->tpot, (t->last_ns - t->second_ns) / (t->gen_tok - 2));
    }
    m->sched_s += (double)t->sched_ns * 1e-9;
    m->alloc_s += (double)t->alloc_ns * 1e-9;
    m->read_s += (double)t->read_ns * 1e-9;
    m->prefill_s += (double)t->prefill_ns * 1e-9;
    m->queue_s += (double)t->queue_ns * 1e-9;
    m->latency_s += (double)(t->last_ns - t->arrival_ns) * 1e-9;
    m->context_tok_s += (double)t->prompt_tok * (double)(t->last_ns - t->since_ns) * 1e-9;
    uint64_t end_ns = t->last_ns - m->origin_ns;
    m->last_end_ns = end_ns > m->last_end_ns ? end_ns : m->last_end_ns;
}

void metrics_agent_over(struct metrics *m, uint64_t arrival_ns, uint64_t end_ns, uint64_t total_tok)
{
    m->agents++;
    m->total_tok += total_tok;
    hist_add(&m->agent_jct, end_ns - arrival_ns);
}

/* At the end */

static struct result_distribution distribution(const struct hist *h)
{
    return (struct result_distribution){.mean = hist_mean_s(h),
                                        .p50 = hist_quantile_s(h, 0.50),
                                        .p90 = hist_quantile_s(h, 0.90),
                                        .p99 = hist_quantile_s(h, 0.99),
                                        .max = hist_max_s(h)};
}

/* The first sample at which at least frac of the requests were over. */
static uint32_t sample_at(const struct metrics *m, double frac)
{
    uint32_t i = 0;
    while (i + 1 < m->n_samples && (double)m->samples[i].over < frac * (double)m->requests) {
        i++;
    }
    return i;
}

static double max_avg_or(double mean, double otherwise)
{
    return mean > 0 ? mean : otherwise;
}

/* A steady part without a window that ends in it is one window itself. */
static void add_balance(const struct metrics *m, uint32_t a, uint32_t b, struct result *ret)
{
    const struct metrics_config *c = &m->config;
    const struct metrics_sample *s = &m->samples[a], *t = &m->samples[b];
    uint32_t p = c->n_prefill_nodes;
    const struct {
        double *ret, whole;
    } sets[BALANCE_N_SETS] = {
        [BALANCE_SNIC] = {&ret->snic_max_avg,
                          balance_max_avg(s->snic_bytes, t->snic_bytes, c->n_nodes)},
        [BALANCE_PE_SNIC] = {&ret->pe_snic_max_avg,
                             balance_max_avg(s->snic_bytes, t->snic_bytes, p)},
        [BALANCE_DE_SNIC] = {&ret->de_snic_max_avg,
                             balance_max_avg(s->snic_bytes + p, t->snic_bytes + p, c->n_nodes - p)},
    };
    for (unsigned i = 0; i < BALANCE_N_SETS; i++) {
        *sets[i].ret =
            max_avg_or(metrics_max_avg(m, a, b, (enum balance_set)i), max_avg_or(sets[i].whole, 1));
    }
    ret->attention_max_avg = max_avg_or(metrics_attention_max_avg(m, a, b), 1);
}

static void steady_part(const struct metrics *m, uint32_t a, uint32_t b, struct result *ret)
{
    const struct metrics_sample *s = &m->samples[a], *t = &m->samples[b];
    double span_s = (double)(t->t_ns - s->t_ns) * 1e-9;
    ret->steady_start_s = (double)s->t_ns * 1e-9;
    ret->steady_end_s = (double)t->t_ns * 1e-9;
    if (span_s <= 0) {
        return;
    }
    uint64_t over = t->over - s->over;
    ret->steady_in_system = (t->in_system_s - s->in_system_s) / span_s;
    ret->steady_arrivals_per_s = (double)(t->arrived - s->arrived) / span_s;
    ret->steady_latency_s = over ? (t->latency_s - s->latency_s) / (double)over : 0;
    for (unsigned r = 0; r < RESULT_N_RESOURCES; r++) {
        ret->utilization[r] = (t->used_s[r] - s->used_s[r]) / span_s;
        if (ret->utilization[r] > ret->utilization[ret->bottleneck]) {
            ret->bottleneck = (enum result_resource)r;
        }
    }
    ret->bottleneck_frac = ret->utilization[ret->bottleneck];
}

static double in_system_at(const struct metrics *m, uint32_t i)
{
    return (double)m->samples[i].arrived - (double)m->samples[i].over;
}

struct metrics_working_set metrics_working_set(const struct metrics *m, uint32_t a, uint32_t b)
{
    const struct metrics_sample *s = &m->samples[a], *t = &m->samples[b];
    double span_s = (double)(t->t_ns - s->t_ns) * 1e-9;
    double agents = (double)(t->agents_over - s->agents_over);
    struct metrics_working_set w = {0};
    if (span_s > 0) {
        w.simulated_tok = (t->context_tok_s - s->context_tok_s) / span_s;
    }
    if (span_s > 0 && agents > 0) {
        /* lambda T: the agents' time in the system, all together, over the span. */
        double in_system = (t->agent_jct_s - s->agent_jct_s) / span_s;
        w.model_tok = in_system * (double)(t->total_tok - s->total_tok) / agents / 2;
    }
    return w;
}

double metrics_mean_ttft_s(const struct metrics *m, uint32_t a, uint32_t b)
{
    uint64_t n = m->samples[b].over - m->samples[a].over;
    return n ? (m->samples[b].ttft_s - m->samples[a].ttft_s) / (double)n : 0;
}

/* Least-squares slope of the backlog over samples a..b and its standard error. */
static void backlog_slope(const struct metrics *m, uint32_t a, uint32_t b, double *ret_slope,
                          double *ret_error)
{
    double n = b - a + 1, st = 0, sy = 0, stt = 0, sty = 0, syy = 0;
    for (uint32_t i = a; i <= b; i++) {
        double t = (double)(m->samples[i].t_ns - m->samples[a].t_ns) * 1e-9, y = in_system_at(m, i);
        st += t;
        sy += y;
        stt += t * t;
        sty += t * y;
        syy += y * y;
    }
    double var = stt - st * st / n;
    *ret_slope = var > 0 ? (sty - st * sy / n) / var : 0;
    double residual = syy - sy * sy / n - *ret_slope * *ret_slope * var;
    *ret_error = var > 0 && n > 2 ? sqrt(fmax(residual, 0) / (n - 2) / var) : INFINITY;
}

/*
 * Unstable: over the second half of the arrivals the backlog grew significantly (slope above four
 * standard errors, by a quarter of its mean and by ten requests), and requests that finished in the
 * last quarter had waited a quarter longer for their first token than those in the quarter before.
 * A backlog that grows in proportion to time makes the ratio of these waits 7/5 and its own growth
 * 2/3 of its mean; one that has settled makes them 1 and 0.
 */
static void find_instability(const struct metrics *m, uint64_t last_arrival_ns, struct result *ret)
{
    uint32_t end = 0;
    while (end + 1 < m->n_samples && m->samples[end + 1].t_ns <= last_arrival_ns) {
        end++;
    }
    uint32_t half = end / 2, three_quarters = end / 2 + end / 4;
    if (end < 16) {
        return;
    }
    double error, sum = 0;
    backlog_slope(m, half, end, &ret->backlog_slope_per_s, &error);
    for (uint32_t i = half; i <= end; i++) {
        sum += in_system_at(m, i);
    }
    double grown =
        ret->backlog_slope_per_s * (double)(m->samples[end].t_ns - m->samples[half].t_ns) * 1e-9;
    double mean = sum / (end - half + 1);
    bool grows = ret->backlog_slope_per_s > 4 * error && grown > 0.25 * mean && grown > 10;
    double before = metrics_mean_ttft_s(m, half, three_quarters);
    double after = metrics_mean_ttft_s(m, three_quarters, end);
    ret->unstable = grows && after > 1.25 * before;
}

void metrics_finish(struct metrics *m, uint64_t last_arrival_ns, struct result *ret)
{
    loop_disarm(m->loop, &m->timer);
    loop_disarm(m->loop, &m->window_timer);
    take_sample(m);
    double n = m->requests ? (double)m->requests : 1;
    ret->jct_s = m->requests ? (double)(m->last_end_ns - m->first_arrival_ns) * 1e-9 : 0;
    ret->agents = m->agents;
    ret->requests = m->requests;
    ret->prompt_tok = m->prompt_tok;
    ret->hit_tok = m->hit_tok;
    ret->miss_tok = m->prompt_tok - m->hit_tok;
    ret->generated_tok = m->gen_tok;
    ret->hit_ratio = m->prompt_tok ? (double)m->hit_tok / (double)m->prompt_tok : 0;
    ret->ttft_s = distribution(&m->ttft);
    ret->ttst_s = distribution(&m->ttst);
    ret->tpot_s = distribution(&m->tpot);
    ret->agent_jct_s = distribution(&m->agent_jct);
    ret->sched_s = m->sched_s / n;
    ret->alloc_s = m->alloc_s / n;
    ret->read_s = m->read_s / n;
    ret->prefill_s = m->prefill_s / n;
    ret->prefill_queue_s = m->queue_s / n;
    double jct_s = ret->jct_s > 0 ? ret->jct_s : 1;
    ret->prompt_tok_per_s = (double)m->prompt_tok / jct_s;
    ret->generated_tok_per_s = (double)m->gen_tok / jct_s;
    ret->agents_per_s = (double)m->agents / jct_s;
    const struct metrics_sample *last = &m->samples[m->n_samples - 1];
    double run_s = (double)(last->t_ns - m->first_arrival_ns) * 1e-9; /* before, nothing was used */
    for (unsigned r = 0; r < RESULT_N_RESOURCES; r++) {
        ret->utilization_run[r] = run_s > 0 ? last->used_s[r] / run_s : 0;
    }
    uint32_t a = sample_at(m, 0.1), b = sample_at(m, 0.8);
    if (a == b) {
        a = 0; /* too short to have a steady part: all of it */
        b = m->n_samples - 1;
    }
    steady_part(m, a, b, ret);
    add_balance(m, a, b, ret);
    find_instability(m, last_arrival_ns, ret);
}

double metrics_max_avg(const struct metrics *m, uint32_t a, uint32_t b, enum balance_set set)
{
    return balance_mean(&m->samples[a].balance, &m->samples[b].balance, set);
}

double metrics_attention_max_avg(const struct metrics *m, uint32_t a, uint32_t b)
{
    const struct metrics_sample *s = &m->samples[a], *t = &m->samples[b];
    double span_s = t->forward_s - s->forward_s;
    return span_s > 0 ? (t->forward_max_avg_s - s->forward_max_avg_s) / span_s : 0;
}

int metrics_write_series(const struct metrics *m, FILE *out)
{
    fprintf(out, "t_s,requests_in_system,requests_per_s,prompt_tok_per_s,ttft_s,agents_over,"
                 "snic_max_avg,attention_max_avg");
    for (unsigned r = 0; r < RESULT_N_RESOURCES; r++) {
        fprintf(out, ",%s_frac", result_resource_name((enum result_resource)r));
    }
    fprintf(out, "\n");
    double snic = 0, attention = 0;
    for (uint32_t i = 1; i < m->n_samples; i++) {
        const struct metrics_sample *s = &m->samples[i - 1], *t = &m->samples[i];
        double span_s = (double)(t->t_ns - s->t_ns) * 1e-9;
        /* Where no window or forward ended, what was before. */
        snic = max_avg_or(metrics_max_avg(m, i - 1, i, BALANCE_SNIC), snic);
        attention = max_avg_or(metrics_attention_max_avg(m, i - 1, i), attention);
        if (span_s <= 0) {
            continue;
        }
        fprintf(out, "%.9g,%.9g,%.9g,%.9g,%.9g,%" PRIu64 ",%.6g,%.6g", (double)t->t_ns * 1e-9,
                in_system_at(m, i), (double)(t->over - s->over) / span_s,
                (double)(t->prompt_tok - s->prompt_tok) / span_s, metrics_mean_ttft_s(m, i - 1, i),
                t->agents_over, snic, attention);
        for (unsigned r = 0; r < RESULT_N_RESOURCES; r++) {
            fprintf(out, ",%.6g", (t->used_s[r] - s->used_s[r]) / span_s);
        }
        fprintf(out, "\n");
    }
    return ferror(out) ? -EIO : 0;
}
