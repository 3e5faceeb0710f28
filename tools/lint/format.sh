#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Checks that every C file is as clang-format 14 writes it with .clang-format. Other versions differ in
# detail, so without version 14 this is skipped (exit 77). `tools/lint/format.sh --fix` writes.
set -eu
how="--dry-run -Werror"
if [ "${1:-}" = --fix ]; then
    how=-i
    shift
fi
. "$(dirname "$0")/lib.sh"
for tool in clang-format-14 clang-format none; do
    case $($tool --version 2>/dev/null || true) in
    *"version 14."*) break ;;
    esac
done
if [ $tool = none ]; then
    echo "clang-format 14 is not installed"
    exit 77
fi
cd "$root"
# shellcheck disable=SC2086
lint_files | grep '\.[ch]$' | xargs $tool --style=file $how
