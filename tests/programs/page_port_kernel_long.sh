#!/bin/bash
# SPDX-License-Identifier: MIT
# labels: long
# timeout: 1800
# needs: urcu
# docs/port-kernel-code.md does what it says, from the source on.
set -euo pipefail
exec python3 "$STOOK_SOURCE_DIR/scripts/run-page.py" "$STOOK_SOURCE_DIR/docs/port-kernel-code.md" --timeout 1500 \
    --need gcc --need pkg-config --need ninja --env STOOK="$STOOK_SOURCE_DIR" \
    --env CMAKE_C_COMPILER_LAUNCHER --env CCACHE_DIR="${CCACHE_DIR:-$HOME/.cache/ccache}"
