#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# labels: long
# timeout: 1800
# cmake, gcc, g++ and ld build this whole project: the same objects and libraries, byte for byte.
. "$STOOK_SOURCE_DIR/tests/programs/lib_preload.sh"
need cmake ninja

# Built twice at the same place, so that the paths in the objects are the same.
mkdir "$work/source"
find "$STOOK_SOURCE_DIR" -mindepth 1 -maxdepth 1 ! -name 'build*' ! -name '.*' ! -name bindings -exec cp -rt "$work/source" {} +
cat >"$work/build.sh" <<'SH'
set -e
cmake -S "$1/source" -B "$1/build" -G Ninja -DSTOOK_BENCH=OFF -DCMAKE_C_COMPILER="${CC:-gcc}" \
    -DCMAKE_CXX_COMPILER="${CXX:-g++}"
cmake --build "$1/build" -j "$(nproc)"
SH
sums() {
    (cd "$work/build" && find . -name '*.o' -o -path './lib/*' -type f -o -path './bin/*' -type f |
        sort | xargs sha256sum)
}
bash "$work/build.sh" "$work" >"$work/without.log" 2>&1 || { tail "$work/without.log" >&2; exit 1; }
sums >"$work/without"
rm -r "$work/build"
with_stook build bash "$work/build.sh" "$work" >"$work/with.log" 2>&1 || {
    tail "$work/with.log" >&2
    exit 1
}
sums >"$work/with"
diff "$work/without" "$work/with"
echo "$(wc -l <"$work/with") files are the same"
[ "$(wc -l <"$work/with")" -gt 60 ]
served build cmake 1000
served build cc1 5000
served build cc1plus 5000
served build ld 1000
