/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The traffic of a few forwards, as the engines make it (scenarios/ds660b-packets.json on the fluid
 * network), once more on the fluid network and in packets: the error of the fast modes, transfer by
 * transfer. "print" prints the table of src/sim/README.md.
 */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_suite.h"
#include "input/scenario.h"
#include "model/collectives.h"
#include "packet_replay.h"
#include "plan/packet_mode.h"
#include "plan/simulation.h"

static bool print;

static struct scenario scenario;
static struct scenario_notes notes;

static struct simulation *simulation_of(const char *set1, const char *set2)
{
    const char *sets[2] = {set1, set2};
    struct simulation_options options = {0};
    struct simulation *s;
    struct err err = ERR_INIT;
    scenario_notes_done(&notes);
    ck_assert_msg(!scenario_read("scenarios/ds660b-packets.json", sets, set2 ? 2 : 1, &scenario,
                                 &notes, &err),
                  "%s", err.text);
    ck_assert_msg(!simulation_new(&scenario, &options, &s, &err), "%s", err.text);
    return s;
}

/* Recording: a data path that writes down what it is asked to do, and does it. */

static const struct dp_ops *recorded_ops;
static struct replay recording;
static uint32_t n_copies_asked;

static uint64_t now_ns(struct dp *dp)
{
    return loop_now_ns(container_of(dp, struct sim_dp, dp)->loop);
}

static int record_submit(struct dp *dp, struct dp_op *op)
{
    int rc = recorded_ops->submit(dp, op);
    if (rc == 0) {
        replay_submit(&recording, now_ns(dp), op);
        n_copies_asked += op->kind == DP_COPY;
    }
    return rc;
}

static void record_feed(struct dp *dp, struct dp_op *op)
{
    recorded_ops->feed(dp, op);
    replay_feed(&recording, now_ns(dp), op, op->parts_ready);
}

static void record_cancel(struct dp *dp, struct dp_op *op)
{
    (void)dp;
    (void)op;
    ck_abort_msg("nothing is cancelled in this run");
}

static void record(void)
{
    static const struct dp_ops ops = {
        .name = "recorder", .submit = record_submit, .feed = record_feed, .cancel = record_cancel};
    struct result result;
    struct err err = ERR_INIT;
    struct simulation *s = simulation_of("system.fidelity=layer", NULL);
    recording = (struct replay){.config = s->dp.config};
    n_copies_asked = 0;
    recorded_ops = s->dp.dp.ops;
    s->dp.dp.ops = &ops;
    ck_assert_msg(!simulation_run(s, &result, &err), "%s", err.text);
    simulation_free(s);
}

static void print_row(const char *name, const struct replay_errors *e)
{
    if (e->n == 0) {
        return;
    }
    printf("| %s | %u | %.3f ms | %+.3f %% | %.3f %% | %+.3f %% |", name, e->n, e->mean_s * 1e3,
           100 * e->mean, 100 * e->mean_abs, 100 * e->worst);
    if (e->n_fed > 0) {
        printf(" %.2f us | %.2f us |\n", e->lag_mean_ns * 1e-3, e->lag_worst_ns * 1e-3);
    } else {
        printf(" | |\n");
    }
}

static void print_table(const struct replay *r, const char *title)
{
    static const enum dp_class classes[] = {DP_CLASS_LOAD, DP_CLASS_STORE, DP_CLASS_ADMIT};
    printf("%s: %llu packets times links and memories\n", title, (unsigned long long)r->n_served);
    for (unsigned i = 0; i < 3; i++) {
        struct replay_errors e = replay_errors(r, classes[i]);
        print_row(dp_class_name(classes[i]), &e);
    }
    struct replay_errors all = replay_errors(r, DP_N_CLASSES);
    print_row("all", &all);
}

static double worst_of(struct replay *r, const char *title)
{
    replay_run(r);
    struct replay_errors e = replay_errors(r, DP_N_CLASSES);
    ck_assert_uint_eq(e.n, n_copies_asked);
    if (print) {
        print_table(r, title);
    }
    return fabs(e.worst);
}

START_TEST(transfers_of_a_forward)
{
    record();
    ck_assert_double_le(worst_of(&recording, "queue pairs"), 0.02);
    replay_done(&recording);
}
END_TEST

/* What the choices in the network of packets amount to on this traffic. */
START_TEST(other_switches)
{
    record();
    recording.lane_buffers = true;
    /* First in, first out: head-of-line blocking is not in the fluid model, so this one is only
     * stated. */
    worst_of(&recording, "lane buffers");
    recording.lane_buffers = false;
    /* A Layer Block of 50,432 B is 13 packets of 3,879 B on average. Beside a copy of full ones it
     * has that much less than half a link. */
    recording.packet_turns = true;
    double mean = 50432.0 / 13;
    ck_assert_double_le(worst_of(&recording, "packet turns"), (mean + 4096) / (2 * mean) - 1);
    recording.packet_turns = false;
    for (recording.window = 2; print && recording.window <= 16; recording.window *= 2) {
        char title[32];
        snprintf(title, sizeof(title), "window %u", recording.window);
        worst_of(&recording, title);
    }
    replay_done(&recording);
}
END_TEST

/* The loads of the last forward alone, from time 1 on. */
static struct replay last_loads(const struct replay *all)
{
    struct replay r = {.config = all->config};
    uint64_t from_ns = 0;
    for (uint32_t i = 0; i < all->n_transfers; i++) {
        const struct replay_transfer *t = &all->transfers[i];
        if (t->shape.traffic_class == DP_CLASS_LOAD && t->submit_ns > from_ns + 10000000) {
            replay_done(&r);
            r = (struct replay){.config = all->config};
            from_ns = t->submit_ns;
        }
        if (t->shape.traffic_class == DP_CLASS_LOAD) {
            replay_submit(&r, 1 + t->submit_ns - from_ns, &t->shape);
        }
    }
    return r;
}

static double packets_ns(const struct replay_transfer *t)
{
    return (double)(t->done_ns[1] - t->submit_ns);
}

/* Within a group: both ends are in the same burst. */
static bool is_local(const struct replay_transfer *t)
{
    return t->shape.src.node == t->shape.dst.node;
}

static void print_beside(const struct replay *r, bool local)
{
    double n = 0, sum = 0, least = INFINITY, most = -INFINITY;
    for (uint32_t i = 0; i < r->n_transfers; i++) {
        const struct replay_transfer *t = &r->transfers[i];
        double late = ((double)t->done_ns[1] - (double)t->done_ns[0]) / packets_ns(t);
        if (is_local(t) == local) {
            n++;
            sum += late;
            least = fmin(least, late);
            most = fmax(most, late);
        }
    }
    printf("| %s | %.0f | %+.2f %% | %+.2f %% | %+.2f %% |\n", local ? "local" : "between groups",
           n, 100 * sum / n, 100 * least, 100 * most);
}

/*
 * Bursts of two groups at periods of their own. As long as none is on, a share 1 - rho1 - rho2 of
 * the time at least, the network is as without: no load takes longer than its time without
 * collectives over that share and a burst of each.
 */
START_TEST(loads_beside_collectives)
{
    record();
    struct replay alone = last_loads(&recording), beside = last_loads(&recording);
    replay_run(&alone);
    beside.n_loads = 2;
    beside.loads[0] = (struct replay_load){0, 16, 1, 0.15, 750000};
    beside.loads[1] = (struct replay_load){16, 16, 15, 0.1, 620000};
    double bursts_ns = 0.15 * 750000 + 0.1 * 620000;
    replay_run(&beside);
    ck_assert_uint_gt(beside.n_transfers, 16);
    for (uint32_t i = 0; i < beside.n_transfers; i++) {
        double free_ns = packets_ns(&alone.transfers[i]);
        ck_assert_double_ge(packets_ns(&beside.transfers[i]), free_ns * (1 - 1e-3));
        ck_assert_double_le(packets_ns(&beside.transfers[i]),
                            free_ns / (1 - 0.15 - 0.1) + bursts_ns);
    }
    /* KV takes next to nothing from bursts: one in 960 packets, and one packet per hop. */
    for (unsigned l = 0; l < 2; l++) {
        ck_assert_double_ge(beside.stretch[l], 1);
        ck_assert_double_le(beside.stretch[l], 1 + 1. / 960 + 0.01);
    }
    if (print) {
        print_beside(&beside, true);
        print_beside(&beside, false);
        printf("bursts stretched %.4f, %.4f\n", beside.stretch[0], beside.stretch[1]);
    }
    replay_done(&alone);
    replay_done(&beside);
    replay_done(&recording);
}
END_TEST

/* Bytes of all bursts over what the tokens computed come to. */
static double prefill_bursts_frac(const struct simulation *s, const struct result *result)
{
    const struct timing_model *tm = s->cluster.timing;
    uint32_t n = s->cluster.prefill_ep_gpus;
    uint32_t all = s->cluster.prefill_nodes * s->cluster.gpus_per_node;
    double moved = 0;
    for (uint32_t first = 0; first < all; first += n) {
        const struct packet_burst_group *g = packet_bursts_group(&s->bursts, first);
        ck_assert_ptr_nonnull(g);
        moved += (double)g->moved_bytes * n;
    }
    double per_tok = collective_prefill_bytes_per_tok(&tm->card, n, tm->gpu.nvlink_gpus);
    return moved / ((double)result->miss_tok * per_tok);
}

/* End to end: the same scenario with every decision made again. */
START_TEST(whole_runs)
{
    struct result layer, packet;
    struct err err = ERR_INIT;
    struct simulation *s = simulation_of("system.fidelity=layer", NULL);
    ck_assert_msg(!simulation_run(s, &layer, &err), "%s", err.text);
    simulation_free(s);
    s = simulation_of("system.fidelity=packet", NULL);
    ck_assert_msg(!simulation_run(s, &packet, &err), "%s", err.text);
    double packets = (double)s->packets.net.n_served;
    ck_assert_double_le(packets, PACKET_MAX_HOPS * packet_mode_packets(&s->cluster, s->workload));
    double bursts_frac = prefill_bursts_frac(s, &packet);
    simulation_free(s);
    if (print) {
        printf("collectives of forwards sent: %.4f\n", bursts_frac);
        printf("JCT %.6f, %.6f s; TTFT %.6f, %.6f s\n", layer.jct_s, packet.jct_s,
               layer.ttft_s.mean, packet.ttft_s.mean);
    }
    ck_assert_double_eq_tol(packet.jct_s / layer.jct_s, 1, 0.02);
    ck_assert_uint_eq(packet.requests, layer.requests);
    ck_assert_double_eq_tol(bursts_frac, 1, 0.01);
}
END_TEST

static void refused(const char *set1, const char *set2)
{
    const char *sets[2] = {set1, set2};
    struct simulation_options options = {0};
    struct simulation *s;
    struct err err = ERR_INIT;
    scenario_notes_done(&notes);
    ck_assert(!scenario_read("scenarios/ds660b-packets.json", sets, 2, &scenario, &notes, &err));
    ck_assert_int_eq(simulation_new(&scenario, &options, &s, &err), -E2BIG);
    ck_assert_str_eq(err.field, "system.fidelity");
    ck_assert_ptr_nonnull(strstr(err.text, "expected at most 8 nodes and 2e+08 packets"));
}

START_TEST(too_large_is_refused)
{
    refused("cluster.decode_nodes=8", "cluster.prefill_nodes=2");
    refused("workload.agents=100000", "seed=1");
}
END_TEST

int main(int argc, char **argv)
{
    print = argc > 1 && strcmp(argv[1], "print") == 0;
    Suite *s = suite_create("packet_forward");
    TCase *t = tcase_create("packet_forward");
    tcase_set_timeout(t, 600);
    tcase_add_test(t, transfers_of_a_forward);
    tcase_add_test(t, other_switches);
    tcase_add_test(t, whole_runs);
    tcase_add_test(t, too_large_is_refused);
    tcase_add_test(t, loads_beside_collectives);
    suite_add_tcase(s, t);
    int status = run_suite(s);
    scenario_notes_done(&notes);
    return status;
}
