/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A small process with engines on real time: loop, memories, workers, barrier, one kernel. Fails
 * the test when a run takes longer than the watchdog's patience. */
#ifndef DUALPATH_TESTS_COMPUTE_WORLD_H
#define DUALPATH_TESTS_COMPUTE_WORLD_H

#include "hw/compute_cpu.h"
#include "hw/compute_cuda.h"

#define WORLD_LAYERS    4u
#define WORLD_BLOCK_TOK 8u
#define WORLD_SPAN_TOK  256u
#define WORLD_SPANS     4u

struct world {
    struct wall_driver driver;
    struct loop loop;
    struct work_pool pool;
    struct ep_barrier barrier;
    struct node_memory *memory;
    struct node_memory **nodes;
    uint32_t n_nodes;
    struct memory_map map;
    struct hw_faults faults;
    struct attention attention;
    struct compute_cpu cpu;
    struct compute_cuda *cuda;
    struct attention_kernel *kernel; /* of one of these */
    struct hw_compute hc;
    struct loop_timer watchdog;
    uint32_t pending; /* completions to wait for */
};

/* The kernel of the worlds to come: "cpu" (default) or "cuda". */
extern const char *world_kernel;

/* Options to change before world_init() are those of the config; defaults check everything. */
struct hw_compute_config world_config(void);
void world_init(struct world *w, const struct hw_compute_config *config);
void world_done(struct world *w);

/* Where the KV of a chain lies: one span of an engine's HBM. */
struct compute_kv world_kv(const struct world *w, uint64_t chain_id, uint32_t span);
uint8_t *world_at(const struct world *w, uint32_t node, uint32_t gpu, const struct compute_kv *kv);

/* What the data path would bring. */
void world_bring(const struct world *w, uint32_t node, uint32_t gpu, const struct compute_kv *kv,
                 uint32_t layer, uint32_t n_tok);
void world_bring_all(const struct world *w, uint32_t node, uint32_t gpu,
                     const struct compute_kv *kv, uint32_t n_tok);

/* All tokens 0 .. n_tok in all layers are what they must be. */
void world_check_kv(const struct world *w, uint32_t node, uint32_t gpu, const struct compute_kv *kv,
                    uint32_t n_tok);

void world_one_less(struct world *w); /* a completion came; the last ends world_run() */
void world_run(struct world *w);      /* until pending is 0 */
void world_run_for_ms(struct world *w, uint32_t ms);

#endif
