# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# Sourced by the checks in tools/lint/. Each takes the root of the tree to check as its first argument
# (default: this repository), prints one line per fault and exits 1 when there is one.
lint=$(cd "$(dirname "$0")" && pwd)
root=$(cd "${1:-$lint/../..}" && pwd)

# Prints the C files under src/, relative to it.
lint_sources() {
    (cd "$root/src" && find . -name '*.[ch]' | sed 's|^\./||' | sort)
}

# Prints the project's files relative to the root: what git knows or would add, else what stands there.
lint_files() {
    (
        cd "$root" || exit 1
        if [ -e .git ] && git ls-files >/dev/null 2>&1; then
            git ls-files -co --exclude-standard | while read -r f; do [ ! -f "$f" ] || echo "$f"; done
        else
            find . -type f -not -path './build*' -not -path './.git/*' | sed 's|^\./||' | sort
        fi
    )
}
