/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What was measured and fitted, for a person and for a program. */
#ifndef DUALPATH_CLI_PROBE_REPORT_H
#define DUALPATH_CLI_PROBE_REPORT_H

#include <jansson.h>

#include "cli/probe_measure.h"
#include "plan/probe_fit.h"

void probe_report_text(const struct probe_measured *m, const struct probe_fit *f,
                       const struct model_card *card);

/* {"schema": "dualpath/probe/1", "points": [...], "gpu": ..., "profile": ...}; takes profile. NULL
 * when out of memory. */
json_t *probe_report_json(const struct probe_measured *m, json_t *profile);

#endif
