#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# From a fresh clone to a first result: installs what the build needs, builds a release into build/
# and runs scenarios/quickstart.json. The result goes to stdout, everything else to stderr. Arguments
# are passed on to `dualpath run`. A build/ that exists is brought up to date as it was configured.
# Warnings are no errors here: a newer compiler than ours has more of them.
set -eu
cd "$(dirname "$0")/.."
. tools/lib/packages.sh

packages_ensure build
if [ ! -f build/build.ninja ]; then
    rm -rf build
    meson setup build --buildtype=release -Dtests=false -Dwerror=false >&2
fi
ninja -C build >&2
exec ./build/src/dualpath run scenarios/quickstart.json "$@"
