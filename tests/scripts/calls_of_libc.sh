#!/bin/bash
# SPDX-License-Identifier: MIT
# The shared libraries take from libc what tests/support/libc_calls.def lists with a reason, and nothing else; no CALL
# stands there for nothing.  None of them but fprintf() is a point of cancellation (POSIX, 2.9.5.2).  What is called
# is bound when a library is loaded, not by its first call.
set -u
list=${STOOK_SOURCE_DIR:?}/tests/support/libc_calls.def
libraries=("${STOOK_BUILD_DIR:?}"/lib/libstook.so "$STOOK_BUILD_DIR"/lib/libstook-malloc.so)
[ -e "${libraries[1]}" ] || exit 77
# Sanitizers and gcov bring calls of their own.
nm "${libraries[@]}" 2>/dev/null | grep -qE '__(asan|tsan)_init|__gcov_' && exit 77
listed() { sed -nE "s/^($1)\(([A-Za-z0-9_]+), .*/\2/p" "$list" | sort; }
wanted() {
    nm -D --undefined-only "$@" | awk 'NF > 1 {sub(/@.*/, "", $NF); print $NF}' |
        sed -E 's/^__([a-z]+)_chk$/\1/' | grep -vE '^stook_|^setting_number$' | sort -u
}
failed=0
complain() { echo "$1"; failed=1; }

# It can fail:
[ "$(comm -23 <(wanted "$(command -v bash)") <(listed 'CALL|PURE|DATA'))" ] ||
    complain "nothing is found in bash: this test does not work"
for name in $(comm -23 <(wanted "${libraries[@]}") <(listed 'CALL|PURE|DATA')); do
    complain "$name: called, and not in $list; is there a raw_call() for it (src/base/raw.h)?"
done
for name in $(comm -13 <(wanted "${libraries[@]}") <(listed CALL)); do
    complain "$name: in $list, and called no more"
done
for library in "${libraries[@]}" "$STOOK_BUILD_DIR"/lib/libstook-*.so; do
    readelf -d "$library" | grep -q BIND_NOW || complain "$library: bound lazily"
done
exit $failed
