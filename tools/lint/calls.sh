#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Checks that nothing under src/ calls what calls.txt bans there. Usage: calls.sh [ROOT [TABLE]]
set -eu
. "$(dirname "$0")/lib.sh"
cd "$root/src"
lint_sources | xargs awk -f "$lint/calls.awk" "${2:-$lint/calls.txt}" || exit 1
