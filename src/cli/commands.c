/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/commands.h"

#include <stddef.h>

const struct command cli_commands[] = {
    {"bounds", "the P/D ratios at which only the storage NICs limit", cmd_bounds},
    {"list", "shipped models, GPUs, storage profiles and scenarios", cmd_list},
    {NULL, NULL, NULL},
};
