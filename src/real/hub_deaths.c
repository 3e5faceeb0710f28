/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "real/hub_internal.h"

/* Agents give what is under way 10 s to end, and their last words 2 s. */
#define END_LIMIT_NS (13 * NS_PER_S)

static uint32_t n_nodes(const struct hub *h)
{
    return cluster_nodes(h->cluster);
}

static void still_alive(struct loop_timer *t)
{
    struct hub_node *n = container_of(t, struct hub_node, accused_timer);
    hub_fail(n->owner, CAUSE_FAULT, n->accused_code, "%s", n->accusation);
}

/* A copy to the node has failed; perhaps because the node is dead, which is noticed within the
 * silence that is borne: which news comes first says nothing. */
static void accuse(struct hub *h, uint32_t node, int code, const char *text)
{
    struct hub_node *n = &h->nodes[node];
    if (n->dead || loop_armed(&n->accused_timer)) {
        return;
    }
    n->accused_code = code;
    snprintf(n->accusation, sizeof(n->accusation), "%s", text);
    loop_arm(&h->loop, &n->accused_timer,
             loop_now_ns(&h->loop) + h->join.silence_ns + 2 * h->join.beat_ns);
}

void hub_node_init(struct hub *h, uint32_t node)
{
    h->nodes[node].owner = h;
    loop_timer_init(&h->nodes[node].accused_timer, still_alive);
}

/* True when the run goes on without the node. */
static bool survive(struct hub *h, uint32_t node, const char *what)
{
    struct hub_node *n = &h->nodes[node];
    bool running = h->phase == HUB_RUNNING || h->phase == HUB_STOPPING;
    if (!h->cluster->retry || !running || n->dead || n->reported) {
        return n->dead;
    }
    n->dead = true;
    n->died_ns = loop_now_ns(&h->loop);
    h->n_deaths++;
    snprintf(h->last_death, sizeof(h->last_death), "%s", what);
    loop_disarm(&h->loop, &n->accused_timer);
    messages_zmq_leaving(&h->messages, node);
    launcher_kill(&h->launcher, node); /* one that only hangs must not come back */
    hub_note(h, "%s; the run goes on without it", what);
    if (h->phase == HUB_RUNNING) {
        struct msg m = {
            .type = MSG_DEAD, .src = MSG_CLIENT, .dst = MSG_SCHEDULER, .u.dead = {.node = node}};
        msg_send(&h->messages.port, &m, 0);
    }
    hub_look_if_all_reported(h);
    return true;
}

void hub_node_fault(void *self, const struct msg_fault *f, uint32_t node)
{
    struct hub *h = self;
    if (node == MSG_NO_NODE) {
        hub_fail(h, CAUSE_KILLED, f->status, "%s: %s", h->last_death, f->what);
        return;
    }
    char name[32], text[600];
    int code = f->status < 0 ? f->status : -EIO;
    hub_node_name(h->cluster, node, name, sizeof(name));
    const char *behind = h->nodes[node].note;
    snprintf(text, sizeof(text), "%s: %s failed: %s%s%s", name, f->what, strerror(-code),
             *behind ? ": " : "", behind);
    if (f->peer < n_nodes(h)) {
        accuse(h, f->peer, code, text);
    } else if (!h->nodes[node].dead) {
        hub_fail(h, CAUSE_FAULT, code, "%s", text);
    }
}

/* Who has reported writes no more. */
static bool all_gone(const struct hub *h)
{
    for (uint32_t i = 0; i < n_nodes(h); i++) {
        const struct hub_node *n = &h->nodes[i];
        if (n->hello && !n->gone && !n->reported) {
            return false;
        }
    }
    return true;
}

void hub_wait_for_agents(struct hub *h)
{
    if (h->options.start_agents) {
        return;
    }
    h->phase = HUB_FAILED;
    loop_disarm(&h->loop, &h->interrupt_timer);
    loop_disarm(&h->loop, &h->grace_timer);
    loop_arm(&h->loop, &h->limit_timer, loop_now_ns(&h->loop) + END_LIMIT_NS);
    if (!all_gone(h)) {
        loop_run(&h->loop);
    }
}

void hub_peer_lost(void *self, uint32_t node, const char *why)
{
    struct hub *h = self;
    char name[32], text[300];
    hub_node_name(h->cluster, node, name, sizeof(name));
    h->nodes[node].gone = true;
    if (h->phase == HUB_FAILED) {
        if (all_gone(h)) {
            loop_stop(&h->loop);
        }
        return;
    }
    snprintf(text, sizeof(text), "%s is lost: %s", name, why);
    if (!survive(h, node, text)) {
        hub_fail(h, CAUSE_LOST, -ECONNRESET, "%s", text);
    }
}

void hub_agent_ended(void *self, uint32_t node, pid_t pid, bool killed, int number)
{
    struct hub *h = self;
    char name[32];
    hub_node_name(h->cluster, node, name, sizeof(name));
    char text[300];
    snprintf(text, sizeof(text), "%s (process %ld) was killed by signal %d (%s)", name, (long)pid,
             number, strsignal(number));
    if (killed && survive(h, node, text)) {
        if (h->phase == HUB_LEAVING) {
            hub_over_if_all_left(h);
        }
    } else if (killed) {
        hub_fail(h, CAUSE_KILLED, -ECONNRESET, "%s", text);
    } else if (number != 0 || h->phase < HUB_STOPPING) {
        hub_fail(h, CAUSE_ENDED, -ECONNRESET, "%s (process %ld) ended with status %d", name,
                 (long)pid, number);
    } else if (h->phase == HUB_LEAVING) {
        hub_over_if_all_left(h);
    } /* else its report is on its way */
}

bool hub_node_died(const struct hub *h, uint32_t node, uint64_t *ret_ns)
{
    if (h->nodes[node].dead && ret_ns) {
        *ret_ns = h->nodes[node].died_ns;
    }
    return h->nodes[node].dead;
}

uint32_t hub_deaths(const struct hub *h)
{
    return h->n_deaths;
}
