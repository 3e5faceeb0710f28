/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/dram_tier.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A storage op on its way: moves between pools and the buffer, and a job at the storage NIC. */
struct tier_op {
    struct dram_tier *tier;
    struct dp_op *op;
    uint32_t index; /* in the pool */
    struct list moves;
    struct storage_job job;
    bool at_storage;    /* the job is not done */
    bool added;         /* new blocks are in the directory */
    uint32_t n_waiting; /* moves, and the job */
};

/* Blocks from one node's DRAM to another's, or within it. */
struct tier_move {
    struct tier_op *owner;
    uint32_t index;
    uint32_t from, to, n_blocks;
    struct list node;
    struct loop_timer timer; /* submission and start-up latency */
    struct net_stream stream;
};

static bool is_read(const struct dp_op *op)
{
    return op->kind == DP_STORAGE_READ;
}

static const struct dp_place *buffer_of(const struct dp_op *op)
{
    return is_read(op) ? &op->dst : &op->src;
}

/* The directory */

static void name_blocks(struct dram_tier *tier, const struct dp_op *op)
{
    uint32_t n = op->parts_total;
    if (n > tier->capacity_keys) {
        free(tier->keys);
        tier->keys = malloc(n * sizeof(*tier->keys));
        tier->capacity_keys = n;
        if (!tier->keys) {
            abort(); /* out of memory while the run is on: as the pools do */
        }
    }
    if (tier->config.keys) {
        tier->config.keys(tier->config.self, &op->chain, n, tier->keys);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        tier->keys[i] = (struct block_key){op->chain.chain_id, op->chain.first_block + i};
    }
}

/* The node whose pool takes a new block. */
static uint32_t make_room(struct dram_tier *tier, uint32_t wanted)
{
    uint32_t node = wanted, n_nodes = tier->sd->config.n_nodes;
    if (tier->used_blocks[wanted] < tier->node_blocks) {
        return wanted;
    }
    for (uint32_t i = 0; i < n_nodes; i++) {
        node = tier->used_blocks[i] < tier->used_blocks[node] ? i : node;
    }
    if (tier->used_blocks[node] >= tier->node_blocks) {
        block_lru_remove_oldest(&tier->blocks, &node);
        tier->used_blocks[node]--;
        tier->evicted_blocks++;
    }
    return node;
}

/* Makes the op's blocks the last used, the new ones added; counts[] of those by node. */
static void use_blocks(struct dram_tier *tier, const struct dp_op *op)
{
    memset(tier->counts, 0, tier->sd->config.n_nodes * sizeof(*tier->counts));
    if (tier->node_blocks == 0) {
        return;
    }
    name_blocks(tier, op);
    for (uint32_t i = 0; i < op->parts_total; i++) {
        if (block_lru_touch(&tier->blocks, tier->keys[i], NULL)) {
            continue;
        }
        uint32_t node = make_room(tier, buffer_of(op)->node);
        if (block_lru_add(&tier->blocks, tier->keys[i], node)) {
            abort();
        }
        tier->used_blocks[node]++;
        tier->counts[node]++;
        tier->added_blocks++;
    }
    uint64_t now = tier->blocks.n_blocks;
    tier->peak_blocks = now > tier->peak_blocks ? now : tier->peak_blocks;
}

/* Where the blocks of a read are: counts[] by node; returns how many are in storage only. */
static uint32_t find_blocks(struct dram_tier *tier, const struct dp_op *op)
{
    uint32_t missed = 0, here = op->dst.node;
    memset(tier->counts, 0, tier->sd->config.n_nodes * sizeof(*tier->counts));
    name_blocks(tier, op);
    for (uint32_t i = 0; i < op->parts_total; i++) {
        uint32_t node;
        if (block_lru_touch(&tier->blocks, tier->keys[i], &node)) {
            tier->counts[node]++;
        } else {
            missed++;
        }
    }
    uint32_t local = tier->counts[here], remote = op->parts_total - missed - local;
    tier->read_bytes[DRAM_TIER_LOCAL] += local * op->part_bytes;
    tier->read_bytes[DRAM_TIER_REMOTE] += remote * op->part_bytes;
    tier->read_bytes[DRAM_TIER_STORAGE] += missed * op->part_bytes;
    return missed;
}

/* Moves */

static void part_over(struct tier_op *t);

static void forget_move(struct tier_move *m)
{
    list_remove(&m->node);
    pool_put(&m->owner->tier->moves, m->index);
}

static void move_ended(struct net_stream *s)
{
    struct tier_move *m = container_of(s, struct tier_move, stream);
    struct tier_op *owner = m->owner;
    forget_move(m);
    part_over(owner);
}

static struct sim_cnic *cnic_of(struct tier_move *m, uint32_t node)
{
    struct sim_dp *sd = m->owner->tier->sd;
    return &sd->cnics[node * sd->config.gpus_per_node + buffer_of(m->owner->op)->gpu];
}

static void move_begins(struct loop_timer *t)
{
    struct tier_move *m = container_of(t, struct tier_move, timer);
    struct sim_dp *sd = m->owner->tier->sd;
    const struct sim_submit_config *submit = &sd->config.submit;
    uint64_t bytes = m->n_blocks * m->owner->op->part_bytes;
    struct net_resource *path[MAXMIN_MAX_LINKS] = {&sd->nodes[m->from].dram};
    m->stream.local = m->from == m->to;
    m->stream.total_bytes = m->stream.local ? 2 * bytes : bytes; /* read and written here */
    m->stream.ready_bytes = m->stream.mark_bytes = m->stream.total_bytes;
    m->stream.maxmin.cap_Bps = MAXMIN_NO_CAP;
    m->stream.ended = move_ended;
    if (m->stream.local) {
        net_stream_open(&sd->net, &m->stream, path, 1);
        return;
    }
    double cap =
        submit_cap_Bps((double)m->owner->op->part_bytes, submit->request_s, submit->threads);
    m->stream.maxmin.cap_Bps = cap < sd->config.cnic_Bps ? cap : MAXMIN_NO_CAP;
    path[1] = &cnic_of(m, m->from)->tx;
    path[2] = &cnic_of(m, m->to)->rx;
    path[3] = &sd->nodes[m->to].dram;
    net_stream_open(&sd->net, &m->stream, path, 4);
}

static void start_move(struct tier_op *t, uint32_t from, uint32_t to, uint32_t n_blocks)
{
    struct dram_tier *tier = t->tier;
    struct sim_dp *sd = tier->sd;
    const struct sim_submit_config *submit = &sd->config.submit;
    uint32_t index;
    struct tier_move *m = pool_get(&tier->moves, &index);
    uint64_t begin_ns = loop_now_ns(sd->loop);
    *m = (struct tier_move){
        .owner = t, .index = index, .from = from, .to = to, .n_blocks = n_blocks};
    list_add_tail(&t->moves, &m->node);
    loop_timer_init(&m->timer, move_begins);
    t->n_waiting++;
    if (from != to) {
        begin_ns = submit_requests(&cnic_of(m, buffer_of(t->op)->node)->submit, begin_ns, n_blocks,
                                   submit->request_s, submit->threads) +
                   sd->config.transfer_latency_ns;
    }
    loop_arm(sd->loop, &m->timer, begin_ns);
}

/* One for each node that counts[] has blocks for. */
static void start_moves(struct tier_op *t, bool into_pool)
{
    uint32_t here = buffer_of(t->op)->node;
    for (uint32_t i = 0; i < t->tier->sd->config.n_nodes; i++) {
        if (t->tier->counts[i] > 0) {
            start_move(t, into_pool ? here : i, into_pool ? i : here, t->tier->counts[i]);
        }
    }
}

/* Ops */

static void forget(struct tier_op *t)
{
    pool_put(&t->tier->ops, t->index);
}

static void add_new_blocks(struct tier_op *t)
{
    t->added = true;
    use_blocks(t->tier, t->op);
    start_moves(t, true);
}

static void part_over(struct tier_op *t)
{
    if (--t->n_waiting > 0) {
        return;
    }
    if (!t->added) {
        add_new_blocks(t);
    }
    if (t->n_waiting == 0) {
        struct sim_dp *sd = t->tier->sd;
        struct dp_op *op = t->op;
        forget(t);
        sim_dp_copied(sd, op);
    }
}

static void job_done(struct storage_job *job)
{
    struct tier_op *t = container_of(job, struct tier_op, job);
    t->at_storage = false;
    part_over(t);
}

static uint64_t prepare_ns(struct storage_job *job)
{
    const struct tier_op *t = container_of(job, struct tier_op, job);
    return sim_dp_ask(t->tier->sd, t->op);
}

static void start_job(struct tier_op *t, uint32_t n_blocks)
{
    struct dp_op *op = t->op;
    struct storage_server *snic = &t->tier->sd->nodes[buffer_of(op)->node].snic;
    t->at_storage = true;
    t->n_waiting++;
    t->job.done = job_done;
    if (is_read(op)) {
        t->job.prepare_ns = prepare_ns;
        storage_server_read(snic, &t->job, op->dst.gpu, n_blocks * op->part_bytes, op->part_bytes);
    } else {
        storage_server_write(snic, &t->job, n_blocks * op->part_bytes, op->part_bytes);
    }
}

void dram_tier_submit(struct dram_tier *tier, struct dp_op *op)
{
    uint32_t index;
    struct tier_op *t = pool_get(&tier->ops, &index);
    *t = (struct tier_op){.tier = tier, .op = op, .index = index};
    list_init(&t->moves);
    op->private_words[1] = index;
    if (!is_read(op)) {
        start_job(t, op->parts_total);
        add_new_blocks(t);
        return;
    }
    uint32_t missed = find_blocks(tier, op);
    start_moves(t, false);
    if (missed > 0) {
        start_job(t, missed);
    }
}

void dram_tier_note(struct dram_tier *tier, const struct dp_op *op)
{
    if (is_read(op)) {
        find_blocks(tier, op);
    }
    use_blocks(tier, op);
}

bool dram_tier_cancel(struct dram_tier *tier, struct dp_op *op)
{
    struct tier_op *t = pool_at(&tier->ops, (uint32_t)op->private_words[1]);
    if (t->at_storage && !storage_server_cancel(t->job.server, &t->job)) {
        return false; /* its bytes are through */
    }
    list_for_each_safe (pos, tmp, &t->moves) {
        struct tier_move *m = container_of(pos, struct tier_move, node);
        loop_disarm(tier->sd->loop, &m->timer);
        if (m->stream.open) {
            net_stream_abort(&m->stream);
        }
        forget_move(m);
    }
    forget(t);
    return true;
}

int dram_tier_init(struct dram_tier *tier, struct sim_dp *sd, const struct dram_tier_config *config)
{
    *tier = (struct dram_tier){
        .sd = sd, .config = *config, .node_blocks = config->node_bytes / config->block_bytes};
    block_lru_init(&tier->blocks);
    pool_init(&tier->ops, sizeof(struct tier_op));
    pool_init(&tier->moves, sizeof(struct tier_move));
    tier->used_blocks = calloc(sd->config.n_nodes, sizeof(*tier->used_blocks));
    tier->counts = calloc(sd->config.n_nodes, sizeof(*tier->counts));
    if (!tier->used_blocks || !tier->counts) {
        dram_tier_done(tier);
        return -ENOMEM;
    }
    sd->tier = tier;
    return 0;
}

void dram_tier_done(struct dram_tier *tier)
{
    free(tier->used_blocks);
    free(tier->counts);
    free(tier->keys);
    block_lru_done(&tier->blocks);
    pool_done(&tier->ops);
    pool_done(&tier->moves);
    tier->used_blocks = NULL;
    tier->counts = NULL;
    tier->keys = NULL;
}

static int wrong(char *ret_what, size_t size, const char *what, uint64_t found, uint64_t expected)
{
    snprintf(ret_what, size, "%s: found %" PRIu64 ", expected %" PRIu64, what, found, expected);
    return -EPROTO;
}

int dram_tier_check(const struct dram_tier *tier, char *ret_what, size_t size)
{
    uint64_t held = tier->blocks.n_blocks, on_nodes = 0;
    for (uint32_t i = 0; i < tier->sd->config.n_nodes; i++) {
        on_nodes += tier->used_blocks[i];
        if (tier->used_blocks[i] > tier->node_blocks) {
            return wrong(ret_what, size, "blocks in a node's DRAM pool", tier->used_blocks[i],
                         tier->node_blocks);
        }
    }
    if (held + tier->evicted_blocks != tier->added_blocks) {
        return wrong(ret_what, size, "blocks held by and evicted from the DRAM pool",
                     held + tier->evicted_blocks, tier->added_blocks);
    }
    if (on_nodes != held) {
        return wrong(ret_what, size, "blocks in the nodes' DRAM pools", on_nodes, held);
    }
    return tier->ops.n_used == 0
               ? 0
               : wrong(ret_what, size, "ops left at the DRAM pool", tier->ops.n_used, 0);
}
