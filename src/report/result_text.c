/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <inttypes.h>

#include "report/result.h"

static void line(FILE *out, const char *name, const struct result_distribution *d, double scale,
                 const char *unit)
{
    fprintf(out, "  %-9s %9.4g %9.4g %9.4g %9.4g %9.4g  %s\n", name, d->mean * scale,
            d->p50 * scale, d->p90 * scale, d->p99 * scale, d->max * scale, unit);
}

static void write_latencies(const struct result *r, FILE *out)
{
    fprintf(out, "\n  %-9s %9s %9s %9s %9s %9s\n", "latency", "mean", "p50", "p90", "p99", "max");
    line(out, "TTFT", &r->ttft_s, 1, "s");
    line(out, "TTST", &r->ttst_s, 1, "s");
    line(out, "TPOT", &r->tpot_s, 1e3, "ms");
    line(out, "agent JCT", &r->agent_jct_s, 1, "s");
    fprintf(out,
            "\n  mean TTFT = sched %.4g + alloc %.4g + read %.4g + prefill %.4g s (of which %.4g "
            "in queue)\n",
            r->sched_s, r->alloc_s, r->read_s, r->prefill_s, r->prefill_queue_s);
}

static void write_use(const struct result *r, FILE *out)
{
    fprintf(out,
            "\n  use of capacity, %%, from %.4g to %.4g s (10 %% to 80 %% of the requests done)\n",
            r->steady_start_s, r->steady_end_s);
    fprintf(out, "            %9s %10s %11s %9s %9s\n", "SNIC", "CNIC read", "CNIC write", "DRAM",
            "GPU");
    fprintf(out, "  prefill   %9.1f %10.1f %11.1f %9.1f %9.1f\n",
            100 * r->utilization[RESULT_PE_SNIC], 100 * r->utilization[RESULT_PE_CNIC_READ],
            100 * r->utilization[RESULT_PE_CNIC_WRITE], 100 * r->utilization[RESULT_PE_DRAM],
            100 * r->utilization[RESULT_PE_GPU]);
    fprintf(out, "  decode    %9.1f %10.1f %11.1f %9.1f %9.1f\n",
            100 * r->utilization[RESULT_DE_SNIC], 100 * r->utilization[RESULT_DE_CNIC_READ],
            100 * r->utilization[RESULT_DE_CNIC_WRITE], 100 * r->utilization[RESULT_DE_DRAM],
            100 * r->utilization[RESULT_DE_GPU]);
    if (r->utilization[RESULT_STORAGE_CLUSTER] > 0) {
        fprintf(out, "  storage cluster: %.1f %% of its limit\n",
                100 * r->utilization[RESULT_STORAGE_CLUSTER]);
    }
    fprintf(out, "  bottleneck: %s, %.1f %% used\n", result_resource_name(r->bottleneck),
            100 * r->bottleneck_frac);
    fprintf(out, "  max/avg over time: SNIC %.3f (prefill %.3f, decode %.3f), attention %.3f\n",
            r->snic_max_avg, r->pe_snic_max_avg, r->de_snic_max_avg, r->attention_max_avg);
    if (r->prefill_stretch > 1 || r->decode_stretch > 1) {
        fprintf(out,
                "  KV traffic stretched the collectives of forwards by %.2f %%, of decode steps by "
                "%.2f %%;\n  forwards took %.2f %% longer for it, decode steps %.2f %%\n",
                100 * (r->prefill_stretch - 1), 100 * (r->decode_stretch - 1),
                100 * r->forward_late_frac, 100 * r->step_late_frac);
    }
}

static void write_slo(const struct result *r, FILE *out)
{
    fprintf(out, "  SLO %s: mean TTFT %.4g (limit %.4g) s, ", r->slo_met ? "met" : "missed",
            r->ttft_s.mean, r->slo_ttft_s);
    if (r->tpot_requests == 0) {
        fprintf(out,
                "no TPOT: no request generated 3 tokens; within the limit: TTFT %.2f %% of the "
                "requests\n",
                100 * r->ttft_ok_frac);
        return;
    }
    fprintf(out,
            "mean TPOT %.4g (limit %.4g) ms; within the limits: TTFT %.2f %%, TPOT %.2f %% of the "
            "requests\n",
            1e3 * r->tpot_s.mean, 1e3 * r->slo_tpot_s, 100 * r->ttft_ok_frac,
            100 * r->tpot_ok_frac);
}

static void write_dram_cache(const struct result_dram_cache *c, FILE *out)
{
    double gb = 1e-9;
    if (!c->used) {
        return;
    }
    fprintf(out,
            "  DRAM cache of %.5g GB: %.2f %% of the bytes of hits found in it (%.5g GB at the "
            "reading node, %.5g GB at others; storage %.5g GB)\n    at most %.5g GB held, %" PRIu64
            " blocks added, %" PRIu64 " evicted\n",
            gb * (double)c->capacity_bytes, 100 * c->hit_ratio, gb * (double)c->local_bytes,
            gb * (double)c->remote_bytes, gb * (double)c->storage_bytes, gb * (double)c->peak_bytes,
            c->added_blocks, c->evicted_blocks);
}

static void write_deaths(const struct result *r, FILE *out)
{
    for (uint32_t i = 0; i < r->n_deaths; i++) {
        fprintf(out, "  %s died at %.3f s\n", r->deaths[i].node, r->deaths[i].at_s);
    }
    if (r->n_deaths > 0) {
        fprintf(out,
                "  %" PRIu64 " requests were run again elsewhere; of %" PRIu64
                " answered ones the new KV was lost\n",
                r->requests_rerun, r->answers_not_durable);
    }
}

void result_write_text(const struct result *r, FILE *out)
{
    if (r->unstable) {
        fprintf(
            out,
            "UNSTABLE: the backlog grew by %.4g requests/s over the second half of the arrivals.\n"
            "The cluster cannot carry this load; the latencies below depend on the length of the "
            "run.\n\n",
            r->backlog_slope_per_s);
    }
    fprintf(out, "JCT %.6g s   %" PRIu64 " agents, %" PRIu64 " requests\n", r->jct_s, r->agents,
            r->requests);
    fprintf(out,
            "  tokens: prompt %" PRIu64 " (hit %" PRIu64 " = %.2f %%, miss %" PRIu64
            "), generated %" PRIu64 "\n",
            r->prompt_tok, r->hit_tok, 100 * r->hit_ratio, r->miss_tok, r->generated_tok);
    fprintf(out, "  throughput: %.5g prompt tok/s, %.5g generated tok/s, %.4g agents/s\n",
            r->prompt_tok_per_s, r->generated_tok_per_s, r->agents_per_s);
    write_deaths(r, out);
    write_latencies(r, out);
    write_use(r, out);
    double gb = 1e-9;
    fprintf(out,
            "\n  storage: %.5g GB read (%.5g by prefill, %.5g by decode nodes), %.5g GB written\n",
            gb * (double)r->storage_read_bytes, gb * (double)r->pe_path_bytes,
            gb * (double)r->de_path_bytes, gb * (double)r->storage_written_bytes);
    if (r->storage_capacity_bytes > 0) {
        fprintf(out,
                "  storage of %.5g GB: at most %.5g GB used, %.5g GB evicted; %" PRIu64
                " tokens missed for that\n",
                gb * (double)r->storage_capacity_bytes, gb * (double)r->stored_peak_bytes,
                gb * (double)r->evicted_bytes, r->evicted_tok);
    }
    if (r->reuse) {
        fprintf(out, "  reuse: %.5g GB of hits were still with decode nodes, %.2f %% of all\n",
                gb * (double)r->reused_bytes,
                r->hit_tok > 0 ? 100 * (double)r->reused_tok / (double)r->hit_tok : 0.0);
    }
    fprintf(out, "  working set: %.5g GB of KV on average (lambda * T * total / 2: %.5g GB)\n",
            gb * r->working_set_bytes, gb * r->working_set_model_bytes);
    write_dram_cache(&r->dram_cache, out);
    write_slo(r, out);
    fprintf(out, "  cost: %.5g GPU hours, %.5g USD\n", r->gpu_hours, r->usd);
}
