#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# modes: default locked
# Under limits of address space and data Stook reserves less, or reserves what costs nothing, and
# programs work; where memory ends they are told so, and what they free can be had again.
. "$STOOK_SOURCE_DIR/tests/programs/lib_preload.sh"
need python3 sort prlimit
export PYTHONMALLOC=malloc

seq 150000 | awk '{ print $1 * 7919 % 300007, "line" }' >"$work/lines"
cat >"$work/table.py" <<'PYTHON'
table = {str(i): [i] * (i % 20) for i in range(50000)}
print(len(table), sum(map(len, table.values())))
PYTHON
for limit in --as=$((1 << 30)) --as=$((200 << 20)) --data=$((256 << 20)) \
    "--as=$((8 << 30)) --data=$((512 << 20)) --stack=$((1 << 20))"; do
    # shellcheck disable=SC2086
    same "sort" sort prlimit $limit sort --parallel=2 -S 50M "$work/lines"
    # shellcheck disable=SC2086
    same "python" 'python*' prlimit $limit "$python" "$work/table.py"
done
same pipeline sort bash -c "ulimit -v 400000; sort -n <'$work/lines' | uniq -c | sort -rn -k2"

# The end of memory: an exception, not a crash; afterwards as much can be had again.
cat >"$work/exhaust.py" <<'PYTHON'
import sys


# The interpreter itself needs memory to raise an exception, so the object that is refused is larger
# than those that are kept.
def fill(size):
    kept = []
    several = max(1, 20000 // size)
    try:
        while True:
            bytearray(size + 60000)
            for _ in range(several):
                kept.append(bytearray(size))
    except MemoryError:
        count = len(kept)
    del kept
    return count


for size in (200, 20000, 3000000):
    first, again = fill(size), fill(size)
    print(size, first * size >> 20, again * size >> 20, file=sys.stderr)
    print(size, first * size > 20 << 20, again > first * 0.7)
text = "x" * 1000000
print(len(text.replace("x", "yy")))
PYTHON
for limit in --as=$((200 << 20)) --data=$((150 << 20)); do
    same exhaust 'python*' prlimit "$limit" "$python" "$work/exhaust.py"
    paste "$work/exhaust.without.err" "$work/exhaust.with.err"
done

# What cannot even start says what it needs.
status=0
with_stook tiny prlimit --as=$((12 << 20)) ls / >/dev/null 2>"$work/tiny.err" || status=$?
if [ $status != 0 ] && ! grep -qi 'stook\|memory\|allocate' "$work/tiny.err"; then
    echo "12 MiB of address space: status $status and no word" >&2
    exit 1
fi
