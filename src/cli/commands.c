/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/commands.h"

#include <stddef.h>

#include "cli/cmd_trace.h"

const struct command cli_commands[] = {
    {"trace", "inspects and validates request traces", cmd_trace},
    {NULL, NULL, NULL},
};
