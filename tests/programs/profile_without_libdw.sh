#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool native
# stook profile as it is where libdw is missing: functions by the symbol tables, and that is said.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >driver.c <<'C'
#include "stook/command.h"
#include <stdarg.h>
#include <stdio.h>
int complain(int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    return status;
}
int run_claim(bool one) /* of stook run, which is not linked */
{
    return one;
}
int main(int argc, char **argv)
{
    return command_profile.run(argc, argv);
}
C
source=$STOOK_SOURCE_DIR
${CC:-cc} -std=gnu17 -D_GNU_SOURCE -I"$source/tools" -I"$source/src" -I"$source/include" -I"$source/vendor" -o profile \
    driver.c "$source"/tools/stook/profile/profile*.c "$source/vendor/rustc-demangle/demangle.c" \
    "$source"/tools/{export/profile_out,stook/profile/json,stook/profile/proto,stook/option,stook/standard}.c \
    "$STOOK_BUILD_DIR"/lib/libstook-look.a "$STOOK_BUILD_DIR"/lib/libstook.a -pthread

program=$STOOK_BUILD_DIR/tests/unit/prog_profile
"$program" >document
./profile document >table
grep -qE '1\.00 MiB  prog_caller\+0x[0-9a-f]+  prog_profile$' table || {
    echo "the function is not named by its symbol:"
    cat table
    exit 1
}
grep -q 'built without libdw' table
# Stripped of all symbols, it is the address within the file; it is the same build still.
objcopy --strip-all "$program" stripped
sed "s|$program|$work/stripped|" document >moved
./profile moved >table
grep -qE '1\.00 MiB  0x[0-9a-f]+  stripped$' table || {
    echo "no place in the file:"
    cat table
    exit 1
}
place=$(grep -oE '0x[0-9a-f]+  stripped$' table | cut -d' ' -f1)
start=$((16#$(nm "$program" | awk '$3 == "prog_caller" { print $1 }')))
[ $((place)) -ge $start ] && [ $((place)) -lt $((start + 200)) ] || {
    echo "$place is not in prog_caller, which is at $start"
    exit 1
}
# A damaged file is no reason to fail.
head -c 5000 "$program" >cut
sed "s|$program|$work/cut|" document >moved
./profile moved >table
grep -q ' 0x[0-9a-f]*  cut$' table
