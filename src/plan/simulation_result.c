/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <stdio.h>

#include "plan/simulation.h"

/* Utilisation of both CNIC directions (KV and collectives) of a kind's nodes, integrated over time.
 */
static void add_cnics(const struct simulation *s, uint32_t node, uint32_t n_nodes,
                      double *ret_read_s, double *ret_write_s)
{
    uint32_t g = s->cluster.gpus_per_node;
    double capacity = s->dp.config.cnic_Bps * n_nodes * g;
    for (uint32_t i = 0; i < g; i++) {
        const struct sim_cnic *c = &s->dp.cnics[node * g + i];
        double inference_bytes = sim_dp_inference_bytes(&s->dp, c);
        *ret_read_s += (c->tx.moved_bytes + inference_bytes) / capacity;
        *ret_write_s += (c->rx.moved_bytes + inference_bytes) / capacity;
    }
}

static void read_node(const struct simulation *s, uint32_t node, struct metrics_sample *m)
{
    const struct cluster *c = &s->cluster;
    bool prefill = cluster_is_prefill(c, node);
    uint32_t n_nodes = prefill ? c->prefill_nodes : c->decode_nodes;
    const struct sim_node *n = &s->dp.nodes[node];
    double snic_bytes = storage_server_moved_bytes(&n->snic);
    m->used_s[prefill ? RESULT_PE_SNIC : RESULT_DE_SNIC] +=
        storage_server_used_ns(&n->snic) * 1e-9 / n_nodes;
    m->used_s[prefill ? RESULT_PE_DRAM : RESULT_DE_DRAM] +=
        (n->dram.moved_bytes + snic_bytes - n->past_dram_bytes) /
        (s->scenario->cluster.dram_Bps * n_nodes);
    if (s->dp.config.cluster_Bps > 0) {
        m->used_s[RESULT_STORAGE_CLUSTER] += snic_bytes / s->dp.config.cluster_Bps;
    }
    add_cnics(s, node, n_nodes, &m->used_s[prefill ? RESULT_PE_CNIC_READ : RESULT_DE_CNIC_READ],
              &m->used_s[prefill ? RESULT_PE_CNIC_WRITE : RESULT_DE_CNIC_WRITE]);
    m->snic_bytes[node] = snic_bytes;
}

void simulation_probe(void *self, struct metrics_sample *m)
{
    const struct simulation *s = self;
    const struct cluster *c = &s->cluster;
    for (unsigned r = 0; r < RESULT_N_RESOURCES; r++) {
        m->used_s[r] = 0;
    }
    for (uint32_t n = 0; n < cluster_nodes(c); n++) {
        read_node(s, n, m);
    }
    m->forward_s = m->forward_max_avg_s = 0;
    for (uint32_t i = 0; i < s->compute.config.prefill_groups; i++) {
        const struct sim_forward_group *g = &s->compute.forwards[i];
        m->used_s[RESULT_PE_GPU] +=
            sim_forward_full_ns(g) * 1e-9 / s->compute.config.prefill_groups;
        m->forward_s += g->attending_ns * 1e-9;
        m->forward_max_avg_s += g->attention_max_avg_ns * 1e-9;
    }
    for (uint32_t e = 0; e < c->decode_nodes * c->gpus_per_node; e++) {
        const struct decode_node *dn = &s->decode[e / c->gpus_per_node];
        m->used_s[RESULT_DE_GPU] +=
            space_full_s(&dn->hbm[e % c->gpus_per_node]) / (c->decode_nodes * c->gpus_per_node);
    }
}

static void add_bytes(const struct simulation *s, struct result *ret)
{
    const struct cluster *c = &s->cluster;
    for (uint32_t n = 0; n < cluster_nodes(c); n++) {
        const struct storage_server *snic = &s->dp.nodes[n].snic;
        ret->storage_written_bytes += snic->bytes_out[1];
        if (cluster_is_prefill(c, n)) {
            ret->pe_path_bytes += snic->bytes_out[0];
        } else {
            ret->de_path_bytes += snic->bytes_out[0];
        }
    }
    ret->storage_read_bytes = ret->pe_path_bytes + ret->de_path_bytes;
}

static void add_reuse(const struct simulation *s, struct result *ret)
{
    uint64_t per_tok = s->cluster.kv.layer_tok_bytes * s->cluster.kv.n_layers;
    ret->reuse = s->cluster.reuse != CLUSTER_REUSE_NONE;
    for (uint32_t i = 0; i < s->n_decode; i++) {
        ret->reused_tok += s->decode[i].kept_counts.hit_tok;
        ret->kept_contexts += s->decode[i].kept_counts.put;
        ret->kept_dropped += s->decode[i].kept_counts.dropped;
    }
    ret->reused_bytes = ret->reused_tok * per_tok;
}

static void add_eviction(const struct simulation *s, struct result *ret)
{
    const struct stored *st = &s->client.stored;
    uint64_t block = kv_full_block_bytes(&s->cluster.kv);
    ret->storage_capacity_bytes = st->capacity_blocks * block;
    ret->evicted_bytes = st->evicted * block;
    ret->stored_peak_bytes = st->peak_blocks * block;
    ret->evicted_tok = s->client.totals.evicted_tok;
}

static void add_dram_cache(const struct simulation *s, struct result_dram_cache *ret)
{
    const struct dram_tier *t = &s->tier;
    uint64_t block = t->config.block_bytes;
    *ret = (struct result_dram_cache){
        .used = true,
        .capacity_bytes = t->node_blocks * block * cluster_nodes(&s->cluster),
        .peak_bytes = t->peak_blocks * block,
        .local_bytes = t->read_bytes[DRAM_TIER_LOCAL],
        .remote_bytes = t->read_bytes[DRAM_TIER_REMOTE],
        .storage_bytes = t->read_bytes[DRAM_TIER_STORAGE],
        .added_blocks = t->added_blocks,
        .evicted_blocks = t->evicted_blocks,
    };
    uint64_t found = ret->local_bytes + ret->remote_bytes, all = found + ret->storage_bytes;
    ret->hit_ratio = all ? (double)found / (double)all : 0;
}

static double stretch_of(const struct sim_collectives *c)
{
    return c->alone_ns > 0 ? c->stretched_ns / c->alone_ns : 1;
}

static double late_frac(const struct sim_collectives *c, double busy_ns)
{
    return c->late_ns > 0 ? c->late_ns / (busy_ns - c->late_ns) : 0;
}

static void add_stretch(const struct sim_compute *c, struct result *ret)
{
    double forwards_ns = 0, steps_ns = 0;
    for (uint32_t i = 0; i < c->config.prefill_groups; i++) {
        forwards_ns += c->forwards[i].busy_ns;
    }
    for (uint32_t i = 0; i < c->config.decode_groups; i++) {
        steps_ns += c->decodes[i].busy_ns;
    }
    ret->prefill_stretch = stretch_of(&c->prefill_collectives);
    ret->decode_stretch = stretch_of(&c->decode_collectives);
    ret->forward_late_frac = late_frac(&c->prefill_collectives, forwards_ns);
    ret->step_late_frac = late_frac(&c->decode_collectives, steps_ns);
}

void simulation_result(struct simulation *s, struct result *ret)
{
    struct workload_info info;
    workload_info(s->workload, &info);
    recorder_result(&s->recorder, "sim", info.trace->sha256, ret);
    ret->events = s->loop.n_fired;
    add_bytes(s, ret);
    add_reuse(s, ret);
    add_eviction(s, ret);
    if (s->dp.tier) {
        add_dram_cache(s, &ret->dram_cache);
    }
    add_stretch(&s->compute, ret);
}
