#!/bin/bash
# SPDX-License-Identifier: MIT
# Unpacks the source package of a Debian package into FOLDER/NAME, from a list of packages of its own: the
# machine's need not name source packages.  Does nothing if the folder is there.
#
#   debian-source.sh NAME FOLDER
set -euo pipefail
name=$1 folder=$2

[ ! -e "$folder/$name" ] || exit 0
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-bookworm}")
mirror=${STOOK_DEBIAN_MIRROR:-http://deb.debian.org}
keys=/usr/share/keyrings/debian-archive-keyring.gpg
work=$(mktemp -d "$folder/.source.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{lists/partial,parts,cache/archives/partial}
cat >"$work/sources.list" <<END
deb-src [signed-by=$keys] $mirror/debian $suite main
deb-src [signed-by=$keys] $mirror/debian-security $suite-security main
END
options=(-q -o "Dir::Etc::SourceList=$work/sources.list" -o "Dir::Etc::SourceParts=$work/parts"
    -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root
    -o Acquire::Retries=3 -o Acquire::Languages=none)
(
    cd "$work"
    # A mirror may lack the files of a security update whose name it lists.
    apt-get "${options[@]}" update &&
        { apt-get "${options[@]}" source "$name" || apt-get "${options[@]}" source "$name/$suite"; }
) >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    echo "debian-source.sh: the source package of $name is not to be had" >&2
    exit 1
}
mv "$(find "$work" -maxdepth 1 -name "$name-*" -type d)" "$folder/$name"
