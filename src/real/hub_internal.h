/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Shared by hub.c (the run) and hub_deaths.c (agents that die, and operations that fail). */
#ifndef DUALPATH_REAL_HUB_INTERNAL_H
#define DUALPATH_REAL_HUB_INTERNAL_H

#include <jansson.h>

#include "hw/messages_zmq.h"
#include "real/hub.h"
#include "real/join_file.h"
#include "real/launcher.h"

enum hub_phase {
    HUB_JOINING,
    HUB_CONNECTING,
    HUB_RUNNING,
    HUB_STOPPING,
    HUB_LEAVING,
    HUB_OVER,
    HUB_FAILED /* agents have been told */
};

/* How near to the root a cause is. */
enum hub_cause {
    CAUSE_NONE,
    CAUSE_FAULT,  /* an operation failed at a node */
    CAUSE_LOST,   /* a connection or a sign of life is missing, or the time is up */
    CAUSE_ENDED,  /* an agent has ended by itself */
    CAUSE_FAILED, /* an agent has said why it cannot go on */
    CAUSE_KILLED, /* an agent was killed */
};

struct hub_node {
    struct hub *owner;
    bool hello, listening, ready, reported, dead;
    bool gone; /* its connection has ended */
    uint64_t died_ns;
    /* Copies to it have failed: either it is dead, which is noticed in time, or the run ends with
     * what failed. */
    struct loop_timer accused_timer;
    int accused_code;
    char accusation[600];
    json_t *address; /* its LISTENING */
    char note[400];  /* the last it has told of what lies behind a fault */
    struct agent_report report;
};

struct hub {
    struct hub_options options;
    const struct cluster *cluster;
    struct join_file join;
    struct wall_driver driver;
    struct loop loop;
    struct messages_zmq messages;
    struct launcher launcher;
    struct central central;
    struct client client;
    struct workload shifted; /* the workload as the loop's clock sees it */
    struct hub_node *nodes;
    uint32_t n_listening, n_ready, n_reported, n_deaths;
    char last_death[400];
    enum hub_phase phase;
    uint64_t start_ns;
    struct loop_timer limit_timer, grace_timer, watch_timer, interrupt_timer;
    uint64_t watched_over; /* requests over at the last look */
    bool interrupted;
    enum hub_cause cause;
    struct err fault;
    /* Built so far. */
    bool have_join_file, have_driver, have_loop, have_messages, have_central, have_client;
};

void hub_note(struct hub *h, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The run cannot go on; the nearest cause to the root within the time of grace is the one told. */
void hub_fail(struct hub *h, enum hub_cause cause, int code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Reports are all there: what is left are the ends of the agents' processes. */
void hub_over_if_all_left(struct hub *h);
void hub_look_if_all_reported(struct hub *h);

/* The run has failed, and agents that the hub cannot kill have been told: until they have ended
 * they may still write, so it waits for them. */
void hub_wait_for_agents(struct hub *h);

/* hub_deaths.c */
void hub_node_init(struct hub *h, uint32_t node);
void hub_node_fault(void *self, const struct msg_fault *f, uint32_t node);
void hub_peer_lost(void *self, uint32_t node, const char *why);
void hub_agent_ended(void *self, uint32_t node, pid_t pid, bool killed, int number);

#endif
