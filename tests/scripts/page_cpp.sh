#!/bin/bash
# SPDX-License-Identifier: MIT
# docs/cpp.md does what it says, with this build installed: tests/programs/page_cpp.sh builds it as the page says.
set -euo pipefail
[ -e "$STOOK_BUILD_DIR/lib/libstook.so" ] || exit 77
prefix='"$HOME/stook"'
exec python3 "$STOOK_SOURCE_DIR/scripts/run-page.py" "$STOOK_SOURCE_DIR/docs/cpp.md" --need g++ --need clang++-16 \
    --need pkg-config --env STOOK_BUILD_DIR \
    --replace 'cmake -S "$STOOK" -B build -G Ninja=>true' --replace 'cmake --build build=>true' \
    --replace "cmake --install build=>DESTDIR=$prefix cmake --install \"\$STOOK_BUILD_DIR\"" \
    --replace "export PKG_CONFIG_PATH=>d=\$(dirname \"\$(find $prefix -name stook.pc)\"); p=\$(sed -n 's/^prefix=//p' \"\$d/stook.pc\")
mv $prefix $prefix.root; mv \"$prefix.root/\$p\" $prefix; sed -i \"s,^prefix=.*,prefix=\$HOME/stook,\" $prefix/lib/pkgconfig/*.pc
export PKG_CONFIG_PATH"
