/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One node of a real run: memories, links to the other nodes, storage, compute, and on top of them
 * the very prefill_node or decode_node that the simulator runs.
 */
#ifndef DUALPATH_REAL_MACHINE_H
#define DUALPATH_REAL_MACHINE_H

#include "hw/compute_cpu.h"
#include "hw/compute_cuda.h"
#include "hw/ep_barrier_net.h"
#include "hw/hw_compute.h"
#include "hw/hw_dp.h"
#include "hw/memory.h"
#include "hw/storage_uring.h"
#include "hw/storage_usrbio.h"
#include "hw/wall_driver.h"
#include "hw/work_pool.h"
#include "real/agent_report.h"
#include "real/links.h"
#include "real/run_config.h"
#include "sched/decode_node.h"
#include "sched/prefill_node.h"

/* What has been built so far, in this order. */
enum machine_stage {
    MACHINE_NOTHING,
    MACHINE_MEMORY,
    MACHINE_COPY_POOL,
    MACHINE_COMPUTE_POOL,
    MACHINE_LINKS,
    MACHINE_STORAGE,
    MACHINE_KERNEL,
    MACHINE_COMPUTE,
    MACHINE_NODE,
};

struct machine {
    const struct run_config *config;
    uint32_t id; /* of the node */
    struct loop *loop;
    struct wall_driver *driver;
    enum machine_stage stage;

    struct node_memory memory;
    struct node_memory **memories; /* [nodes]: its own, NULL for the others */
    struct memory_map map;
    struct work_pool copy_pool, compute_pool;
    struct links links;
    struct storage_uring storage;
    struct hw_dp dp;
    struct ep_barrier barrier; /* one of the two: EP groups within a node, or across */
    struct ep_barrier_net barrier_net;
    bool spans;
    struct compute_cpu cpu;    /* one of the two */
    struct compute_cuda *cuda; /* NULL: the other */
    struct hw_compute compute;
    struct prefill_node prefill; /* one of the two */
    struct decode_node decode;

    /* Between the node and the message port: takes out what is for the barrier. */
    struct msg_port door;
    struct msg_port *messages;
    msg_handler *handler; /* the node's */
    void *handler_self;
};

/*
 * host: numeric address to listen at for the data path. config, loop, driver and messages outlive
 * it. Faults of the data path and of compute go to dp.faults. 0 or negative errno with err;
 * machine_done() in both cases.
 */
int machine_init(struct machine *m, const struct run_config *config, uint32_t id, struct loop *loop,
                 struct wall_driver *driver, struct msg_port *messages, const char *host,
                 struct err *err);

/* The run begins: the cycle of fetches does. */
void machine_start(struct machine *m);

/* Nothing moves, nothing is taken, nobody is served. */
bool machine_is_quiet(const struct machine *m);

void machine_report(const struct machine *m, struct agent_report *ret);

/* Cancels what is under way. Then the loop runs until machine_is_idle(). */
void machine_stop(struct machine *m);
bool machine_is_idle(const struct machine *m);
void machine_done(struct machine *m);

#endif
