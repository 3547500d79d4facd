#!/bin/bash
# SPDX-License-Identifier: MIT
# One file of a Debian package, which is not installed: the machine has its own kernel and busybox.
#
#   vm-fetch.sh PACKAGE PATH TARGET   nothing is done if TARGET is there; its folder is worked in
set -euo pipefail

[ ! -s "$3" ] || exit 0
echo "fetching: $1"
folder=$(dirname "$3")/package
rm -rf "$folder" && mkdir "$folder"
(cd "$folder" && apt-get -q download "$1" >apt.log 2>&1) || {
    cat "$folder/apt.log" >&2
    exit 1
}
dpkg-deb -x "$folder"/*.deb "$folder/in"
# shellcheck disable=SC2086
cp "$folder"/in/$2 "$3"
rm -rf "$folder"
