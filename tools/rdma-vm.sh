#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
usage() {
    cat <<'EOF'
Usage: rdma-vm.sh run  [-i] [-t SECONDS] [-c CPUS] [-m MIB] [-o DIR] -- COMMAND [ARGUMENT]...
       rdma-vm.sh pair [-t SECONDS] [-c CPUS] [-m MIB] [-o DIR] -- COMMAND [ARGUMENT]...
       rdma-vm.sh setup

Runs a command on a real kernel RDMA stack without RDMA hardware: the distribution's own kernel with
soft-RoCE (rdma_rxe) in qemu, by software emulation, so that it needs neither KVM nor root. `pair`
runs the command in two such machines joined by a wire. `setup` only prepares kernel and initramfs.

In the machine the command sees this machine's whole file system, started in the current directory
with the same PATH. What it writes is lost, but for the files in $OUT, which come back in DIR (DIR/a and
DIR/b for pair). One RDMA device, rxe0, is up at $RDMA_VM_ADDR; a pair knows its other half as
$RDMA_VM_PEER. $RDMA_VM is solo, a or b. The clock and all rates are those of an emulated machine.

  -i          one processor, whose clock counts its instructions, 1 ns each: times and rates repeat however
              busy this machine is. Idle time passes as it does outside
  -t SECONDS  limit for the command (60); past it, it is killed and the exit status is 124
  -c CPUS     processors of each machine (2)
  -m MIB      memory of each machine (384)
  -o DIR      keep $OUT, the command's output and the console there (default: a directory that is removed)

Prints the command's output (stdout and stderr together) when it has ended, each line after "a: " or
"b: " for a pair. Exit status: the command's (for a pair a's, or b's if a's is 0); 124 when it ran past
its limit; 125 when the machine hung or died twice; 77, with the reason, when this machine lacks what is
needed. A machine that hangs or dies is started once more, with a message on stderr.

Kernel and initramfs are kept in $RDMA_VM_CACHE (default: $XDG_CACHE_HOME or ~/.cache, then
dualpath/rdma-vm); remove that directory to take up a newer kernel.
EOF
}
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin

self=$(cd "$(dirname "$0")" && pwd)/$(basename "$0")
cache=${RDMA_VM_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/dualpath/rdma-vm}
# Beyond the command's own limit: from qemu's start to the command and from its end to power-off. That
# takes 2 to 3 s on an idle machine of two cores; a busy one needs several times that.
boot_limit_s=120
# What the guest loads, dependencies added by modprobe. crc32_generic is one that rdma_rxe does not declare.
modules="virtio_pci virtio_net 9pnet_virtio 9p overlay dummy veth sch_prio sch_netem
         crc32_generic ib_uverbs rdma_ucm rdma_rxe"

temporary=()
trap 'rm -rf "${temporary[@]}"' EXIT

note() {
    echo "rdma-vm: $*" >&2
}

# Standard output, where a test's reason for skipping belongs.
skip() {
    echo "rdma-vm: cannot run here: $*"
    exit 77
}

require_tools() {
    [ "$(uname -m)" = x86_64 ] || skip "the machine is $(uname -m), not x86_64"
    local tool
    for tool in qemu-system-x86_64 busybox cpio modprobe depmod xz rdma ip flock; do
        command -v "$tool" >/dev/null || skip "no $tool (tools/lib/packages.sh names its package)"
    done
    # ldd fails on a program that needs no libraries.
    ! ldd "$(command -v busybox)" >/dev/null 2>&1 || skip "busybox is not static (busybox-static is)"
}

# ---- kernel and initramfs ---------------------------------------------------------------------------

# Downloads the package of the distribution's current kernel into the current directory. Its name changes
# with every point release; linux-image-amd64 depends on it.
download_kernel() {
    command -v apt-get >/dev/null || return 1
    local name
    name=$(apt-cache depends linux-image-amd64 2>/dev/null |
        awk '$1 == "Depends:" && $2 ~ /^linux-image-[0-9]/ { print $2; exit }')
    [ -n "$name" ] && apt-get -qq -o Acquire::Retries=3 download "$name" >&2
}

# bzImage to the ELF file inside, which boots 3 s faster under emulation: no decompression in the guest.
# Offsets are those of the kernel's x86 boot protocol: setup_sects at 0x1f1, payload_offset and
# payload_length at 0x248; the last four bytes of the payload are its unpacked size. A kernel that is
# not packed with xz is taken as it is.
unpack_kernel() { # bzImage output
    local sectors offset length
    sectors=$(od -An -tu1 -j$((0x1f1)) -N1 "$1")
    read -r offset length < <(od -An -tu4 -j$((0x248)) -N8 "$1")
    dd if="$1" iflag=skip_bytes,count_bytes bs=1M status=none \
        skip=$(((sectors + 1) * 512 + offset)) count=$((length - 4)) |
        xz -dc >"$2" 2>/dev/null || cp "$1" "$2"
}

guest_init() {
    cat <<'EOF'
#!/bin/sh
mount -t devtmpfs dev /dev
exec >/dev/console 2>&1
mount -t proc proc /proc
mount -t sysfs sys /sys
while read -r m; do
    case $m in dummy.ko) a=numdummies=0 ;; *) a= ;; esac
    insmod /modules/$m $a || echo "insmod $m failed"
done </modules/order
mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=512000,cache=loose host /host
mount -t tmpfs tmpfs /scratch
mkdir /scratch/files /scratch/work
mount -t overlay -o lowerdir=/host,upperdir=/scratch/files,workdir=/scratch/work overlay /new
mkdir -p /new/.rdma-vm
mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000 out /new/.rdma-vm
for d in dev proc sys; do mount -o rbind /$d /new/$d; done
mount -t tmpfs run /new/run
mkdir -p /new/dev/shm /new/dev/pts
mount -t tmpfs shm /new/dev/shm
mount -t devpts pts /new/dev/pts
chroot /new /bin/bash /.rdma-vm/guest.sh
sync
poweroff -f
EOF
}

# Fills $cache from the kernel package in the current directory.
unpack_package() {
    local version tree m
    tree=$PWD/tree
    mkdir "$tree"
    dpkg-deb --fsys-tarfile linux-image-*.deb | tar -x -C "$tree" --wildcards './boot/vmlinuz-*' \
        './lib/modules/*/modules.*' './lib/modules/*/kernel/'{crypto,lib,net,fs,drivers/{infiniband,net,virtio}}'/*'
    version=$(basename "$tree"/lib/modules/*)
    depmod -b "$tree" "$version"
    unpack_kernel "$tree/boot/vmlinuz-$version" kernel

    mkdir -p root/{bin,dev,proc,sys,host,scratch,new,modules}
    cp "$(command -v busybox)" root/bin/busybox
    for m in sh mount mkdir insmod chroot sync poweroff; do ln -s busybox "root/bin/$m"; done
    for m in $modules; do
        modprobe -d "$tree" -S "$version" --show-depends "$m"
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >order
    while read -r m; do
        cp "$m" root/modules/
        basename "$m"
    done <order >root/modules/order
    guest_init >root/init
    chmod +x root/init
    (cd root && find . | cpio -o -H newc -R 0:0 --quiet) >initramfs
    printf '%s\n' "$version" "$(cksum <"$self")" >version
}

# The cache is good when this very script made it.
cached() {
    [ "$(tail -n 1 "$cache/version" 2>/dev/null)" = "$(cksum <"$self")" ]
}

setup() {
    ! cached || return 0
    mkdir -p "$cache" 2>/dev/null || skip "cannot make $cache (set RDMA_VM_CACHE)"
    exec 9>"$cache/lock"
    flock 9 # test programs start at the same time
    if ! cached; then
        local work
        work=$(mktemp -d "$cache/new.XXXXXX")
        temporary+=("$work")
        cd "$work"
        if ! download_kernel; then
            [ "$(id -u)" != 0 ] || apt-get -qq update >&2 || true
            download_kernel || skip "apt cannot get the kernel package linux-image-amd64"
        fi
        unpack_package
        mv -f kernel initramfs "$cache/"
        mv -f version "$cache/" # last: it says that the others are whole
        cd - >/dev/null
    fi
    exec 9>&-
}

# ---- one machine ------------------------------------------------------------------------------------

# The script that the guest's init starts in this machine's file system.
guest_script() { # role addr peer
    printf 'export RDMA_VM=%s RDMA_VM_ADDR=%s RDMA_VM_PEER=%s OUT=/.rdma-vm HOME=/tmp PATH=%q\n' \
        "$1" "$2" "$3" "$PATH"
    cat <<'EOF'
ip link set lo up
case $RDMA_VM in
solo) net=dummy0 && ip link add dummy0 type dummy ;;
*) net=eth0 && ip link set eth0 mtu 9000 ;;
esac
ip addr add "$RDMA_VM_ADDR/24" dev $net
ip link set $net up
rdma link add rxe0 type rxe netdev $net || exit # a machine without its device has failed
# The IPv4-mapped GID appears a moment after the address.
for _ in {1..50}; do
    grep -q ffff: /sys/class/infiniband/rxe0/ports/1/gids/* 2>/dev/null && break
    sleep 0.1
done
EOF
    printf 'cd %q || exit\n' "$PWD"
    printf 'timeout -k 5 %q' "$limit_s"
    printf ' %q' "${command[@]}"
    # shellcheck disable=SC2016
    printf ' >$OUT/output 2>&1 </dev/null\necho $? >$OUT/status\n'
}

# Boots one machine and waits for its end. Returns 0 when the command ended in it, whatever its status.
machine() { # role addr peer directory qemu-arguments...
    local role=$1 addr=$2 peer=$3 dir=$4 why
    shift 4
    rm -f "$dir/status" "$dir/output"
    : >"$dir/console"
    guest_script "$role" "$addr" "$peer" >"$dir/guest.sh"
    why="the machine died"
    local accel="-accel tcg,thread=multi" clock="tsc=reliable no_timer_check"
    if [ -n "$count" ]; then
        accel="-accel tcg,thread=single -icount shift=0" clock=no_timer_check
    fi
    # shellcheck disable=SC2086
    timeout --foreground -k 5 $((limit_s + boot_limit_s)) qemu-system-x86_64 \
        -M q35,usb=off,sata=off $accel -cpu Nehalem -smp "$cpus" -m "$memory_mib" \
        -kernel "$cache/kernel" -initrd "$cache/initramfs" \
        -append "console=ttyS0 quiet panic=-1 mitigations=off nokaslr audit=0 $clock" \
        -nodefaults -no-user-config -display none -no-reboot -monitor none -serial "file:$dir/console" \
        -fsdev local,id=host,path=/,security_model=none,readonly=on,multidevs=remap \
        -device virtio-9p-pci,fsdev=host,mount_tag=host \
        -fsdev "local,id=out,path=$dir,security_model=none" -device virtio-9p-pci,fsdev=out,mount_tag=out \
        "$@" </dev/null >"$dir/qemu" 2>&1 ||
        case $? in 124 | 137) why="the machine hung" ;; esac
    [ ! -s "$dir/status" ] || return 0
    note "$role: $why; its console:"
    cat "$dir/qemu" "$dir/console" >&2
    return 1
}

solo() {
    machine solo 10.8.0.1 "" "$out" -net none
}

# The wire is a pair of datagram sockets; paths to those are short, so not in DIR.
pair() {
    local wire status=0 first
    wire=$(mktemp -d /tmp/rdma-vm.XXXXXX)
    temporary+=("$wire")
    mkdir -p "$out/a" "$out/b"
    machine a 10.8.0.1 10.8.0.2 "$out/a" -device virtio-net-pci,netdev=n,mac=52:54:00:00:00:01,romfile= \
        -netdev "dgram,id=n,local.type=unix,local.path=$wire/a,remote.type=unix,remote.path=$wire/b" &
    first=$!
    machine b 10.8.0.2 10.8.0.1 "$out/b" -device virtio-net-pci,netdev=n,mac=52:54:00:00:00:02,romfile= \
        -netdev "dgram,id=n,local.type=unix,local.path=$wire/b,remote.type=unix,remote.path=$wire/a" || status=1
    wait "$first" || status=1
    return "$status"
}

report_solo() {
    cat "$out/output"
    exit "$(cat "$out/status")"
}

report_pair() {
    sed 's/^/a: /' "$out/a/output"
    sed 's/^/b: /' "$out/b/output"
    [ "$(cat "$out/a/status")" = 0 ] || exit "$(cat "$out/a/status")"
    exit "$(cat "$out/b/status")"
}

# ---- command line -----------------------------------------------------------------------------------

mode=${1:-}
case $mode in
setup | run | pair) ;;
-h | --help) usage && exit 0 ;;
*) usage >&2 && exit 2 ;;
esac
shift
limit_s=60 cpus=2 memory_mib=384 out='' count=''
while getopts it:c:m:o: option; do
    case $option in
    i) count=1 cpus=1 ;;
    t) limit_s=$OPTARG ;;
    c) cpus=$OPTARG ;;
    m) memory_mib=$OPTARG ;;
    o) out=$OPTARG ;;
    *) usage >&2 && exit 2 ;;
    esac
done
shift $((OPTIND - 1))
command=("$@")
[ "$mode" = setup ] || [ ${#command[@]} -gt 0 ] || { usage >&2 && exit 2; }

require_tools
setup
[ "$mode" != setup ] || exit 0
if [ -z "$out" ]; then
    out=$(mktemp -d)
    temporary+=("$out")
else
    mkdir -p "$out"
    out=$(cd "$out" && pwd)
fi
for attempt in first second; do
    case $mode in
    run) solo && report_solo ;;
    pair) pair && report_pair ;;
    esac
    note "the $attempt try failed"
done
exit 125
