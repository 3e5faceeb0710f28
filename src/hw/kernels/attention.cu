/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The layer of hw/attention.h on a GPU, over the content of hw/kv_content.h. Kept in the common subset of C
 * and C++, so that a test can run it on a machine without a GPU.
 *
 * fill_kv: a block per new token writes its row.
 * attend: a block per (new token, head). Warps take the context's tokens in turn, lanes share the values
 * of a row; each warp keeps an online softmax of its own, and the block merges them at the end. Plain fp32,
 * no tensor cores: it is there to prove the bytes, and its time is that of a simple kernel.
 */
#include "attention_params.h"

#define WARPS    ATTENTION_WARPS
#define LANES    ATTENTION_LANES
#define THREADS  (WARPS * LANES)
#define PER_LANE (ATTENTION_MAX_DIM / LANES)

/* As in kv_content.c */
#define TAG_KV    1
#define TAG_QUERY 2

#ifdef __cplusplus
#define FOREIGN extern "C"
#else
#define FOREIGN
#endif

static __device__ uint64_t mix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

static __device__ uint64_t content_key(const struct attention_params *p, uint64_t tag, uint32_t tok)
{
    uint64_t k = mix64(p->seed ^ (tag << 56));
    k = mix64(k ^ p->chain_id);
    return mix64(k ^ ((uint64_t)p->layer << 32 | tok));
}

static __device__ float content_value(uint64_t key, uint32_t i)
{
    uint64_t h = mix64(key + i / 2);
    uint32_t bits = (uint32_t)(i % 2 ? h >> 32 : h);
    return (float)((int32_t)(bits >> 8) - (1 << 23)) * (1.0f / (1 << 23));
}

static __device__ float *row_of(const struct attention_params *p, uint32_t tok)
{
    uint64_t block = tok / p->block_tok, in_block = tok % p->block_tok;
    uint64_t row = (block * p->n_layers + p->layer) * p->block_tok + in_block;
    return p->kv + row * p->dim;
}

FOREIGN __global__ void fill_kv(struct attention_params p)
{
    uint32_t tok = p.first_tok + blockIdx.x;
    uint64_t key = content_key(&p, TAG_KV, tok);
    float *row = row_of(&p, tok);
    for (uint32_t i = threadIdx.x; i < p.dim; i += THREADS) {
        row[i] = content_value(key, i);
    }
}

static __device__ float warp_sum(float x)
{
    for (int distance = LANES / 2; distance > 0; distance /= 2) {
        x += __shfl_xor_sync(0xffffffffu, x, distance);
    }
    return x;
}

/* What a warp knows of the tokens it has seen. */
struct online {
    float max, sum;
    float acc[PER_LANE]; /* values lane, lane + LANES, ... of the weighted sum */
};

static __device__ void see_token(const struct attention_params *p, struct online *o,
                                 const float *query, const float *row, uint32_t lane)
{
    float dot = 0;
    for (uint32_t i = lane; i < p->dim; i += LANES) {
        dot += query[i] * row[i];
    }
    float score = warp_sum(dot) * p->scale;
    float max = score > o->max ? score : o->max;
    float shrink = expf(o->max - max), weight = expf(score - max);
    o->sum = o->sum * shrink + weight;
    o->max = max;
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t k = 0; k < PER_LANE; k++) {
        uint32_t i = lane + k * LANES;
        if (i < p->value_dim) {
            o->acc[k] = o->acc[k] * shrink + weight * row[i];
        }
    }
}

FOREIGN __global__ void attend(struct attention_params p)
{
    __shared__ float query[ATTENTION_MAX_DIM];
    __shared__ float part[WARPS][ATTENTION_MAX_DIM];
    __shared__ float part_max[WARPS], part_sum[WARPS];
    uint32_t tok = p.first_tok + blockIdx.x, head = blockIdx.y;
    uint32_t warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    uint64_t key = mix64(content_key(&p, TAG_QUERY, tok) ^ head);
    for (uint32_t i = threadIdx.x; i < p.dim; i += THREADS) {
        query[i] = content_value(key, i);
    }
    __syncthreads();
    struct online o;
    o.max = -INFINITY;
    o.sum = 0;
    for (uint32_t k = 0; k < PER_LANE; k++) {
        o.acc[k] = 0;
    }
    for (uint32_t j = warp; j <= tok; j += WARPS) {
        see_token(&p, &o, query, row_of(&p, j), lane);
    }
    for (uint32_t k = 0; k < PER_LANE; k++) {
        part[warp][lane + k * LANES] = o.acc[k];
    }
    if (lane == 0) {
        part_max[warp] = o.max;
        part_sum[warp] = o.sum;
    }
    __syncthreads();
    float max = part_max[0]; /* warp 0 has seen token 0 */
    for (uint32_t w = 1; w < WARPS; w++) {
        max = part_max[w] > max ? part_max[w] : max;
    }
    float *out = p.out + ((uint64_t)blockIdx.x * p.heads + head) * p.value_dim;
    for (uint32_t i = threadIdx.x; i < p.value_dim; i += THREADS) {
        float sum = 0, value = 0;
        for (uint32_t w = 0; w < WARPS; w++) {
            float share = expf(part_max[w] - max);
            sum += part_sum[w] * share;
            value += part[w][i] * share;
        }
        out[i] = value / sum;
    }
}
