/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef DUALPATH_CLI_CMD_TRACE_GENERATE_H
#define DUALPATH_CLI_CMD_TRACE_GENERATE_H

/* `dualpath trace generate`; argv[0] is "generate". Returns an exit status of cli.h. */
int cmd_trace_generate(int argc, char **argv);

#endif
