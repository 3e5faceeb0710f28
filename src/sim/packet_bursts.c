/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/packet_bursts.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

static struct loop *loop_of(const struct packet_burst_group *g)
{
    return g->owner->pd->sd->loop;
}

static double alone_ns(const struct packet_burst_group *g)
{
    double Bps = g->owner->pd->sd->config.cnic_Bps;
    double last = fmin((double)g->burst_bytes, PACKET_PAYLOAD_BYTES);
    return ((double)g->burst_bytes * g->peers + last) / Bps * 1e9;
}

static void plan_next(struct packet_burst_group *g)
{
    if (g->each_Bps > 0 && g->n_open == 0) {
        loop_arm(loop_of(g), &g->timer, g->began_ns + g->owner->period_ns);
    }
}

static void flow_reached(struct packet_flow *f)
{
    (void)f; /* only its end matters */
}

static void flow_ended(struct packet_flow *f)
{
    struct packet_burst_group *g = f->owner;
    if (--g->n_open > 0) {
        return;
    }
    double alone = alone_ns(g), taken = (double)(loop_now_ns(loop_of(g)) - g->began_ns);
    g->n_bursts++;
    g->moved_bytes += g->burst_bytes * g->peers;
    g->alone_ns += alone;
    g->taken_ns += taken;
    plan_next(g);
}

static void open_flow(struct packet_burst_group *g, uint32_t i, uint32_t k)
{
    struct packet_dp *pd = g->owner->pd;
    struct packet_flow *f = &g->flows[i * g->peers + k];
    uint32_t to = (uint32_t)((i + (uint64_t)(k + 1) * g->n / (g->peers + 1)) % g->n);
    struct packet_station *path[2] = {&pd->ports[g->first + i], &pd->egresses[g->first + to]};
    *f = (struct packet_flow){.lane = pd->config.inference_lane,
                              .total_bytes = g->burst_bytes,
                              .ready_bytes = g->burst_bytes,
                              .mark_bytes = g->burst_bytes,
                              .part_bytes = g->burst_bytes,
                              .segment_bytes = g->burst_bytes,
                              .queue_pairs = g->queue_pairs / g->peers,
                              .reached = flow_reached,
                              .ended = flow_ended,
                              .owner = g};
    packet_flow_open(&pd->net, f, path, 2);
}

static void count_due(struct packet_burst_group *g)
{
    uint64_t now = loop_now_ns(loop_of(g));
    g->due_bytes += g->each_Bps * 1e-9 * (double)(now - g->due_at_ns);
    g->due_at_ns = now;
}

static void begin(struct packet_burst_group *g)
{
    count_due(g);
    g->began_ns = loop_now_ns(loop_of(g));
    g->peers = g->next_peers;
    g->queue_pairs = g->next_queue_pairs;
    g->burst_bytes = (uint64_t)(g->due_bytes / g->peers);
    g->due_bytes -= (double)(g->burst_bytes * g->peers);
    if (g->burst_bytes == 0) {
        plan_next(g);
        return;
    }
    g->n_open = g->n * g->peers;
    for (uint32_t i = 0; i < g->n; i++) {
        for (uint32_t k = 0; k < g->peers; k++) {
            open_flow(g, i, k);
        }
    }
}

static void timer_fired(struct loop_timer *t)
{
    begin(container_of(t, struct packet_burst_group, timer));
}

static void links_load(void *self, const struct sim_gpus *gpus, double each_Bps)
{
    double peers = fmin(fmax(round(gpus->queue_pairs), 1), gpus->n - 1);
    packet_bursts_load(self, gpus->first, gpus->n, (uint32_t)peers, gpus->queue_pairs, each_Bps);
}

static double links_expected(void *self, const struct sim_gpus *gpus)
{
    (void)self;
    (void)gpus;
    return 1;
}

static double links_met(void *self, const struct sim_gpus *gpus)
{
    return packet_bursts_stretch(self, gpus->first);
}

void packet_bursts_init(struct packet_bursts *b, struct packet_dp *pd, uint64_t period_ns)
{
    *b = (struct packet_bursts){.pd = pd, .period_ns = period_ns};
    b->links = (struct sim_links){
        .self = b, .expected = links_expected, .met = links_met, .load = links_load};
    list_init(&b->groups);
}

void packet_bursts_done(struct packet_bursts *b)
{
    list_for_each_safe (pos, tmp, &b->groups) {
        struct packet_burst_group *g = container_of(pos, struct packet_burst_group, node);
        list_remove(pos);
        free(g->flows);
        free(g);
    }
}

struct packet_burst_group *packet_bursts_group(const struct packet_bursts *b, uint32_t first)
{
    list_for_each (pos, &b->groups) {
        struct packet_burst_group *g = container_of(pos, struct packet_burst_group, node);
        if (g->first == first) {
            return g;
        }
    }
    return NULL;
}

static struct packet_burst_group *add_group(struct packet_bursts *b, uint32_t first, uint32_t n)
{
    struct packet_burst_group *g = calloc(1, sizeof(*g));
    struct packet_flow *flows = calloc((size_t)n * (n - 1), sizeof(*flows));
    if (!g || !flows) {
        abort();
    }
    *g = (struct packet_burst_group){
        .owner = b, .first = first, .n = n, .flows = flows, .stretch = 1};
    loop_timer_init(&g->timer, timer_fired);
    list_add_tail(&b->groups, &g->node);
    return g;
}

void packet_bursts_load(struct packet_bursts *b, uint32_t first, uint32_t n, uint32_t peers,
                        double queue_pairs, double each_Bps)
{
    assert(n > 1 && queue_pairs > 0 && peers > 0 && peers < n);
    struct packet_burst_group *g = packet_bursts_group(b, first);
    g = g ? g : add_group(b, first, n);
    assert(g->n == n);
    g->next_peers = peers;
    g->next_queue_pairs = queue_pairs;
    count_due(g);
    if (g->each_Bps == 0 && g->n_open == 0) {
        g->began_ns = g->due_at_ns;
    }
    g->each_Bps = each_Bps;
    if (each_Bps == 0) {
        loop_disarm(loop_of(g), &g->timer);
    } else if (!loop_armed(&g->timer)) {
        plan_next(g);
    }
}

double packet_bursts_stretch(struct packet_bursts *b, uint32_t first)
{
    struct packet_burst_group *g = packet_bursts_group(b, first);
    if (!g) {
        return 1;
    }
    double alone = g->alone_ns - g->asked_alone_ns, taken = g->taken_ns - g->asked_taken_ns;
    g->stretch = alone > 0 ? fmax(taken / alone, 1) : g->stretch;
    g->asked_alone_ns = g->alone_ns;
    g->asked_taken_ns = g->taken_ns;
    return g->stretch;
}
