/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/probe_report.h"

#include <stdio.h>

#include "base/units.h"
#include "input/scenario_keys.h"

#define TEXT 32

static const char *quantity(enum unit_kind kind, double value, char buf[TEXT])
{
    quantity_format_short(kind, value, buf, TEXT);
    return buf;
}

/* Text */

static double spread(const struct probe_stat *s)
{
    return s->median > 0 ? (s->max - s->min) / s->median : 0;
}

static bool is_transfer(const struct probe_point *p)
{
    return p->what <= PROBE_COPY_VERBS_GPU;
}

static void print_transfer(const struct probe_point *p)
{
    char size[TEXT], rate[TEXT], time[TEXT], submit[TEXT];
    printf("%-14s %10s %6u %6u %6u %12s %5.0f %% %12s %10s\n", probe_what_name(p->what),
           quantity(UNIT_BYTES, (double)p->size_bytes, size), p->segments, p->depth, p->nodes,
           quantity(UNIT_BPS, p->Bps.median, rate), 100 * spread(&p->Bps),
           quantity(UNIT_S, p->time_ns.median / NS_PER_S, time),
           quantity(UNIT_S, p->submit_ns.median / NS_PER_S, submit));
}

static void print_compute(const struct probe_point *p, const struct timing_model *tm)
{
    char time[TEXT], cpu[TEXT] = "-", predicted[TEXT] = "-";
    double ns = 0;
    if (tm && p->what == PROBE_FORWARD) {
        ns = timing_attention_ns(tm, p->cached_tok, p->new_tok) + timing_linear_ns(tm, p->new_tok) +
             timing_forward_fixed_ns(tm);
    } else if (tm && p->what == PROBE_DECODE) {
        ns = timing_decode_gpu_ns(tm, p->batch, p->batch * p->cached_tok) +
             timing_decode_group_ns(tm, p->batch, 1);
    }
    if (ns > 0) {
        quantity(UNIT_S, ns / NS_PER_S, predicted);
    }
    if (p->cpu_ns.median > 0) {
        quantity(UNIT_S, p->cpu_ns.median / NS_PER_S, cpu);
    }
    printf("%-14s %10.0f %6.0f %6.0f %6u %12s %5.0f %% %12s %5.0f %% %12s\n",
           probe_what_name(p->what), p->cached_tok, p->new_tok, p->batch, p->nodes,
           quantity(UNIT_S, p->time_ns.median / NS_PER_S, time), 100 * spread(&p->time_ns), cpu,
           100 * spread(&p->cpu_ns), predicted);
}

static void print_gpu(const struct probe_measured *m)
{
    char size[TEXT], time[TEXT];
    if (m->gpu.n_devices == 0) {
        return;
    }
    printf("\nGPU: %u of %s, sm_%d, driver %d\n", m->gpu.n_devices, m->gpu.name, m->gpu.sm,
           m->gpu.driver_version);
    for (uint32_t i = 0; i < m->n_gpu_points; i++) {
        const struct probe_gpu_point *p = &m->gpu_points[i];
        quantity(UNIT_S, p->ns / NS_PER_S, time);
        if (p->bytes) {
            printf("%-14s %10s %12s %8.2f GB/s\n", p->what,
                   quantity(UNIT_BYTES, (double)p->bytes, size), time, (double)p->bytes / p->ns);
        } else {
            printf("%-14s %u x %u x %u %12s %8.1f TFLOPS\n", p->what, p->m, p->n, p->k, time,
                   2.0 * p->m * p->n * p->k / p->ns / 1e3);
        }
    }
}

static void print_fit(const struct probe_fit *f)
{
    char a[TEXT], b[TEXT], c[TEXT], d[TEXT];
    printf(
        "\nThe simulator's constants, and how far they are from the points they come from (mean, "
        "largest):\n");
    printf("forwards   attention %s, other %s, fixed %s; %.1f %%, %.1f %% of %u points\n",
           quantity(UNIT_FLOPS, f->attention_flops, a), quantity(UNIT_FLOPS, f->linear_flops, b),
           quantity(UNIT_S, f->forward_fixed_s, c), 100 * f->forward_error.mean_frac,
           100 * f->forward_error.max_frac, f->forward_error.n_points);
    printf("           computing takes %.2f times its processor time: %s\n", f->slowdown,
           f->slowdown < 1.1 ? "a quiet machine"
                             : "others use this machine, or it has too few cores for its nodes");
    printf("decode     attention %s, fixed %s; %.1f %%, %.1f %% of %u points\n",
           quantity(UNIT_FLOPS, f->decode_flops, a), quantity(UNIT_S, f->decode_fixed_s, b),
           100 * f->decode_error.mean_frac, 100 * f->decode_error.max_frac,
           f->decode_error.n_points);
    printf("storage    %s, half of it at %s, latency %s, %u reads and %u writes in service; %.1f "
           "%%, %.1f %% of %u points\n",
           quantity(UNIT_BPS, f->snic_Bps, a), quantity(UNIT_BYTES, f->half_size_bytes, b),
           quantity(UNIT_S, f->storage_latency_median_s, c), f->reads_in_service,
           f->writes_in_service, 100 * f->storage_error.mean_frac, 100 * f->storage_error.max_frac,
           f->storage_error.n_points);
    printf("           all nodes together: %s\n",
           f->storage_cluster_Bps > 0 ? quantity(UNIT_BPS, f->storage_cluster_Bps, a) : "no limit");
    printf("copies     CNIC %s, latency %s, DRAM %s; message %s\n",
           quantity(UNIT_BPS, f->cnic_Bps, a), quantity(UNIT_S, f->transfer_latency_s, b),
           quantity(UNIT_BPS, f->dram_Bps, c), quantity(UNIT_S, f->message_latency_s, d));
}

void probe_report_text(const struct probe_measured *m, const struct probe_fit *f,
                       const struct model_card *card)
{
    const struct timing_model tm = probe_fit_timing(f, card);
    printf("%-14s %10s %6s %6s %6s %12s %7s %12s %10s\n", "", "size", "pieces", "depth", "nodes",
           "per node", "spread", "time of one", "submit");
    for (uint32_t i = 0; i < m->points.n; i++) {
        if (is_transfer(&m->points.points[i])) {
            print_transfer(&m->points.points[i]);
        }
    }
    printf("\n%-14s %10s %6s %6s %6s %12s %7s %12s %7s %12s\n", "", "context", "new", "batch",
           "nodes", "time", "spread", "processor", "spread", "fitted");
    for (uint32_t i = 0; i < m->points.n; i++) {
        if (!is_transfer(&m->points.points[i])) {
            print_compute(&m->points.points[i], &tm);
        }
    }
    print_gpu(m);
    print_fit(f);
}

/* JSON */

static json_t *stat_json(const struct probe_stat *s)
{
    return json_pack("{s:f, s:f, s:f}", "median", s->median, "min", s->min, "max", s->max);
}

static json_t *point_json(const struct probe_point *p)
{
    json_t *o = json_pack("{s:s, s:i, s:o}", "what", probe_what_name(p->what), "nodes",
                          (int)p->nodes, "time_ns", stat_json(&p->time_ns));
    if (!o || p->what == PROBE_MESSAGE) {
        return o;
    }
    if (is_transfer(p)) {
        json_object_update_new(
            o, json_pack("{s:I, s:i, s:i, s:o, s:o, s:f}", "size_bytes", (json_int_t)p->size_bytes,
                         "segments", (int)p->segments, "depth", (int)p->depth, "per_node_Bps",
                         stat_json(&p->Bps), "submit_ns", stat_json(&p->submit_ns),
                         "time_log_sigma", p->time_sigma));
    } else if (p->what == PROBE_FORWARD) {
        json_object_update_new(o,
                               json_pack("{s:f, s:f, s:o}", "cached_tok", p->cached_tok, "new_tok",
                                         p->new_tok, "cpu_ns", stat_json(&p->cpu_ns)));
    } else {
        json_object_update_new(o, json_pack("{s:f, s:f, s:o}", "context_tok", p->cached_tok,
                                            "batch", p->batch, "cpu_ns", stat_json(&p->cpu_ns)));
    }
    return o;
}

static json_t *gpu_json(const struct probe_measured *m)
{
    json_t *points = json_array();
    for (uint32_t i = 0; i < m->n_gpu_points; i++) {
        const struct probe_gpu_point *p = &m->gpu_points[i];
        json_array_append_new(points, p->bytes
                                          ? json_pack("{s:s, s:I, s:f}", "what", p->what, "bytes",
                                                      (json_int_t)p->bytes, "time_ns", p->ns)
                                          : json_pack("{s:s, s:i, s:i, s:i, s:f}", "what", p->what,
                                                      "m", (int)p->m, "n", (int)p->n, "k",
                                                      (int)p->k, "time_ns", p->ns));
    }
    return json_pack("{s:s, s:i, s:i, s:i, s:o}", "name", m->gpu.name, "devices",
                     (int)m->gpu.n_devices, "sm", m->gpu.sm, "cuda_version", m->gpu.driver_version,
                     "points", points);
}

json_t *probe_report_json(const struct probe_measured *m, json_t *profile)
{
    json_t *points = json_array();
    for (uint32_t i = 0; i < m->points.n; i++) {
        json_array_append_new(points, point_json(&m->points.points[i]));
    }
    return json_pack("{s:s, s:o, s:o, s:o}", "schema", "dualpath/probe/1", "points", points, "gpu",
                     m->gpu.n_devices ? gpu_json(m) : json_null(), "profile", profile);
}
