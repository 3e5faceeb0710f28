/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef DUALPATH_CLI_COMMANDS_H
#define DUALPATH_CLI_COMMANDS_H

#include "cli/cli.h"

/* Every command, in the order of the help text; ends with a row whose name is NULL. */
extern const struct command cli_commands[];

int cmd_calibrate(int argc, char **argv);
int cmd_bounds(int argc, char **argv);
int cmd_compare(int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_paper(int argc, char **argv);
int cmd_probe(int argc, char **argv);
int cmd_qos(int argc, char **argv);
int cmd_run(int argc, char **argv);

#endif
