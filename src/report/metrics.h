/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Collects a run while it goes: distributions from finished turns, and samples of cumulative
 * counters at regular times, from which everything "over time" is computed at the end. The number
 * of samples is bounded: when they are full, every second one goes and the interval doubles.
 * Balance between nodes is taken in windows of its own, whose length is fixed; that of attention in
 * each forward.
 */
#ifndef DUALPATH_REPORT_METRICS_H
#define DUALPATH_REPORT_METRICS_H

#include "base/hist.h"
#include "base/loop.h"
#include "report/balance.h"
#include "report/result.h"

#define METRICS_MAX_SAMPLES 2048u

/* Times of a finished turn, ns. */
struct metrics_turn {
    uint64_t prompt_tok, hit_tok, gen_tok;
    uint64_t arrival_ns, first_ns, second_ns, last_ns;
    uint64_t since_ns; /* the end of its session's turn before, or the arrival: context is kept from
                          then on */
    uint64_t sched_ns, alloc_ns, read_ns, prefill_ns;
    uint64_t queue_ns; /* part of prefill_ns: at the engine until it is packed into a forward */
};

/* Cumulative counters at one time. */
struct metrics_sample {
    uint64_t t_ns;
    uint64_t arrived, over;   /* requests */
    double in_system_s;       /* integral over time of requests in the system */
    double latency_s, ttft_s; /* sums over finished requests */
    double sched_s, alloc_s, read_s, prefill_s, queue_s; /* of the parts of their TTFT */
    double ttst_s, tpot_s, agent_jct_s; /* sums over those that have one, and their numbers */
    uint64_t n_ttst, n_tpot;
    double context_tok_s; /* over finished requests: prompt tokens x time since the turn before */
    uint64_t prompt_tok;  /* of finished requests */
    uint64_t agents_over;
    uint64_t total_tok;                /* of those agents: context at their end */
    double used_s[RESULT_N_RESOURCES]; /* utilisation integrated over time */
    double *snic_bytes;                /* by node */
    /* Of finished forwards with attention in them: their time, and that times the largest over the
     * mean attention time of a GPU of the EP group. */
    double forward_s, forward_max_avg_s;
    struct balance_sums balance;
};

/* Fills used_s, snic_bytes, forward_s and forward_max_avg_s of a sample: the backend's counters, as
 * far as it has them while the run is on. */
struct metrics_probe {
    void *self;
    void (*read)(void *self, struct metrics_sample *s);
};

struct metrics_config {
    uint32_t n_prefill_nodes, n_nodes;
    uint64_t balance_window_ns; /* > 0 */
};

struct metrics {
    struct loop *loop;
    uint64_t origin_ns; /* of the run, on the loop's clock: times in results count from here */
    struct metrics_probe probe;
    struct metrics_config config;
    struct hist ttft, ttst, tpot, agent_jct;
    double sched_s, alloc_s, read_s, prefill_s, queue_s, latency_s, context_tok_s;
    uint64_t requests, arrived, agents, total_tok, prompt_tok, hit_tok, gen_tok;
    uint64_t first_arrival_ns, last_end_ns; /* from the origin */
    uint64_t in_system, in_system_since_ns;
    double in_system_integral_s;
    struct metrics_sample *samples;
    uint32_t n_samples;
    uint64_t interval_ns;
    double *memory; /* behind the samples' arrays */
    struct loop_timer timer;

    struct balance balance;
    struct metrics_sample window; /* as of the end of the last one */
    uint64_t window_end_ns;       /* of the window that runs, from the origin */
    struct loop_timer window_timer;
};

/* Starts sampling; the run begins now. Returns 0 or -ENOMEM. */
int metrics_init(struct metrics *m, struct loop *loop, const struct metrics_probe *probe,
                 const struct metrics_config *config);
void metrics_done(struct metrics *m);

void metrics_turn_arrived(struct metrics *m);
void metrics_turn_over(struct metrics *m, const struct metrics_turn *t);
/* total_tok: its context at the end. */
void metrics_agent_over(struct metrics *m, uint64_t arrival_ns, uint64_t end_ns,
                        uint64_t total_tok);

/* Takes the last sample and fills all fields of *ret that follow from what was collected;
 * last_arrival_ns: when the last agent came, until when a growing backlog is looked for. Agents
 * that all come at 0 are no load that could be too much. */
void metrics_finish(struct metrics *m, uint64_t last_arrival_ns, struct result *ret);

/*
 * The working set between two samples, in tokens on average over time: what the agents in the
 * system have as context, between turns too; and the model lambda * T * total / 2 (arXiv
 * 2602.21548, section 2): agents per s, their mean time in the system and half their mean context
 * at the end.
 */
struct metrics_working_set {
    double simulated_tok, model_tok;
};
struct metrics_working_set metrics_working_set(const struct metrics *m, uint32_t a, uint32_t b);

/* Mean TTFT of the requests that finished between two samples; 0 if none did. */
double metrics_mean_ttft_s(const struct metrics *m, uint32_t a, uint32_t b);

/* Mean over the windows that ended after sample a and not after b; 0 if there was none. */
double metrics_max_avg(const struct metrics *m, uint32_t a, uint32_t b, enum balance_set set);

/* Attention in the forwards that ended after sample a and not after b, as arXiv 2602.21548, section
 * 7.5, takes it: max/avg among the GPUs of an EP group for each forward. The mean over their time;
 * 0 if there was none. */
double metrics_attention_max_avg(const struct metrics *m, uint32_t a, uint32_t b);

/* CSV of the samples, one row per interval: rates and levels, units in the header. 0 or -EIO. */
int metrics_write_series(const struct metrics *m, FILE *out);

#endif
