/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/commands.h"

#include <stddef.h>

const struct command cli_commands[] = {
    {"qos", "shares of virtual lanes or traffic classes under given QoS settings", cmd_qos},
    {NULL, NULL, NULL},
};
