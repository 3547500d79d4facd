#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: preload
# labels: long
# timeout: 900
# docs/rust.md as its reader follows it, in an empty folder.
set -euo pipefail
. "${0%/*}/lib_cargo.sh"
need_crates
# The crates are not in the registry: their folder stands for it.  A copy, as it would be on another machine.
"$STOOK_SOURCE_DIR/scripts/run-page.py" "$STOOK_SOURCE_DIR/docs/rust.md" \
    --env "PATH=$PATH" --env "RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}" \
    --env "CARGO_HOME=${CARGO_HOME:-$HOME/.cargo}" --env "CARGO_TERM_COLOR=never" --env "CARGO_TERM_QUIET=true" \
    --replace "STOOK=/path/to/stook=>STOOK=$STOOK_SOURCE_DIR" --timeout 600
