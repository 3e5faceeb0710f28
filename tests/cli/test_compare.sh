#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Output and exit status of 'dualpath compare' against tests/cli/compare/*.golden, and what the
# other commands that measure say of wrong usage.
# Usage: test_compare.sh DUALPATH DIRECTORY; with UPDATE=1 it rewrites the golden files.
dualpath=$(realpath "$1") command=
golden=$(realpath "$2")
. "$(dirname "$0")/golden.sh"
cd "$golden" || exit 1

check text compare real.json sim.json
check all compare --all real.json sim.json --tolerance 0.3
check decisions compare real.json sim.json --decisions real.csv sim.csv
check json compare --format json real.json sim.json --decisions real.csv sim.csv
check one_file compare real.json
check absent compare real.json absent.json
check no_result compare real.json real.csv
check bad_tolerance compare real.json sim.json --tolerance -1

check probe_transport probe --transport carrier
check probe_directory probe --storage-dir /nonexistent/directory
# Told before anything is measured, and nothing is left of an output when the rest fails.
check probe_output probe -o /nonexistent/directory/profile.json
check probe_output_discarded probe -o probe_profile.json --storage-dir /nonexistent/directory
if [ -e probe_profile.json ] || [ -e probe_profile.json.partial ]; then
    echo "FAILED: probe_output_discarded left a file"
    failed=1
fi
check paper_output paper -o /nonexistent/directory/report
check calibrate_output calibrate ds660b-paper -o /nonexistent/directory/profile.json
check probe_seconds probe --seconds soon
check machine_absent run loopback --machine absent.json
check machine_no_profile run loopback --machine real.json
exit $failed
