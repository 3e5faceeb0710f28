# SPDX-License-Identifier: GPL-3.0-or-later
# awk -f includes.awk rooms.txt FILE... : reports every include that the table does not allow. FILE is
# relative to src/. Exit status 1 when there is one.

function glob_match(glob, text,    re) {
    re = glob
    gsub(/\./, "[.]", re)
    gsub(/\*/, ".*", re)
    return text ~ "^" re "$"
}

function complain(what) {
    printf "src/%s:%d: %s\n", FILENAME, FNR, what
    bad = 1
}

# May files of room include header, given the words of the room's row?
function allowed(room, header, row,    n, i, words) {
    n = split(row, words, " ")
    for (i = 1; i <= n; i++) {
        if (words[i] == "*" || words[i] == room_of(header) || glob_match(words[i], header)) {
            return 1
        }
    }
    return room == room_of(header)
}

function room_of(path) {
    return index(path, "/") ? substr(path, 1, index(path, "/") - 1) : path
}

# May this file include the library's header?
function library_allowed(header,    glob, n, i, words) {
    for (glob in library) {
        if (!glob_match(glob, header)) {
            continue
        }
        n = split(library[glob], words, " ")
        for (i = 1; i <= n; i++) {
            if (words[i] == FILENAME || words[i] == room_of(FILENAME)) {
                return 1
            }
        }
        return 0
    }
    return 1
}

NR == FNR {
    sub(/#.*/, "")
    if (match($0, /:/)) {
        key = substr($0, 1, RSTART - 1)
        if (key ~ /^</) {
            library[substr(key, 2, length(key) - 2)] = substr($0, RSTART + 1)
        } else {
            table[key] = substr($0, RSTART + 1)
        }
    }
    next
}

FNR == 1 && !(room_of(FILENAME) in table) {
    complain("the room '" room_of(FILENAME) "' is not in tools/lint/rooms.txt")
}

/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, part, "\"")
    n_checked++
    if (part[2] !~ /\// || part[2] ~ /\.\./) {
        complain("write \"room/header.h\", found \"" part[2] "\"")
    } else if (!allowed(room_of(FILENAME), part[2], table[room_of(FILENAME)])) {
        complain(room_of(FILENAME) " may not include \"" part[2] "\"")
    }
}

/^[ \t]*#[ \t]*include[ \t]*</ {
    split($0, part, /[<>]/)
    n_checked++
    if (!library_allowed(part[2])) {
        complain(FILENAME " may not include <" part[2] ">")
    }
}

END {
    printf "%d includes checked\n", n_checked
    exit bad
}
