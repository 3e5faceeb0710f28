/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a run comes to: plain numbers, the same whatever the backend. Schema "dualpath/result/1";
 * the JSON keys are the field names.
 */
#ifndef DUALPATH_REPORT_RESULT_H
#define DUALPATH_REPORT_RESULT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

/*
 * Resources whose use is reported, each as a fraction of its capacity:
 *   SNIC        time for which the storage NIC's line is full, a time at which the storage cluster
 *               holds it to a part of its rate counted in part (what a full line moves depends on
 *               the I/O size, see the storage profile)
 *   CNIC, DRAM  bytes over bandwidth; read = out of a memory (TX), write = into one (RX)
 *   prefill GPU time in forwards, one that is not filled up to its limit (system.packing) counted
 *               in part
 *   decode GPU  share of the HBM for KV that admitted requests hold: a decode GPU takes on more
 *               until that is full
 *   storage     bytes over cluster.storage.cluster_Bps, of all nodes together; 0 where there is no
 *   cluster     such limit
 */
enum result_resource {
    RESULT_PE_SNIC,
    RESULT_DE_SNIC,
    RESULT_PE_CNIC_READ,
    RESULT_PE_CNIC_WRITE,
    RESULT_DE_CNIC_READ,
    RESULT_DE_CNIC_WRITE,
    RESULT_PE_DRAM,
    RESULT_DE_DRAM,
    RESULT_PE_GPU,
    RESULT_DE_GPU,
    RESULT_STORAGE_CLUSTER,
    RESULT_N_RESOURCES,
};

const char *result_resource_name(enum result_resource r);

struct result_distribution {
    double mean, p50, p90, p99, max;
};

/* The cache of KV blocks in the nodes' DRAM (cluster.dram_cache_bytes). */
struct result_dram_cache {
    bool used;                                         /* false: there is none */
    uint64_t capacity_bytes, peak_bytes;               /* of all nodes; most that was held */
    uint64_t local_bytes, remote_bytes, storage_bytes; /* of hit KV, by where it was found */
    uint64_t added_blocks, evicted_blocks;
    double hit_ratio; /* (local + remote) / all three: of what reads asked for */
};

/* A node that died in a run that survives it. */
struct result_death {
    char node[32]; /* "decode node 1" */
    double at_s;
};

struct result {
    double jct_s; /* first arrival to last token */
    uint64_t agents, requests;
    uint64_t prompt_tok, hit_tok, miss_tok, generated_tok;
    struct result_distribution ttft_s, ttst_s, tpot_s, agent_jct_s;
    double sched_s, alloc_s, read_s, prefill_s; /* parts of the mean TTFT */
    double prefill_queue_s; /* part of prefill_s: at the engine until it is packed into a forward */
    double prompt_tok_per_s, generated_tok_per_s, agents_per_s;
    double hit_ratio; /* hit_tok / prompt_tok: a ratio of sums */
    /* The largest over the mean; 1 where there was nothing. Bytes of the storage NICs of all nodes
     * and of those of a kind: mean over the windows (report.balance_window_s) of the steady part.
     * Attention time of the prefill GPUs of an EP group: mean over the time of its forwards. A real
     * run is one window, in which all prefill GPUs are compared. */
    double snic_max_avg, pe_snic_max_avg, de_snic_max_avg, attention_max_avg;
    double utilization[RESULT_N_RESOURCES];     /* over the steady part */
    double utilization_run[RESULT_N_RESOURCES]; /* over the whole run */
    uint64_t storage_read_bytes, storage_written_bytes, pe_path_bytes, de_path_bytes;
    /* With system.decode_reuse only: hits that decode nodes still had and did not read; contexts
     * that they kept, and those of them that had to make room (the counts: simulated runs only). */
    bool reuse;
    uint64_t reused_tok, reused_bytes, kept_contexts, kept_dropped;
    /* With a storage of finite capacity only (else 0): what was evicted, the most that it held, and
     * the prompt tokens that missed because of it. */
    uint64_t storage_capacity_bytes, evicted_bytes, stored_peak_bytes, evicted_tok;
    struct result_dram_cache dram_cache;
    /* KV of the agents in the system, mean over the run, and as lambda * T * total / 2
     * (metrics_working_set()). */
    double working_set_bytes, working_set_model_bytes;
    /* Mean factor by which KV traffic lengthened dispatch and combine; 1 where there is none. */
    double prefill_stretch, decode_stretch;
    double forward_late_frac, step_late_frac; /* by which forwards and steps took longer for that */
    enum result_resource bottleneck;
    double bottleneck_frac;
    bool slo_met;
    double slo_ttft_s, slo_tpot_s; /* the limits; met: the means are within them */
    /* Share of the requests within them. Of those that have a TPOT; where none has one, 1, and
     * slo_met goes by the TTFT alone. */
    double ttft_ok_frac, tpot_ok_frac;
    uint64_t tpot_requests; /* those that have one: 3 generated tokens or more */
    double gpu_hours, usd;

    /* The steady part: from 10 % to 80 % of the requests done. */
    double steady_start_s, steady_end_s;
    double steady_in_system; /* requests arrived and not over, mean over time */
    double steady_arrivals_per_s, steady_latency_s; /* arrival to last token */

    /* Open arrivals only. */
    bool unstable;
    double backlog_slope_per_s; /* requests in the system, over the second half of the arrivals */

    /* Runs on real machines with hw.retry. */
    bool retry;
    uint64_t requests_rerun;
    uint64_t answers_not_durable; /* answered, but their new KV went down with a node */
    struct result_death *deaths;  /* the result's own: result_done() */
    uint32_t n_deaths;

    /* run */
    char version[16], backend[16];
    uint64_t seed;
    char scenario_sha256[65], trace_sha256[65];
    uint64_t events;
    double wall_s;
    uint64_t peak_rss_bytes;
};

void result_done(struct result *r); /* frees what it owns */

/* One JSON object, keys sorted, ending with a newline. Returns 0 or -ENOMEM / -EIO. */
int result_write_json(const struct result *r, FILE *out, struct err *err);

/* For a person. */
void result_write_text(const struct result *r, FILE *out);

#endif
