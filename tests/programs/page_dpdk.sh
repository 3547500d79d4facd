#!/bin/bash
# SPDX-License-Identifier: MIT
# labels: long
# timeout: 1800
# docs/dpdk.md does what it says, from the source on.
set -euo pipefail
pkg-config --exists libdpdk || {
    echo "skipped: DPDK is missing (Debian: libdpdk-dev)"
    exit 77
}
exec python3 "$STOOK_SOURCE_DIR/scripts/run-page.py" "$STOOK_SOURCE_DIR/docs/dpdk.md" --timeout 1500 --need gcc \
    --need pkg-config --need ninja --env STOOK="$STOOK_SOURCE_DIR" \
    --env CMAKE_C_COMPILER_LAUNCHER --env CMAKE_CXX_COMPILER_LAUNCHER --env CCACHE_DIR="${CCACHE_DIR:-$HOME/.cache/ccache}"
