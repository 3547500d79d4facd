#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# modes: default locked debug
# 64 threads on two CPUs, 8 bytes to 4 MiB, objects freed by others than made them, forks, contents
# checked.  STOOK_STRESS_SECONDS makes it longer.
. "$STOOK_SOURCE_DIR/tests/programs/lib_preload.sh"

seconds=${STOOK_STRESS_SECONDS:-3}
two=$(taskset -cp $$ | sed 's/.*: //' | "$python" -c '
cpus = [n for part in input().split(",") for a, *b in [part.split("-")] for n in range(int(a), int((b or [a])[0]) + 1)]
print(",".join(map(str, cpus[:2])))')
with_stook storm taskset -c "$two" "$STOOK_TEST_DIR/prog_storm" "$seconds" 64 >"$work/out" || exit 1
[ "$(cat "$work/out")" = whole ]
served storm prog_storm 1000
