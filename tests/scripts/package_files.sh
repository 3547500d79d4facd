#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# The number of the release is the same wherever it stands; Debian's symbols files have what the libraries export; the
# files of other packagers parse; one commit makes one tarball, byte for byte.
. "$STOOK_SOURCE_DIR/tests/scripts/lib_work.sh"
cd "$STOOK_SOURCE_DIR"

scripts/set-version.py --check || fail "the release has several numbers"
if [ -d debian ] && [ -e "$STOOK_BUILD_DIR/lib/libstook-urcu.so" ]; then
    scripts/debian-symbols.py --check "$STOOK_BUILD_DIR/lib" || fail "debian/*.symbols"
    # A symbol that is gone, and a new one, are found.
    mkdir "$work/tree"
    cp -r CMakeLists.txt debian "$work/tree/"
    sed -i 's/^ stook_alloc@/ stook_alloc_gone@/' "$work/tree/debian/libstook1.symbols"
    scripts/debian-symbols.py --check "$STOOK_BUILD_DIR/lib" "$work/tree" >"$work/said" && fail "planted symbols"
    grep -q 'stook_alloc_gone.* is not exported any more' "$work/said" || fail "no symbol is gone: $(cat "$work/said")"
    grep -q ': stook_alloc@STOOK_0.3 is missing' "$work/said" || fail "no symbol is new: $(cat "$work/said")"
fi
# Each library that the build looks for is known to the bill of materials.
sed -n 's/.*pkg_check_modules([A-Z_]* IMPORTED_TARGET \([a-z0-9-]*\)).*/\1/p' CMakeLists.txt >"$work/modules"
sed -n 's/^set(tool_[A-Z]* \([a-z0-9-]*\)).*/\1/p' tools/CMakeLists.txt >>"$work/modules"
grep -qx ncursesw "$work/modules" || fail "no library is looked for: $(cat "$work/modules")"
while read -r module; do
    grep -q "^    \"$module\": (" scripts/sbom.py || fail "scripts/sbom.py does not know $module"
done <"$work/modules"

# vcpkg's own commands stand for themselves.
python3 -m json.tool packaging/vcpkg/stook/vcpkg.json >"$work/port.json"
cat >"$work/port.cmake" <<PORT
cmake_minimum_required(VERSION 3.25)
foreach(command download_distfile extract_source_archive check_features cmake_configure cmake_install
        cmake_config_fixup fixup_pkgconfig copy_tools install_copyright)
    cmake_language(EVAL CODE "macro(vcpkg_\${command})\nlist(APPEND called \${command})\nendmacro()")
endforeach()
set(VERSION 1)
set(PORT stook)
set(CURRENT_PACKAGES_DIR $work/packages)
set(VCPKG_LIBRARY_LINKAGE dynamic)
include($PWD/packaging/vcpkg/stook/portfile.cmake)
list(LENGTH called count)
if(count LESS 8)
    message(FATAL_ERROR "only \${called}")
endif()
PORT
cmake -P "$work/port.cmake" >"$work/log" 2>&1 || fail "portfile.cmake: $(cat "$work/log")"
[ -e "$work/packages/share/stook/usage" ] || fail "portfile.cmake installs no usage"
if command -v nix-instantiate >/dev/null; then
    for file in flake.nix packaging/nix/package.nix; do
        nix-instantiate --parse "$file" >"$work/log" 2>&1 || fail "$file: $(cat "$work/log")"
    done
fi

# Who publishes is asked for, and written wherever it stands.
copy=$work/publisher
mkdir -p "$copy/packaging" "$copy/scripts"
cp scripts/identity.sh "$copy/scripts/"
printf 'maintainer=\nurl=\n' >"$copy/packaging/identity"
unset STOOK_MAINTAINER STOOK_URL STOOK_RELEASE_URL
! "$copy/scripts/identity.sh" maintainer >"$work/said" 2>&1 || fail "no maintainer is a maintainer"
grep -q '^stook: packaging/identity has no maintainer: write it there, as .Name <name@host>., or set STOOK_MAINTAINER; --local' "$work/said" ||
    fail "$(cat "$work/said")"
! STOOK_URL=stook.example "$copy/scripts/identity.sh" url 2>/dev/null || fail "a host is a URL"
printf 'maintainer=A. Publisher <a@publisher.net>\nurl=https://publisher.net/stook\n' >"$copy/packaging/identity"
if [ -d debian ]; then
    cp -r debian "$copy/"
    "$copy/scripts/identity.sh" --debian "$copy/debian"
    grep -q '^Maintainer: A. Publisher <a@publisher.net>$' "$copy/debian/control" && grep -q '^Homepage: https://publisher.net/stook$' "$copy/debian/control" &&
        grep -q '^ -- A. Publisher <a@publisher.net>  ' "$copy/debian/changelog" || fail "the publisher is not in debian/"
    ! grep -E '@[A-Z]+@' "$copy"/debian/{control,changelog} || fail "placeholders are left"
    ! make -s -f debian/rules -n clean >"$work/said" 2>&1 || fail "debian/rules builds for nobody"
    grep -q 'debian/control names no maintainer' "$work/said" || fail "$(cat "$work/said")"
fi
! grep -rnIE '(@|://)[a-z.]*\bexample\b' packaging debian bindings/rust/*.toml bindings/rust/*/*.toml scripts/dist.sh ./*.in CMakeLists.txt \
    2>/dev/null || fail "an address that is nobody's"

if git rev-parse --verify -q HEAD >/dev/null 2>&1; then
    # From another folder and under another umask; tests need no small one.
    export STOOK_DIST_XZ=-0
    scripts/dist.sh --local --no-sbom "$work/one" >/dev/null
    (umask 077 && cd / && "$STOOK_SOURCE_DIR/scripts/dist.sh" --local --no-sbom "$work/two" >/dev/null)
    cmp "$work"/one/stook-*.tar.xz "$work"/two/stook-*.tar.xz || fail "two tarballs of one commit"
    diff -r "$work/one" "$work/two" || fail "two releases of one commit"
    tar -tf "$work"/one/stook-*.tar.xz >"$work/list"
    for file in CMakeLists.txt include/stook/stook.h LICENSE; do
        grep -q "^stook-[0-9.]*/$file\$" "$work/list" || fail "no $file in the tarball"
    done
    ! grep '^[^/]*/\(\.gitattributes$\|\.ci/\|debian/\)' "$work/list" || fail "the tarball has files of the project's own"
    python3 - "$work/one" <<'WRAP'
import configparser, hashlib, pathlib, sys
folder = pathlib.Path(sys.argv[1])
wrap = configparser.ConfigParser(interpolation=None)
wrap.read(folder / "stook.wrap")
tarball = folder / wrap["wrap-file"]["source_filename"]
data = tarball.read_bytes()
assert wrap["wrap-file"]["source_hash"] == hashlib.sha256(data).hexdigest(), "stook.wrap: another hash"
assert hashlib.sha512(data).hexdigest() in (folder / "vcpkg/stook/portfile.cmake").read_text(), "portfile: another hash"
assert tarball.name == wrap["wrap-file"]["directory"] + ".tar.xz"
WRAP
fi
