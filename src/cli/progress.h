/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A progress line on stderr, when that is a terminal and the run is longer than a second; and the
 * wall clock and memory of this process. The one file outside hw/ that looks at the real clock. */
#ifndef DUALPATH_CLI_PROGRESS_H
#define DUALPATH_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/simulate.h"

struct progress {
    double started_s, shown_s;
    bool terminal, shown;
};

void progress_start(struct progress *p);
/* For simulation_options.progress; arg is the struct progress. */
void progress_show(void *arg, const struct simulation_progress *s);
/* Clears the line. */
void progress_end(struct progress *p);
double progress_wall_s(const struct progress *p);
uint64_t progress_peak_rss_bytes(void);

#endif
