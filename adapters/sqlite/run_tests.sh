#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs SQLite's own tests on SQLite's allocator and on the adapter, one test after the other.
#
#   run_tests.sh TESTFIXTURE TESTS-FOLDER PRELOAD [TEST...]     tests.txt if no test is named
#
# A line a test: its name, then failed cases of both.  Fails if a case fails on the adapter that does not fail
# without it and is not in known.txt, or if the adapter's process crashes, hangs or leaks.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
fixture=$(realpath "$1") tests=$(realpath "$2") preload=$(realpath "$3")
shift 3
[ $# != 0 ] || set -- $(grep -v '^#' "$here/tests.txt")
limit=${STOOK_SQLITE_TEST_SECONDS:-60}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# SQLite's tests refuse to run as root, or fail there: files are writable to it.
as=()
if [ "$(id -u)" = 0 ]; then
    chmod 777 "$work"
    as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
fi

# run LOG PRELOAD TEST SECONDS: prints the status
run() {
    mkdir -m 777 "$work/run"
    (
        cd "$work/run" && LD_PRELOAD=$2 timeout "$4" "${as[@]}" "$fixture" "$tests/$3.test"
    ) >"$1" 2>&1
    local status=$?
    rm -rf "$work/run"
    echo $status
}

failures() { # the names of cases that failed, one a line
    sed -n 's/^!Failures on these tests: //p' "$1" | tr ' ' '\n' | sort -u
}

passed=0 cases=0 wrong=0 late=0 known=0
for test in "$@"; do
    plain=$(run "$work/plain" "" "$test" "$limit")
    if [ "$plain" = 124 ]; then
        echo "$test: not done in $limit s without the adapter, left out"
        late=$((late + 1))
        continue
    fi
    # Some take nearly as long without it, and the machine may do more meanwhile.
    ours=$(run "$work/ours" "$preload" "$test" $((3 * limit)))
    new=$(comm -13 <(failures "$work/plain") <(failures "$work/ours") | comm -23 - <(grep -v '^#' "$here/known.txt" | sort))
    known=$((known + $(comm -12 <(failures "$work/ours") <(grep -v '^#' "$here/known.txt" | sort) | wc -l)))
    count=$(sed -n 's/.* errors out of \([0-9]*\) tests.*/\1/p' "$work/ours")
    if [ -z "$count" ] && [ "$plain" = "$ours" ] && [ "$ours" -lt 124 ]; then
        echo "$test: ends early without the adapter, too: $(tail -1 "$work/ours")"
        late=$((late + 1))
        continue
    fi
    if [ -z "$count" ] || [ -n "$new" ]; then
        echo "$test: status $ours (without: $plain), fails on the adapter only: ${new//$'\n'/ }"
        [ -n "$count" ] || tail -5 "$work/ours"
        wrong=$((wrong + 1))
        continue
    fi
    if ! grep -q "All memory allocations freed" "$work/ours" && grep -q "All memory allocations freed" "$work/plain"; then
        echo "$test: the adapter leaks"
        wrong=$((wrong + 1))
        continue
    fi
    passed=$((passed + 1)) cases=$((cases + count))
done
echo "SQLite's tests on the adapter: $passed passed with $cases cases, $known cases fail as known.txt says," \
    "$late left out, $wrong wrong"
[ $wrong = 0 ] && [ $passed -gt 0 ]
