#!/bin/bash
# SPDX-License-Identifier: MIT
# Each adapter's tests, the page of DPDK's from its source on, and the adapted projects' own tests on it.  Half an
# hour on two CPUs.  The last line is "N passed, N skipped, N failed".
#
#   check-adapters.sh BUILD [NAME...]     these folders of adapters/ instead of all
set -uo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "$1")
shift
names=("$@")
[ ${#names[@]} != 0 ] || names=(cpython dpdk liburcu sqlite)
passed=0 skipped=0 failed=0

# A part ends with 0, with 77 if what it needs is missing, or else it failed.
part() { # NAME COMMAND...
    local begin=$SECONDS status=0
    "${@:2}" >"$build/adapters-${1// /-}.log" 2>&1 || status=$?
    case $status in
    0) passed=$((passed + 1)) said=passed ;;
    77) skipped=$((skipped + 1)) said=skipped ;;
    *) failed=$((failed + 1)) said=failed && tail -n 30 "$build/adapters-${1// /-}.log" ;;
    esac
    tail -n 1 "$build/adapters-${1// /-}.log"
    echo "$1: $said, $((SECONDS - begin)) s"
}

# ctest itself takes a test that is not there, or skipped, for success.
tests() { # PATTERN
    local log
    log=$(ctest --test-dir "$build" -R "$1" --no-tests=error --output-on-failure 2>&1)
    local status=$?
    echo "$log"
    [ $status = 0 ] || return 1
    ! grep -q '\*\*\*Skipped' <<<"$log" || return 77
}

for name in "${names[@]}"; do
    part "$name" tests "^adapters\.$name\."
    [ ! -e "tests/programs/page_$name.sh" ] || part "$name page" tests "^programs\.page_$name\$"
    [ ! -e "adapters/$name/check.sh" ] || part "$name own" "adapters/$name/check.sh" "$build"
done
echo "$passed passed, $skipped skipped, $failed failed"
[ "$failed" = 0 ]
