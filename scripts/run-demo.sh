#!/bin/bash
# SPDX-License-Identifier: MIT
# What `make run` shows: a real program on this machine's own data, once with the C library's
# malloc and twice served from slab caches; the same output each time, and where the memory went, by
# size class and by call site.
#
#   run-demo.sh [BIN]    BIN: the folder of stook, build/bin by default
set -euo pipefail
cd "$(dirname "$0")/.."
stook=${1:-build/bin}/stook

python=
for candidate in /usr/bin/python3 python3; do
    if "$candidate" -c 'import sqlite3' 2>/dev/null; then
        python=$candidate
        break
    fi
done
[ "$python" ] || {
    echo "run-demo.sh: needs a python3 with sqlite3" >&2
    exit 1
}
[ -x "$stook" ] || {
    echo "run-demo.sh: $stook is missing: make build" >&2
    exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Python asks malloc for every object, not its own pools; its hashes are the same in both runs.
export PYTHONMALLOC=malloc PYTHONHASHSEED=0 TIMEFORMAT=%R
program=("$python" scripts/run-demo.py)

echo "\$ stook run --report -- python3 scripts/run-demo.py"
{ time "${program[@]}" >"$work/without"; } 2>"$work/without.time"
{ time "$stook" run --report-file "$work/report" -- "${program[@]}" >"$work/with"; } 2>"$work/with.err" || {
    status=$?
    cat "$work/with.err" >&2
    echo "run-demo.sh: the program failed under Stook (status $status)" >&2
    exit 1
}
cat "$work/with"
echo
[ -s "$work/report" ] || {
    cat "$work/with.err" >&2
    echo "run-demo.sh: no report: Stook did not serve the program" >&2
    exit 1
}
cat "$work/report"
echo
if ! cmp "$work/without" "$work/with"; then
    diff "$work/without" "$work/with" | head -20 >&2
    echo "run-demo.sh: the output is not the same as without Stook" >&2
    exit 1
fi
echo "\$ stook profile -- python3 scripts/run-demo.py"
"$stook" profile -- "${program[@]}" >"$work/profiled" 2>"$work/profile" || {
    status=$?
    cat "$work/profile" >&2
    echo "run-demo.sh: the program failed under stook profile (status $status)" >&2
    exit 1
}
cat "$work/profile"
echo
cmp "$work/without" "$work/profiled" || {
    echo "run-demo.sh: the output is not the same under stook profile" >&2
    exit 1
}
echo "The output is the same as without Stook: $(wc -l <"$work/with") lines," \
    "$(wc -c <"$work/with") bytes.  Once each, so no measurement:" \
    "$(cat "$work/without.time") s without, $(tail -n 1 "$work/with.err") s with."
