#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Reports how long the functions under src/ are. Fails when more than one in twenty is over 60 lines
# (src/STYLE.md).
set -eu
. "$(dirname "$0")/lib.sh"
cd "$root/src"
lint_sources | xargs awk -f "$lint/functions.awk" | sort -n | awk '
    { lines[NR] = $1; text[NR] = $0 }
    END {
        if (NR == 0) { print "no functions"; exit }
        p50 = lines[int((NR + 1) / 2)]
        p95 = lines[int((NR * 95 + 99) / 100)]
        printf "%d functions, lines: p50 %d, p95 %d, max %d; the longest:\n", NR, p50, p95, lines[NR]
        for (i = NR; i > NR - 10 && i > 0; i--) { print "  " text[i] }
        if (p95 > 60) { print "p95 is over 60 lines"; exit 1 }
    }'
