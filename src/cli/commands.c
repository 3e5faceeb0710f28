/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/commands.h"

#include <stddef.h>

#include "cli/cmd_trace.h"

const struct command cli_commands[] = {
    {"run", "simulates one scenario and prints the result", cmd_run},
    {"paper", "the published results of the DualPath paper beside ours", cmd_paper},
    {"calibrate", "fits the constants of the time model to published or measured figures",
     cmd_calibrate},
    {"compare", "two results side by side, figure by figure", cmd_compare},
    {"probe", "measures this machine and writes a profile for the simulator", cmd_probe},
    {"bounds", "the P/D ratios at which only the storage NICs limit", cmd_bounds},
    {"list", "shipped models, GPUs, storage profiles and scenarios", cmd_list},
    {"trace", "inspects and validates request traces", cmd_trace},
    {"qos", "shares of virtual lanes or traffic classes under given QoS settings", cmd_qos},
    {NULL, NULL, NULL},
};
