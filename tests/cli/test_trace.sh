#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Output and exit status of 'dualpath trace inspect' and 'validate' against tests/cli/trace/*.golden.
# Usage: test_trace.sh DUALPATH GOLDEN_DIRECTORY TRACES_DIRECTORY; with UPDATE=1 it rewrites the golden files.
dualpath=$(realpath "$1") command=trace
. "$(dirname "$0")/golden.sh"
golden=$(realpath "$2")
cd "$3" || exit 1

check inspect_text inspect --lru 100,400 mooncake/arxiv_mooncake_trace.first20.jsonl
check inspect_json inspect --lru 100,400 --format json mooncake/arxiv_mooncake_trace.first20.jsonl
check inspect_several inspect --format json weka/trace_0504.json azure/AzureLMMInferenceTrace_multimodal.from_notebook.csv
check inspect_directory inspect weka
check inspect_bad_lru inspect --lru 5,x weka/trace_0504.json
check validate_several validate cases/03_blockcount_vs_length.mooncake.jsonl cases/23_git_lfs_pointer.jsonl \
    cases/05_nan_inf_timestamps.weka.json weka/trace_0103.json
check validate_block_size validate --block-size 1689 cases/04_length_exceeds_blocks.mooncake.jsonl
check validate_tolerant validate --tolerant --trace-format mooncake cases/01_u64_hash_identity.mooncake.jsonl \
    cases/05b_nan_literal.mooncake.jsonl
check validate_order validate ../tests/cli/run/unordered.csv
check validate_empty validate cases/08_burstgpt_zero_output_blank_session.csv
check validate_dropped validate --drop-zero-output cases/08_burstgpt_zero_output_blank_session.csv
check validate_column validate ../tests/cli/run/no_column.csv
check inspect_option inspect --frob weka/trace_0504.json
check generate_no_directory generate --max-len 48k -o no/such/directory/trace
check validate_lru validate --lru 5 weka/trace_0504.json
check validate_nothing validate
check missing_file validate no-such-file.json
check unknown examine weka/trace_0504.json
exit $failed
