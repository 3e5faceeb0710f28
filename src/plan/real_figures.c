/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "plan/real_figures.h"

#include <stdlib.h>

#include "report/balance.h"

/* Bytes by resource, of the nodes of one kind; GPUs: seconds. */
struct moved {
    double snic, cnic_read, cnic_write, dram, gpu_s;
};

static double storage_bytes(const struct cluster *c, const struct agent_report *a)
{
    return (double)(a->blocks_read + a->blocks_written) * (double)kv_full_block_bytes(&c->kv);
}

static void add_gpus(const struct cluster *c, const struct agent_report *a, struct moved *own)
{
    for (uint32_t gpu = 0; gpu < c->gpus_per_node; gpu++) {
        own->gpu_s += (double)a->gpu_used_ns[gpu] * 1e-9;
    }
}

/* The copies that a prefill node makes: hits from its DRAM into its GPUs, new KV from its GPUs into
 * the decode node's DRAM. */
static void add_prefill(const struct cluster *c, const struct agent_report *a, struct moved *pe,
                        struct moved *de)
{
    double load = (double)a->bytes_out[DP_CLASS_LOAD];
    double store = (double)a->bytes_out[DP_CLASS_STORE];
    pe->snic += storage_bytes(c, a);
    pe->cnic_read += load + store;
    pe->cnic_write += load;
    pe->dram += load + storage_bytes(c, a);
    de->cnic_write += store;
    de->dram += store;
    add_gpus(c, a, pe);
}

/* Those of a decode node: pushes from its DRAM into prefill GPUs, admissions from its DRAM into its
 * GPUs, decoded blocks back on their way to storage. */
static void add_decode(const struct cluster *c, const struct agent_report *a, struct moved *pe,
                       struct moved *de)
{
    double push = (double)a->bytes_out[DP_CLASS_LOAD];
    double admit = (double)a->bytes_out[DP_CLASS_ADMIT];
    double written = (double)a->blocks_written * (double)kv_full_block_bytes(&c->kv);
    double copied_out = (double)a->bytes_out[DP_CLASS_PERSIST] - written;
    de->snic += storage_bytes(c, a);
    de->cnic_read += push + admit + copied_out;
    de->cnic_write += admit + copied_out;
    de->dram += push + admit + copied_out + storage_bytes(c, a);
    pe->cnic_write += push;
    add_gpus(c, a, de);
}

static void set_rows(const struct cluster *c, const struct scenario_cluster *capacities,
                     const struct moved *m, bool prefill, struct result *ret)
{
    double jct_s = ret->jct_s > 0 ? ret->jct_s : 1;
    double nodes_s = (prefill ? c->prefill_nodes : c->decode_nodes) * jct_s;
    double gpus_s = nodes_s * c->gpus_per_node;
    double *u = ret->utilization;
    u[prefill ? RESULT_PE_SNIC : RESULT_DE_SNIC] = m->snic / (capacities->snic_Bps * nodes_s);
    u[prefill ? RESULT_PE_CNIC_READ : RESULT_DE_CNIC_READ] =
        m->cnic_read / (capacities->cnic_Bps * gpus_s);
    u[prefill ? RESULT_PE_CNIC_WRITE : RESULT_DE_CNIC_WRITE] =
        m->cnic_write / (capacities->cnic_Bps * gpus_s);
    u[prefill ? RESULT_PE_DRAM : RESULT_DE_DRAM] = m->dram / (capacities->dram_Bps * nodes_s);
    u[prefill ? RESULT_PE_GPU : RESULT_DE_GPU] = m->gpu_s / gpus_s;
}

static void set_use(const struct cluster *c, const struct scenario_cluster *capacities,
                    const struct agent_report *const *reports, struct result *ret)
{
    struct moved pe = {0}, de = {0};
    for (uint32_t i = 0; i < cluster_nodes(c); i++) {
        (cluster_is_prefill(c, i) ? add_prefill : add_decode)(c, reports[i], &pe, &de);
    }
    set_rows(c, capacities, &pe, true, ret);
    set_rows(c, capacities, &de, false, ret);
    double cluster_Bps = capacities->storage.cluster_Bps, jct_s = ret->jct_s > 0 ? ret->jct_s : 1;
    if (cluster_Bps > 0) {
        ret->utilization[RESULT_STORAGE_CLUSTER] = (pe.snic + de.snic) / (cluster_Bps * jct_s);
    }
    for (unsigned i = 0; i < RESULT_N_RESOURCES; i++) {
        ret->utilization_run[i] = ret->utilization[i];
        if (ret->utilization[i] > ret->utilization[ret->bottleneck]) {
            ret->bottleneck = (enum result_resource)i;
        }
    }
    ret->bottleneck_frac = ret->utilization[ret->bottleneck];
}

static double max_over_mean(const double *v, uint32_t n)
{
    double ratio = balance_max_avg(NULL, v, n);
    return ratio > 0 ? ratio : 1;
}

int real_figures(const struct cluster *c, const struct scenario_cluster *capacities,
                 const struct agent_report *const *reports, struct result *ret, struct err *err)
{
    uint32_t n_nodes = cluster_nodes(c), n_engines = c->prefill_nodes * c->gpus_per_node;
    double *snic = calloc(n_nodes, sizeof(*snic));
    double *attention = calloc(n_engines, sizeof(*attention));
    int rc = snic && attention ? 0 : err_nomem(err);
    for (uint32_t i = 0; i < n_nodes && rc == 0; i++) {
        snic[i] = storage_bytes(c, reports[i]);
        for (uint32_t g = 0; cluster_is_prefill(c, i) && g < c->gpus_per_node; g++) {
            attention[i * c->gpus_per_node + g] = (double)reports[i]->attention_ns[g];
        }
    }
    if (rc == 0) {
        uint32_t p = c->prefill_nodes;
        ret->snic_max_avg = max_over_mean(snic, n_nodes);
        ret->pe_snic_max_avg = max_over_mean(snic, p);
        ret->de_snic_max_avg = max_over_mean(snic + p, n_nodes - p);
        ret->attention_max_avg = max_over_mean(attention, n_engines);
        set_use(c, capacities, reports, ret);
    }
    free(snic);
    free(attention);
    return rc;
}
