#!/bin/bash
# SPDX-License-Identifier: MIT
# Packages both Rust crates, from the files that git knows, and builds each from its package.
#
#   crates.sh [--local] [FOLDER]   stook-sys-VERSION.crate and stook-VERSION.crate, into FOLDER, build-crates unless said otherwise
#
# They name the home page (scripts/identity.sh); --local: they stay on this machine, and name none.  In the environment: CARGO,
# of 1.90 or newer, and CARGO_NET_OFFLINE, as cargo takes it.
set -euo pipefail
local=
if [ "${1:-}" = --local ]; then
    local=--local
    shift
fi
dir=$(realpath -m "${1:-$(dirname "$0")/../build-crates}")
cd "$(dirname "$0")/.."
scripts/identity.sh $local url >/dev/null
rm -rf "$dir"
mkdir -p "$dir/tree"
git ls-files -z bindings/rust include src LICENSE | xargs -0 cp -P --parents -t "$dir/tree"
scripts/identity.sh $local --crates "$dir/tree/bindings/rust"
# A crate is found in Cargo's registry only once it is published: it takes that of stook-sys from beside it.
STOOK_NO_PKG_CONFIG=1 CARGO_TARGET_DIR=$dir/target "${CARGO:-cargo}" package --workspace --locked --allow-dirty \
    --manifest-path "$dir/tree/bindings/rust/Cargo.toml"
mv "$dir"/target/package/*.crate "$dir/"
rm -rf "$dir/tree" "$dir/target"
