#!/bin/bash
# SPDX-License-Identifier: MIT
# Builds the packages from what is committed, and uses them as their users would, in clean folders and clean systems.
# Root only; needs the network; half an hour on two CPUs.  The last line is "N passed, N failed".
#
#   check-packages.sh [PART...]   all unless said otherwise:
#       dist      the tarball and the list of its parts, twice: the same bytes
#       project   a CMake project with Stook as a part of itself, by add_subdirectory and by FetchContent
#       meson     a Meson project with stook.wrap
#       deb       dpkg-buildpackage from the tarball, with its tests; lintian; autopkgtest in a clean chroot; installed
#                 into another and removed again
#       page      docs/container.md: each command, with images made by debootstrap (needs deb's chroot or makes it)
#       musl      the library and libstook-malloc: unit and api tests
#
# In the environment: CHROOT_SUITE (bookworm), CHROOT_MIRROR, JOBS; PACKAGES_NOCHECK=1 builds Debian's packages without
# tests.  Everything lies in build-packages/; the chroots are kept there for the next run.
set -uo pipefail
cd "$(dirname "$0")/.."
source=$PWD work=$PWD/build-packages jobs=${JOBS:-$(nproc)}
[ "$(id -u)" = 0 ] || { echo "check-packages.sh: please run as root" >&2; exit 1; }
# Bind mounts end with this name space.
if [ -z "${PACKAGES_INSIDE:-}" ]; then
    exec unshare -m env PACKAGES_INSIDE=1 "$source/scripts/check-packages.sh" "$@"
fi
mount --make-rprivate /
mkdir -p "$work"

tarball() {
    [ -e "$work/dist/made" ] && [ "$(cat "$work/dist/made")" = "$(git rev-parse HEAD)" ] && return 0
    scripts/dist.sh --local --no-sbom "$work/dist" >"$work/dist.log" || return 1
    git rev-parse HEAD >"$work/dist/made"
}

version() {
    sed -n 's/^project(stook VERSION \([0-9.]*\) .*/\1/p' CMakeLists.txt
}

part_dist() {
    local folder
    for folder in one two; do
        scripts/dist.sh --local "$work/$folder" || return 1
    done
    diff -r -x venv "$work/one" "$work/two" && grep -c cdx.json "$work/one/SHA256SUMS"
}

part_project() {
    local how
    tarball || return 1
    rm -rf "$work/project"
    for how in "STOOK_FROM=$source" "STOOK_FETCH=$work/dist/stook-$(version).tar.xz"; do
        cmake -S packaging/consumers/cmake -B "$work/project/${how%%=*}" -G Ninja "-D$how" &&
            cmake --build "$work/project/${how%%=*}" -j "$jobs" || return 1
        "$work/project/${how%%=*}/typed_stook" | grep '^point ' || return 1
        STOOK_REPORT=1 "$work/project/${how%%=*}/plain_malloc" 2>&1 | grep '^malloc-112 ' || return 1
    done
}

part_meson() {
    local dir=$work/meson
    tarball || return 1
    rm -rf "$dir"
    mkdir -p "$dir/subprojects/packagecache"
    cp packaging/consumers/meson/meson.build packaging/consumers/cmake/plain.c examples/ten_lines.c "$dir/"
    cp "$work/dist/stook.wrap" "$dir/subprojects/"
    # Where Meson keeps what it has downloaded; it checks the hash.
    cp "$work/dist/stook-$(version).tar.xz" "$dir/subprojects/packagecache/"
    meson setup "$dir/build" "$dir" && meson compile -C "$dir/build" -j "$jobs" && meson test -C "$dir/build" &&
        "$dir/build/typed" | grep '^point ' && STOOK_REPORT=1 "$dir/build/plain" 2>&1 | grep '^malloc-112 '
}

# A clean Debian, made once.
base() {
    [ -e "$work/base/made" ] || {
        rm -rf "$work/base"
        # shellcheck disable=SC2086
        debootstrap --variant=minbase --include=ca-certificates \
            "${CHROOT_SUITE:-bookworm}" "$work/base" ${CHROOT_MIRROR:-} >"$work/debootstrap.log" 2>&1 || return 1
        # autopkgtest takes apt's warning of sources that are named twice for a failure.
        [ -z "$(ls -A /etc/apt/sources.list.d 2>/dev/null)" ] || rm -f "$work/base/etc/apt/sources.list"
        # Sources and proxies of this machine; packages lose what is for readers, as in images for containers.
        local apt
        for apt in sources.list sources.list.d apt.conf apt.conf.d preferences.d trusted.gpg.d; do
            [ ! -e "/etc/apt/$apt" ] || cp -rL "/etc/apt/$apt" "$work/base/etc/apt/"
        done
        mkdir -p "$work/base/usr/share/keyrings"
        cp -n /usr/share/keyrings/* "$work/base/usr/share/keyrings/"
        touch "$work/base/made"
    }
    cp -L /etc/resolv.conf /etc/hosts "$work/base/etc/"
}

# A copy of it, with what programs expect to be mounted.
clean() { # NAME
    base || return 1
    rm -rf --one-file-system "${work:?}/$1"
    cp -a --reflink=auto "$work/base" "$work/$1" || return 1
    mount -t proc proc "$work/$1/proc" && mount --rbind /sys "$work/$1/sys" && mount --rbind /dev "$work/$1/dev"
}

inside() { # NAME COMMAND...
    chroot "$work/$1" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive "${@:2}"
}

debs() {
    local dir=$work/deb options=parallel=$jobs
    [ -e "$dir/made" ] && [ "$(cat "$dir/made")" = "$(git rev-parse HEAD)" ] && return 0
    [ -z "${PACKAGES_NOCHECK:-}" ] || options+=" nocheck"
    DEB_BUILD_OPTIONS=$options scripts/deb.sh --local "$dir" && git rev-parse HEAD >"$dir/made"
}

# What is built names no address that is nobody's, and nothing is left to be filled in.
placeholders() { # FOLDER of packages
    local package
    rm -rf "$work/unpacked" && mkdir "$work/unpacked"
    for package in "$1"/*.deb; do
        dpkg-deb -R "$package" "$work/unpacked/$(basename "$package")" || return 1
    done
    tar -xf "$1"/stook_*.debian.tar.xz -C "$work/unpacked"
    [ "$(find "$work/unpacked" -name control | wc -l)" -gt 6 ] &&
        ! grep -rnIE '[a-z]@[a-z.]*\bexample\b|://[a-z.]*\bexample\b|@(NAME|ADDRESS|URL|SHA256|SHA512|MAINTAINER)@' "$work/unpacked" \
            --exclude=rules
}

# The lean libraries are not installed beside the full ones, but in their place, also for what depends on either.
lean() {
    ! inside installed sh -c 'dpkg --install /libstook1-lean_*.deb' || return 1
    inside installed sh -c 'apt-get -q -y install /libstook1-lean_*.deb' || return 1
    inside installed dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' '*stook*' >"$work/lean.status"
    [ "$(sed -n 's/^ii *//p' "$work/lean.status" | xargs)" = "libstook-urcu1 libstook1-lean stook-lab stook-tools" ] || return 1
    inside installed env LD_PRELOAD=libstook-malloc.so.1 STOOK_REPORT=1 STOOK_DEBUG=FZ perl -e 'print "run\n"' \
        >"$work/lean.out" 2>"$work/lean.err"
    grep -qx run "$work/lean.out" && grep '^malloc-' "$work/lean.err" &&
        [ "$(grep -c 'STOOK_DEBUG=FZ is ignored: this is the lean library' "$work/lean.err")" = 1 ]
}

part_deb() {
    local dir=$work/deb package packages
    debs || return 1
    placeholders "$dir" || return 1
    # A local build has no address that mail reaches.
    lintian --allow-root -I --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog --fail-on error,warning,info \
        "$dir"/*.changes || return 1
    # It installs the packages and what each test depends on.
    clean autopkgtest || return 1
    rm -rf "$work/tree" "$work/autopkgtest-out"
    mkdir "$work/tree"
    git ls-files -z debian | xargs -0 cp --parents -t "$work/tree"
    mapfile -t packages < <(find "$dir" -name '*.deb' ! -name '*-dbgsym_*')
    autopkgtest -o "$work/autopkgtest-out" --no-built-binaries "${packages[@]}" "$work/tree/" -- \
        chroot "$work/autopkgtest" || return 1
    clean installed || return 1
    mkdir "$work/installed/packages"
    cp "$dir"/*.deb "$work/installed/packages/"
    rm "$work"/installed/packages/*-dbgsym_*
    inside installed apt-get -q update || return 1
    mv "$work"/installed/packages/libstook1-lean_* "$work/installed/"
    inside installed sh -c 'apt-get -q -y --no-install-recommends install /packages/*.deb' || return 1
    # Both architectures' libraries lie beside each other, and nothing stays behind.
    [ -e "$work"/installed/usr/lib/"$(dpkg-architecture -qDEB_HOST_MULTIARCH)"/libstook.so.1 ] || return 1
    for package in libstook1 libstook1-lean libstook-malloc1 libstook-urcu1 libstook-dev; do
        dpkg-deb -f "$dir/${package}_$(version)"-*.deb Multi-Arch | grep -qx same || return 1
    done
    lean || return 1
    inside installed apt-get -q -y purge libstook1-lean libstook-urcu1 stook-lab stook-tools &&
        ! find "$work/installed/usr" "$work/installed/etc" -name '*stook*' | grep .
}

part_page() {
    tarball && base || return 1
    STOOK_IMAGES=$work/base STOOK_CONTAINERS=$work/containers PATH=$source/tests/containers:$PATH \
        scripts/run-page.py docs/container.md --env STOOK_IMAGES --env STOOK_CONTAINERS \
        --replace "~/stook-$(version).tar.xz=>$work/dist/stook-$(version).tar.xz" --timeout 1800
}

part_musl() {
    scripts/musl-root.sh && cmake --preset musl -DSTOOK_REQUIRE_TESTS=ON &&
        cmake --build --preset musl -j "$jobs" -- -k 0 &&
        ctest --test-dir build-musl -L '^(unit|api)$' -LE '^(long|debug)$' --output-on-failure -j "$jobs"
}

parts=("$@")
[ ${#parts[@]} != 0 ] || parts=(dist project meson deb page musl)
passed=0 failed=0
for part in "${parts[@]}"; do
    declare -F "part_$part" >/dev/null || { echo "check-packages.sh: no part $part" >&2; exit 2; }
    begin=$SECONDS
    if "part_$part" >"$work/$part.log" 2>&1; then
        echo "$part: passed, $((SECONDS - begin)) s"
        passed=$((passed + 1))
    else
        tail -n 30 "$work/$part.log"
        echo "$part: failed, $((SECONDS - begin)) s (build-packages/$part.log)"
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
