/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef DUALPATH_INPUT_SCENARIO_EXPLAIN_H
#define DUALPATH_INPUT_SCENARIO_EXPLAIN_H

#include <stdio.h>

#include "input/scenario.h"

/*
 * Writes the resolved scenario for a person (run --explain): the topology, the derived sizes and
 * limits with their arithmetic, then every key with its value, who set it and the source of its
 * default. The caller checks ferror(out).
 */
void scenario_explain(const struct scenario *sc, const struct scenario_notes *notes, FILE *out);

#endif
