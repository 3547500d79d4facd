#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# modes: default locked
# stook run --limit: malloc fails with ENOMEM at the limit and not before, what is freed can be had
# again, every call of the family is charged for what it gave, and the report tells.
. "$STOOK_SOURCE_DIR/tests/programs/lib_preload.sh"
need python3
program=$STOOK_TEST_DIR/prog_limit
unset STOOK_LIMIT

fail() {
    echo "$*" >&2
    exit 1
}

# SIZE LEAST MOST: how many objects of a size fit into 64 MiB
fill() {
    local first again
    read -r first again <<<"$("$stook" run --limit 64M -- "$program" fill "$1")" || fail "fill $1"
    echo "$1 bytes: $first, again $again"
    [ "$first" = "$again" ] && [ "$first" -ge "$2" ] && [ "$first" -le "$3" ] || fail "fill $1"
}
fill 64 1048000 1048576
fill 1000 65500 65536 # in 1024 bytes each
fill 20480 3270 3276
fill 100000 654 655
fill 3000000 15 16 # in blocks of 2 MiB

for seed in 1 2 3; do
    "$stook" run --limit 20M -- "$program" random $seed || fail "random $seed"
done
"$stook" run --limit 1M -- "$program" threads || fail threads

# A program that takes what it gets; the report names the group. The interpreter itself needs memory
# to raise an exception, so the object that is refused is larger than those that are kept.
cat >"$work/exhaust.py" <<'PYTHON'
def fill():
    kept = []
    try:
        while True:
            bytearray(60000)
            kept.append(bytearray(20000))
    except MemoryError:
        return len(kept)


first = fill()
print(first, fill() > first * 0.9)
PYTHON
PYTHONMALLOC=malloc "$stook" run --limit 48M --report-format json --report-file "$work/report" -- \
    "$python" "$work/exhaust.py" >"$work/out"
python3 - "$work/report" "$(cat "$work/out")" <<'PYTHON'
import json
import sys

report, said = json.load(open(sys.argv[1])), sys.argv[2].split()
[group] = report["groups"]
print(group)
assert group["name"] == "malloc" and group["limit_bytes"] == 48 << 20
assert group["refused"] >= 2
assert 47 << 20 < group["peak_bytes"] <= 48 << 20
assert said[1] == "True" and 1500 < int(said[0]) < 2500, said
PYTHON

# Programs that it starts have a limit of their own; nonsense is none, and is told.
STOOK_LIMIT=64M "$stook" run -- bash -c "\"$program\" fill 1000 && \"$program\" fill 1000" \
    >"$work/out"
[ "$(sort -u "$work/out" | wc -l)" = 1 ] || fail "children: $(cat "$work/out")"
STOOK_LIMIT=much "$stook" run -- true 2>"$work/err"
grep -q 'STOOK_LIMIT=much' "$work/err" || fail "nonsense was taken"
! "$stook" run --limit much -- true 2>/dev/null || fail "nonsense was an option"

# A set-uid program heeds none.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    chmod 755 "$work"
    mkdir "$work/lib"
    cp -P "$STOOK_BUILD_DIR"/lib/libstook*.so* "$work/lib"
    chmod -R a+rX "$work/lib"
    "${CC:-gcc}" -O2 -D_GNU_SOURCE -Wl,--no-as-needed "$STOOK_SOURCE_DIR/tests/programs/prog_limit.c" \
        -L"$work/lib" -lstook-malloc -lstook -Wl,-rpath,"$work/lib" -o "$work/plain" -pthread
    cp "$work/plain" "$work/raised"
    chown 65533 "$work/raised"
    chmod 4755 "$work/raised"
    as_other() {
        setpriv --reuid=65534 --regid=65534 --clear-groups env STOOK_LIMIT=64K "$@" secure
    }
    [ "$(as_other "$work/plain")" = limited ] || fail "a program is not limited"
    [ "$(as_other "$work/raised")" = free ] || fail "a set-uid program is limited"
fi
