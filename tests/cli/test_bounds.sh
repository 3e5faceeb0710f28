#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Output and exit status of 'dualpath bounds' against tests/cli/bounds/*.golden.
# Usage: test_bounds.sh DUALPATH DIRECTORY; with UPDATE=1 it rewrites the golden files.
dualpath=$(realpath "$1") command=bounds
golden=$(realpath "$2")
. "$(dirname "$0")/golden.sh"
cd "$golden" || exit 1

check defaults
check defaults_json --format json
check empty --snic-ratio 3
check empty_json --snic-ratio 3 --format json
check overloaded --snic-ratio 8
check slow_dram --dram 200GB/s
check bad_rate --cnic 50GB
check bad_gpus --gpus-per-node 0
check slow_cnic --cnic 400MB/s
check unknown --nodes 8

# The paper's interval for the defaults, whatever else is printed.
"$dualpath" bounds | grep -q 'from 1/7 = 0.1429 to 7/2 = 3.5' || { echo 'FAILED: 1/7, 7/2'; failed=1; }
exit $failed
