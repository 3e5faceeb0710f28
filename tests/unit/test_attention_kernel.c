/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The CUDA kernels on a machine without a GPU: the very source, included as C, on threads of the
 * CPU (few lanes and warps), compared with the content function and the reference of
 * hw/attention.h. What this cannot show is what nvcc makes of it; that is the device test's part.
 */
#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check_suite.h"
#include "hw/attention.h"

#define ATTENTION_LANES 4
#define ATTENTION_WARPS 2
#define N_THREADS       (ATTENTION_LANES * ATTENTION_WARPS)

struct index3 {
    uint32_t x, y;
};
static _Thread_local struct index3 threadIdx, blockIdx;
static pthread_barrier_t all;
static pthread_barrier_t warps[ATTENTION_WARPS];
static float exchange[N_THREADS];

static void sync_threads(void)
{
    pthread_barrier_wait(&all);
}

static float shuffle_xor(float x, int distance)
{
    pthread_barrier_t *warp = &warps[threadIdx.x / ATTENTION_LANES];
    exchange[threadIdx.x] = x;
    pthread_barrier_wait(warp);
    float other = exchange[threadIdx.x ^ (uint32_t)distance];
    pthread_barrier_wait(warp);
    return other;
}

#define __global__
#define __device__
#define __shared__                         static
#define __syncthreads()                    sync_threads()
#define __shfl_xor_sync(mask, x, distance) shuffle_xor(x, distance)

#include "hw/kernels/attention_params.h"

void fill_kv(struct attention_params p);
void attend(struct attention_params p);

#include "hw/kernels/attention.cu"

struct thread {
    uint32_t index;
    struct attention_params p;
    pthread_t id;
};

static void *run_grid(void *arg)
{
    struct thread *t = arg;
    threadIdx.x = t->index;
    for (blockIdx.x = 0; blockIdx.x < t->p.n_tok; blockIdx.x++) {
        fill_kv(t->p);
    }
    sync_threads();
    for (blockIdx.x = 0; blockIdx.x < t->p.n_tok; blockIdx.x++) {
        for (blockIdx.y = 0; blockIdx.y < t->p.heads; blockIdx.y++) {
            attend(t->p);
            sync_threads(); /* shared memory is used again */
        }
    }
    return NULL;
}

static void launch(const struct attention_params *p)
{
    struct thread threads[N_THREADS];
    pthread_barrier_init(&all, NULL, N_THREADS);
    for (int w = 0; w < ATTENTION_WARPS; w++) {
        pthread_barrier_init(&warps[w], NULL, ATTENTION_LANES);
    }
    for (uint32_t i = 0; i < N_THREADS; i++) {
        threads[i] = (struct thread){.index = i, .p = *p};
        ck_assert_int_eq(pthread_create(&threads[i].id, NULL, run_grid, &threads[i]), 0);
    }
    for (uint32_t i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i].id, NULL);
    }
    for (int w = 0; w < ATTENTION_WARPS; w++) {
        pthread_barrier_destroy(&warps[w]);
    }
    pthread_barrier_destroy(&all);
}

struct shape {
    uint32_t block_tok, dim, heads, cached, n_tok;
};

static const struct shape shapes[] = {{1, 1, 1, 0, 3},   {4, 3, 2, 5, 6},    {16, 9, 1, 16, 3},
                                      {8, 36, 3, 37, 4}, {64, 72, 2, 90, 2}, {16, 576, 1, 40, 2},
                                      {4, 1024, 1, 8, 1}};
#define N_SHAPES (sizeof(shapes) / sizeof(shapes[0]))
#define LAYERS   2u
#define LAYER    1u
#define CHAIN    0x123456789abcull

static void check_outputs(const struct attention *a, const struct shape *s, const float *out)
{
    struct attention_scratch scratch;
    ck_assert_int_eq(attention_scratch_init(&scratch, a), 0);
    uint32_t n = attention_out_values(a);
    for (uint32_t t = 0; t < s->n_tok; t++) {
        uint32_t tok = s->cached + t;
        attention_reference(a, CHAIN, tok, LAYER, &scratch);
        for (uint32_t i = 0; i < n; i++) {
            double difference = fabs((double)out[t * n + i] - (double)scratch.out[i]);
            ck_assert_double_le(difference, attention_tolerance(a, tok + 1));
        }
    }
    attention_scratch_done(&scratch);
}

START_TEST(test_kernels)
{
    const struct shape *s = &shapes[_i];
    struct kv_layout l = {LAYERS, s->block_tok, s->dim * sizeof(float)};
    struct kv_content c;
    struct attention a;
    struct err e = ERR_INIT;
    ck_assert_int_eq(kv_content_init(&c, 77, &l, &e), 0);
    ck_assert_int_eq(attention_init(&a, &c, s->heads, &e), 0);
    uint8_t *kv = calloc(1, kv_room_bytes(&l, s->cached + s->n_tok));
    float *out = calloc((size_t)s->n_tok * attention_out_values(&a), sizeof(float));
    ck_assert(kv && out);
    struct kv_run cached = {CHAIN, 0, s->cached}, every = {CHAIN, 0, s->cached + s->n_tok};
    kv_content_fill_layer(&c, &cached, LAYER, kv);
    struct attention_params p = {.seed = 77,
                                 .chain_id = CHAIN,
                                 .kv = (float *)(void *)kv,
                                 .out = out,
                                 .n_layers = LAYERS,
                                 .block_tok = s->block_tok,
                                 .dim = c.dim,
                                 .heads = s->heads,
                                 .value_dim = a.value_dim,
                                 .layer = LAYER,
                                 .first_tok = s->cached,
                                 .n_tok = s->n_tok,
                                 .scale = a.scale};
    launch(&p);
    ck_assert_msg(kv_content_verify_layer(&c, &every, LAYER, kv, &e) == 0, "%s", e.text);
    check_outputs(&a, s, out);
    free(out);
    free(kv);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("attention_kernel");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, test_kernels, 0, N_SHAPES);
    suite_add_tcase(s, t);
    return run_suite(s);
}
