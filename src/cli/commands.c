/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/commands.h"

#include <stddef.h>

const struct command cli_commands[] = {
    {NULL, NULL, NULL},
};
