# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh
# Installs what the build and the tests need. Sourced by the scripts in tools/; POSIX sh.
#
#   packages_ensure SET...    SET is build, test, extra, hw or vm
#
# A need is probed by use (a command, a compiler, a pkg-config module, a header), never by package
# name, so a tool that came from elsewhere counts as present. When nothing is missing, no package
# manager is started. What cannot be had is named on stderr: for build and test that is an error
# (return 1); the other sets only make more tests possible, and the tests that need them skip.

# set, probe, package with apt, with dnf, with brew ("-": not to be had there)
packages_table() {
    cat <<'EOF'
build cmd:ninja               ninja-build      ninja-build          ninja
build cmd:meson               meson            meson                meson
build cmd:pkg-config          pkg-config       pkgconf-pkg-config   pkgconf
build cc:cc                   gcc,libc6-dev    gcc                  gcc
build pc:gsl                  libgsl-dev       gsl-devel            gsl
build pc:jansson              libjansson-dev   jansson-devel        jansson
build pc:nettle               nettle-dev       nettle-devel         nettle
build pc:zlib                 zlib1g-dev       zlib-devel           zlib
build header:csv.h            libcsv-dev       libcsv-devel         libcsv
test  pc:check                check            check-devel          check
extra cc:clang                clang            clang                -
extra sanitizer:clang         libclang-rt-dev  compiler-rt          -
extra cmd:clang-format        clang-format     clang-tools-extra    clang-format
hw    pc:libibverbs           libibverbs-dev   rdma-core-devel      -
hw    pc:liburing             liburing-dev     liburing-devel       -
hw    pc:libzmq               libzmq3-dev      zeromq-devel         zeromq
hw    pc:libsodium            libsodium-dev    libsodium-devel      libsodium
vm    cmd:qemu-system-x86_64  qemu-system-x86  qemu-system-x86-core -
vm    cmd:busybox             busybox-static   busybox              -
vm    cmd:cpio                cpio             cpio                 -
vm    cmd:modprobe            kmod             kmod                 -
vm    cmd:xz                  xz-utils         xz                   -
vm    cmd:rdma                iproute2         iproute              -
vm    cmd:ib_write_bw         perftest         perftest             -
EOF
}

# Succeeds when the compiler $1 makes a program with the flags that follow, and the program runs.
packages_can_compile() (
    dir=$(mktemp -d) || exit 1
    trap 'rm -rf "$dir"' EXIT
    echo 'int main(void) { return 0; }' >"$dir/t.c"
    "$@" -o "$dir/t" "$dir/t.c" >/dev/null 2>&1 && "$dir/t" >/dev/null 2>&1
)

packages_have() {
    case $1 in
    cmd:*) (PATH=$PATH:/usr/sbin:/sbin && command -v "${1#*:}") >/dev/null 2>&1 ;;
    cc:*) packages_can_compile "${1#*:}" ;;
    sanitizer:*) packages_can_compile "${1#*:}" -fsanitize=address,undefined ;;
    pc:*) pkg-config --exists "${1#*:}" >/dev/null 2>&1 ;;
    header:*) echo "#include <${1#*:}>" | cc -E -x c - >/dev/null 2>&1 ;;
    esac
}

# Prints the table's rows of the sets $1 whose probe fails.
packages_missing() {
    packages_table | while read -r set probe apt dnf brew; do
        case " $1 " in
        *" $set "*) packages_have "$probe" || echo "$set $probe $apt $dnf $brew" ;;
        esac
    done
}

# The package manager that can be used here: one that is there, and root or sudo where it takes that.
packages_manager() {
    if [ "$(id -u)" = 0 ] || command -v sudo >/dev/null 2>&1; then
        managers="apt-get dnf brew"
    else
        managers=brew
    fi
    for m in $managers; do
        if command -v "$m" >/dev/null 2>&1; then
            echo "$m"
            return
        fi
    done
    echo none
}

packages_as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif [ -t 0 ]; then
        sudo "$@"
    else
        sudo -n "$@" # nobody is there to type a password
    fi
}

# Runs a package manager's command up to three times: locks and mirrors fail for a moment.
packages_try() {
    for pause in 5 20 0; do
        packages_as_root "$@" >&2 && return 0
        sleep "$pause"
    done
    return 1
}

packages_apt() {
    packages_try env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends \
        -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3 "$@"
}

# Installs the packages named; those that the package manager does not know are left out.
packages_install() {
    manager=$1
    shift
    known=
    case $manager in
    apt-get)
        for p in "$@"; do
            if [ -n "$(apt-cache madison "$p" 2>/dev/null)" ]; then known="$known $p"; fi
        done
        # shellcheck disable=SC2086
        [ -z "$known" ] || packages_apt install $known
        ;;
    dnf) packages_try dnf -y --setopt=install_weak_deps=False --skip-broken install "$@" ;;
    brew) for p in "$@"; do brew install "$p" >&2; done ;;
    esac
}

# shellcheck disable=SC2086  # names are words
packages_ensure() {
    sets=$*
    missing=$(packages_missing "$sets")
    [ -n "$missing" ] || return 0
    manager=$(packages_manager)
    case $manager in
    apt-get) column=3 ;;
    dnf) column=4 ;;
    brew) column=5 ;;
    none)
        column=0
        echo "packages: no apt-get or dnf with root's rights here, and no brew: nothing is installed" >&2
        ;;
    esac
    if [ "$column" != 0 ]; then
        names=$(echo "$missing" | awk -v c="$column" '$c != "-" { gsub(",", " ", $c); print $c }')
        echo "packages: installing with $manager:" $names >&2
        [ "$manager" != apt-get ] || packages_apt update || true
        packages_install "$manager" $names || true
        missing=$(packages_missing "$sets")
    fi
    packages_report "$missing"
}

# Names what is still missing (rows of the table); fails if the build or the tests cannot do without.
packages_report() {
    [ -n "$1" ] || return 0
    echo "$1" | while read -r set probe apt dnf brew; do
        echo "packages: missing: $probe ($set; apt: $apt, dnf: $dnf, brew: $brew)"
    done >&2
    ! echo "$1" | grep -q -E '^(build|test) '
}
