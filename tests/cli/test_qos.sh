#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Output and exit status of 'dualpath qos' against tests/cli/qos/*.golden.
# Usage: test_qos.sh DUALPATH DIRECTORY; with UPDATE=1 it rewrites the golden files.
dualpath=$(realpath "$1") command=qos
golden=$(realpath "$2")
. "$(dirname "$0")/golden.sh"
cd "$golden" || exit 1
tables='--high-limit 240 --high 0:192,1:192,2:0,3:192 --low 0:192,1:192,2:64,3:192'

check one_lane $tables --active 0,2
check two_lanes $tables --active 0,1,2
check three_lanes $tables --active 0,1,2,3
check alone $tables --active 2
check three_lanes_json $tables --active 0,1,2,3 --format json
check low_only $tables --active 0,2 --mode low_only
check low_only_json $tables --active 0,1,2,3 --mode low_only --format json
check none $tables --active 0,2 --mode none
check none_no_tables --mode none --active 0,1,2
check units $tables --active 0,2 --count units
check slow_link $tables --active 0,2 --link 100Gb/s --mtu 2048
check starved --high-limit 255 --high 0:4 --low 2:64,3:0 --active 0,2,3,4 --max-vls 4
check opensm --opensm opensm.conf --active 0,1,2,3
check opensm_set --opensm opensm.conf --opensm-set swe --active 0,2 --format json
check opensm_replaced --opensm opensm.conf --high-limit 0 --active 0,2
check ets --ets 0:90,1:10,6:strict --active 0,1
check ets_no_strict --ets 0:50,1:50 --active 1
check ets_strict --ets 0:90,1:10,6:strict --active 0,6 --format json
check mlnx_qos --mlnx-qos mlnx_qos.txt --active 3,4
check bad_table --high-limit 240 --high 0:192,1:300 --low 2:64 --active 0
check bad_limit --high-limit 256 --high 0:192 --low 2:64 --active 0
check bad_active $tables --active 0,16
check bad_mode $tables --active 0 --mode fair
check bad_mtu $tables --active 0 --mtu 1500
check bad_link $tables --active 0 --link 50GB
check bad_ets --ets 0:90,1:9 --active 0
check bad_set --opensm opensm.conf --opensm-set hca --active 0
check no_file --opensm nonexistent.conf --active 0
check no_active $tables
check no_tables --active 0
check no_limit --high 0:1 --low 1:1 --active 0
check both_kinds --ets 0:100 --low 1:1 --active 0
check twice $tables --active 0 --active 1
check unknown $tables --active 0 --fast
check no_value $tables --active
check extra $tables --active 0 file
exit $failed
