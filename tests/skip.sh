#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# A test that cannot run here: skip.sh REASON
echo "$1"
exit 77
