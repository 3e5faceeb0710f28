/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

#include "report/result.h"

const char *result_resource_name(enum result_resource r)
{
    static const char *const names[RESULT_N_RESOURCES] = {
        [RESULT_PE_SNIC] = "pe_snic",
        [RESULT_DE_SNIC] = "de_snic",
        [RESULT_PE_CNIC_READ] = "pe_cnic_read",
        [RESULT_PE_CNIC_WRITE] = "pe_cnic_write",
        [RESULT_DE_CNIC_READ] = "de_cnic_read",
        [RESULT_DE_CNIC_WRITE] = "de_cnic_write",
        [RESULT_PE_DRAM] = "pe_dram",
        [RESULT_DE_DRAM] = "de_dram",
        [RESULT_PE_GPU] = "pe_gpu",
        [RESULT_DE_GPU] = "de_gpu",
        [RESULT_STORAGE_CLUSTER] = "storage_cluster",
    };
    return names[r];
}

void result_done(struct result *r)
{
    free(r->deaths);
    r->deaths = NULL;
    r->n_deaths = 0;
}

static json_t *distribution(const struct result_distribution *d)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "mean", d->mean, "p50", d->p50, "p90", d->p90,
                     "p99", d->p99, "max", d->max);
}

static json_t *resources(const double *frac)
{
    json_t *o = json_object();
    for (unsigned r = 0; r < RESULT_N_RESOURCES; r++) {
        json_object_set_new(o, result_resource_name((enum result_resource)r), json_real(frac[r]));
    }
    return o;
}

static json_t *integer(uint64_t n)
{
    return json_integer((json_int_t)n);
}

static void add_latencies(json_t *o, const struct result *r)
{
    json_object_set_new(o, "ttft_s", distribution(&r->ttft_s));
    json_object_set_new(o, "ttst_s", distribution(&r->ttst_s));
    json_object_set_new(o, "tpot_s", distribution(&r->tpot_s));
    json_object_set_new(o, "agent_jct_s", distribution(&r->agent_jct_s));
    json_object_set_new(o, "ttft_breakdown_s",
                        json_pack("{s:f, s:f, s:f, s:f}", "sched", r->sched_s, "alloc", r->alloc_s,
                                  "read", r->read_s, "prefill", r->prefill_s));
    json_object_set_new(o, "prefill_queue_s", json_real(r->prefill_queue_s));
}

static void add_use(json_t *o, const struct result *r)
{
    json_object_set_new(o, "utilization", resources(r->utilization));
    json_object_set_new(o, "utilization_run", resources(r->utilization_run));
    json_object_set_new(o, "balance",
                        json_pack("{s:f, s:f, s:f, s:f}", "snic_max_avg", r->snic_max_avg,
                                  "pe_snic_max_avg", r->pe_snic_max_avg, "de_snic_max_avg",
                                  r->de_snic_max_avg, "attention_max_avg", r->attention_max_avg));
    json_object_set_new(o, "bytes",
                        json_pack("{s:o, s:o, s:o, s:o}", "storage_read",
                                  integer(r->storage_read_bytes), "storage_written",
                                  integer(r->storage_written_bytes), "pe_path",
                                  integer(r->pe_path_bytes), "de_path", integer(r->de_path_bytes)));
    json_object_set_new(o, "inference_stretch",
                        json_pack("{s:f, s:f, s:f, s:f}", "prefill", r->prefill_stretch, "decode",
                                  r->decode_stretch, "forward_late_frac", r->forward_late_frac,
                                  "step_late_frac", r->step_late_frac));
    json_object_set_new(o, "bottleneck",
                        json_pack("{s:s, s:f}", "resource", result_resource_name(r->bottleneck),
                                  "utilization_frac", r->bottleneck_frac));
}

static void add_reuse(json_t *o, const struct result *r)
{
    if (r->reuse) {
        json_object_set_new(o, "reuse",
                            json_pack("{s:o, s:o, s:o, s:o}", "hit_tok", integer(r->reused_tok),
                                      "read_saved_bytes", integer(r->reused_bytes), "contexts_kept",
                                      integer(r->kept_contexts), "contexts_dropped",
                                      integer(r->kept_dropped)));
    }
}

static void add_eviction(json_t *o, const struct result *r)
{
    if (r->storage_capacity_bytes > 0) {
        json_object_set_new(
            o, "eviction",
            json_pack("{s:o, s:o, s:o, s:o}", "capacity_bytes", integer(r->storage_capacity_bytes),
                      "evicted_bytes", integer(r->evicted_bytes), "stored_peak_bytes",
                      integer(r->stored_peak_bytes), "miss_tok", integer(r->evicted_tok)));
    }
}

static void add_dram_cache(json_t *o, const struct result_dram_cache *c)
{
    if (!c->used) {
        return;
    }
    json_object_set_new(o, "dram_cache",
                        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:f}", "capacity_bytes",
                                  integer(c->capacity_bytes), "peak_bytes", integer(c->peak_bytes),
                                  "local_bytes", integer(c->local_bytes), "remote_bytes",
                                  integer(c->remote_bytes), "storage_bytes",
                                  integer(c->storage_bytes), "added_blocks",
                                  integer(c->added_blocks), "evicted_blocks",
                                  integer(c->evicted_blocks), "hit_ratio", c->hit_ratio));
}

static void add_steady(json_t *o, const struct result *r)
{
    json_object_set_new(o, "steady",
                        json_pack("{s:f, s:f, s:f, s:f, s:f}", "start_s", r->steady_start_s,
                                  "end_s", r->steady_end_s, "requests_in_system",
                                  r->steady_in_system, "arrivals_per_s", r->steady_arrivals_per_s,
                                  "latency_s", r->steady_latency_s));
    json_object_set_new(o, "stability",
                        json_pack("{s:b, s:f}", "unstable", r->unstable, "backlog_slope_per_s",
                                  r->backlog_slope_per_s));
}

static json_t *retry_block(const struct result *r)
{
    json_t *died = json_object();
    for (uint32_t i = 0; i < r->n_deaths; i++) {
        json_object_set_new(died, r->deaths[i].node, json_real(r->deaths[i].at_s));
    }
    return json_pack("{s:o, s:o, s:o}", "requests_rerun", integer(r->requests_rerun),
                     "answers_not_durable", integer(r->answers_not_durable), "node_died_s", died);
}

static json_t *run_block(const struct result *r)
{
    return json_pack("{s:s, s:s, s:o, s:s, s:s, s:o, s:f, s:o}", "version", r->version, "backend",
                     r->backend, "seed", integer(r->seed), "scenario_sha256", r->scenario_sha256,
                     "trace_sha256", r->trace_sha256, "events", integer(r->events), "wall_s",
                     r->wall_s, "peak_rss_bytes", integer(r->peak_rss_bytes));
}

static json_t *to_json(const struct result *r)
{
    json_t *o = json_object();
    json_object_set_new(o, "schema", json_string("dualpath/result/1"));
    json_object_set_new(o, "jct_s", json_real(r->jct_s));
    json_object_set_new(o, "agents", integer(r->agents));
    json_object_set_new(o, "requests", integer(r->requests));
    json_object_set_new(o, "tokens",
                        json_pack("{s:o, s:o, s:o, s:o}", "prompt", integer(r->prompt_tok), "hit",
                                  integer(r->hit_tok), "miss", integer(r->miss_tok), "generated",
                                  integer(r->generated_tok)));
    json_object_set_new(o, "hit_ratio", json_real(r->hit_ratio));
    json_object_set_new(o, "throughput",
                        json_pack("{s:f, s:f, s:f}", "prompt_tok_per_s", r->prompt_tok_per_s,
                                  "generated_tok_per_s", r->generated_tok_per_s, "agents_per_s",
                                  r->agents_per_s));
    add_latencies(o, r);
    add_use(o, r);
    add_reuse(o, r);
    add_eviction(o, r);
    add_dram_cache(o, &r->dram_cache);
    json_object_set_new(o, "working_set",
                        json_pack("{s:f, s:f}", "simulated_bytes", r->working_set_bytes,
                                  "model_bytes", r->working_set_model_bytes));
    add_steady(o, r);
    json_object_set_new(o, "slo",
                        json_pack("{s:b, s:f, s:f, s:f, s:f, s:o}", "met", r->slo_met,
                                  "ttft_limit_s", r->slo_ttft_s, "tpot_limit_s", r->slo_tpot_s,
                                  "ttft_ok_frac", r->ttft_ok_frac, "tpot_ok_frac", r->tpot_ok_frac,
                                  "tpot_requests", integer(r->tpot_requests)));
    json_object_set_new(o, "cost",
                        json_pack("{s:f, s:f}", "gpu_hours", r->gpu_hours, "usd", r->usd));
    if (r->retry) {
        json_object_set_new(o, "retry", retry_block(r));
    }
    json_object_set_new(o, "run", run_block(r));
    return o;
}

int result_write_json(const struct result *r, FILE *out, struct err *err)
{
    json_t *o = to_json(r);
    char *text =
        o ? json_dumps(o, JSON_SORT_KEYS | JSON_INDENT(2) | JSON_REAL_PRECISION(12)) : NULL;
    json_decref(o);
    if (!text) {
        return err_nomem(err);
    }
    int rc = fprintf(out, "%s\n", text) < 0 || fflush(out) ? -EIO : 0;
    free(text);
    return rc ? err_set(err, rc, "cannot write the result") : 0;
}
