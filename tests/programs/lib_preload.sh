#!/bin/bash
# SPDX-License-Identifier: MIT
# lib_preload.sh - for scripts that run real programs with and without Stook.
#
# with_stook NAME COMMAND...     runs it under stook run; every process of the tree that ends by
#                                exit() reports to $work/NAME.report; only the first one with
#                                reports=--report (what reports holds a descriptor)
# served NAME PROGRAM [KIB]      fails unless one of these reports is PROGRAM's (a pattern) and its size
#                                classes held so much memory (4 KiB), in the mode that was asked for
# same NAME PROGRAM COMMAND...   equal output and status with and without, and served
# need TOOL...                   skips the script where one is missing
# $python                        Debian's python3 where there is one; "need python3" as usual
#
# The mode is the caller's STOOK_MODE.  Under its STOOK_DEBUG no process may report a corruption, under
# its STOOK_HARDEN none may say anything.
# shellcheck shell=bash
set -euo pipefail
export LC_ALL=C.UTF-8
unset LD_PRELOAD STOOK_REPORT STOOK_REPORT_FILE STOOK_RESERVE

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
stook=$STOOK_BUILD_DIR/bin/stook
reports=--report-all
python=/usr/bin/python3
[ -x $python ] || python=python3

need() {
    for tool in "$@"; do
        command -v "$tool" >/dev/null || { echo "$tool is not installed" >&2; exit 77; }
    done
}

with_stook() {
    local name=$1
    shift
    "$stook" run $reports --report-format json --report-file "$work/$name.report" -- "$@"
}

served() {
    "$python" - "$work/$1.report" "$2" "${3:-4}" "${STOOK_MODE:-}" <<'PYTHON'
import fnmatch, json, sys

path, program, least, mode = sys.argv[1], sys.argv[2], int(sys.argv[3]) << 10, sys.argv[4]
try:
    text = open(path).read()
except OSError as error:
    sys.exit(f"no report of {program}: {error}")
reports, decoder = [], json.JSONDecoder()
while text := text.lstrip():
    report, end = decoder.raw_decode(text)
    reports.append(report)
    text = text[end:]
wrong = {r["mode"] for r in reports} - {mode or "rseq", "locked"}
if wrong:
    sys.exit(f"{path}: mode {wrong} instead of {mode}")


def peak(report): # what its size classes held at the same time, at most
    return sum(c["peak_bytes"] for c in report["caches"] if c["name"].startswith("malloc-"))


most = max((peak(r) for r in reports if fnmatch.fnmatch(r["program"], program)), default=-1)
if most < least:
    seen = sorted({r["program"] for r in reports})
    sys.exit(f"{path}: {program} was not served (at most {most} bytes); reports of {seen}")
print(f"{program}: {most >> 10} KiB of malloc's classes, {len(reports)} processes reported")
PYTHON
}

same() {
    local name=$1 program=$2 without=0 with=0 bug='stook: BUG'
    [ -z "${STOOK_HARDEN:-}" ] || bug='stook: '
    shift 2
    "$@" >"$work/$name.without" 2>"$work/$name.without.err" || without=$?
    with_stook "$name" "$@" >"$work/$name.with" 2>"$work/$name.with.err" || with=$?
    if [ $without -ne $with ] || ! cmp -s "$work/$name.without" "$work/$name.with"; then
        echo "$name: status $without without, $with with Stook; outputs:" >&2
        diff "$work/$name.without" "$work/$name.with" | head -20 >&2 || true
        head -20 "$work/$name.with.err" >&2
        exit 1
    fi
    if [ -n "${STOOK_DEBUG:-}${STOOK_HARDEN:-}" ] && grep -A40 "$bug" "$work/$name.with.err" >&2; then
        echo "$name: a corruption was reported" >&2
        exit 1
    fi
    served "$name" "$program"
}
