#!/bin/bash
# SPDX-License-Identifier: MIT
# Builds the presets and runs their tests; the last line is "N passed, N failed" (a preset that
# does not build has failed once), and the exit status is right.  Skipped tests are named.
#
#   check.sh quick       release: all but long; dev, asan, tsan, locked: a part each
#   check.sh long        what is labelled long, everywhere, and aarch64
#   check.sh aarch64     cross-compiled, in locked mode under the emulator
#   check.sh programs    real programs
set -uo pipefail
cd "$(dirname "$0")/.."

jobs=${JOBS:-$(nproc)}
passed=0 failed=0 skipped=0
names=()

# What a command says only if it fails.
quietly() {
    local said
    said=$("$@" 2>&1) || {
        echo "$said"
        return 1
    }
}

# preset LABELS EXCLUDED: builds a preset and runs the tests with one of the labels ("" for all)
preset() {
    local preset=$1 labels=$2 excluded=$3 begin=$SECONDS
    local dir=build-$preset log
    [ "$preset" != release ] || dir=build
    echo "== $preset"
    if ! quietly cmake --preset "$preset" -DSTOOK_REQUIRE_TESTS=ON ||
        ! quietly cmake --build --preset "$preset" -j "$jobs" -- -k 0; then
        failed=$((failed + 1))
        names+=("$preset does not build")
        return
    fi
    local select=()
    [ -z "$labels" ] || select+=(-L "^($labels)\$")
    [ -z "$excluded" ] || select+=(-LE "^($excluded)\$")
    log=$dir/check.log
    ctest --test-dir "$dir" --output-on-failure --no-tests=error -j "$jobs" "${select[@]}" 2>&1 |
        tee "$log" | grep -v '^ *Start \|^Internal ctest\|^Label Time\|^[a-z]* *= .* proc)$\|^$'
    local status=${PIPESTATUS[0]} bad skip total
    # "98% tests passed, 2 tests failed out of 90": skipped ones are among the 90.
    read -r bad total < <(sed -n 's/.* tests passed, \([0-9]*\) tests failed out of \([0-9]*\)$/\1 \2/p' "$log")
    skip=$(grep -c '\*\*\*Skipped' "$log")
    if [ -z "${total:-}" ]; then
        bad=1 total=1
        names+=("$preset: ctest did not run")
    elif [ "$status" != 0 ] && [ "$bad" = 0 ]; then
        bad=1 total=$((total + 1))
        names+=("$preset: ctest said $status")
    fi
    while read -r name; do
        names+=("$preset: $name")
    done < <(sed -n '/^The following tests FAILED/,/^Errors while/s/^[ \t]*[0-9]* - //p' "$log")
    passed=$((passed + total - bad - skip))
    failed=$((failed + bad))
    skipped=$((skipped + skip))
    echo "== $preset: $((total - bad - skip)) passed, $bad failed, $skip skipped," \
        "$((SECONDS - begin)) s"
}

aarch64() {
    preset aarch64 "unit|api|property|fault|stress|death" long
}

case ${1:-quick} in
quick)
    preset release "" long
    preset dev "unit|api|property|fault|death" long
    preset asan "unit|api|property|fault|stress" long
    preset tsan "unit|api|stress" long
    preset locked "unit|api" long
    ;;
long)
    preset release long none
    preset dev long none
    preset asan long none
    preset tsan long none
    aarch64
    ;;
aarch64)
    aarch64
    ;;
programs)
    preset release programs none
    ;;
*)
    echo "check.sh: quick, long, aarch64 or programs" >&2
    exit 2
    ;;
esac

[ ${#names[@]} = 0 ] || printf 'failed: %s\n' "${names[@]}"
[ "$skipped" = 0 ] || echo "$skipped skipped"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
