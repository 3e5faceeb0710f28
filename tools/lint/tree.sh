#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Checks every file of the project: the licence line in code, at most 600 lines of code per file, 100
# columns of C (clang-format leaves comments as they are), and no path of a machine that somebody worked on.
set -eu
. "$(dirname "$0")/lib.sh"
cd "$root"
status=0

fault() {
    echo "$*"
    status=1
}

code_files() {
    lint_files | grep -E '\.([ch]|sh|awk|cu|py)$|^\.ci/' || true
}

# The directories that every system has; a tree below any other one betrays a machine.
machine_paths() {
    top=$(echo "$root" | cut -d/ -f2)
    case $top in
    bin | boot | dev | etc | lib | lib64 | media | mnt | opt | proc | root | run | sbin | srv | sys | tmp | usr | var) ;;
    *) printf '/%s/|' "$top" ;;
    esac
    printf '%s' '/[h]ome/|/[U]sers/|/[r]oot/'
}

for f in $(code_files); do
    head -n 2 "$f" | grep -q 'SPDX-License-Identifier: GPL-3.0-or-later' ||
        fault "$f:1: no line 'SPDX-License-Identifier: GPL-3.0-or-later'"
    lines=$(wc -l <"$f")
    [ "$lines" -le 600 ] || fault "$f: $lines lines, at most 600"
done

found=$(code_files | grep '\.[ch]$' | LC_ALL=C xargs awk '{ gsub(/[\200-\277]/, "") }
    length($0) > 100 { print FILENAME ":" FNR ": " length($0) " columns, at most 100" }' /dev/null)
[ -z "$found" ] || fault "$found"
found=$(lint_files | xargs grep -InE "(^|[^A-Za-z0-9_.-])($(machine_paths))" /dev/null || true)
[ -z "$found" ] || fault "$found"
[ $status = 0 ] && echo "$(code_files | wc -l) code files checked"
exit $status
