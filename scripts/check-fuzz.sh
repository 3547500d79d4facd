#!/bin/bash
# SPDX-License-Identifier: MIT
# Fuzzing: builds the targets of fuzz/ with clang 16 by fuzz/build.sh, once with AddressSanitizer and
# UndefinedBehaviorSanitizer and once with the latter alone, where the library keeps its fast paths; runs the kept
# inputs; then looks for others.  The last lines are the CPU seconds that the targets took, and "N passed, N failed"; a
# finding lies in build-fuzz/findings.
#
#   check-fuzz.sh [TARGET...]          all targets, or these
#   check-fuzz.sh --keep [TARGET...]   takes over what build-fuzz/corpus has, and leaves in fuzz/corpus the fewest
#                                      inputs that reach the same
#
#   FUZZ_SECONDS   of each target with each sanitizer; default 20, 0: the kept inputs only
set -uo pipefail
cd "$(dirname "$0")/.."

seconds=${FUZZ_SECONDS:-20}
jobs=${JOBS:-$(nproc)}
work=$PWD/build-fuzz
keep=
if [ "${1:-}" = --keep ]; then
    keep=yes
    shift
fi
targets=("$@")
if [ $# = 0 ]; then
    for source in fuzz/*.c; do
        targets+=("$(basename "$source" .c)")
    done
fi
for target in "${targets[@]}"; do
    [ -f "fuzz/$target.c" ] || {
        echo "check-fuzz.sh: there is no fuzz/$target.c" >&2
        exit 2
    }
done

# fuzz_build SANITIZER: into build-fuzz/SANITIZER
fuzz_build() {
    local flags="-O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,$1 -fno-sanitize-recover=all"
    OUT=$work/${1%%,*} WORK=$work/work-${1%%,*} CC=clang-16 CXX=clang++-16 CFLAGS=$flags CXXFLAGS=$flags \
        LIB_FUZZING_ENGINE=-fsanitize=fuzzer fuzz/build.sh >"$work/build.log" 2>&1 || {
        tail -n 40 "$work/build.log"
        echo "check-fuzz.sh: the targets do not build with $1" >&2
        echo "0 passed, 1 failed"
        exit 1
    }
}

# fuzz_options SANITIZER TARGET: those of the file TARGET.options, as the command line has them
fuzz_options() {
    sed -n 's/^\([a-z_]*\) *= *\([0-9]*\)$/-\1=\2/p' "$work/$1/$2.options"
    [ ! -f "fuzz/dict/$2.dict" ] || echo "-dict=fuzz/dict/$2.dict"
}

# fuzz_run SANITIZER TARGET: kept inputs, then others
fuzz_run() {
    local sanitizer=$1 target=$2 log=$work/log/$1-$2 options
    mapfile -t options < <(fuzz_options "$sanitizer" "$target")
    mkdir -p "$work/corpus/$target" "$work/findings/$sanitizer-$target"
    options+=("-artifact_prefix=$work/findings/$sanitizer-$target/" -print_final_stats=1)
    # Here machines stop for a while: a run that hangs is ended by that, not by a minute that others took.
    options+=(-timeout=600)
    "$work/$sanitizer/$target" "${options[@]}" "fuzz/corpus/$target"/* >"$log" 2>&1 &&
        { [ "$seconds" = 0 ] || "$work/$sanitizer/$target" "${options[@]}" "-max_total_time=$seconds" \
            "$work/corpus/$target" "fuzz/corpus/$target" >>"$log" 2>&1; }
}

# fuzz_one SANITIZER TARGET: the same, and a line for it
fuzz_one() {
    local log=$work/log/$1-$2 runs
    if fuzz_run "$1" "$2"; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -n 1)
        echo "passed $2 ($1): $(find "fuzz/corpus/$2" -type f | wc -l) kept, ${runs:-0} runs"
    else
        grep -a 'ERROR\|error:\|SUMMARY\|Test unit written' "$log" | tail -n 10
        # Once more, with what it says: the options silence it.  The last kept input, or what was found.
        for finding in $(sed -n 's/^Running: //p' "$log" | tail -n 1) $(find "$work/findings/$1-$2" -type f -newer "$work/log/begun" ! -name 'slow-*'); do
            timeout 120 "$work/$1/$2" "$finding" 2>&1 | grep -a 'fuzz: \|ops: \|error:\|^ *#[0-9]* ' | head -n 25
        done
        echo "failed $2 ($1): build-fuzz/log/$1-$2"
    fi
}

# fuzz_cpu: user and system time of all children so far that have ended, in seconds
fuzz_cpu() {
    times >"$work/log/times" # not in a subshell, which has no children
    tail -n 1 "$work/log/times" | tr 'ms' '  ' | awk '{ printf "%d\n", 60 * ($1 + $3) + $2 + $4 }' >"$work/log/cpu"
}

mkdir -p "$work/log"
fuzz_build address,undefined
fuzz_build undefined

if [ "$keep" ]; then
    for target in "${targets[@]}"; do
        sanitizer=address
        case $target in ops_*) sanitizer=undefined ;; esac
        mapfile -t options < <(fuzz_options $sanitizer "$target")
        mkdir -p "$work/corpus/$target"
        rm -rf "$work/kept"
        mkdir "$work/kept"
        # By edges, not by how often each is taken, which would keep ten times as many.  Inputs that found
        # something stay whatever they reach.
        find "fuzz/corpus/$target" -name 'found-*' -exec cp {} "$work/kept" \;
        "$work/$sanitizer/$target" "${options[@]}" -timeout=600 -set_cover_merge=1 -use_counters=0 "$work/kept" \
            "fuzz/corpus/$target" "$work/corpus/$target" >"$work/log/keep-$target" 2>&1 || {
            tail -n 20 "$work/log/keep-$target"
            echo "check-fuzz.sh: $target: nothing was changed" >&2
            exit 1
        }
        rm -rf "fuzz/corpus/$target"
        mv "$work/kept" "fuzz/corpus/$target"
        echo "$target: $(find "fuzz/corpus/$target" -type f | wc -l) inputs," \
            "$(du -sb "fuzz/corpus/$target" | cut -f 1) bytes"
    done
    exit 0
fi

touch "$work/log/begun"
fuzz_cpu
before=$(cat "$work/log/cpu")
export -f fuzz_run fuzz_one fuzz_options
export work seconds
for target in "${targets[@]}"; do
    echo "address $target"
    case $target in ops_* | calls) echo "undefined $target" ;; esac
done | xargs -P "$jobs" -L 1 bash -c 'fuzz_one "$1" "$2"' fuzz | tee "$work/log/all"

passed=$(grep -c '^passed ' "$work/log/all")
failed=$(grep -c '^failed ' "$work/log/all")
fuzz_cpu
echo "$(($(cat "$work/log/cpu") - before)) CPU seconds of fuzzing"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
