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
# Options stand first: --no-sbom leaves the list out, and so needs no package of PyPI's.  --local is for files that stay on
# this machine.  Without it scripts/identity.sh must know the home page: the wrap and the port say where the tarball
# will be found, STOOK_RELEASE_URL or releases/download/vVERSION below that page.  STOOK_DIST_XZ is the level of xz (-6e).
set -euo pipefail
sbom=yes local=
while [[ ${1:-} == --* ]]; do
    case $1 in
    --no-sbom) sbom= ;;
    --local) local=--local ;;
    *) echo "dist.sh: there is no option $1" >&2; exit 2 ;;
    esac
    shift
done
folder=$(realpath -m "${1:-$(dirname "$0")/../build-dist}")
cd "$(dirname "$0")/.."
commit=$(git rev-parse --verify "${2:-HEAD}^{commit}")
home=$(scripts/identity.sh $local url)

version=$(git show "$commit:CMakeLists.txt" | sed -n 's/^project(stook VERSION \([0-9.]*\) .*/\1/p')
name=stook-$version
url=${STOOK_RELEASE_URL:-$home/releases/download/v$version}
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
