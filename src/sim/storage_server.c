/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/storage_server.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "base/units.h"

double storage_server_efficiency(const struct storage_config *config, double io_bytes)
{
    return config->efficiency_max * io_bytes / (io_bytes + config->half_size_bytes);
}

/* Part of the line that each job in service takes, unless the storage cluster gives less. */
static double job_share(const struct storage_server *s)
{
    double fair = 1.0 / s->n_serving;
    double most = s->config.stream_Bps / s->config.line_Bps;
    return most > 0 && most < fair ? most : fair;
}

static double line_share(const struct storage_server *s)
{
    return s->n_serving > 0 ? s->n_serving * job_share(s) : 0;
}

double storage_server_job_Bps(const struct storage_server *s)
{
    return s->rate_Bps * job_share(s);
}

/* Serves until now at the rate and the sharing that have held since the last call. */
static void catch_up(struct storage_server *s)
{
    uint64_t now = loop_now_ns(s->loop);
    double elapsed_ns = (double)(now - s->served_at_ns);
    s->served_at_ns = now;
    if (s->n_serving == 0 || elapsed_ns == 0) {
        return;
    }
    s->used_ns += elapsed_ns * line_share(s) * s->rate_Bps / s->config.line_Bps;
    double each = storage_server_job_Bps(s) * 1e-9 * elapsed_ns;
    list_for_each (pos, &s->serving) {
        struct storage_job *j = container_of(pos, struct storage_job, node);
        j->work_left_bytes -= each;
        s->moved_bytes += each * j->efficiency;
    }
}

static void arm(struct storage_server *s)
{
    double least = INFINITY;
    list_for_each (pos, &s->serving) {
        struct storage_job *j = container_of(pos, struct storage_job, node);
        least = j->work_left_bytes < least ? j->work_left_bytes : least;
    }
    if (isinf(least) || s->rate_Bps <= 0) {
        loop_disarm(s->loop, &s->timer);
        return;
    }
    loop_arm(s->loop, &s->timer, loop_after_ns(s->loop, least / storage_server_job_Bps(s) * 1e9));
}

static double demand_Bps(const struct storage_server *s)
{
    double least = INFINITY, most = 0, sum = 0;
    list_for_each (pos, &s->serving) {
        const struct storage_job *j = container_of(pos, struct storage_job, node);
        least = fmin(least, j->efficiency);
        most = fmax(most, j->efficiency);
        sum += j->efficiency;
    }
    /* Equal ones have a mean that does not depend on how many they are. */
    return s->config.line_Bps * line_share(s) * (least >= most ? most : sum / s->n_serving);
}

/* Tells the owner of a change only: between two equal jobs that follow each other at once there is
 * none. */
static void tell_load(struct storage_server *s)
{
    double demand = demand_Bps(s);
    if (demand != s->demand_Bps) {
        s->demand_Bps = demand;
        if (s->load_changed) {
            s->load_changed(s);
        }
    }
}

static void begin(struct storage_server *s, struct storage_job *j)
{
    list_add_tail(&s->serving, &j->node);
    s->n_serving++;
    j->started_ns = loop_now_ns(s->loop);
    if (j->started) {
        j->started(j);
    }
}

static void prepared(struct loop_timer *t)
{
    struct storage_job *j = container_of(t, struct storage_job, prepare_timer);
    struct storage_server *s = j->server;
    catch_up(s);
    begin(s, j);
    tell_load(s);
    arm(s);
}

static void start_first(struct storage_server *s, struct storage_queue *q)
{
    struct list *first = list_first(&q->waiting);
    struct storage_job *j = container_of(first, struct storage_job, node);
    uint64_t prepare_ns = j->prepare_ns ? j->prepare_ns(j) : 0;
    list_remove(first);
    q->n_serving++;
    if (prepare_ns > 0) {
        loop_arm(s->loop, &j->prepare_timer, loop_now_ns(s->loop) + prepare_ns);
    } else {
        begin(s, j);
    }
}

/* After every change of who of the queue is in service. */
static void start_waiting(struct storage_server *s, struct storage_queue *q)
{
    while (q->n_serving < q->in_service && !list_empty(&q->waiting)) {
        start_first(s, q);
    }
}

static void latency_over(struct loop_timer *t)
{
    struct storage_job *j = container_of(t, struct storage_job, latency_timer);
    j->done(j);
}

static void leave_service(struct storage_server *s, struct storage_job *j)
{
    list_remove(&j->node);
    j->queue->n_serving--;
    s->n_serving--;
}

static void finish(struct storage_server *s, struct storage_job *j)
{
    leave_service(s, j);
    s->bytes_out[j->queue->writes] += j->bytes;
    s->moved_bytes += j->work_left_bytes * j->efficiency; /* what rounding to 1 ns left */
    double latency_s = 0;
    if (s->config.latency_median_s > 0) {
        latency_s = rng_lognormal(s->rng, s->config.latency_median_s, s->config.latency_sigma);
    }
    if (s->config.latency_in_rate) {
        double served_s = (double)(loop_now_ns(s->loop) - j->started_ns) * 1e-9;
        latency_s = fmax(latency_s - served_s, 0);
    }
    loop_arm(s->loop, &j->latency_timer, loop_now_ns(s->loop) + units_s_to_ns(latency_s));
}

static void serve(struct loop_timer *t)
{
    struct storage_server *s = container_of(t, struct storage_server, timer);
    catch_up(s);
    /* The event was rounded up to a nanosecond, in which the line moves rate * 1 ns: that is
     * "done". */
    double slack = s->rate_Bps * 1e-9;
    list_for_each_safe (pos, tmp, &s->serving) {
        struct storage_job *j = container_of(pos, struct storage_job, node);
        if (j->work_left_bytes <= slack * 1e-6) {
            finish(s, j);
        }
    }
    for (uint32_t q = 0; q < s->n_queues; q++) {
        start_waiting(s, &s->queues[q]);
    }
    tell_load(s);
    arm(s);
}

int storage_server_init(struct storage_server *s, struct loop *loop, struct rng *rng,
                        const struct storage_config *config)
{
    uint32_t n_read = config->read_queues ? config->read_queues : 1;
    *s = (struct storage_server){.loop = loop,
                                 .rng = rng,
                                 .config = *config,
                                 .n_queues = n_read + 1,
                                 .rate_Bps = config->line_Bps};
    list_init(&s->serving);
    loop_timer_init(&s->timer, serve);
    s->queues = calloc(s->n_queues, sizeof(*s->queues));
    if (!s->queues) {
        return -ENOMEM;
    }
    for (uint32_t q = 0; q < s->n_queues; q++) {
        bool writes = q == n_read;
        s->queues[q].writes = writes;
        s->queues[q].in_service = config->in_service[writes];
        list_init(&s->queues[q].waiting);
    }
    return 0;
}

void storage_server_done(struct storage_server *s)
{
    free(s->queues);
    s->queues = NULL;
}

static void submit(struct storage_server *s, struct storage_job *job, struct storage_queue *q,
                   uint64_t bytes, uint64_t io_bytes)
{
    job->server = s;
    job->queue = q;
    job->bytes = bytes;
    job->efficiency = storage_server_efficiency(&s->config, (double)io_bytes);
    job->work_left_bytes = (double)bytes / job->efficiency;
    loop_timer_init(&job->prepare_timer, prepared);
    loop_timer_init(&job->latency_timer, latency_over);
    s->bytes_in[q->writes] += bytes;
    list_add_tail(&q->waiting, &job->node);
    if (q->n_serving < q->in_service) {
        catch_up(s);
        start_waiting(s, q);
        tell_load(s);
        arm(s);
    }
}

void storage_server_read(struct storage_server *s, struct storage_job *job, uint32_t reader,
                         uint64_t bytes, uint64_t io_bytes)
{
    submit(s, job, &s->queues[reader % (s->n_queues - 1)], bytes, io_bytes);
}

void storage_server_write(struct storage_server *s, struct storage_job *job, uint64_t bytes,
                          uint64_t io_bytes)
{
    submit(s, job, &s->queues[s->n_queues - 1], bytes, io_bytes);
}

bool storage_server_cancel(struct storage_server *s, struct storage_job *job)
{
    if (loop_armed(&job->latency_timer)) {
        return false;
    }
    catch_up(s);
    bool serving = false;
    list_for_each (pos, &s->serving) {
        serving |= pos == &job->node;
    }
    if (loop_armed(&job->prepare_timer)) {
        loop_disarm(s->loop, &job->prepare_timer);
        job->queue->n_serving--;
    } else if (serving) {
        leave_service(s, job);
    } else {
        list_remove(&job->node);
    }
    s->bytes_in[job->queue->writes] -= job->bytes;
    start_waiting(s, job->queue);
    tell_load(s);
    arm(s);
    return true;
}

static double since_served_ns(const struct storage_server *s)
{
    return (double)(loop_now_ns(s->loop) - s->served_at_ns);
}

double storage_server_delivers_Bps(const struct storage_server *s)
{
    return s->demand_Bps * s->rate_Bps / s->config.line_Bps;
}

double storage_server_moved_bytes(const struct storage_server *s)
{
    return s->moved_bytes + storage_server_delivers_Bps(s) * 1e-9 * since_served_ns(s);
}

double storage_server_used_ns(const struct storage_server *s)
{
    double part = line_share(s) * s->rate_Bps / s->config.line_Bps;
    return s->used_ns + part * since_served_ns(s);
}

void storage_server_set_rate(struct storage_server *s, double rate_Bps)
{
    catch_up(s);
    s->rate_Bps = rate_Bps;
    arm(s);
}
