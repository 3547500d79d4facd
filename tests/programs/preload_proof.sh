#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# The proof that the other preload scripts rest on: a program that Stook did not serve, or not in
# the mode that was asked for, makes them fail.
. "$STOOK_SOURCE_DIR/tests/programs/lib_preload.sh"

must_fail() { # must_fail WHY COMMAND...
    local why=$1
    shift
    if ("$@") >/dev/null 2>&1; then
        echo "passed: $why" >&2
        exit 1
    fi
}

with_stook served ls /
served served ls
must_fail "another program" served served sort
must_fail "much more memory than it had" served served ls 1000000
must_fail "no report file" served never-ran ls
must_fail "malloc was not preloaded" same unset ls env -u LD_PRELOAD ls /
must_fail "the child that does the work is not preloaded" \
    same child sort bash -c 'seq 9 | env -u LD_PRELOAD sort'
must_fail "another output" same output bash bash -c 'echo ${LD_PRELOAD:+preloaded}'
must_fail "another status" same status bash bash -c '[ -n "$LD_PRELOAD" ]'
export STOOK_MODE=locked
same mode ls ls /
default=$(env -u STOOK_MODE "$stook" info --json)
if [[ $default =~ \"mode\":\ *\"rseq\" ]]; then
    STOOK_MODE=rseq with_stook mode ls / >/dev/null
    must_fail "the wrong mode" served mode ls
fi
