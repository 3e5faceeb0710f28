# SPDX-License-Identifier: GPL-3.0-or-later
# awk -f functions.awk FILE... : prints "lines file:line name" for every function. In this project's
# format only a function's braces stand alone in the first column; the length counts from the line of
# its name to its closing brace.

FNR == 1 {
    start = 0
}

/^[A-Za-z_].*\(/ && !/;[ \t]*$/ && !/^#/ {
    start = FNR
    name = $0
    sub(/\(.*/, "", name)
    sub(/.*[ *]/, "", name)
}

/^[{]/ {
    inside = start
}

/^[}]/ {
    if (inside) {
        printf "%d src/%s:%d %s\n", FNR - inside + 1, FILENAME, inside, name
    }
    inside = 0
}
