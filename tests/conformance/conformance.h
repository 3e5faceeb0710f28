/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One table of cases that every data path backend must pass: src/datapath/dp.h, in executable form.
 * A backend supplies a world of two nodes with two GPUs each, and the loop that runs it; a case
 * never knows which backend it runs on. Rows: conformance.c; cases: cases_*.c.
 */
#ifndef DUALPATH_TESTS_CONFORMANCE_H
#define DUALPATH_TESTS_CONFORMANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "datapath/dp.h"

#define MEMORY_BYTES ((uint64_t)32 << 20) /* each memory of the world */
#define WORLD_DEPTH  16u /* copies in flight from node 0 to node 1 before -EAGAIN */

struct world;

struct backend {
    const char *name;
    bool (*is_here)(
        void); /* false: the machine lacks the device, the row is skipped; NULL: always */
    void (*open)(struct world *w);  /* sets world->loop and world->impl */
    void (*close)(struct world *w); /* nothing in flight */
    struct dp *(*dp_of)(struct world *w, uint32_t node);
    /* NULL: the backend has no bytes. Else the address
     * of a place, or NULL when it is out of bounds. */
    uint8_t *(*bytes)(struct world *w, const struct dp_place *at, uint64_t len);
    void (*stop)(
        struct world *w); /* cancels all, refuses more; NULL: the backend has no such thing */
    void (*kill_1)(struct world *w); /* node 1 dies without a word; NULL: nodes cannot die alone */
};

struct world {
    const struct backend *backend;
    struct loop *loop;
    void *impl;
    unsigned waiting; /* ops submitted by world_submit() that have not completed */
};

extern const struct backend backend_sim, backend_packet, backend_mem, backend_tcp, backend_verbs;

/* An op with its own bookkeeping; ck_assert on a second completion or one from inside a call. */
struct probe {
    struct dp_op op;
    struct world *world;
    unsigned n_done, n_progress;
    uint32_t last_progress;
    bool in_call;
    void (*on_progress)(struct probe *p); /* NULL: none */
    void (*on_done)(struct probe *p);
};

/* A copy of parts x part_bytes, contiguous and wholly ready. */
struct probe copy_probe(struct world *w, struct dp_place src, struct dp_place dst,
                        uint64_t part_bytes, uint32_t parts);
int world_submit(struct probe *p);
void world_feed(struct probe *p, uint32_t parts_ready);
void world_cancel(struct probe *p);
/* Runs the loop until nothing is waiting; ck_abort after 60 s of the loop's time. */
void world_run(struct world *w);
/* Runs the loop until so many parts of an op in flight are done; ck_abort after 60 s likewise. */
void world_run_until_parts(struct probe *p, uint32_t parts_done);
/* Runs the loop for a while, whatever happens in it. */
void world_run_for(struct world *w, uint64_t ns);

/* Bytes of a place, where the backend has any. fill and check do nothing where it has none. */
bool has_bytes(const struct world *w);
void fill(struct world *w, struct dp_place at, uint64_t len, uint64_t seed);
void check_filled(struct world *w, struct dp_place at, uint64_t len, uint64_t seed);

struct dp_place dram(uint32_t node, uint64_t offset_bytes);
struct dp_place hbm(uint32_t node, uint16_t gpu, uint64_t offset_bytes);

struct conformance_case {
    const char *name;
    void (*run)(struct world *w);
};

extern const struct conformance_case move_cases[], end_cases[]; /* end with {NULL, NULL} */

#endif
