/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The agent of one node: joins the hub, is told what the run is, builds its machine, serves until
 * it is told to stop, reports. It ends by itself when the hub is gone.
 *
 *   agent                      hub
 *   HELLO {version}         ->
 *                           <- CONFIG run_config
 *   LISTENING {port, links} ->     memories and engines are there; what each peer needs to know
 *                           <- PEERS [port and link of each peer]
 *   READY                   ->     the node takes messages
 *                           <- START            the run begins
 *                           <- STOP
 *   REPORT agent_report     ->
 *
 * FAILED (either way) carries a sentence, an agent's begins with its errno ("-19 ..."), and ends
 * it; NOTE tells what lies behind a fault.
 */
#ifndef DUALPATH_REAL_AGENT_H
#define DUALPATH_REAL_AGENT_H

#include <stdint.h>

#include "base/err.h"

struct agent_options {
    const char *join_path;
    uint32_t node;
    const char *host; /* numeric address to listen at; NULL: the one that leads to the hub */
    uint64_t join_timeout_ns; /* without a word from the hub */
};

/* Returns 0 when it has reported, or a negative errno with err saying why it ended; -ENODEV when
 * hardware is missing here. */
int agent_run(const struct agent_options *options, struct err *err);

#endif
