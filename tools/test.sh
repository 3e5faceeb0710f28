#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Builds and runs every test that this machine can, in three configurations:
#   build-gcc    gcc, release as tools/quickstart.sh builds it, with the suites that run once
#   build-clang  clang
#   build-asan   AddressSanitizer and UndefinedBehaviorSanitizer (clang, or gcc without clang's runtime)
# The last line of stdout is "N passed, N failed, N skipped" summed over the configurations; a build
# that fails counts as one failure. A test that exits 77 is skipped, and says why. Exit status 1 when
# anything failed.
set -eu
cd "$(dirname "$0")/.."
. tools/lib/packages.sh

passed=0 failed=0 skipped=0
summary=$(mktemp)   # the failures of all configurations, to stand together at the end
trap 'rm -f "$summary"' EXIT

# The suites lint, device and figures do not depend on the compiler's checks: they run once.
once="--no-suite lint --no-suite device --no-suite figures"

build() { # directory compiler options...
    dir=$1 compiler=$2
    shift 2
    # An existing directory is reconfigured; one that is broken, or of another compiler, is made anew.
    if [ "$(cat "$dir/compiler" 2>/dev/null)" = "$compiler $*" ]; then
        meson setup --reconfigure "$dir" >/dev/null 2>&1 || rm -rf "$dir"
    else
        rm -rf "$dir"
    fi
    [ -d "$dir" ] || CC=$compiler meson setup "$dir" "$@" || return 1
    echo "$compiler $*" >"$dir/compiler"
    ninja -C "$dir"
}

# Prints "name: reason" for every skipped test of a meson test log: the first line it printed.
skip_reasons() {
    awk '/"result": "SKIP"/ {
        name = text($0, "name")
        why = text($0, "stdout")
        if (why == "") { why = text($0, "stderr") }
        printf "skipped %s: %s\n", name, why == "" ? "no reason given" : why
    }
    function text(line, key,    at, s) {
        at = index(line, "\"" key "\": \"")
        if (at == 0) { return "" }
        s = substr(line, at + length(key) + 5)
        sub(/^(\\n)+/, "", s)
        gsub(/\\"/, "\047", s)
        sub(/".*/, "", s)
        sub(/\\n.*/, "", s)
        return s
    }' "$1"
}

# Prints the name and the last lines of output of every test of the log that failed.
failures() {
    awk '/"result": "(FAIL|TIMEOUT|ERROR|UNEXPECTEDPASS|INTERRUPT)"/ {
        printf "failed %s\n", text($0, "name")
        n = split(text($0, "stdout") "\\n" text($0, "stderr"), lines, /\\n/)
        for (i = n > 20 ? n - 19 : 1; i <= n; i++) { if (lines[i] != "") { print "    " lines[i] } }
    }
    function text(line, key,    at, s) {
        at = index(line, "\"" key "\": \"")
        if (at == 0) { return "" }
        s = substr(line, at + length(key) + 5)
        gsub(/\\"/, "\047", s)
        sub(/".*/, "", s)
        return s
    }' "$1"
}

count() { # log result... : tests of the log that ended so
    log=$1
    shift
    for r in "$@"; do grep -c "\"result\": \"$r\"" "$log" || true; done | awk '{ n += $1 } END { print n }'
}

configuration() { # directory compiler "test options" setup options...
    dir=$1 compiler=$2 select=$3
    shift 3
    start=$(date +%s)
    echo "== $dir: $compiler $*"
    if ! build "$dir" "$compiler" "$@"; then
        echo "== $dir: the build failed" | tee -a "$summary"
        failed=$((failed + 1))
        return 0
    fi
    log=$dir/meson-logs/testlog.json
    rm -f "$log"
    # shellcheck disable=SC2086
    meson test -C "$dir" --no-rebuild --print-errorlogs $select || true
    if [ ! -f "$log" ]; then
        echo "== $dir: the tests did not run" | tee -a "$summary"
        failed=$((failed + 1))
        return 0
    fi
    skip_reasons "$log"
    failures "$log" | tee -a "$summary"
    passed=$((passed + $(count "$log" OK EXPECTEDFAIL)))
    failed=$((failed + $(count "$log" FAIL TIMEOUT ERROR UNEXPECTEDPASS INTERRUPT)))
    skipped=$((skipped + $(count "$log" SKIP)))
    echo "== $dir: $(($(date +%s) - start)) s"
}

if ! packages_ensure build test extra hw vm; then
    echo "the build or its tests lack what is named above"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
fi

configuration build-gcc gcc "" --buildtype=release
if packages_have cc:clang; then
    configuration build-clang clang "$once"
else
    echo "== build-clang: left out, no working clang"
fi
sanitize="--buildtype=debugoptimized -Db_sanitize=address,undefined -Db_lundef=false"
# shellcheck disable=SC2086
if packages_have sanitizer:clang; then
    configuration build-asan clang "$once" $sanitize
elif packages_have sanitizer:gcc; then
    configuration build-asan gcc "$once" $sanitize
else
    echo "== build-asan: left out, no compiler here runs programs with sanitizers"
fi

cat "$summary"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
