#!/bin/bash
# SPDX-License-Identifier: MIT
# Makes what a release consists of, from what is committed; the same commit gives the same bytes.
#
#   dist.sh [FOLDER [COMMIT]]   build-dist and HEAD unless said otherwise:
#       stook-VERSION.tar.xz        the source, without debian/
#       stook.wrap                  for Meson's subprojects/
#       vcpkg/stook/                the port
#       stook-VERSION.cdx.json      the list of its parts (SBOM), CycloneDX
#       SHA256SUMS                  of the tarball and that list
#
# --no-sbom as the first argument leaves the list out, and so needs no package of PyPI's.
# STOOK_RELEASE_URL is where the tarball will be found, in the wrap and the port; STOOK_DIST_XZ the level of xz (-6e).
set -euo pipefail
sbom=yes
if [ "${1:-}" = --no-sbom ]; then
    sbom=
    shift
fi
folder=$(realpath -m "${1:-$(dirname "$0")/../build-dist}")
cd "$(dirname "$0")/.."
commit=$(git rev-parse --verify "${2:-HEAD}^{commit}")
url=${STOOK_RELEASE_URL:-https://stook.example/releases}

version=$(git show "$commit:CMakeLists.txt" | sed -n 's/^project(stook VERSION \([0-9.]*\) .*/\1/p')
name=stook-$version
mkdir -p "$folder"
rm -rf "$folder/$name.tar.xz" "$folder/$name.cdx.json" "$folder/stook.wrap" "$folder/vcpkg" "$folder/SHA256SUMS"

# git gives names in its own order, the commit's time and no owner; one thread, so that blocks do not depend on the
# machine.
git -c core.autocrlf=false -c tar.umask=0022 archive --format=tar --prefix="$name/" "$commit" |
    xz "${STOOK_DIST_XZ:--6e}" -T1 --check=crc64 >"$folder/$name.tar.xz"
if [ "$sbom" ]; then
    python=$folder/venv/bin/python
    [ -x "$python" ] || python3 -m venv "$folder/venv"
    "$python" -c 'import cyclonedx.validation.json, jsonschema' 2>/dev/null ||
        "$python" -m pip install --quiet --disable-pip-version-check 'cyclonedx-python-lib[json-validation]==11.12.0'
    git show "$commit:scripts/sbom.py" >"$folder/venv/sbom.py"
    rm -rf "$folder/venv/tree" && mkdir "$folder/venv/tree"
    git archive "$commit" CMakeLists.txt tools/CMakeLists.txt tools/flame | tar -x -C "$folder/venv/tree"
    "$python" "$folder/venv/sbom.py" "$folder/$name.tar.xz" "$folder/$name.cdx.json" "$folder/venv/tree"
fi
sha256=$(sha256sum "$folder/$name.tar.xz" | cut -d' ' -f1)
(cd "$folder" && sha256sum "$name".* >SHA256SUMS)
sha512=$(sha512sum "$folder/$name.tar.xz" | cut -d' ' -f1)

fill() { # FILE: of the commit, with what is known of the tarball
    git show "$commit:$1" | sed -e "s|@URL@|$url|" -e "s|@SHA256@|$sha256|" -e "s|@SHA512@|$sha512|"
}
fill packaging/meson/stook.wrap >"$folder/stook.wrap"
mkdir -p "$folder/vcpkg/stook"
for file in vcpkg.json portfile.cmake usage; do
    fill "packaging/vcpkg/stook/$file" >"$folder/vcpkg/stook/$file"
done
echo "$folder/$name.tar.xz"
