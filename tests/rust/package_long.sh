#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: preload
# labels: long
# timeout: 900
# cargo package: both crates have what they need, the C sources too, and build from what is in them.
set -euo pipefail
. "${0%/*}/lib_cargo.sh"
need_crates
[ "$(cargo_minor cargo)" -ge 90 ] || skip "cargo packages crates that need each other since 1.90"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset STOOK_LIB_DIR

# It builds each package from its archive, and that of stook with the archive of stook-sys.
STOOK_URL=https://stook.test/home CARGO=$cargo CARGO_NET_OFFLINE=true "$STOOK_SOURCE_DIR/scripts/crates.sh" "$work" || fail "crates.sh"
for crate in "$work"/*.crate; do
    tar -xOzf "$crate" --wildcards '*/Cargo.toml' | grep -qxF 'repository = "https://stook.test/home"' || fail "$crate names no repository"
done
sys=$(echo "$work"/stook-sys-*.crate)
tar -tzf "$sys" >"$work/list"
for file in build.rs src/lib.rs vendor/src/cache/alloc.c vendor/src/base/settings.def \
    vendor/include/stook/inline.h vendor/include/stook/arch/ops_x86_64.h; do
    grep -q "/$file\$" "$work/list" || fail "$file is not in $sys"
done
missing=$(cd "$STOOK_SOURCE_DIR" && git ls-files src include 2>/dev/null | while read -r file; do
    grep -q "/vendor/$file\$" "$work/list" || echo "$file"
done)
[ -z "$missing" ] || fail "not in the package: $missing"
# Licence texts and C sources of layers that Rust does not build are small; a package of megabytes is a mistake.
[ "$(stat -c %s "$sys")" -lt 2000000 ] || fail "$sys has $(stat -c %s "$sys") bytes"
