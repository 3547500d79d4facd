#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: urcu preload
# docs/port-kernel-code.md does what it says, with this build installed: tests/programs/page_port_kernel_long.sh builds it
# as the page says.
set -euo pipefail
[ -e "$STOOK_BUILD_DIR/lib/libstook-urcu.so" ] || exit 77
# shellcheck disable=SC2016 # the page's shell expands these
install='for f in libstook.so.1 libstook.so libstook-urcu.so.1 libstook-urcu.so; do
    install -D "$(readlink -f "$STOOK_BUILD_DIR/lib/$f")" "$HOME/stook/lib/$f"; done
cp -r "$STOOK/include" "$HOME/stook/"; mkdir -p "$HOME/stook/lib/pkgconfig"
for f in stook stook-urcu; do sed -e "s,^prefix=.*,prefix=$HOME/stook," -e "s,^\(libdir=\).*,\1$HOME/stook/lib," \
    -e "s,^\(includedir=\).*,\1$HOME/stook/include," "$STOOK_BUILD_DIR/$f.pc" >"$HOME/stook/lib/pkgconfig/$f.pc"; done'
exec python3 "$STOOK_SOURCE_DIR/scripts/run-page.py" "$STOOK_SOURCE_DIR/docs/port-kernel-code.md" --need gcc \
    --need pkg-config --env STOOK="$STOOK_SOURCE_DIR" --env STOOK_BUILD_DIR \
    --replace 'cmake -S "$STOOK" -B build -G Ninja=>true' --replace 'cmake --build build=>true' \
    --replace "cmake --install build=>$install
true"
