#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Checks every include under src/ against the table in rooms.txt. Usage: includes.sh [ROOT [TABLE]]
set -eu
. "$(dirname "$0")/lib.sh"
cd "$root/src"
lint_sources | xargs awk -f "$lint/includes.awk" "${2:-$lint/rooms.txt}" || exit 1
