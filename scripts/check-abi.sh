#!/bin/bash
# SPDX-License-Identifier: MIT
# Compares the shared libraries' interface with the last release's by libabigail's abidiff.  Fails on a change that
# breaks programs which are linked to that one: docs/releases.md says what may change when.
#
#   check-abi.sh              the working tree against the last tag v*; 77 if there is none
#   check-abi.sh BASE         … against that commit
#   check-abi.sh --self-test  abidiff finds a planted change, and none where nothing changed
set -euo pipefail
cd "$(dirname "$0")/.."

command -v abidiff >/dev/null || {
    echo "check-abi.sh: skipped, abidiff is missing (Debian: abigail-tools)"
    exit 77
}

# compare OLD NEW HEADERS_OLD HEADERS_NEW: only what the public headers and exported functions promise.  abidiff says
# by bits: 4 a change, 8 one that breaks programs; 1 and 2 are errors of its own.
compare() {
    local status=0
    abidiff --headers-dir1 "$3" --headers-dir2 "$4" --drop-private-types --no-added-syms "$1" "$2" || status=$?
    if ((status & 1)); then
        echo "check-abi.sh: abidiff failed on $2 ($status)"
        return 1
    fi
    ((status == 0)) && return 0
    if ((status & 8)); then
        echo "check-abi.sh: $(basename "$2"): programs linked to the last release break: the SONAME has to rise"
    else
        echo "check-abi.sh: $(basename "$2"): the interface has changed: judge whether programs still run"
    fi
    return 1
}

self_test() {
    local cc=${CC:-cc}
    dir=$(mktemp -d)
    trap 'rm -rf "$dir"' EXIT
    mkdir "$dir/a" "$dir/b" "$dir/c"
    printf 'struct t { int x; };\nint stook_f(struct t *t);\n' >"$dir/a/t.h"
    printf 'struct t { long y; int x; };\nint stook_f(struct t *t);\n' >"$dir/b/t.h"
    cp "$dir/a/t.h" "$dir/c/t.h"
    printf '#include "t.h"\nint stook_f(struct t *t) { return t->x; }\n' |
        tee "$dir/a/t.c" "$dir/b/t.c" >"$dir/c/t.c"
    printf 'int stook_more(void);\nint stook_more(void) { return 1; }\n' >>"$dir/c/t.c"
    for side in a b c; do
        "$cc" -g -shared -fPIC -Wl,-soname,libt.so.0 -o "$dir/$side/libt.so" "$dir/$side/t.c"
    done
    compare "$dir/a/libt.so" "$dir/c/libt.so" "$dir/a" "$dir/c" >"$dir/said" ||
        { echo "a function more is taken for a break"; cat "$dir/said"; return 1; }
    ! compare "$dir/a/libt.so" "$dir/b/libt.so" "$dir/a" "$dir/b" >"$dir/said" ||
        { echo "not found: another structure"; return 1; }
    grep -q 'size changed\|offset changed' "$dir/said"
    ! compare "$dir/c/libt.so" "$dir/a/libt.so" "$dir/c" "$dir/a" >"$dir/said" ||
        { echo "not found: a function less"; return 1; }
    echo "abidiff finds what was planted"
}

if [ "${1:-}" = --self-test ]; then
    self_test
    exit
fi
base=${1:-$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null || true)}
if [ -z "$base" ]; then
    echo "check-abi.sh: skipped, no release is tagged yet (git tag v0.2.0); a commit may be named instead"
    exit 77
fi

work=$PWD/build-abi
rm -rf "$work"
mkdir -p "$work/base"
git archive "$base" | tar -x -C "$work/base"
build() { # SOURCE BUILD
    cmake -S "$1" -B "$2" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSTOOK_TESTS=OFF -DSTOOK_BENCH=OFF \
        >"$work/log" 2>&1 &&
        cmake --build "$2" -j "${JOBS:-$(nproc)}" --target stook_shared stook_malloc_shared stook_urcu_shared \
            >"$work/log" 2>&1 || { tail -n 20 "$work/log"; return 1; }
}
build "$work/base" "$work/old"
build . "$work/new"
status=0
for name in stook stook-malloc stook-urcu; do
    compare "$work/old/lib/lib$name.so" "$work/new/lib/lib$name.so" \
        "$work/base/include/stook" include/stook || status=1
done
rm -rf "$work"
[ "$status" != 0 ] || echo "check-abi.sh: programs linked to $base run"
exit "$status"
