#!/bin/bash
# SPDX-License-Identifier: MIT
# Builds the Debian packages of what is committed, from the release's tarball.
#
#   deb.sh [--local] [FOLDER]   into FOLDER, build-deb unless said otherwise
#
# Who publishes them must be known (scripts/identity.sh); --local: they stay on this machine, and say so.  In the environment:
# DEB_BUILD_OPTIONS, as dpkg-buildpackage takes them.
set -euo pipefail
local=
if [ "${1:-}" = --local ]; then
    local=--local
    shift
fi
dir=$(realpath -m "${1:-$(dirname "$0")/../build-deb}")
cd "$(dirname "$0")/.."
scripts/identity.sh $local maintainer >/dev/null
rm -rf "$dir"
mkdir -p "$dir"
tarball=$(scripts/dist.sh $local --no-sbom "$dir/dist")
name=$(basename "$tarball" .tar.xz)
cp "$tarball" "$dir/stook_${name#stook-}.orig.tar.xz"
tar -xf "$tarball" -C "$dir"
git ls-files -z debian | xargs -0 cp --parents -t "$dir/$name" # .gitattributes keeps it out of archives
scripts/identity.sh $local --debian "$dir/$name/debian"
# Some of what Build-Depends names may have come here by other ways.
cd "$dir/$name" && dpkg-buildpackage -us -uc -d
