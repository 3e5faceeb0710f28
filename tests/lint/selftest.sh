#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# The checks of tools/lint against a small tree of faults: each must be found, on its line, and the
# clean neighbours must not. Usage: selftest.sh SOURCE_ROOT
set -eu
lint=$1/tools/lint
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/src/sim" "$tree/src/hw" "$tree/src/base" "$tree/src/cli" "$tree/src/odd"
failures=0

cat >"$tree/includes.txt" <<'EOF'
base:
sim: base sched/message.h
hw:  base
cli: *
<infiniband/*>: hw # not sim
EOF
cat >"$tree/calls.txt" <<'EOF'
ban clock: hw: time clock_gettime
ban sleep: hw: sleep
ban chance: base/rng.c: rand
ban threads: hw: pthread_*
ban print: cli: printf stdout stderr
ban exit: cli: exit abort
except exit base/loop.c abort for a reason
EOF

expect() { # check, expected status, lines that must be printed...
    check=$1 want=$2
    shift 2
    status=0
    sh "$lint/$check.sh" "$tree" "$tree/$check.txt" >"$tree/out" 2>&1 || status=$?
    [ $status = "$want" ] || {
        echo "$check: exit status $status, expected $want"
        failures=1
    }
    for line in "$@"; do
        grep -qF "$line" "$tree/out" || {
            echo "$check: did not print '$line', but:"
            sed 's/^/    /' "$tree/out"
            failures=1
        }
    done
}

spdx='/* SPDX-License-Identifier: GPL-3.0-or-later */'
cat >"$tree/src/base/loop.c" <<EOF
$spdx
#include "base/loop.h"
void grow(void)
{
    abort();
}
EOF
cat >"$tree/src/sim/a.c" <<EOF
$spdx
#include "base/loop.h"
#include "sim/a.h"
#include "sched/message.h"
#include <stdio.h>
/* time(NULL), printf() and "rand(" in a comment,
 * over two lines: sleep(1) */
const char *text = "exit(1); /* not a comment";
int f(struct q *q)
{
    return q->time(q) + q.rand(q) + my_sleep(1) + sleeper + '"' + snprintf(b, 1, "stdout");
}
EOF
for check in includes calls functions tree; do expect $check 0; done

{
    cat "$tree/src/sim/a.c"
    echo '#include "hw/verbs.h"'
    echo '#  include "a.h"'
    echo '#include <infiniband/verbs.h>'
    echo 'int g(void) { return time(NULL) + pthread_create (0); }'
    echo 'int h(void) { fprintf(stderr, "x"); exit(1); }'
} >"$tree/src/sim/b.c"
echo '#include "sim/a.h"' >"$tree/src/hw/c.c"
echo '#include "base/err.h"' >"$tree/src/odd/d.c"
echo "$spdx" | cat - "$tree/src/sim/b.c" >"$tree/src/cli/e.c"
i=0
while [ $i -lt 601 ]; do i=$((i + 1)) && echo; done >>"$tree/src/cli/e.c"
printf '%s\nint long_one(void)\n{\n' "$spdx" >"$tree/src/cli/f.c"
i=0
while [ $i -lt 70 ]; do i=$((i + 1)) && echo '    x();'; done >>"$tree/src/cli/f.c"
echo '}' >>"$tree/src/cli/f.c"
printf '%s\n/*%098d*/\n/*%096d*/\n' "$spdx" 0 0 >"$tree/src/cli/g.c"
echo "see /ho""me/someone/dualpath" >"$tree/notes.md"

expect includes 1 'src/sim/b.c:13: sim may not include "hw/verbs.h"' \
    'src/sim/b.c:14: write "room/header.h"' 'src/sim/b.c:15: sim/b.c may not include <infiniband/verbs.h>' \
    'src/hw/c.c:1: hw may not include "sim/a.h"' "src/odd/d.c:1: the room 'odd' is not in"
expect calls 1 'src/sim/b.c:16: time: banned' 'src/sim/b.c:16: pthread_create: banned' \
    'src/sim/b.c:17: stderr: banned' 'src/sim/b.c:17: exit: banned'
expect functions 1 '73 src/cli/f.c:2 long_one' 'p95 is over 60 lines'
expect tree 1 "src/hw/c.c:1: no line 'SPDX" 'src/cli/e.c: 619 lines, at most 600' \
    'src/cli/g.c:2: 102 columns, at most 100' 'notes.md:1:'
rm "$tree/src/base/loop.c"
expect calls 1 'exception exit base/loop.c abort: unused'
exit $failures
