#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# verbs_bandwidth.sh PROGRAM [ROUNDS]: transport_verbs beside ib_write_bw (perftest) on one RDMA device, at 64 KiB
# and 1 MiB, the same number of writes of the same buffer in flight. The two take turns; each round gives a ratio,
# and the median of the ratios counts. Exit status 1 when it is below 0.9; 77 without device or perftest, and when
# the middle half of the ratios spans more than 10 % of their median, as on a busy machine: such rates decide nothing.
set -u
program=$1 rounds=${2:-7}
depth=32 spin_us=20 # as real runs have it: src/real/links_verbs.c
command -v ib_write_bw >/dev/null || {
    echo "no ib_write_bw (package perftest)"
    exit 77
}
[ -n "$(ls /sys/class/infiniband 2>/dev/null)" ] || {
    echo "no RDMA device"
    exit 77
}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
device=$(ls /sys/class/infiniband | head -n 1)
# The GID that transport_verbs takes as well: RoCE v2 with an IPv4 address.
gid=$(grep -l ffff: "/sys/class/infiniband/$device/ports/1/gids/"* 2>/dev/null | head -n 1)
gid=${gid:+-x ${gid##*/}}

perftest() { # bytes ops
    options="-d $device $gid -s $1 -n $2 -t $depth -N -F"
    # shellcheck disable=SC2086
    ib_write_bw $options >"$dir/server" 2>&1 &
    server=$!
    for try in 1 2 3 4 5 6 7 8 9 10; do # it may not listen yet
        sleep 0.5
        # shellcheck disable=SC2086
        ib_write_bw $options localhost >"$dir/client" 2>&1 && break
    done
    if ! wait $server ||
        ! awk -v bytes="$1" '$1 == bytes && NF >= 4 { print $4; n++ } END { exit n != 1 }' "$dir/client"; then
        cat "$dir/server" "$dir/client" >&2
        return 1
    fi
}

# "median spread": the middle one, and how far the middle half reaches, as a fraction of it.
middle() {
    sort -g | awk '{ v[NR] = $1 }
        END { m = v[int((NR + 1) / 2)]; print m, (v[NR - int(NR / 4)] - v[int(NR / 4) + 1]) / m }'
}

status=0 unsure=
compare() { # bytes ops
    : >"$dir/ours"
    : >"$dir/theirs"
    for round in $(seq "$rounds"); do
        "$program" "$1" "$2" $depth $spin_us >>"$dir/ours" && perftest "$1" "$2" >>"$dir/theirs" || exit 1
    done
    echo "$1 bytes, MiB/s of transport_verbs/ib_write_bw:" \
        "$(paste "$dir/ours" "$dir/theirs" | awk '{ printf "%s%.1f/%.1f", (NR > 1 ? ", " : ""), $1, $2 }')"
    verdict=$(echo "$(middle <"$dir/ours") $(middle <"$dir/theirs")" \
        "$(paste "$dir/ours" "$dir/theirs" | awk '{ print $1 / $2 }' | middle)" | awk '{
        printf "  medians %.1f (spread %.1f %%) and %.1f (%.1f %%), ", $1, 100 * $2, $3, 100 * $4
        printf "median of the ratios %.3f (%.1f %%): ", $5, 100 * $6
        print ($6 > 0.1 ? "unsure" : ($5 < 0.9 ? "too slow" : "good")) }')
    echo "$verdict"
    case $verdict in
    *unsure) unsure="rates wander too much for a verdict" ;;
    *slow) status=1 ;;
    esac
}

compare 65536 1024
compare 1048576 64
[ "$status" != 0 ] || [ -z "$unsure" ] || {
    echo "$unsure"
    exit 77
}
exit $status
