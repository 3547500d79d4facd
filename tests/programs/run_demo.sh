#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# timeout: 120
# What `make run` shows, from any directory: the output is compared there; here, that it was Stook
# that served the program.
set -euo pipefail
cd /
out=$("$STOOK_SOURCE_DIR/scripts/run-demo.sh" "$STOOK_BUILD_DIR/bin")
tail -n 1 <<<"$out"
grep -q '^The output is the same as without Stook: ' <<<"$out"
# Python with PYTHONMALLOC=malloc holds megabytes of small objects before it lets go of them.
peak=$(awk '$1 == "peak" { print $2 }' <<<"$out")
[[ $peak =~ ^[0-9]+\.[0-9]M$ ]] && [ "${peak%.*}" -ge 10 ] || {
    echo "no more than $peak was ever in use"
    exit 1
}
# Ten call sites and the rest, most of them with a function's name.
rows=$(grep -cE '^ *[0-9]+\.[0-9] +[0-9.]+ [KM]?i?B +[0-9]+ +[0-9]+ ' <<<"$out")
[ "$rows" = 11 ] || {
    echo "$rows rows of call sites instead of 11"
    exit 1
}
named=$(grep -cE '^ *[0-9]+\.[0-9] .* B  [A-Za-z_]\w+(\+0x|  | < )' <<<"$out")
[ "$named" -ge 3 ] || {
    echo "only $named of ten call sites have a name"
    exit 1
}
classes=$(grep -c '^malloc-[0-9]* ' <<<"$out")
[ "$classes" -gt 20 ] || {
    echo "only $classes size classes were used"
    exit 1
}
