/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/sim_dp.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "sim/dram_tier.h"

/* An op in flight: a stream for copies, a job for storage; the other one stays unused. */
struct sim_op {
    struct sim_dp *sd;
    struct dp_op *op;
    uint32_t index; /* in the pool */
    bool cancelled;
    bool copying;             /* by sd->copies */
    bool read_half;           /* into HBM: one of the NIC and the PCIe link is through */
    uint32_t parts_submitted; /* copies: work requests of so many parts are in the queue */
    struct loop_timer timer;  /* the copy's start-up latency, then work requests being begun; or the
                                 end of a cancelled or free op */
    struct net_stream stream;
    struct storage_job job;
};

static struct sim_dp *sim_of(struct dp *dp)
{
    return container_of(dp, struct sim_dp, dp);
}

static struct sim_op *sim_op_of(struct sim_dp *sd, const struct dp_op *op)
{
    return pool_at(&sd->ops, (uint32_t)op->private_words[0]);
}

/* What the storage NIC leaves of DRAM: all, if whatever it has to do goes past DRAM. */
static void set_dram_left(struct sim_dp *sd, struct sim_node *node)
{
    bool takes = node->n_jobs > node->n_jobs_past_dram;
    double taken = takes ? storage_server_delivers_Bps(&node->snic) : 0;
    double left = sd->config.dram_Bps - taken;
    left = left > 0 ? left : 0;
    net_set_capacity(&sd->net, &node->dram, left);
    if (sd->copies) {
        sd->copies->dram_left(sd->copies->self, &node->dram, left);
    }
}

static struct sim_node *storage_node(struct sim_dp *sd, const struct dp_op *op)
{
    return &sd->nodes[op->kind == DP_STORAGE_READ ? op->dst.node : op->src.node];
}

static bool is_past_dram(const struct dp_op *op)
{
    return op->kind == DP_STORAGE_READ && op->dst.tier == DP_HBM;
}

static void count_job(struct sim_dp *sd, const struct dp_op *op, int by)
{
    struct sim_node *node = storage_node(sd, op);
    bool any_past = node->n_jobs_past_dram > 0 || is_past_dram(op);
    node->n_jobs += (uint32_t)by;
    node->n_jobs_past_dram += is_past_dram(op) ? (uint32_t)by : 0;
    if (any_past) {
        set_dram_left(sd, node);
    }
}

static void complete(struct sim_op *so, int status)
{
    struct sim_dp *sd = so->sd;
    struct dp_op *op = so->op;
    op->done_ns = loop_now_ns(sd->loop);
    if (op->kind != DP_COPY && !sd->config.free_transfers) {
        count_job(sd, op, -1);
        storage_node(sd, op)->past_dram_bytes +=
            status == 0 && is_past_dram(op) ? (double)dp_op_bytes(op) : 0;
    }
    pool_put(&sd->ops, so->index);
    dp_backend_done(&sd->dp, op, status);
}

/* Copies */

/* Times that the bytes of a copy go their way, side by side. */
static uint32_t times_sent(const struct sim_op *so)
{
    uint32_t copies = so->sd->config.hbm_copies;
    return so->op->dst.tier == DP_HBM && copies > 1 ? copies : 1;
}

static uint64_t wire_part_bytes(const struct sim_op *so)
{
    return so->op->part_bytes * times_sent(so);
}

static void stream_reached(struct net_stream *s)
{
    struct sim_op *so = container_of(s, struct sim_op, stream);
    struct dp_op *op = so->op;
    dp_backend_progress(&so->sd->dp, op, (uint32_t)(s->mark_bytes / wire_part_bytes(so)));
    s->mark_bytes = (uint64_t)op->notify_at * wire_part_bytes(so);
}

static void stream_ended(struct net_stream *s)
{
    complete(container_of(s, struct sim_op, stream), 0);
}

void sim_dp_copied(struct sim_dp *sd, struct dp_op *op)
{
    complete(sim_op_of(sd, op), 0);
}

static bool is_local(const struct dp_op *op)
{
    return op->src.node == op->dst.node;
}

static struct sim_cnic *cnic_of(struct sim_dp *sd, const struct dp_place *p)
{
    return &sd->cnics[p->node * sd->config.gpus_per_node + p->gpu];
}

/* cudaMemcpyAsync crosses the GPU's PCIe link in one direction, which is that of its NIC's RX on
 * the way in and of its TX on the way out; an RDMA write within a node crosses both. */
static unsigned copy_path(struct sim_dp *sd, const struct dp_op *op, struct net_resource **ret_path)
{
    bool past_nic = sd->config.submit.local_past_nic && is_local(op);
    unsigned n = 0;
    if (op->src.tier == DP_DRAM) {
        ret_path[n++] = &sd->nodes[op->src.node].dram;
    }
    if (!past_nic || op->src.tier == DP_HBM) {
        ret_path[n++] = &cnic_of(sd, &op->src)->tx;
    }
    if (!past_nic || op->dst.tier == DP_HBM) {
        ret_path[n++] = &cnic_of(sd, &op->dst)->rx;
    }
    if (op->dst.tier == DP_DRAM) {
        ret_path[n++] = &sd->nodes[op->dst.node].dram;
    }
    return n;
}

static double request_s(const struct sim_op *so)
{
    const struct sim_submit_config *c = &so->sd->config.submit;
    return is_local(so->op) ? c->local_request_s : c->request_s;
}

/* Puts the work requests of the parts that are ready and not yet in the queue there; returns when
 * the first of them is begun. */
static uint64_t submit_ready_parts(struct sim_op *so)
{
    const struct dp_op *op = so->op;
    uint64_t n = (uint64_t)(op->parts_ready - so->parts_submitted) * op->segments;
    so->parts_submitted = op->parts_ready;
    return submit_requests(&cnic_of(so->sd, &op->src)->submit, loop_now_ns(so->sd->loop), n,
                           request_s(so), so->sd->config.submit.threads);
}

static void open_stream(struct sim_op *so)
{
    struct dp_op *op = so->op;
    struct net_resource *path[MAXMIN_MAX_LINKS];
    unsigned n = copy_path(so->sd, op, path);
    double cap = times_sent(so) * submit_cap_Bps((double)op->segment_bytes, request_s(so),
                                                 so->sd->config.submit.threads);
    so->stream.local = is_local(op);
    so->stream.maxmin.cap_Bps = cap < so->sd->config.cnic_Bps ? cap : MAXMIN_NO_CAP;
    op->start_ns = loop_now_ns(so->sd->loop);
    if (so->sd->copies) {
        so->copying = true;
        so->sd->copies->open(so->sd->copies->self, op, so->parts_submitted,
                             so->stream.maxmin.cap_Bps, path, n);
        return;
    }
    uint64_t part_bytes = wire_part_bytes(so);
    so->stream.total_bytes = op->parts_total * part_bytes;
    so->stream.ready_bytes = so->parts_submitted * part_bytes;
    so->stream.mark_bytes = op->progress ? op->notify_at * part_bytes : so->stream.total_bytes;
    so->stream.reached = stream_reached;
    so->stream.ended = stream_ended;
    net_stream_open(&so->sd->net, &so->stream, path, n);
}

/* The oracle's ops: whatever is ready has arrived. */
static void free_step(struct sim_op *so)
{
    struct dp_op *op = so->op;
    if (op->parts_ready == op->parts_total) {
        complete(so, 0);
    } else {
        dp_backend_progress(&so->sd->dp, op, op->parts_ready);
    }
}

/* The parts whose work requests have been begun may leave. */
static void hand_over(struct sim_op *so)
{
    struct sim_dp *sd = so->sd;
    if (so->copying) {
        sd->copies->feed(sd->copies->self, so->op, so->parts_submitted);
    } else {
        net_stream_ready(&so->stream, so->parts_submitted * wire_part_bytes(so));
    }
}

static void op_timer(struct loop_timer *t)
{
    struct sim_op *so = container_of(t, struct sim_op, timer);
    if (so->cancelled) {
        complete(so, -ECANCELED);
    } else if (so->sd->config.free_transfers) {
        free_step(so);
    } else if (so->stream.open || so->copying) {
        hand_over(so);
    } else {
        open_stream(so);
    }
}

/* Storage */

/* Into HBM, and seen by those who share the PCIe link. */
static bool is_direct(const struct sim_op *so)
{
    return so->op->kind == DP_STORAGE_READ && so->op->dst.tier == DP_HBM &&
           so->sd->config.isolation.reads_on_pcie;
}

static void direct_half_done(struct sim_op *so)
{
    if (so->read_half) {
        complete(so, 0);
    }
    so->read_half = true;
}

static void direct_stream_ended(struct net_stream *s)
{
    direct_half_done(container_of(s, struct sim_op, stream));
}

/* The share of the NIC that the read has as it begins. */
static void open_direct_stream(struct sim_op *so)
{
    struct sim_dp *sd = so->sd;
    const struct storage_server *s = so->job.server;
    double efficiency = storage_server_efficiency(&s->config, (double)so->op->part_bytes);
    struct net_resource *path[] = {&cnic_of(sd, &so->op->dst)->rx};
    so->stream.past_nic = true;
    so->stream.maxmin.cap_Bps = storage_server_job_Bps(s) * efficiency;
    so->stream.total_bytes = so->stream.ready_bytes = so->stream.mark_bytes = dp_op_bytes(so->op);
    so->stream.ended = direct_stream_ended;
    net_stream_open(&sd->net, &so->stream, path, 1);
}

static void job_started(struct storage_job *job)
{
    struct sim_op *so = container_of(job, struct sim_op, job);
    so->op->start_ns = loop_now_ns(so->sd->loop);
    if (is_direct(so)) {
        open_direct_stream(so);
    }
}

static void job_done(struct storage_job *job)
{
    struct sim_op *so = container_of(job, struct sim_op, job);
    if (!is_direct(so)) {
        complete(so, 0);
        return;
    }
    /* Others have left the NIC and the bytes came faster than the share of the beginning: they are
     * through, unless the link itself holds them up. */
    if (so->stream.open && so->stream.maxmin.rate_Bps >= so->stream.maxmin.cap_Bps * 0.999) {
        net_stream_abort(&so->stream);
        so->read_half = true;
    }
    direct_half_done(so);
}

uint64_t sim_dp_ask(const struct sim_dp *sd, struct dp_op *op)
{
    const struct sim_answers *a = &sd->config.answers;
    op->answer_ns = a->ns ? a->ns(a->self, op->decode_engine) : 0;
    return op->answer_ns;
}

static uint64_t prepare_ns(struct storage_job *job)
{
    const struct sim_op *so = container_of(job, struct sim_op, job);
    return sim_dp_ask(so->sd, so->op);
}

static void submit_storage(struct sim_op *so)
{
    const struct dp_op *op = so->op;
    bool read = op->kind == DP_STORAGE_READ;
    struct sim_node *node = storage_node(so->sd, op);
    count_job(so->sd, op, 1);
    so->job.started = job_started;
    so->job.done = job_done;
    if (read) {
        so->job.prepare_ns = prepare_ns;
        storage_server_read(&node->snic, &so->job, op->dst.gpu, dp_op_bytes(op), op->part_bytes);
    } else {
        storage_server_write(&node->snic, &so->job, dp_op_bytes(op), op->part_bytes);
    }
}

static int sim_submit(struct dp *dp, struct dp_op *op)
{
    struct sim_dp *sd = sim_of(dp);
    if (sd->config.depth && sd->ops.n_used >= sd->config.depth) {
        return -EAGAIN;
    }
    uint32_t index;
    struct sim_op *so = pool_get(&sd->ops, &index);
    so->sd = sd;
    so->op = op;
    so->index = index;
    loop_timer_init(&so->timer, op_timer);
    op->private_words[0] = index;
    op->submit_ns = op->start_ns = loop_now_ns(sd->loop);
    if (op->kind != DP_COPY && op->parts_ready != op->parts_total) {
        pool_put(&sd->ops, index);
        return -EINVAL; /* storage moves Full Blocks that exist */
    }
    if (sd->config.free_transfers) {
        if (sd->tier && op->kind != DP_COPY) {
            dram_tier_note(sd->tier, op);
        }
        loop_post(sd->loop, &so->timer);
    } else if (op->kind == DP_COPY) {
        uint64_t begin_ns = submit_ready_parts(so);
        loop_arm(sd->loop, &so->timer, begin_ns + sd->config.transfer_latency_ns);
    } else if (sd->tier) {
        count_job(sd, op, 1);
        dram_tier_submit(sd->tier, op);
    } else {
        submit_storage(so);
    }
    return 0;
}

/* False when the bytes are through: done() comes with 0. */
static bool cancel_storage(struct sim_op *so)
{
    struct sim_dp *sd = so->sd;
    if (so->op->kind == DP_COPY || sd->config.free_transfers) {
        return true;
    }
    if (is_direct(so) && so->read_half && so->stream.open) {
        return true; /* the NIC is through, the link is not */
    }
    return sd->tier ? dram_tier_cancel(sd->tier, so->op)
                    : storage_server_cancel(so->job.server, &so->job);
}

static void sim_feed(struct dp *dp, struct dp_op *op)
{
    struct sim_dp *sd = sim_of(dp);
    struct sim_op *so = sim_op_of(sd, op);
    if (so->cancelled) {
        return;
    }
    if (sd->config.free_transfers) {
        loop_post(sd->loop, &so->timer);
        return;
    }
    uint64_t begin_ns = submit_ready_parts(so);
    if (!(so->stream.open || so->copying) || loop_armed(&so->timer)) {
        return; /* the timer hands over all that has been submitted by then */
    }
    if (begin_ns <= loop_now_ns(sd->loop)) {
        hand_over(so);
    } else {
        loop_arm(sd->loop, &so->timer, begin_ns);
    }
}

static void sim_cancel(struct dp *dp, struct dp_op *op)
{
    struct sim_dp *sd = sim_of(dp);
    struct sim_op *so = sim_op_of(sd, op);
    if (so->cancelled || !cancel_storage(so)) {
        return;
    }
    if (so->copying) {
        sd->copies->abort(sd->copies->self, op);
    }
    if (so->stream.open) {
        net_stream_abort(&so->stream);
    }
    so->cancelled = true;
    loop_post(sd->loop, &so->timer);
}

static const struct dp_ops sim_dp_ops = {
    .name = "sim", .submit = sim_submit, .feed = sim_feed, .cancel = sim_cancel};

/* Progressive filling: those that ask for less than an equal share of what is left run at line
 * rate, until only others are left. Returns the share of each of these, infinite when there is
 * none. */
static double fill_cluster(struct sim_dp *sd)
{
    double left = sd->config.cluster_Bps;
    uint32_t n = 0, before;
    for (uint32_t i = 0; i < sd->config.n_nodes; i++) {
        sd->nodes[i].at_line_rate = sd->nodes[i].snic.demand_Bps == 0;
        n += !sd->nodes[i].at_line_rate;
    }
    do {
        before = n;
        double share = left / n;
        for (uint32_t i = 0; i < sd->config.n_nodes; i++) {
            struct sim_node *node = &sd->nodes[i];
            if (!node->at_line_rate && node->snic.demand_Bps <= share) {
                node->at_line_rate = true;
                left -= node->snic.demand_Bps;
                n--;
            }
        }
    } while (n > 0 && n < before);
    return n > 0 ? left / n : INFINITY;
}

static void share_cluster(struct sim_dp *sd)
{
    double share = fill_cluster(sd);
    for (uint32_t i = 0; i < sd->config.n_nodes; i++) {
        struct sim_node *node = &sd->nodes[i];
        double part = node->at_line_rate ? 1 : share / node->snic.demand_Bps;
        double rate = sd->config.storage.line_Bps * part;
        if (node->snic.demand_Bps > 0 && node->snic.rate_Bps != rate) {
            storage_server_set_rate(&node->snic, rate);
            set_dram_left(sd, node);
        }
    }
}

static void snic_load_changed(struct storage_server *s)
{
    struct sim_node *node = container_of(s, struct sim_node, snic);
    struct sim_dp *sd = node->sd;
    if (sd->cluster_limits) {
        share_cluster(sd);
    }
    set_dram_left(sd, node);
}

int sim_dp_init(struct sim_dp *sd, struct loop *loop, const struct sim_dp_config *config)
{
    *sd = (struct sim_dp){.loop = loop, .config = *config};
    double most_Bps = config->n_nodes * config->storage.line_Bps * config->storage.efficiency_max;
    sd->cluster_limits = config->cluster_Bps > 0 && config->cluster_Bps < most_Bps;
    dp_init(&sd->dp, &sim_dp_ops);
    pool_init(&sd->ops, sizeof(struct sim_op));
    net_init(&sd->net, loop);
    sd->nodes = calloc(config->n_nodes, sizeof(*sd->nodes));
    sd->cnics = calloc((size_t)config->n_nodes * config->gpus_per_node, sizeof(*sd->cnics));
    sd->met = calloc((size_t)config->n_nodes * config->gpus_per_node, sizeof(*sd->met));
    sd->rng = rng_new(config->seed, "storage latency");
    struct err err = {0}; /* the tables are this program's own: only memory can be short */
    if (!sd->nodes || !sd->cnics || !sd->met || !sd->rng ||
        isolation_init(&sd->isolation, &config->isolation, config->submit.local_past_nic, &err)) {
        sim_dp_done(sd);
        return -ENOMEM;
    }
    for (uint32_t n = 0; n < config->n_nodes; n++) {
        struct sim_node *node = &sd->nodes[n];
        node->sd = sd;
        if (storage_server_init(&node->snic, loop, sd->rng, &config->storage)) {
            sim_dp_done(sd);
            return -ENOMEM;
        }
        node->snic.load_changed = snic_load_changed;
        net_resource_init(&node->dram, config->dram_Bps);
    }
    for (uint32_t c = 0; c < config->n_nodes * config->gpus_per_node; c++) {
        net_resource_init(&sd->cnics[c].tx, config->cnic_Bps);
        net_resource_init(&sd->cnics[c].rx, config->cnic_Bps);
    }
    sim_links_init(&sd->links, sd);
    return 0;
}

void sim_dp_done(struct sim_dp *sd)
{
    rng_free(sd->rng);
    for (uint32_t n = 0; sd->nodes && n < sd->config.n_nodes; n++) {
        storage_server_done(&sd->nodes[n].snic);
    }
    free(sd->nodes);
    free(sd->cnics);
    free(sd->met);
    net_done(&sd->net);
    pool_done(&sd->ops);
}

static int unequal(char *ret_what, size_t size, const char *kind, uint32_t index, uint64_t in,
                   uint64_t out)
{
    snprintf(ret_what, size, "%s %u: %llu bytes in, %llu bytes out", kind, index,
             (unsigned long long)in, (unsigned long long)out);
    return -EPROTO;
}

static int check_resource(const struct net_resource *r, const char *kind, uint32_t index,
                          char *ret_what, size_t size)
{
    return r->bytes_in == r->bytes_out
               ? 0
               : unequal(ret_what, size, kind, index, r->bytes_in, r->bytes_out);
}

int sim_dp_check_conserved(const struct sim_dp *sd, char *ret_what, size_t size)
{
    static const char *const queues[2] = {"storage NIC reads of node",
                                          "storage NIC writes of node"};
    int rc = 0;
    for (uint32_t n = 0; n < sd->config.n_nodes && rc == 0; n++) {
        const struct sim_node *node = &sd->nodes[n];
        for (unsigned q = 0; q < 2 && rc == 0; q++) {
            if (node->snic.bytes_in[q] != node->snic.bytes_out[q]) {
                rc = unequal(ret_what, size, queues[q], n, node->snic.bytes_in[q],
                             node->snic.bytes_out[q]);
            }
        }
        rc = rc ? rc : check_resource(&node->dram, "DRAM of node", n, ret_what, size);
    }
    for (uint32_t c = 0; c < sd->config.n_nodes * sd->config.gpus_per_node && rc == 0; c++) {
        rc = check_resource(&sd->cnics[c].tx, "CNIC TX", c, ret_what, size);
        rc = rc ? rc : check_resource(&sd->cnics[c].rx, "CNIC RX", c, ret_what, size);
    }
    return rc;
}
