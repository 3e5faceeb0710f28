#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# usage: run_cuda.sh DUALPATH [fake]
# A small real run whose attention is computed by CUDA. Without a driver the run itself says so and ends
# with 77; with the fake driver it must not.
set -u
dir=$(mktemp -d)
TMPDIR=$dir "$1" run scenarios/loopback.json --backend real --set hw.compute=cuda \
    --set workload.agents=2 --set hw.transport=mem > "$dir/out" 2> "$dir/err"
status=$?
grep -v ': warning: ' "$dir/err"
if [ $status -eq 0 ]; then
    grep -q 'verified: [1-9][0-9]* KV rows, [1-9][0-9]* attention outputs' "$dir/err" || status=1
elif [ $status -eq 77 ]; then
    grep -q 'node [01]: hw.compute: ' "$dir/err" || status=1
    [ "${2:-}" != fake ] || status=1
fi
rm -r "$dir"
exit $status
