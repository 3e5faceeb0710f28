/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "real/run_config.h"

#include "real/flat_json.h"

#define FIELD(kind, member) FLAT_FIELD(struct run_config, kind, member)
#define U32(member)         FIELD(FLAT_U32, member)
#define U64(member)         FIELD(FLAT_U64, member)
#define DOUBLE(member)      FIELD(FLAT_DOUBLE, member)
#define BOOL(member)        FIELD(FLAT_BOOL, member)
#define TEXT(member)        FIELD(FLAT_TEXT, member)
#define LAYOUT(member)      U32(member.n_layers), U32(member.block_tok), U64(member.layer_tok_bytes)

_Static_assert(sizeof(enum cluster_path) == sizeof(uint32_t), "enums travel as 32-bit integers");

static const struct flat_field fields[] = {
    U32(cluster.prefill_nodes),
    U32(cluster.decode_nodes),
    U32(cluster.gpus_per_node),
    U32(cluster.prefill_ep_gpus),
    U32(cluster.decode_ep_gpus),
    U32(cluster.prefill_group_nodes),
    U32(cluster.decode_group_nodes),
    LAYOUT(cluster.kv),
    LAYOUT(cluster.wire),
    LAYOUT(cluster.stored),
    U32(cluster.restore),
    U32(cluster.stage_layers),
    BOOL(cluster.layerwise),
    U32(cluster.scheduler),
    U32(cluster.path),
    U32(cluster.reuse),
    BOOL(cluster.decode_in_hbm),
    BOOL(cluster.promise_decode_hbm),
    BOOL(cluster.promise_prefill_hbm),
    U64(cluster.quota_ns),
    U32(cluster.forward_tok),
    U64(cluster.alpha_tok),
    U64(cluster.beta_tok),
    U64(cluster.fetch_period_ns),
    BOOL(cluster.fetch_at_forward),
    U64(cluster.scheduler_cost_ns),
    U64(cluster.dram_buffer_bytes),
    U64(cluster.persist_buffer_bytes),
    U64(cluster.prefill_hbm_bytes),
    U64(cluster.prefill_direct_bytes),
    U64(cluster.decode_hbm_blocks),
    U64(cluster.storage_blocks),
    U64(cluster.span_bytes),
    U64(cluster.staging_offset_bytes),
    BOOL(cluster.shared_prefixes),
    BOOL(cluster.retry),

    TEXT(timing.card.name),
    U32(timing.card.n_layers),
    U32(timing.card.n_dense_layers),
    U32(timing.card.hidden),
    U32(timing.card.attention),
    U32(timing.card.n_heads),
    U32(timing.card.n_kv_heads),
    U32(timing.card.head_dim),
    U32(timing.card.q_lora_rank),
    U32(timing.card.kv_lora_rank),
    U32(timing.card.rope_dim),
    U32(timing.card.nope_dim),
    U32(timing.card.v_head_dim),
    U32(timing.card.indexer_heads),
    U32(timing.card.indexer_dim),
    U32(timing.card.sparse_topk),
    U32(timing.card.n_window_layers),
    U32(timing.card.window_tok),
    U32(timing.card.n_experts),
    U32(timing.card.experts_per_tok),
    U32(timing.card.n_shared_experts),
    U32(timing.card.expert_width),
    U32(timing.card.expert_groups),
    U32(timing.card.expert_groups_per_tok),
    U32(timing.card.dense_width),
    U32(timing.card.vocab),
    BOOL(timing.card.tied_embeddings),
    DOUBLE(timing.card.total_params),
    DOUBLE(timing.card.active_params),
    U64(timing.card.max_context_tok),
    DOUBLE(timing.card.kv_bytes_per_tok_layer),
    DOUBLE(timing.card.indexer_bytes_per_tok_layer),
    DOUBLE(timing.card.weight_bytes_per_param),
    DOUBLE(timing.card.mla_core_scale),
    BOOL(timing.card.expert_parallel),
    TEXT(timing.card.kv_dtype),
    TEXT(timing.card.source),

    TEXT(timing.gpu.name),
    DOUBLE(timing.gpu.bf16_flops),
    DOUBLE(timing.gpu.fp8_flops),
    DOUBLE(timing.gpu.fp4_flops),
    DOUBLE(timing.gpu.hbm_Bps),
    DOUBLE(timing.gpu.hbm_bytes),
    DOUBLE(timing.gpu.nic_Bps),
    DOUBLE(timing.gpu.mfu_attention_prefill),
    DOUBLE(timing.gpu.mfu_indexer_prefill),
    DOUBLE(timing.gpu.mfu_sparse_prefill),
    DOUBLE(timing.gpu.mfu_gemm),
    DOUBLE(timing.gpu.mfu_grouped_gemm),
    DOUBLE(timing.gpu.mfu_attention_decode),
    DOUBLE(timing.gpu.mfu_sparse_decode),
    DOUBLE(timing.gpu.hbm_efficiency),
    DOUBLE(timing.gpu.nvlink_Bps),
    U32(timing.gpu.nvlink_gpus),
    TEXT(timing.gpu.source),

    DOUBLE(timing.config.attention_efficiency),
    DOUBLE(timing.config.prefill_cached_tok_layer_s),
    DOUBLE(timing.config.linear_efficiency),
    DOUBLE(timing.config.decode_efficiency),
    DOUBLE(timing.config.forward_fixed_s),
    DOUBLE(timing.config.forward_floor_s),
    DOUBLE(timing.config.decode_fixed_s),
    DOUBLE(timing.config.decode_sequence_s),
    DOUBLE(timing.config.decode_admission_s),
    DOUBLE(timing.config.decode_collective_local_s),
    DOUBLE(timing.config.decode_collective_remote_s),
    DOUBLE(timing.config.decode_comm_exposed_frac),
    DOUBLE(timing.config.prefill_comm_exposed_frac),
    DOUBLE(timing.config.tp_reduce_s),
    BOOL(timing.config.free_compute),
    U32(timing.restore),
    DOUBLE(timing.expand_Bps),
    U32(timing.tp),

    U64(seed),
    U32(heads),
    U32(check_every),
    U32(n_spans),
    U32(transport_depth),
    U32(storage_depth),
    U32(compute_threads),
    U64(peer_timeout_ns),
    TEXT(storage),
    TEXT(storage_dir),
    TEXT(tcp_secret),
    TEXT(transport),
    TEXT(compute),
    TEXT(rdma_device),
    U32(service_level),
    U32(traffic_class),
};
#define N_FIELDS (sizeof(fields) / sizeof(fields[0]))

/* In a prefill GPU a cut prompt has two: its last chunk's, which leaves, and the next one's. */
uint64_t run_config_hbm_bytes(const struct run_config *c, uint32_t node)
{
    return (cluster_is_prefill(&c->cluster, node) ? 2 : 1) * c->n_spans * c->cluster.span_bytes;
}

char *run_config_write(const struct run_config *c)
{
    return flat_json_write(fields, N_FIELDS, c);
}

int run_config_read(const char *text, struct run_config *ret, struct err *err)
{
    struct run_config c = {0};
    int rc = flat_json_read(fields, N_FIELDS, text, &c, err);
    if (rc) {
        err_at(err, "the run's configuration", 0, 0);
        return rc;
    }
    *ret = c;
    ret->cluster.timing = &ret->timing;
    return 0;
}
