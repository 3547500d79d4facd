#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# labels: long
# modes: default locked
# timeout: 900
# The threaded C++ program for a while, alone and four of them at once.
. "$STOOK_SOURCE_DIR/tests/programs/lib_preload.sh"

same threads prog_threads "$STOOK_TEST_DIR/prog_threads" 60
for i in 1 2 3 4; do
    with_stook threads.$i "$STOOK_TEST_DIR/prog_threads" 30 >"$work/threads.$i" &
done
wait
for i in 1 2 3 4; do
    head -n "$(wc -l <"$work/threads.$i")" "$work/threads.with" | cmp - "$work/threads.$i"
    [ "$(wc -l <"$work/threads.$i")" = $((30 * 6)) ]
    served threads.$i prog_threads
done
