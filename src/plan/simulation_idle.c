/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "plan/simulation.h"

/* Nobody is served, and nothing is under way that a node would report. */
static bool is_quiet(const struct simulation *s)
{
    bool quiet = s->dp.dp.n_in_flight == 0;
    for (uint32_t i = 0; i < s->n_prefill && quiet; i++) {
        quiet = s->prefill[i].requests.n_used == 0;
    }
    for (uint32_t i = 0; i < s->n_decode && quiet; i++) {
        quiet = s->decode[i].requests.n_used == 0;
    }
    return quiet;
}

static void set_fetches(struct simulation *s, void (*set)(struct node *n))
{
    for (uint32_t i = 0; i < s->n_prefill; i++) {
        set(&s->prefill[i].node);
    }
    for (uint32_t i = 0; i < s->n_decode; i++) {
        set(&s->decode[i].node);
    }
    s->fetches_paused = set == node_pause_fetches;
}

/* By then every node has fetched, and its report has arrived. */
static void look_again(struct simulation *s)
{
    uint64_t ns = 2 * s->cluster.fetch_period_ns + s->messages.latency_ns;
    loop_arm(&s->loop, &s->idle_timer, loop_now_ns(&s->loop) + ns);
}

/* Quiet twice in a row: the scheduler knows all that the nodes have to report, and has nothing to
 * hand out, so that fetches change nothing until a request arrives. */
static void look(struct loop_timer *t)
{
    struct simulation *s = container_of(t, struct simulation, idle_timer);
    bool was_quiet = s->was_quiet;
    s->was_quiet = is_quiet(s);
    if (was_quiet && s->was_quiet) {
        set_fetches(s, node_pause_fetches);
    } else {
        look_again(s);
    }
}

void simulation_idle_init(struct simulation *s)
{
    loop_timer_init(&s->idle_timer, look);
}

void simulation_busy(struct simulation *s, bool busy)
{
    if (!busy) {
        s->was_quiet = false;
        look_again(s);
        return;
    }
    loop_disarm(&s->loop, &s->idle_timer);
    if (s->fetches_paused) {
        set_fetches(s, node_resume_fetches);
    }
}
