#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: preload
# timeout: 600
# The format, and the crates' own tests over this build of the library, in both modes.
set -euo pipefail
. "${0%/*}/lib_cargo.sh"
need_crates
export STOOK_LIB_DIR=$STOOK_BUILD_DIR/lib

! cargo fmt --version >/dev/null 2>&1 || cargo fmt --check || fail "cargo fmt mends the format"

run() {
    echo "== $*"
    cargo test --locked --offline --workspace --tests --features stook/allocator-api2
}
run default
STOOK_MODE=locked run locked
