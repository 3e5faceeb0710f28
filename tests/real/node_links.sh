#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# usage: node_links.sh DUALPATH_NODE
# The agent has nothing of GSL (the CUDA driver is not free) and nothing of the simulator.
set -eu
ldd "$1" > /dev/null
if ldd "$1" | grep -i gsl; then
    echo "dualpath-node links GSL" >&2
    exit 1
fi
if nm "$1" | grep -E ' [Tt] (sim_|virtual_driver|maxmin|gsl_)'; then
    echo "dualpath-node has parts of the simulator" >&2
    exit 1
fi
nm "$1" | grep -q ' T prefill_node_init' # nm does see the program's own functions
