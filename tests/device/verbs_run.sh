#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Whole runs over RDMA: verbs_run.sh DUALPATH SCENARIO. Needs an RDMA device:
#
#   two nodes    one session over tcp and over verbs: every KV row and every attention output right (or
#                the run fails), both read paths used, and, as each turn waits for the one before, equal
#                decisions however long things take
#   four nodes   two sessions, every node connected to every other
#   no device    the run fails and says so; then this test is skipped
#
# Sizes are those of an emulated machine.
set -u
dualpath=$1 scenario=$2
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export TMPDIR="$dir"

fail() {
    echo "verbs_run: $*"
    cat "$dir"/*.err
    exit 1
}

# Sum over all RDMA devices; a device that does not count has none.
packets_sent() {
    cat /sys/class/infiniband/*/ports/*/hw_counters/sent_pkts 2>/dev/null | awk '{ n += $1 } END { print n + 0 }'
}

number() { # file key
    sed -n "s/^ *\"$2\": \([0-9.e+-]*\),*\$/\1/p" "$1"
}

# Each turn goes on where the one before has ended, 80 tokens further; blocks have 64.
trace() { # sessions turns
    echo "{\"schema\": \"dualpath/trace/1\", \"block_tok\": 0, \"sessions\": $1}"
    for i in $(seq 0 $(($1 - 1))); do
        printf '{"arrival_ns": 0, "turns": [{"prompt_tok": %d, "gen_tok": 3, "delay_ns": 0}' $((70 + i))
        for t in $(seq 1 $(($2 - 1))); do
            printf ', {"prompt_tok": %d, "gen_tok": 3, "delay_ns": 100000000}' $((70 + i + 80 * t))
        done
        echo ']}'
    done
}

run() { # name transport sessions turns options...
    name=$1 transport=$2 sessions=$3
    trace "$sessions" "$4" >"$dir/$name.trace"
    shift 4
    before=$(packets_sent)
    "$dualpath" run "$scenario" --backend real --format json -o "$dir/$name.json" --decisions "$dir/$name.decisions" \
        --set "workload.trace=$dir/$name.trace" --set "workload.agents=$sessions" --set "hw.transport=$transport" \
        --set hw.heads=1 "$@" 2>"$dir/$name.err" || fail "$name: exit status $?"
    verified=$(sed -n 's/.*verified: \([0-9]*\) KV rows, \([0-9]*\) attention outputs.*/\1 \2/p' "$dir/$name.err")
    [ -n "$verified" ] || fail "$name: nothing was verified"
    sent=$(($(packets_sent) - before))
    echo "$name: verified $verified (KV rows, attention outputs), JCT $(number "$dir/$name.json" jct_s) s" \
        "of $(number "$dir/$name.json" wall_s) s, $sent RDMA packets"
}

[ -n "$(ls /sys/class/infiniband 2>/dev/null)" ] || {
    "$dualpath" run "$scenario" --backend real --set hw.transport=verbs >"$dir/none.out" 2>"$dir/none.err"
    status=$?
    [ $status = 77 ] || fail "a run over verbs without a device: exit status $status, expected 77"
    [ ! -s "$dir/none.out" ] || fail "a result of a run that had no device"
    grep -q "node [0-9]*: no RDMA device with an active port" "$dir/none.err" || fail "the cause is not told"
    echo "no RDMA device"
    exit 77
}

same="--set cluster.prefill_nodes=1 --set cluster.decode_nodes=1 --set system.path_policy=round_robin"
# shellcheck disable=SC2086
run tcp tcp 1 3 $same
# shellcheck disable=SC2086
run verbs verbs 1 3 $same
moved=$sent
cmp "$dir/tcp.decisions" "$dir/verbs.decisions" || fail "decisions differ between tcp and verbs"
[ "$(wc -l <"$dir/verbs.decisions")" = 4 ] || fail "expected 3 decisions and their header"
for key in pe_path de_path storage_read storage_written; do
    [ "$(number "$dir/tcp.json" $key)" = "$(number "$dir/verbs.json" $key)" ] || fail "$key differs"
    [ "$(number "$dir/verbs.json" $key)" != 0 ] || fail "$key is 0"
done
# All that was read crossed a NIC at least once; a packet carries 4,096 bytes at most.
least=$(($(number "$dir/verbs.json" storage_read) / 4096))
if [ -n "$(ls /sys/class/infiniband/*/ports/*/hw_counters/sent_pkts 2>/dev/null)" ]; then
    [ "$moved" -ge "$least" ] || fail "only $moved RDMA packets, expected $least and more"
fi
run four verbs 2 2
