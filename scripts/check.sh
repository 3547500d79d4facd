#!/bin/bash
# SPDX-License-Identifier: MIT
# Builds the presets and runs their tests; the last line is "N passed, N failed" (a preset that
# does not build has failed once), and the exit status is right.  Skipped tests are named.
#
#   check.sh quick       the presets release, dev, core, tsan, asan, lean and clang: what is neither long nor more, a part
#                        of each (docs/testing.md)
#   check.sh more        what is labelled more of these (tests/CMakeLists.txt), unit and api tests of lean and clang, and
#                        the preset locked: minutes
#   check.sh long        what is labelled long, everywhere, and aarch64
#   check.sh aarch64     cross-compiled: in locked mode under qemu-user, where there is no rseq, and all
#                        of them in both modes in a virtual machine
#   check.sh programs    real programs
#   check.sh debug       the same and the tests of kind unit, api, property, stress and examples under STOOK_DEBUG=FZPU: a
#                        report of a corruption fails them; tests/debug-exceptions.txt names the tests that cannot
#                        hold there, or plant corruptions
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

# preset NAME LABELS EXCLUDED [NAMES [ONLY]]: builds a preset and runs the tests with one of the labels ("" for
# all), but for those whose names match, or only those that match.  LABELS may be followed by + and one more label that
# they must have.  With parts=yes only what tests of these labels need is built, with parts="TARGET..." these targets.
preset() {
    local preset=$1 labels=${2%+*} excluded=$3 but=${4:-} only=${5:-} begin=$SECONDS
    local dir=build-$preset log targets=()
    [ "$preset" != release ] || dir=build
    case ${parts:-} in
    "") ;;
    yes) read -r -a targets <<<"--target tests-${labels//|/ tests-}" ;;
    *) read -r -a targets <<<"--target $parts" ;;
    esac
    echo "== $preset"
    if ! quietly cmake --preset "$preset" -DSTOOK_REQUIRE_TESTS=ON ||
        ! quietly cmake --build --preset "$preset" -j "$jobs" "${targets[@]}" -- -k 0; then
        failed=$((failed + 1))
        names+=("$preset does not build")
        return
    fi
    local select=()
    [ -z "$labels" ] || select+=(-L "^($labels)\$")
    [[ $2 != *+* ]] || select+=(-L "^${2#*+}\$")
    [ -z "$excluded" ] || select+=(-LE "^($excluded)\$")
    [ -z "$but" ] || select+=(-E "$but")
    [ -z "$only" ] || select+=(-R "$only")
    # One more than CPUs: many tests wait, for processes and for each other's threads.
    log=$dir/check.log
    ctest --test-dir "$dir" --output-on-failure --no-tests=error -j $((jobs + 1)) "${select[@]}" 2>&1 |
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
    local begin=$SECONDS p f s name
    # Both modes are one there.
    preset aarch64 "unit|api|property|fault|stress|death" "long|machine" '\.locked$'
    echo "== aarch64 in a virtual machine"
    scripts/check-vm.sh build-aarch64 2>&1 | tee build-aarch64/vm.log
    if read -r p f s < <(sed -n 's/^vm: \([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p' \
        build-aarch64/vm.log); then
        while read -r name; do
            names+=("aarch64 in a virtual machine: $name")
        done < <(sed -n 's/^vm: \([^ ]*\) *\*\*\*\(Failed\|Timeout\).*/\1/p' build-aarch64/vm.log)
    else
        p=0 f=1 s=0
        names+=("the virtual machine did not come to its end")
    fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    echo "== aarch64 in a virtual machine: $p passed, $f failed, $s skipped, $((SECONDS - begin)) s with the above"
}

# exceptions WORD...: the tests that tests/debug-exceptions.txt has under these words, as one expression.  CMake's
# expressions have 32 groups at most; one with more matches nothing, and ctest goes on.
exceptions() {
    awk -v words=" $* " '!/^#/ && NF && index(words, " " $2 " ") { names = names (names ? "|" : "") $1 }
        END { print "^(" names ")([.](locked|own))?$" }' tests/debug-exceptions.txt
}

debug() {
    local never planted file=$PWD/build/debug-reports
    local name all
    never=$(exceptions layout own longer plants)
    planted=$(exceptions plants)
    quietly cmake --preset release -DSTOOK_REQUIRE_TESTS=ON
    all=$(ctest --test-dir build -N)
    for name in $(awk '!/^#/ && NF { print $1 }' tests/debug-exceptions.txt); do
        grep -q ": $name\$" <<<"$all" || {
            failed=$((failed + 1))
            names+=("debug: tests/debug-exceptions.txt has $name, which is no test")
        }
    done
    rm -f "$file"
    export STOOK_DEBUG=FZPU LAUNCHER_SLOWER=10
    # Of what runs without the launcher.
    export STOOK_ON_CORRUPTION=$file
    LAUNCHER_REPORTS=fail preset release "unit|api|property|stress|examples" "long|debug|nodebug" "$never"
    LAUNCHER_REPORTS=fail preset release programs none "$never"
    unset STOOK_ON_CORRUPTION
    preset release "unit|api|property|stress|examples|programs" debug "" "$planted"
    if [ -s "$file" ]; then
        cat "$file"
        failed=$((failed + 1))
        names+=("debug: corruptions were reported by tests without a launcher")
    fi
}

# quick or more: the same presets, without what is labelled more, or that alone.  quick builds what its tests need; more
# builds the rest of the tree, too.
daily() { # quick|more
    local excluded="long|more" more= parts=yes
    if [ "$1" = more ]; then
        excluded=long more=+more parts=
    fi
    parts=${parts:+tests stook-installed examples/all adapters/all} preset release "$more" "$excluded"
    preset dev "unit|api|property|fault|death|fuzz$more" "$excluded"
    parts=${parts:+tests} preset core "$more" "$excluded"
    preset tsan "unit|api|stress$more" "$excluded"
    preset asan "unit|api|property|fault|stress|fuzz$more" "$excluded"
}

case ${1:-quick} in
quick)
    daily quick
    # As released, so that gcc's restartable sections work is tested here.
    parts="tests-lean unit.test_percpu_steps unit.test_rows_steps" \
        preset lean "lean|unit" "long|more" "" '^lean|^unit\.(percpu|rows)_steps$'
    # The other compiler: the libraries compile without a warning, and its restartable sections work.
    parts="stook_shared stook_malloc_shared stook_urcu_shared unit.test_percpu_steps unit.test_rows_steps" \
        preset clang unit long "" '^unit\.(percpu|rows)_steps$'
    ;;
more)
    daily more
    preset lean "unit|api" long
    preset locked "unit|api|fuzz" long
    # The default mode, since the other modes have no code of their own there.
    preset clang "unit|api|fuzz" long '\.(locked|own)$'
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
debug)
    debug
    ;;
*)
    echo "check.sh: quick, more, long, aarch64, programs or debug" >&2
    exit 2
    ;;
esac

[ ${#names[@]} = 0 ] || printf 'failed: %s\n' "${names[@]}"
[ "$skipped" = 0 ] || echo "$skipped skipped"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
