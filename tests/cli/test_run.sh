#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# 'dualpath run' as a person meets it: what is refused and how, interruptions, outputs, replays,
# --explain and the sample run of the README.
# Usage: test_run.sh DUALPATH SOURCE_ROOT; with UPDATE=1 it rewrites the golden texts.
dualpath=$(realpath "$1")
cd "$2" || exit 1
golden=tests/cli/run
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
failed=0

fail() {
    echo "FAILED: $*"
    failed=1
}

# compare NAME FILE: against the golden file
compare() {
    if [ -n "$UPDATE" ]; then
        cp "$2" "$golden/$1.golden"
    else
        diff -u "$golden/$1.golden" "$2" || fail "$1"
    fi
}

# What is refused: everything said on stderr and the exit status, one golden file for all.
refused=$tmp/refused
: >"$refused"
refuse() {
    echo "\$ dualpath run $*" | sed "s#$tmp.*#TMP#" >>"$refused"
    "$dualpath" run "$@" -o "$tmp/result" --requests "$tmp/rows" >"$tmp/out" 2>"$tmp/err"
    status=$?
    sed "s#$tmp[^ :]*#TMP#" "$tmp/out" "$tmp/err" >>"$refused"
    echo "exit $status" >>"$refused"
    [ -e "$tmp/result" ] || [ -e "$tmp/rows" ] || [ -e "$tmp/result.partial" ] && fail "files left: $*"
}

bad=tests/cli/run
refuse $bad/unknown_key.json
refuse $bad/syntax.json
refuse $bad/wrong_type.json
refuse $bad/bad_card.json
refuse $bad/bad_trace.json
refuse nosuch
refuse quickstart --set cluster.prefil_nodes=2
refuse quickstart --set cluster.prefill_nodes=-1
refuse quickstart --set cluster.cnic_Bps=50GB
refuse quickstart --set 'workload.arrival={"kind":"poisson","aps":-1}'
refuse quickstart --set workload.agents=-5
refuse quickstart --set workload.max_len_tok=1M
refuse quickstart --set cluster.dram_buffer_bytes=100MB
refuse quickstart --set cluster.hbm_bytes=7.5GB
refuse quickstart --set workload.trace=traces/cases/08_burstgpt_zero_output_blank_session.csv
refuse quickstart --set workload.trace=traces/cases/05_nan_inf_timestamps.weka.json
refuse quickstart --set workload.trace=$bad/zero_output.jsonl
refuse weka-sessions --set workload.trace=traces/weka-long
refuse scenarios/quickstart.json --set model=llama-3.3-70b
refuse quickstart --set workload.trace=$bad/no_column.csv
refuse quickstart --set workload.trace=traces/cases/04_length_exceeds_blocks.mooncake.jsonl
refuse scenarios/gpus/h800.json
refuse /dev/zero
refuse quickstart --series "$tmp/../$(basename "$tmp")/rows"
refuse scenarios/quickstart.json --set cluster.storage.capacity_bytes=1MB
refuse quickstart --set system.preset=basic --set system.decode_reuse=hbm
refuse quickstart --set system.restore=compressed --set system.restore_ratio=1e-9
refuse weka-sessions --set system.decode_reuse=hbm
refuse weka-sessions --set cluster.storage.capacity_bytes=1TB
refuse quickstart --explain
refuse quickstart --seed -1
refuse quickstart --format yaml
refuse quickstart --frob
compare refused "$refused"

# What does not make a cluster is not explained either: the same words.
for set in cluster.storage.capacity_bytes=1MB cluster.dram_buffer_bytes=2MB; do
    for explain in '' --explain; do
        "$dualpath" run quickstart --set $set $explain >"$tmp/out" 2>"$tmp/err$explain"
        status=$?
        [ $status = 2 ] && [ ! -s "$tmp/out" ] || fail "$explain $set: exit $status"
    done
    grep -q "${set%=*}: found" "$tmp/err" || fail "$set: $(cat "$tmp/err")"
    diff "$tmp/err" "$tmp/err--explain" || fail "$set: other words with --explain"
done

# A NIC of 400 Gb/s written as 400 GB/s is suspicious, not wrong.
"$dualpath" run quickstart --set cluster.cnic_Bps=400GB/s >"$tmp/out" 2>"$tmp/err" || fail "400GB/s"
grep -q 'warning: .*cnic_Bps: 400 GB/s is unusual .*50 GB/s meant' "$tmp/err" || fail "no warning"

# What the user may not expect is told: arrivals not used, copies of sessions, an order changed.
"$dualpath" run quickstart --set workload.trace=$bad/unordered.csv --set workload.agents=5 \
    >"$tmp/out" 2>"$tmp/err" || fail "unordered"
compare notes "$tmp/err"
"$dualpath" run quickstart --set workload.trace=$bad/unordered.csv --set workload.agents=0 \
    --set workload.arrival=offline >"$tmp/out" 2>"$tmp/err" || fail "offline"
grep -q 'arrival' "$tmp/err" && fail "a note on arrivals that were asked for"

# Ctrl-C: no result, no partial file.
"$dualpath" run ds660b-48p96d -o "$tmp/result" --series "$tmp/series" >"$tmp/out" 2>"$tmp/err" &
pid=$!
while kill -0 $pid 2>/dev/null && ! [ -e "$tmp/series.partial" ]; do :; done
kill -INT $pid
wait $pid
status=$?
[ $status = 130 ] || fail "interrupted: exit $status"
grep -q 'interrupted' "$tmp/err" || fail "interruption not told"
[ -s "$tmp/out" ] && fail "interrupted: output"
ls "$tmp" | grep -q 'result\|series' && fail "interrupted: files left"

# Outputs that cannot be written.
"$dualpath" run quickstart -o "$tmp/no/such/result" >"$tmp/out" 2>"$tmp/err"
[ $? = 2 ] && grep -q 'cannot create: No such file' "$tmp/err" || fail "no directory"
if [ -c /dev/full ]; then
    "$dualpath" run quickstart >/dev/full 2>"$tmp/err"
    [ $? = 1 ] && grep -q 'cannot write' "$tmp/err" || fail "full disk, stdout"
    "$dualpath" run quickstart -o /dev/full >"$tmp/out" 2>"$tmp/err"
    [ $? = 1 ] && grep -q '/dev/full: cannot write' "$tmp/err" || fail "full disk, -o"
    [ -c /dev/full ] || fail "the device was replaced by a file"
fi
echo old >"$tmp/file"
ln -s file "$tmp/link"
"$dualpath" run quickstart -o "$tmp/link" || fail "through a link"
[ -h "$tmp/link" ] && grep -q '^JCT' "$tmp/file" || fail "a link was replaced"

# A run's own arrivals, replayed: the same result but for the run block.
without_run() {
    sed '/^  "run": {/,/^  }/d' "$1"
}
replay() {
    "$dualpath" run "$@" --format json --export-trace "$tmp/trace" -o "$tmp/a" 2>"$tmp/err" &&
        "$dualpath" run "$@" --replay "$tmp/trace" --format json -o "$tmp/b" 2>"$tmp/err" || fail "$*"
    without_run "$tmp/a" >"$tmp/a.cut"
    without_run "$tmp/b" >"$tmp/b.cut"
    grep -q '"run"' "$tmp/a" && grep -q '"jct_s"' "$tmp/a.cut" || fail "result: $*"
    cmp "$tmp/a.cut" "$tmp/b.cut" || fail "replay: $*"
}
replay quickstart
replay quickstart --set workload.arrival.kind=poisson --set workload.arrival.aps=0.5 --seed 3
replay quickstart --set workload.append_scale=1.3 --set workload.tool_latency_scale=2
replay quickstart --set workload.agents=40 --tie-seed 5
replay weka-sessions
replay mooncake-conversation

# The same twice, byte for byte but for time and memory.
for i in 1 2; do
    "$dualpath" run quickstart --format json | grep -v '"wall_s"\|"peak_rss_bytes"' >"$tmp/$i"
done
cmp "$tmp/1" "$tmp/2" || fail "not the same twice"

"$dualpath" run scenarios/quickstart.json --explain >"$tmp/out" || fail "explain"
compare explain "$tmp/out"
"$dualpath" run scenarios/quickstart.json --explain -o "$tmp/explained" >"$tmp/none" &&
    cmp "$tmp/out" "$tmp/explained" && ! [ -s "$tmp/none" ] || fail "explain -o"

# The README shows what the command prints.
"$dualpath" run scenarios/quickstart.json >"$tmp/sample" || fail "sample run"
if [ -n "$UPDATE" ]; then
    { echo '```'; cat "$tmp/sample"; echo '```'; } >"$tmp/block"
    sed -i -e "/quickstart-output:begin/r $tmp/block" \
        -e '/quickstart-output:begin/,/quickstart-output:end/{/quickstart-output/!d}' README.md
fi
sed -n '/quickstart-output:begin/,/quickstart-output:end/p' README.md |
    grep -v 'quickstart-output\|^```' | diff -u - "$tmp/sample" || fail "README sample run"

# The README's scenario for a start of one's own.
sed -n '/scenario-example:begin/,/scenario-example:end/p' README.md |
    grep -v 'scenario-example\|^```' >"$tmp/my.json"
"$dualpath" run "$tmp/my.json" >"$tmp/out" 2>"$tmp/err" && grep -q '^JCT' "$tmp/out" &&
    ! [ -s "$tmp/err" ] || fail "README scenario"
"$dualpath" run "$tmp/my.json" --set model=tests/unit/data/hf/qwen3_moe_235b.json \
    --set 'cluster.storage={"base": "parallel-fs", "latency_median_s": "1ms"}' >"$tmp/out" ||
    fail "README scenario, own parts"
exit $failed
