# SPDX-License-Identifier: GPL-3.0-or-later
# awk -f calls.awk calls.txt FILE... : reports every banned name. FILE is relative to src/. Exit
# status 1 when there is one, or when an exception is no longer needed.
# A name counts when it is called (a "(" follows, and no "." or "->" stands before it); stdout and
# stderr count wherever they stand.

function room_of(path) {
    return index(path, "/") ? substr(path, 1, index(path, "/") - 1) : path
}

function is_home(rule,    n, i, words) {
    n = split(homes[rule], words, " ")
    for (i = 1; i <= n; i++) {
        if (words[i] == FILENAME || words[i] == room_of(FILENAME)) {
            return 1
        }
    }
    return 0
}

# The line without comments, strings and character constants; keeps `in_comment` between lines.
function code_of(line,    out, c) {
    out = ""
    while (line != "") {
        if (in_comment) {
            c = index(line, "*/")
            if (c == 0) {
                return out
            }
            line = substr(line, c + 2)
            in_comment = 0
        } else if (match(line, /^"([^"\\]|\\.)*"/) || match(line, /^\047([^\047\\]|\\.)*\047/)) {
            out = out " "
            line = substr(line, RLENGTH + 1)
        } else if (line ~ /^\/\*/) {
            in_comment = 1
            line = substr(line, 3)
        } else if (line ~ /^\/\//) {
            return out
        } else if (match(line, /^[^"\047\/]+/)) {
            out = out substr(line, 1, RLENGTH)
            line = substr(line, RLENGTH + 1)
        } else {
            out = out substr(line, 1, 1)
            line = substr(line, 2)
        }
    }
    return out
}

function rule_of(name,    i) {
    if (name in banned) {
        return banned[name]
    }
    for (i = 1; i <= n_prefixes; i++) {
        if (index(name, prefix[i]) == 1) {
            return prefix_rule[i]
        }
    }
    return ""
}

function check_name(name, before, after,    rule) {
    rule = rule_of(name)
    if (rule == "" || is_home(rule) || before ~ /(\.|->)[ \t]*$/) {
        return
    }
    if (name != "stdout" && name != "stderr" && after !~ /^[ \t]*\(/) {
        return
    }
    if ((rule, FILENAME, name) in except) {
        sub(/^unused$/, "used", except[rule, FILENAME, name])
        return
    }
    printf "src/%s:%d: %s: banned outside %s (rule %s)\n", FILENAME, FNR, name, homes[rule], rule
    bad = 1
}

NR == FNR && /^ban / {
    split($0, part, /:[ \t]*/)
    rule = substr(part[1], 5)
    homes[rule] = part[2]
    n = split(part[3], names, " ")
    for (i = 1; i <= n; i++) {
        if (names[i] ~ /\*$/) {
            prefix[++n_prefixes] = substr(names[i], 1, length(names[i]) - 1)
            prefix_rule[n_prefixes] = rule
        } else {
            banned[names[i]] = rule
        }
    }
}

NR == FNR && /^except / {
    except[$2, $3, $4] = NF > 4 ? "unused" : "no reason"
}

NR == FNR {
    next
}

FNR == 1 {
    in_comment = 0
}

{
    rest = code_of($0)
    done = ""
    while (match(rest, /[A-Za-z_][A-Za-z_0-9]*/)) {
        done = done substr(rest, 1, RSTART - 1)
        name = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        check_name(name, done, rest)
        done = done name
    }
}

END {
    for (e in except) {
        if (except[e] != "used") {
            split(e, part, SUBSEP)
            printf "tools/lint/calls.txt: exception %s %s %s: %s\n", part[1], part[2], part[3], except[e]
            bad = 1
        }
    }
    exit bad
}
