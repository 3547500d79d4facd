#!/bin/bash
# SPDX-License-Identifier: MIT
# Builds a Linux kernel with the workloads of module/ from Debian's source package, and prints the path
# of its bzImage.  What is up to date is not built again.
#
#   build.sh VERSION [--apply FOLDER]    VERSION: 7.2, 6.12, ...
#   build.sh VERSION --source            only fetches the sources, and prints the path of the tree
#
# --apply FOLDER: a change to the kernel.  `FOLDER/apply.py TREE` is run once on a copy of the tree, and
# again on a fresh copy when a file of FOLDER has changed.  Options that it adds and that are off by
# default are turned on by $STOOK_KERNEL_OPTIONS, a list of names.
# Everything is below $STOOK_KERNEL_CACHE, by default build-kernel/ of this repository.  The packages
# come by apt, which checks their signatures, with lists of our own: the machine's are not touched.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${STOOK_KERNEL_CACHE:-$here/../../build-kernel}
jobs=${JOBS:-$(nproc)}
mirror=${STOOK_DEBIAN_MIRROR:-http://deb.debian.org}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

usage() {
    echo "usage: build.sh VERSION [--apply FOLDER | --source]" >&2
    exit 2
}
[ $# = 1 ] || { [ $# = 2 ] && [ "$2" = --source ]; } || { [ $# = 3 ] && [ "$2" = --apply ]; } || usage
version=$1
change=${3:+$(cd "$3" && pwd)}
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
tree=$cache/linux-source-$version
package=linux-source-$version

say() {
    echo "$*" >&2
}

# The suites that have a version: the one that this kernel is in, and its updates.
suites() {
    case $version in
    6.1 | 6.12) printf '%s\n' "debian bookworm" "debian-security bookworm-security" ;;
    7.*) printf '%s\n' "debian trixie-backports" ;;
    *)
        say "build.sh: no suite is known for Linux $version"
        exit 2
        ;;
    esac
}

# The newest package of that version, into the folder that we are in.
download() {
    local apt=$cache/apt suite options
    mkdir -p "$apt"/{lists/partial,cache/archives/partial,parts}
    : >"$apt/status"
    suites | while read -r suite; do
        echo "deb [signed-by=$keyring] $mirror/${suite/ / } main"
    done >"$apt/sources.list"
    options=(-q -o "Dir::Etc::SourceList=$apt/sources.list" -o "Dir::Etc::SourceParts=$apt/parts"
        -o "Dir::State::Lists=$apt/lists" -o "Dir::State::Status=$apt/status"
        -o "Dir::Cache=$apt/cache" -o APT::Architecture=amd64 -o APT::Sandbox::User=root
        -o Acquire::Retries=3 -o Acquire::Languages=none)
    apt-get "${options[@]}" update
    apt-get "${options[@]}" download "$package"
}

# Sources of other machines are left out; what Kconfig reads is not.
unpack() {
    local deb=$1 partial=$cache/partial.$$
    mkdir "$partial"
    dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$partial" --wildcards '*.tar.xz'
    tar -xJf "$partial/usr/src/$package.tar.xz" -C "$partial" \
        --exclude="$package/arch/[!xu]*/*/*/*" --exclude="$package/Documentation/*/*" \
        --exclude="$package/tools/testing/*" --exclude="$package/drivers/gpu/drm/amd/include"
    mv "$partial/$package" "$tree"
    rm -rf "$partial"
}

fetch() {
    local work
    [ ! -d "$tree" ] || return 0
    say "downloading and unpacking $package"
    work=$(mktemp -d "$cache/download.XXXXXX")
    (cd "$work" && download) >"$cache/apt.log" 2>&1 || {
        tail -n 20 "$cache/apt.log" >&2
        exit 1
    }
    unpack "$work"/*.deb
    rm -rf "$work"
}

# A copy of the built tree, with times, so that make builds only what the change touches.
changed_tree() {
    local copy stamp name names=()
    copy=$cache/linux-source-$version-$(basename "$change")
    stamp=$(cd "$change" && find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum)
    if [ "$(cat "$copy/.stook-change" 2>/dev/null)" != "$stamp" ]; then
        say "copying the tree and applying $change"
        rm -rf "$copy"
        cp -a --reflink=auto "$tree" "$copy"
        "$change/apply.py" "$copy" >&2
        read -ra names <<<"${STOOK_KERNEL_OPTIONS-}"
        for name in "${names[@]}"; do
            (cd "$copy" && scripts/config -e "$name")
        done
        make -s -C "$copy" olddefconfig >&2
        echo "$stamp" >"$copy/.stook-change"
    fi
    tree=$copy
}

# Our files, as lib/stook: a file that is the same keeps its time.
add_module() {
    local file to=$tree/lib/stook
    mkdir -p "$to"
    for file in "$here"/module/*; do
        cmp -s "$file" "$to/$(basename "$file")" || cp "$file" "$to/"
    done
    grep -qx 'obj-y += stook/' "$tree/lib/Makefile" || echo 'obj-y += stook/' >>"$tree/lib/Makefile"
}

configure() {
    local names name options=()
    ! cmp -s "$here/config" "$tree/.stook-config" || return 0
    mapfile -t names < <(grep -v '^#' "$here/config" | tr -s ' ' '\n')
    make -s -C "$tree" tinyconfig
    for name in "${names[@]}"; do
        options+=(-e "$name")
    done
    (cd "$tree" && scripts/config "${options[@]}" -d SLUB_TINY -d HZ_PERIODIC -d KERNEL_XZ --set-val NR_CPUS 64)
    make -s -C "$tree" olddefconfig
    for name in "${names[@]}"; do
        # There are none since sheaves.
        [ "$name" != SLUB_CPU_PARTIAL ] || continue
        grep -qx "CONFIG_$name=y" "$tree/.config" || {
            say "build.sh: Linux $version has no CONFIG_$name"
            exit 1
        }
    done
    cp "$here/config" "$tree/.stook-config"
}

build() {
    local log=$tree/stook-build.log
    add_module
    configure >"$log" 2>&1 || {
        tail -n 20 "$log" >&2
        exit 1
    }
    say "building Linux $version in $tree"
    make -C "$tree" -j "$jobs" bzImage >"$log" 2>&1 || {
        grep -n -m 20 -E 'error|Error' "$log" >&2 || tail -n 20 "$log" >&2
        exit 1
    }
}

fetch
if [ "${2-}" = --source ]; then
    echo "$tree"
    exit
fi
build
if [ -n "$change" ]; then
    changed_tree
    build
fi
echo "$tree/arch/x86/boot/bzImage"
