/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The fitted constants as scenario keys. */
#include "plan/probe_fit.h"

static json_t *gpu(const struct gpu_profile *g)
{
    return json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:i}",
                     "name", g->name, "bf16_flops", g->bf16_flops, "fp8_flops", g->fp8_flops,
                     "fp4_flops", g->fp4_flops, "hbm_Bps", g->hbm_Bps, "hbm_efficiency",
                     g->hbm_efficiency, "mfu_attention_prefill", g->mfu_attention_prefill,
                     "mfu_indexer_prefill", g->mfu_indexer_prefill, "mfu_sparse_prefill",
                     g->mfu_sparse_prefill, "mfu_gemm", g->mfu_gemm, "mfu_grouped_gemm",
                     g->mfu_grouped_gemm, "mfu_attention_decode", g->mfu_attention_decode,
                     "mfu_sparse_decode", g->mfu_sparse_decode, "nvlink_gpus", (int)g->nvlink_gpus);
}

/* Measured is one queue that a single op may fill: of the scenario's storage no limit is left. */
static json_t *storage(const struct probe_fit *f)
{
    return json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:i, s:i, s:i, s:i, s:f}", "name", "measured",
                     "latency_median_s", f->storage_latency_median_s, "latency_sigma",
                     f->storage_latency_sigma, "efficiency_max", 1.0, "half_size_bytes",
                     f->half_size_bytes, "stream_Bps", 0.0, "stream_ios", 0, "read_queues", 1,
                     "reads_in_service", (int)f->reads_in_service, "writes_in_service",
                     (int)f->writes_in_service, "cluster_Bps", f->storage_cluster_Bps);
}

static json_t *timing(const struct timing_config *t)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "attention_efficiency",
                     t->attention_efficiency, "prefill_cached_tok_layer_s",
                     t->prefill_cached_tok_layer_s, "linear_efficiency", t->linear_efficiency,
                     "decode_efficiency", t->decode_efficiency, "forward_fixed_s",
                     t->forward_fixed_s, "decode_fixed_s", t->decode_fixed_s);
}

static json_t *fit_error(const struct probe_fit_error *e)
{
    return json_pack("{s:f, s:f, s:i}", "mean_frac", e->mean_frac, "max_frac", e->max_frac,
                     "points", (int)e->n_points);
}

json_t *probe_fit_profile(const struct probe_fit *f, const char *source)
{
    const struct model_card none = {0};
    struct timing_model tm = probe_fit_timing(f, &none);
    return json_pack("{s:s, s:s, s:s, s:{s:f, s:o, s:o, s:o}, s:{s:{s:o, s:o, s:f, s:f, s:f}, "
                     "s:{s:f, s:f}, s:o}}",
                     "schema", "dualpath/profile/1", "name", "measured", "source", source, "fit",
                     "slowdown", f->slowdown, "forward_error", fit_error(&f->forward_error),
                     "decode_error", fit_error(&f->decode_error), "storage_error",
                     fit_error(&f->storage_error), "scenario", "cluster", "gpu", gpu(&tm.gpu),
                     "storage", storage(f), "cnic_Bps", f->cnic_Bps, "snic_Bps", f->snic_Bps,
                     "dram_Bps", f->dram_Bps, "system", "transfer_latency_s", f->transfer_latency_s,
                     "message_latency_s", f->message_latency_s, "timing", timing(&tm.config));
}
