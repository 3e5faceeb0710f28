# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# Sourced by the tests of commands. Theirs are $dualpath, the program; $command, the command that
# every call is of, or empty; $golden, the directory of golden files. With UPDATE=1 they are rewritten.
failed=0

# check NAME ARGUMENTS...: stdout, stderr and status of one call
check() {
    name=$1
    shift
    # shellcheck disable=SC2086
    got=$("$dualpath" $command "$@" 2>&1; echo "exit $?")
    if [ -n "$UPDATE" ]; then
        printf '%s\n' "$got" >"$golden/$name.golden"
    elif ! printf '%s\n' "$got" | diff -u "$golden/$name.golden" -; then
        echo "FAILED: $name"
        failed=1
    fi
}
